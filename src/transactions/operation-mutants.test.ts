import { strict as assert } from 'node:assert'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { mutantsOf, type SourceMutant } from '../../test/source-mutants.ts'

/** What would do a write twice, lose one, or spend more than was allowed, if this code were it. */
const MUTANTS: SourceMutant[] = [
  ['the status of a transaction is believed in place of its events', 'settle-operations.ts', 'state: stateOf(event),', "state: 'MINED' as const,", 'operations', 'stale authorization'], // prettier-ignore
  ['no deadline check before another packing, by the clock of the chain', 'tend-operations.ts', ".where('o.deadline', '>', head.timestamp + MIN_LIFE_SECONDS)", '', 'operation-packing', 'clock of the chain'], // prettier-ignore
  ['no deadline check before another packing, by the clock of the server', 'pack.ts', 'operation.deadline >= soon', 'operation.deadline >= 0 * soon', 'operation-packing', 'clock of this server'], // prettier-ignore
  ['another packing without asking whether the id is used', 'tend-operations.ts', 'if (await isUsedAt(chain, operation, head)) return\n  const', 'const', 'operation-packing', 'the dispatcher is asked'], // prettier-ignore
  ['whether an id is used is asked at no block', 'tend-operations.ts', '[call, { blockHash: hash }]', "[call, hash === null ? hash : 'latest']", 'operation-packing', 'the dispatcher is asked'], // prettier-ignore
  ['what was settled is submitted again by what is stored later', 'link.ts', "(row.state === 'BOUND' || row.state === 'SUBMITTED') && row.outer_id", 'row.outer_id', 'operation-packing', 'takes nothing back'], // prettier-ignore
  ['the values of a batch are no part of its request', '../contracts/write-batch.ts', "args ?? [], value ?? '0']", "args ?? [], value === undefined ? '0' : '0']", 'operation-packing', 'a batch under a key'], // prettier-ignore
  ['a cancel takes the nonce of what carries other people’s operations', 'cancel-operation.ts', 'if (others !== undefined || outer', 'if (outer', 'operation-packing', 'leaves alone'], // prettier-ignore
  ['a budget is looked at once it is spent', 'bind-operation.ts', 'if (exhausted !== null) return exhausted', 'if (exhausted !== null && charged < 0n) return exhausted', 'operations', 'budgets are reserved'], // prettier-ignore
  ['what an operation may cost is reserved for nobody', 'bind-operation.ts', '  await countSpent(db, { chainId: chain.chainId, clientId, accountId, wei: charged })\n', '', 'operations', 'a person with 0 coins'], // prettier-ignore
  ['a sponsor with code carries operations', 'carriers.ts', 'return !hasCode && isAllowed', 'return isAllowed', 'operations', 'two sponsors carry|a sponsor that delegated'], // prettier-ignore
  ['an operation whose time is over has failed without a look at its id', 'tend-operations.ts', "if (await isUsedAt(chain, toOperation(row), head)) return\n      await reach(app, 'before-expire')", "await reach(app, 'before-expire')", 'operation-packing', 'past it it has failed'], // prettier-ignore
]

/** Each takes some ten seconds, so the suite tries three. OPERATION_MUTANTS=all tries every one, another word those whose name has it. */
const IN_THE_SUITE = ['by the clock of the chain', 'the status of a transaction', 'submitted again']
const { OPERATION_MUTANTS: wanted } = process.env
const isTried = (what: string): boolean =>
  wanted === 'all' || (wanted === undefined ? IN_THE_SUITE : [wanted]).some((part) => what.includes(part))

test('each mistake fits the sources as they are', () => {
  for (const [what, file, from] of MUTANTS)
    assert.equal(readFileSync(new URL(file, import.meta.url), 'utf8').split(from).length, 2, what)
})

mutantsOf(
  'mutants of operations',
  MUTANTS.filter(([what]) => isTried(what)),
  'transactions',
)
