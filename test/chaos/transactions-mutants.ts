import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PROJECT } from './transactions-world.ts'
import type { ScenarioName } from './transactions-scenarios.ts'

/** A mistake that somebody made, or could make, in this engine; each has to be caught, or the proof proves nothing. */
export type Mutant = {
  name: string
  /** the scenario that has to catch it */
  scenario: ScenarioName
  /** file below src/, a text that stands in it exactly once, and what stands there instead */
  patches: [file: string, from: string, to: string][]
}

const FORGET = `
async function forget(app: App, id: string): Promise<void> {
  await app.db.deleteFrom('idempotency_keys').where('transaction_id', '=', id).execute()
  await app.db.deleteFrom('attempts').where('transaction_id', '=', id).execute()
  await app.db.updateTable('transactions').set({ state: 'VACANT', hash: null }).where('id', '=', id).execute()
}
`
const BROADCAST = '  await broadcast(app, chain, { id: bound.id, from: bound.from, raw, hash })\n  await reach'
const STORE =
  '  await storeFirst(app, chain, bound, { raw, hash, gas: bound.gas, fees: bound.fees, isCancel: false })\n'

export const mutants: Mutant[] = [
  {
    name: 'broadcast before store',
    scenario: 'killed-after-broadcast',
    patches: [
      ['transactions/send.ts', STORE, ''],
      [
        'transactions/send.ts',
        "  await reach(app, 'after-broadcast')\n",
        `  await reach(app, 'after-broadcast')\n${STORE}`,
      ],
    ],
  },
  {
    name: 'a nonce is recycled on a time-out',
    scenario: 'answer-lost',
    patches: [
      [
        'transactions/send.ts',
        BROADCAST,
        `  if ((await broadcast(app, chain, { id: bound.id, from: bound.from, raw, hash })) === 'unknown') {
    await forget(app, bound.id)
    throw new AppError('chain_timeout', 'The node did not answer.')
  }
  await reach`,
      ],
      ['transactions/send.ts', '/** Sign, store, broadcast.', `${FORGET}\n/** Sign, store, broadcast.`],
    ],
  },
  {
    name: 'an error of the node is a failure of the write',
    scenario: 'answer-lost',
    patches: [
      [
        'transactions/send.ts',
        BROADCAST,
        `  const said = await broadcast(app, chain, { id: bound.id, from: bound.from, raw, hash })
  if (said !== 'sent') {
    await app.db.deleteFrom('idempotency_keys').where('transaction_id', '=', bound.id).execute()
    throw new AppError('chain_unavailable', 'The node refused it.')
  }
  await reach`,
      ],
    ],
  },
  {
    name: 'forgotten after the first receipt',
    scenario: 'reorganised-away',
    patches: [
      [
        'transactions/settle.ts',
        'effective_gas_price = mined.effective_gas_price, revert = null,',
        'effective_gas_price = mined.effective_gas_price, revert = null, is_final = true,',
      ],
      ['transactions/settle.ts', 'is_final in (false, true) and block_number', 'is_final = false and block_number'],
    ],
  },
  {
    name: 'a reorganisation is not handled',
    scenario: 'reorganised-away',
    patches: [['transactions/follow.ts', '    await unmine(db, app, chain.chainId, fromNumber)\n', '']],
  },
  {
    name: 'a rollback commits half of itself',
    scenario: 'killed-in-retract',
    patches: [
      [
        'follower/apply.ts',
        '    await moveCursor(db, chain.chainId, held, next)\n    for (const listener of listeners) await listener.onRetract(',
        '    await moveCursor(app.db, chain.chainId, held, next)\n    for (const listener of listeners) await listener.onRetract(',
      ],
    ],
  },
  {
    name: 'no idempotency',
    scenario: 'killed-after-broadcast',
    patches: [
      [
        'transactions/send.ts',
        'key === null ? null : await findKey(app.db, key.scope, key.requestHash)',
        'null as Awaited<ReturnType<typeof findKey>>',
      ],
      ['transactions/take-nonce.ts', '      where asked.key is null or keys.transaction_id is not null\n', ''],
    ],
  },
  {
    name: 'only one fee field is raised',
    scenario: 'dear-blocks',
    patches: [
      [
        'chain/fees.ts',
        '  const tip = most(raised(previous.maxPriorityFeePerGas), market.type',
        '  const tip = most(previous.maxPriorityFeePerGas, market.type',
      ],
    ],
  },
  {
    name: 'the count of the node is trusted',
    scenario: 'lagging-receipts',
    patches: [
      ['transactions/keep-alive.ts', 'await followedFinality(app, chain))) <= row.nonce', "'latest')) <= row.nonce"],
    ],
  },
  {
    name: 'no rebroadcast',
    scenario: 'wiped-pool',
    patches: [
      [
        'transactions/keep-alive.ts',
        '    await resend(app, chain, { afterSeconds: first ? 0 : RESEND_AFTER_SECONDS })\n',
        '',
      ],
    ],
  },
  {
    name: 'signed again under a new nonce when nobody knows',
    scenario: 'signer-killed',
    patches: [
      [
        'transactions/send.ts',
        "    if (meaning === 'unknown') throw error\n",
        "    if (meaning === 'unknown') return null\n",
      ],
    ],
  },
  {
    name: 'the ledger is not asked',
    scenario: 'paused-replica',
    patches: [
      [
        'signer/judge.ts',
        '  if (attempts.length === 0) return { sign: judgeUnseen(ask, facts), terms }\n',
        '  if (attempts.length >= 0) return { sign: ask.kind, terms }\n',
      ],
    ],
  },
  {
    name: 'a cancel is signed at a higher fee, without taking the intent up',
    scenario: 'paused-filler',
    patches: [
      ['transactions/recover.ts', '  if (!(await claim(app.db, bound.id))) return\n', ''],
      [
        'transactions/recover.ts',
        'fees: Fees = bound.fees; raise',
        'fees: Fees = nextFee(bound.fees, bound.fees, chain.feeCapWei); raise',
      ],
    ],
  },
  {
    name: 'stored after the answer',
    scenario: 'told-is-known',
    patches: [
      [
        'transactions/send.ts',
        STORE,
        `  setTimeout(() => void storeFirst(app, chain, bound, { raw, hash, gas: bound.gas, fees: bound.fees, isCancel: false }), 1_000)\n`,
      ],
    ],
  },
  {
    name: 'only the newest hash is looked for',
    scenario: 'older-attempt',
    patches: [
      [
        'transactions/follow.ts',
        "      .where((eb) => eb('attempts.hash', '=', eb.fn.any(byteaArray(hashes))))\n",
        "      .where((eb) => eb('attempts.hash', '=', eb.fn.any(byteaArray(hashes))))\n      .whereRef('attempts.hash', '=', 'transactions.hash')\n",
      ],
    ],
  },
  {
    name: '`nonce too low` gets another nonce',
    scenario: 'nonce-too-low',
    patches: [
      [
        'transactions/send.ts',
        BROADCAST,
        "  if ((await broadcast(app, chain, { id: bound.id, from: bound.from, raw, hash })) === 'nonce_too_low') return null\n  await reach",
      ],
    ],
  },
  {
    name: 'what was bound is not taken up again',
    scenario: 'caller-gone',
    patches: [
      [
        'transactions/keep-alive.ts',
        '    await recoverBound(app, chain, { idleSeconds: first ? 0 : IDLE_SECONDS })\n',
        '',
      ],
    ],
  },
]

/**
 * A copy of the program with the mistake in it.
 * @throws Error when a patch does not apply exactly once: the code has moved on, and the mutant has to follow
 */
export async function plant({ name, patches }: Mutant): Promise<{ home: string; remove(): Promise<void> }> {
  const home = await mkdtemp(join(tmpdir(), 'chatelaine-mutant-'))
  await cp(join(PROJECT, 'src'), join(home, 'src'), { recursive: true })
  await cp(join(PROJECT, 'package.json'), join(home, 'package.json'))
  for (const beside of ['node_modules', 'migrations', 'contracts'])
    await symlink(join(PROJECT, beside), join(home, beside))
  for (const [file, from, to] of patches) {
    const path = join(home, 'src', file)
    const text = await readFile(path, 'utf8')
    if (text.split(from).length !== 2) throw new Error(`the mutant "${name}" does not fit ${file} any more`)
    await writeFile(
      path,
      text.replace(from, () => to),
    )
  }
  return { home, remove: () => rm(home, { recursive: true, force: true }) }
}
