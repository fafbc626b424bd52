import type { Mutant } from './transactions-mutants.ts'

/** Mistakes in what is written down and said of a transaction, in its price, its changes, its finality and its end. */
export const recordMutants: Mutant[] = [
  // What a receipt says
  {
    name: 'the gas of a receipt is stored wrongly',
    scenario: 'told-is-known',
    caughtBy: 'receipt',
    patches: [['transactions/settle/states.ts', 'gas_used = mined.gas_used,', 'gas_used = mined.gas_used + 1,']],
  },
  {
    name: 'the price of a receipt is stored wrongly',
    scenario: 'told-is-known',
    caughtBy: 'receipt',
    patches: [
      ['transactions/settle/follow.ts', '    effectiveGasPrice,\n', '    effectiveGasPrice: effectiveGasPrice + 1n,\n'],
    ],
  },
  {
    name: 'whatever is mined has succeeded',
    scenario: 'fails-when-mined',
    caughtBy: 'state',
    patches: [['transactions/settle/follow.ts', '    succeeded: status,\n', '    succeeded: true || status,\n']],
  },
  {
    name: 'the block of a receipt is the one before',
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
    name: 'the steps before the block are forgotten',
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
    name: 'what a block lost is not among the steps',
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
    name: 'a block is final one too early',
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
    name: 'a block is final one too late',
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
    name: 'the follower counts one block less to finality',
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
    name: 'what failed is final as if it had not',
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
    name: 'a nonce used elsewhere does not stop the account',
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
    name: 'a nonce given up does not stop the account',
    scenario: 'used-elsewhere',
    caughtBy: 'lane',
    patches: [
      ['transactions/recovery/recover.ts', '{ isExpected: await stopLane(db, intrusion) }', '{ isExpected: false }'],
    ],
  },
  {
    name: 'a stopped account is bound to all the same',
    scenario: 'foreign-nonce',
    caughtBy: 'scenario',
    patches: [
      ['transactions/lanes/bind.ts', '  if (isStopped) throw stopped()\n', ''],
      ['transactions/lanes/take-nonce.ts', 'next is not null and not stopped and', 'next is not null and'],
    ],
  },
  {
    name: 'given up before the block that used its nonce is final',
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
    name: 'a nonce used elsewhere is nobody’s business',
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
    name: 'what cannot be paid for is given up',
    scenario: 'ran-dry',
    caughtBy: 'lost',
    patches: [
      [
        'transactions/recovery/keeper.ts',
        "  else if (sent === 'insufficient_funds') await lowBalance(app, chain, toBound(row))",
        "  else if (sent === 'insufficient_funds') await giveUp(app, toBound(row))",
      ],
    ],
  },
  {
    name: 'a write is accepted that its account cannot pay',
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
    name: 'no margin over the estimate',
    scenario: 'told-is-known',
    caughtBy: 'price',
    patches: [
      ['transactions/lanes/prepare.ts', 'const wanted = (estimate * 5n) / 4n + 10_000n', 'const wanted = estimate'],
    ],
  },
  {
    name: 'a fee is raised by too little',
    scenario: 'sped-up',
    caughtBy: 'price',
    patches: [['chain/fees.ts', 'most((fee * 9n + 7n) / 8n, fee + 1n)', 'most((fee * 11n + 9n) / 10n, fee + 1n)']],
  },
  {
    name: 'a fee is raised by too much',
    scenario: 'sped-up',
    caughtBy: 'price',
    patches: [['chain/fees.ts', 'most((fee * 9n + 7n) / 8n, fee + 1n)', 'most(fee * 2n, fee + 1n)']],
  },
  {
    name: 'a fee is raised above the cap',
    scenario: 'fee-cap',
    caughtBy: 'price',
    patches: [['chain/fees.ts', '  if (limited > cap) throw capReached(limited, cap)\n', '']],
  },
  {
    name: 'the first offer is twice what it should be',
    scenario: 'dear-blocks',
    caughtBy: 'price',
    patches: [['chain/fees.ts', 'most(2n * baseFee + tip, floor)', 'most(4n * baseFee + tip, floor)']],
  },
  {
    name: 'a raise has more gas than the first bytes',
    scenario: 'sped-up',
    caughtBy: 'price',
    patches: [['transactions/lanes/replace.ts', ' : before.gas\n', ' : before.gas + 1_000n\n']],
  },
  {
    name: 'the coins are left out of what is signed',
    scenario: 'coins',
    caughtBy: 'lost',
    patches: [['transactions/lanes/gas.ts', 'to, value: value.toString(), data }', "to, value: '0', data }"]],
  },
  {
    name: 'twice the coins that were asked for are sent',
    scenario: 'coins',
    caughtBy: 'money',
    patches: [['contracts/write.ts', 'value: readValue(value, {', 'value: 2n * readValue(value, {']],
  },
  // What changes
  {
    name: 'a late store overwrites the hash that is mined',
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
    name: 'a cancel is stored as if it were the write',
    scenario: 'cancelled',
    caughtBy: 'hashes',
    patches: [['transactions/attempts.ts', '      is_cancel: attempt.isCancel,\n', '      is_cancel: false,\n']],
  },
  {
    name: 'what was asked to be cancelled counts as cancelled',
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
    name: 'the gas of an attempt is stored wrongly',
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
    name: 'only the newest hash is known to readers',
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
    name: 'a speed-up takes the fees of the market, whatever was offered',
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
    name: 'a key is forgotten as soon as its transaction is final',
    scenario: 'key-kept',
    caughtBy: 'key',
    patches: [['transactions/key.ts', 'isVoid || use.is_over) {', 'isVoid || use.is_final) {']],
  },
  {
    name: 'a key is forgotten after a day, final or not',
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
    name: 'a key is good for any body',
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
    name: 'a cancel frees the key of what was told',
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
    name: 'transfers of a block that was lost stay',
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
    name: 'a transfer is told to one side only',
    scenario: 'coins',
    caughtBy: 'transfers',
    patches: [
      ['history/rows.ts', '[[from, DIRECTION.OUT], [to, DIRECTION.IN]] as const', '[[to, DIRECTION.IN]] as const'],
    ],
  },
  {
    name: 'logs of a failed transaction are transfers',
    file: 'src/history/finality.test.ts',
    test: 'a token that only a failed transaction names is never met',
    patches: [['history/rows.ts', '    if (status === false) continue\n', '']],
  },
  {
    name: 'a backfill reads blocks that are not final',
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
    name: 'the head of the log that came with a refusal is taken for the newest',
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
    name: 'a fee is raised before three blocks had a chance',
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
