import type { Mutant } from './transactions-mutants.ts'

const FORGET = `
async function forget(app: App, id: string): Promise<void> {
  await app.db.deleteFrom('attempts').where('transaction_id', '=', id).execute()
  await app.db.updateTable('transactions').set({ state: 'VACANT', hash: null }).where('id', '=', id).execute()
}
`
const IMPORT_ERRORS: Mutant['patches'][number] = [
  'transactions/lanes/send.ts',
  "import type { App } from '../../app.ts'\n",
  "import type { App } from '../../app.ts'\nimport { AppError } from '../../errors.ts'\n",
]
/** Ids that say nothing of their key: the ledger cannot tell a repeat from something new. */
const RANDOM_IDS: Mutant['patches'][number] = [
  'transactions/pipeline.ts',
  ': await findKey(app, key)',
  ': { free: newTransactionId() }',
]
/** The same mistake within one request only. */
const RANDOM_ID_ON_RETRY: Mutant['patches'][number] = [
  'transactions/pipeline.ts',
  ': await findKey(app, key)',
  ": 'tried' in key ? { free: newTransactionId() } : (Object.assign(key, { tried: true }), await findKey(app, key))",
]
const BROADCAST = '  if (isDue) await first.broadcast(app, chain, { id: bound.id, from: bound.from, raw, hash })\n'
const STORE = '  const isDue = await first.store(app, chain, bound, signed.attempt)\n'

/** Mistakes in what is stored, signed, sent and sent again, as other engines have made them. */
export const sendingMutants: Mutant[] = [
  {
    name: 'broadcasts before it stores',
    scenario: 'killed-after-broadcast',
    caughtBy: 'scenario',
    patches: [
      ['transactions/lanes/send.ts', STORE, '  const isDue = true\n'],
      ['transactions/lanes/send.ts', BROADCAST, `${BROADCAST}${STORE.replace('const isDue =', '')}`],
    ],
  },
  {
    name: 'reuses a nonce after a time-out',
    scenario: 'answer-lost',
    caughtBy: 'doubled',
    patches: [
      IMPORT_ERRORS,
      [
        'transactions/lanes/send.ts',
        BROADCAST,
        `  if ((await first.broadcast(app, chain, { id: bound.id, from: bound.from, raw, hash })) === 'unknown') {
    await forget(app, bound.id)
    throw new AppError('chain_timeout', 'The node did not answer.')
  }\n`,
      ],
      ['transactions/lanes/send.ts', 'async function finish(', `${FORGET}\nasync function finish(`],
      RANDOM_IDS,
    ],
  },
  {
    name: 'treats a node error as a failed write',
    scenario: 'answer-lost',
    caughtBy: 'doubled',
    patches: [
      IMPORT_ERRORS,
      [
        'transactions/lanes/send.ts',
        BROADCAST,
        `  const said = await first.broadcast(app, chain, { id: bound.id, from: bound.from, raw, hash })
  if (said !== 'sent') throw new AppError('chain_unavailable', 'The node refused it.')\n`,
      ],
      RANDOM_IDS,
    ],
  },
  {
    name: 'stops following after the first receipt',
    scenario: 'reorganised-away',
    caughtBy: 'finality',
    patches: [
      [
        'transactions/settle/states.ts',
        'effective_gas_price = mined.effective_gas_price, revert = null,',
        'effective_gas_price = mined.effective_gas_price, revert = null, is_final = true,',
      ],
      [
        'transactions/settle/states.ts',
        'is_final in (false, true) and block_number',
        'is_final = false and block_number',
      ],
    ],
  },
  {
    name: 'ignores reorganisations',
    scenario: 'reorganised-away',
    caughtBy: 'lost',
    patches: [['transactions/settle/follow.ts', '    await revertToPending(db, app, chain.chainId, fromNumber)\n', '']],
  },
  {
    name: 'commits half of a rollback',
    scenario: 'killed-in-retract',
    caughtBy: 'lost',
    patches: [
      [
        'follower/apply.ts',
        '\n  await moveCursor(db, chain.chainId, held, next)',
        '\n  await moveCursor(app.db, chain.chainId, held, next)',
      ],
    ],
  },
  {
    name: 'ignores the idempotency key',
    scenario: 'killed-after-broadcast',
    caughtBy: 'doubled',
    patches: [RANDOM_IDS],
  },
  {
    name: 'raises only one fee field',
    scenario: 'dear-blocks',
    caughtBy: 'lost',
    patches: [
      [
        'chain/fees.ts',
        '  const tip = most(raised(previous.maxPriorityFeePerGas), market.type',
        '  const tip = most(previous.maxPriorityFeePerGas, market.type',
      ],
    ],
  },
  {
    name: 'trusts the transaction count of the node',
    scenario: 'lagging-receipts',
    caughtBy: 'lane',
    patches: [
      [
        'transactions/recovery/keeper.ts',
        '  const use = await findUse(app, chain, bound)\n  if (use === null) return noteUsed(app, bound)\n',
        "  if ((await countAt(chain, bound.from, 'latest')) <= row.nonce) return\n  const use = { hash: null, blockNumber: 0, blockHash: bound.from.padEnd(66, '0') }\n",
      ],
      [
        'transactions/recovery/keeper.ts',
        "import { findUse } from '../settle/nonce-used.ts'\n",
        "import { countAt } from '../settle/nonce-count.ts'\n",
      ],
    ],
  },
  {
    name: 'never rebroadcasts',
    scenario: 'wiped-pool',
    caughtBy: 'lost',
    patches: [
      [
        'transactions/recovery/keeper.ts',
        '    await resend(app, chain, { afterSeconds: first || greeted !== seen ? 0 : RESEND_AFTER_SECONDS })\n',
        '',
      ],
    ],
  },
  {
    name: 'signs again with a new nonce if the outcome is unknown',
    scenario: 'signer-killed',
    caughtBy: 'doubled',
    patches: [
      [
        'transactions/lanes/sign.ts',
        '    if (!isRefused(error)) throw error\n',
        `    if (!isRefused(error)) {
      while (!(await app.signer.health().catch(() => false))) await new Promise((resolve) => setTimeout(resolve, 50))
      return NONCE_TAKEN
    }
`,
      ],
      RANDOM_ID_ON_RETRY,
    ],
  },
  {
    name: 'does not query the ledger',
    scenario: 'paused-replica',
    caughtBy: 'lost',
    patches: [
      [
        'signer/rules/judge.ts',
        '  if (attempts.length === 0) return { sign: judgeUnseen(ask, facts), terms }\n',
        '  if (attempts.length >= 0) return { sign: ask.kind, terms }\n',
      ],
    ],
  },
  {
    name: 'signs a cancel at a higher fee without restoring the intent',
    scenario: 'paused-filler',
    caughtBy: 'lost',
    patches: [
      ['transactions/lanes/sign.ts', "  if (!(await claim(app.db, bound.id))) return { kind: 'has_bytes' }\n", ''],
      [
        'transactions/lanes/sign.ts',
        '  const [gas, fees] = await Promise.all([cancelGas(chain, bound.from), marketOf(chain)])\n',
        '  const [gas, market] = await Promise.all([cancelGas(chain, bound.from), marketOf(chain)])\n  const fees = nextFee(market, market, chain.feeCapWei)\n',
      ],
      [
        'transactions/lanes/sign.ts',
        "import type { Fees } from '../../chain/fees.ts'\n",
        "import { nextFee, type Fees } from '../../chain/fees.ts'\n",
      ],
    ],
  },
  {
    name: 'stores after it responds',
    scenario: 'told-is-known',
    caughtBy: 'unanswered',
    patches: [
      [
        'transactions/lanes/send.ts',
        STORE,
        `  const isDue = true
  setTimeout(() => void first.store(app, chain, bound, signed.attempt), 1_000)\n`,
      ],
    ],
  },
  {
    name: 'takes another nonce after `nonce too low`',
    scenario: 'nonce-too-low',
    caughtBy: 'doubled',
    patches: [
      [
        'transactions/lanes/send.ts',
        BROADCAST,
        "  if ((await first.broadcast(app, chain, { id: bound.id, from: bound.from, raw, hash })) === 'nonce_too_low') return LOST\n",
      ],
      RANDOM_ID_ON_RETRY,
    ],
  },
  {
    name: 'abandons bound writes after a crash',
    scenario: 'caller-gone',
    caughtBy: 'gaps',
    patches: [
      [
        'transactions/recovery/keeper.ts',
        '    await recoverBound(app, chain, { idleSeconds: first ? 0 : IDLE_SECONDS })\n',
        '',
      ],
    ],
  },
  {
    name: 'sends queued writes to the node at once',
    scenario: 'queued-behind',
    caughtBy: 'scenario',
    patches: [['transactions/lanes/send.ts', BROADCAST, BROADCAST.replace('if (isDue) ', '')]],
  },
  {
    name: 'empties a queue at the first block',
    scenario: 'queued-behind',
    caughtBy: 'scenario',
    patches: [
      [
        'transactions/lanes/queue.ts',
        'order by nonce offset ${config.MAX_PENDING_WRITES - 1}',
        'order by nonce offset ${config.MAX_PENDING_WRITES + 9}',
      ],
    ],
  },
  {
    name: 'rebroadcasts queued writes',
    scenario: 'queued-behind',
    caughtBy: 'scenario',
    patches: [
      ['transactions/recovery/keeper.ts', 'and a.queued_nonce is null and', 'and'],
      [
        'transactions/recovery/keeper.ts',
        '.filter(({ is_far: isFar, raw }) => !isFar || raw === null)',
        '.filter(() => true)',
      ],
    ],
  },
  {
    name: 'sends unqueued writes only at the next rebroadcast',
    scenario: 'queued-behind',
    caughtBy: 'scenario',
    patches: [
      [
        'transactions/lanes/broadcast.ts',
        '    await Promise.all(released.map((one) => giveToNode(app, chain, one)))\n',
        '',
      ],
    ],
  },
]
