import type { Mutant } from './transactions-mutants.ts'

/** Mistakes in what is written down and said of a transaction, in its price, its changes, its finality and its end. */
export const recordMutants: Mutant[] = [
  // What a receipt says
  {
    name: 'stores the wrong gas of a receipt',
    scenario: 'told-is-known',
    caughtBy: 'receipt',
    patches: [['transactions/settle/states.ts', 'gas_used = mined.gas_used,', 'gas_used = mined.gas_used + 1,']],
  },
  {
    name: 'stores the wrong price of a receipt',
    scenario: 'told-is-known',
    caughtBy: 'receipt',
    patches: [
      ['transactions/settle/follow.ts', '    effectiveGasPrice,\n', '    effectiveGasPrice: effectiveGasPrice + 1n,\n'],
    ],
  },
  {
    name: 'treats every mined transaction as successful',
    scenario: 'fails-when-mined',
    caughtBy: 'state',
    patches: [['transactions/settle/follow.ts', '    succeeded: status,\n', '    succeeded: true || status,\n']],
  },
  {
    name: 'stores the previous block of a receipt',
    scenario: 'told-is-known',
    caughtBy: 'block',
    patches: [
      [
        'transactions/settle/follow.ts',
        '    blockNumber: block.number,\n    blockHash: block.hash,\n    succeeded',
        '    blockNumber: block.number - 1,\n    blockHash: block.hash,\n    succeeded',
      ],
    ],
  },
  {
    name: 'drops the steps before the block',
    scenario: 'sped-up',
    caughtBy: 'transitions',
    patches: [
      [
        'transactions/settle/states.ts',
        'transitions = transactions.transitions || mined.transition',
        'transitions = mined.transition',
      ],
    ],
  },
  {
    name: 'omits a reorganisation from the steps',
    scenario: 'reorganised-away',
    caughtBy: 'transitions',
    patches: [
      [
        'transactions/settle/states.ts',
        "      transitions = transitions || jsonb_build_array(jsonb_build_object('state', ${state}, 'at', ${at}::text))`\n",
        '      transitions = transitions`\n',
      ],
    ],
  },
  // What is final
  {
    name: 'finalizes one block too early',
    scenario: 'final-block',
    caughtBy: 'scenario',
    patches: [
      [
        'transactions/settle/states.ts',
        'and block_number <= ${throughNumber}::bigint',
        'and block_number <= ${throughNumber}::bigint + 1',
      ],
    ],
  },
  {
    name: 'finalizes one block too late',
    scenario: 'final-block',
    caughtBy: 'scenario',
    patches: [
      [
        'transactions/settle/states.ts',
        'and block_number <= ${throughNumber}::bigint',
        'and block_number < ${throughNumber}::bigint',
      ],
    ],
  },
  {
    name: 'counts one block less to finality in the follower',
    scenario: 'told-is-known',
    caughtBy: 'finality',
    patches: [
      [
        'follower/finality.ts',
        'number: latest.number - chain.finality,',
        'number: latest.number - chain.finality + 1,',
      ],
    ],
  },
  {
    name: 'finalizes a reverted write as a successful one',
    scenario: 'fails-when-mined',
    caughtBy: 'scenario',
    patches: [
      [
        'transactions/rows.ts',
        "REVERTED: 'REVERTED', CANCELLED: 'CANCELLED', REPLACED: 'REPLACED' }",
        "REVERTED: 'FINALIZED', CANCELLED: 'CANCELLED', REPLACED: 'REPLACED' }",
      ],
    ],
  },
  // What ends otherwise
  {
    name: 'does not stop an account whose nonce was used elsewhere',
    scenario: 'foreign-nonce',
    caughtBy: 'lane',
    patches: [
      [
        'transactions/settle/follow.ts',
        'laneStopped(app, intrusion, await stopLane(db, intrusion))',
        'laneStopped(app, intrusion, false)',
      ],
    ],
  },
  {
    name: 'does not stop an account after a failed nonce',
    scenario: 'used-elsewhere',
    caughtBy: 'lane',
    patches: [
      ['transactions/recovery/recover.ts', '{ isExpected: await stopLane(db, intrusion) }', '{ isExpected: false }'],
    ],
  },
  {
    name: 'binds writes of a stopped account',
    scenario: 'foreign-nonce',
    caughtBy: 'scenario',
    patches: [
      ['transactions/lanes/bind.ts', '  if (isStopped) throw stopped()\n', ''],
      ['transactions/lanes/take-nonce.ts', 'next is not null and not stopped and', 'next is not null and'],
    ],
  },
  {
    name: 'fails a write before the block that used its nonce is final',
    scenario: 'used-elsewhere',
    caughtBy: 'scenario',
    patches: [
      [
        'transactions/settle/nonce-used.ts',
        ".select('finalized_number')",
        ".select('block_number as finalized_number')",
      ],
    ],
  },
  {
    name: 'ignores a nonce that was used elsewhere',
    scenario: 'foreign-nonce',
    caughtBy: 'scenario',
    patches: [
      [
        'transactions/settle/follow.ts',
        '    for (const { transactionHash: hash, from } of unknown) {\n',
        '    for (const { transactionHash: hash, from } of unknown.slice(unknown.length)) {\n',
      ],
    ],
  },
  {
    name: 'fails a write that its account cannot pay',
    scenario: 'ran-dry',
    caughtBy: 'lost',
    patches: [
      [
        'transactions/recovery/keeper.ts',
        "  else if (sent === 'insufficient_funds') await lowBalance(app, chain, toBound(row), null)",
        "  else if (sent === 'insufficient_funds') await giveUp(app, toBound(row))",
      ],
    ],
  },
  {
    name: 'accepts a write that its account cannot pay',
    scenario: 'ran-dry',
    caughtBy: 'scenario',
    patches: [
      ['transactions/lanes/prepare.ts', '  if (balance < cost) throw', '  if (balance < 0n) throw'],
      ['transactions/lanes/take-nonce.ts', 'coalesce(reserved + needed <= available, true)', 'true'],
      ['transactions/lanes/bind.ts', '  binding.budget !== null && reserved', '  binding.budget === null && reserved'],
    ],
  },
  // What it costs
  {
    name: 'adds no margin to the gas estimate',
    scenario: 'told-is-known',
    caughtBy: 'price',
    patches: [
      ['transactions/lanes/prepare.ts', 'const wanted = (estimate * 5n) / 4n + 10_000n', 'const wanted = estimate'],
    ],
  },
  {
    name: 'raises a fee by too little',
    scenario: 'sped-up',
    caughtBy: 'price',
    patches: [['chain/fees.ts', 'most((fee * 9n + 7n) / 8n, fee + 1n)', 'most((fee * 11n + 9n) / 10n, fee + 1n)']],
  },
  {
    name: 'raises a fee by too much',
    scenario: 'sped-up',
    caughtBy: 'price',
    patches: [['chain/fees.ts', 'most((fee * 9n + 7n) / 8n, fee + 1n)', 'most(fee * 2n, fee + 1n)']],
  },
  {
    name: 'raises a fee above the cap',
    scenario: 'fee-cap',
    caughtBy: 'price',
    patches: [['chain/fees.ts', '  if (limited > cap) throw capReached(limited, cap)\n', '']],
  },
  {
    name: 'doubles the first fee offer',
    scenario: 'dear-blocks',
    caughtBy: 'price',
    patches: [['chain/fees.ts', 'most(2n * baseFee + tip, floor)', 'most(4n * baseFee + tip, floor)']],
  },
  {
    name: 'raises the gas limit with the fee',
    scenario: 'sped-up',
    caughtBy: 'price',
    patches: [['transactions/lanes/replace.ts', ' : before.gas\n', ' : before.gas + 1_000n\n']],
  },
  {
    name: 'signs without the value',
    scenario: 'coins',
    caughtBy: 'lost',
    patches: [['transactions/lanes/gas.ts', 'to, value: value.toString(), data }', "to, value: '0', data }"]],
  },
  {
    name: 'sends twice the value',
    scenario: 'coins',
    caughtBy: 'money',
    patches: [['contracts/write.ts', 'value: readValue(value, {', 'value: 2n * readValue(value, {']],
  },
  // What changes
  {
    name: 'overwrites the mined hash by a late store',
    scenario: 'late-store',
    caughtBy: 'hashes',
    patches: [
      [
        'transactions/rows.ts',
        "storeReplacement: { SUBMITTED: 'SUBMITTED' }",
        "storeReplacement: { SUBMITTED: 'SUBMITTED', MINED: 'MINED', FINALIZED: 'FINALIZED' }",
      ],
      [
        'transactions/lanes/store.ts',
        "'storeReplacement', stepOf(app, attempt))",
        "'storeReplacement', stepOf === null ? undefined : undefined)",
      ],
    ],
  },
  {
    name: 'stores a cancel as the write',
    scenario: 'cancelled',
    caughtBy: 'hashes',
    patches: [['transactions/attempts.ts', '      is_cancel: attempt.isCancel,\n', '      is_cancel: false,\n']],
  },
  {
    name: 'reports CANCELLED on request',
    scenario: 'cancel-lost',
    caughtBy: 'state',
    patches: [
      [
        'transactions/settle/follow.ts',
        "'attempts.is_cancel', 'transactions.id'",
        "'transactions.is_cancel', 'transactions.id'",
      ],
    ],
  },
  {
    name: 'stores the wrong gas of an attempt',
    scenario: 'sped-up',
    caughtBy: 'hashes',
    patches: [
      [
        'transactions/attempts.ts',
        '      gas_limit: Number(attempt.gas),\n',
        '      gas_limit: Number(attempt.gas) + 1,\n',
      ],
    ],
  },
  {
    name: 'finds only the newest hash',
    scenario: 'sped-up',
    caughtBy: 'answers',
    patches: [
      [
        'transactions/read/read.ts',
        "    .selectFrom('attempts')\n    .select('transaction_id')\n    .where('chain_id', '=', chainId)\n",
        "    .selectFrom('transactions')\n    .select('id as transaction_id')\n    .where('chain_id', '=', chainId)\n",
      ],
    ],
  },
  {
    name: 'ignores the requested fees of a speed-up',
    scenario: 'sped-up',
    caughtBy: 'scenario',
    patches: [
      [
        'transactions/lanes/replace.ts',
        '  const fees = nextFee(offered, await marketOf(chain), chain.feeCapWei)\n',
        '  const fees = await marketOf(chain)\n',
      ],
    ],
  },
  // What a key is good for
  {
    name: 'drops a key when its transaction is final',
    scenario: 'key-kept',
    caughtBy: 'key',
    patches: [['transactions/key.ts', 'isVoid || use.is_over) {', 'isVoid || use.is_final) {']],
  },
  {
    name: 'drops a key after a day, final or not',
    scenario: 'key-kept',
    caughtBy: 'scenario',
    patches: [
      [
        'transactions/key.ts',
        'sql<boolean>`${row}.is_final and ${row}.updated_at <',
        'sql<boolean>`${row}.updated_at <',
      ],
    ],
  },
  {
    name: 'accepts a key with any body',
    scenario: 'told-is-known',
    caughtBy: 'key',
    patches: [
      [
        'transactions/key.ts',
        '  if (use.request_hash === null || !requestHash.equals(use.request_hash)) throw keyReused()',
        '  if (use.request_hash === null || requestHash.length === 0) throw keyReused()',
      ],
    ],
  },
  {
    name: 'frees the key of an accepted write on cancel',
    scenario: 'cancelled',
    caughtBy: 'key',
    patches: [
      [
        'transactions/key.ts',
        "use.told === null && use.state !== 'BOUND'",
        "(use.state === 'CANCELLED' || (use.told === null && use.state !== 'BOUND'))",
      ],
    ],
  },
  // What the history shows
  {
    name: 'retains transfers of a reorganised block',
    scenario: 'coins',
    caughtBy: 'transfers',
    patches: [
      [
        'history/index-transfers.ts',
        "      .where('block_number', '>=', fromNumber)",
        "      .where('block_number', '>', fromNumber + 1_000)",
      ],
    ],
  },
  {
    name: 'lists a transfer for one side only',
    scenario: 'coins',
    caughtBy: 'transfers',
    patches: [
      ['history/rows.ts', '[[from, DIRECTION.OUT], [to, DIRECTION.IN]] as const', '[[to, DIRECTION.IN]] as const'],
    ],
  },
  {
    name: 'indexes logs of a failed transaction',
    file: 'src/history/finality.test.ts',
    test: 'a token that only a failed transaction names is never met',
    patches: [['history/rows.ts', '    if (status === false) continue\n', '']],
  },
  {
    name: 'backfills blocks that are not final',
    file: 'src/history/backfill.test.ts',
    test: 'what was followed without the accounts is filled in, up to what is final, and then the table is whole',
    patches: [
      [
        'history/backfill.ts',
        'Math.min(row.finalized_number, row.block_number)',
        'Math.min(row.finalized_number, row.block_number) + 1',
      ],
    ],
  },
  // What is known of the signer's log
  {
    name: 'takes the ledger head of a refusal for the newest',
    file: 'src/signer-wire/client.test.ts',
    test: 'the head that comes with a refusal is not the newest: it follows the one that was shown, or not',
    patches: [
      [
        'signer-wire/client.ts',
        "    if (typeof frame.head === 'string' && 'answer' in frame) head = frame.head\n",
        "    if (typeof frame.head === 'string') head = frame.head\n",
      ],
    ],
  },
  // When a fee is raised
  {
    name: 'raises a fee before three blocks have passed',
    file: 'src/transactions/settle/follow.test.ts',
    test: 'after 3 blocks and 20 s only the lowest nonce of an account gets a higher fee, in both fields, stored before it is sent',
    patches: [
      ['transactions/lanes/raise.ts', 'const BUMP_AFTER_BLOCKS = 3', 'const BUMP_AFTER_BLOCKS = 0'],
      [
        'transactions/lanes/raise.ts',
        "          isAgo(sql.ref('a.created_at'), app.config.LANE_BUMP_AFTER_SECONDS),\n",
        '',
      ],
    ],
  },
]
