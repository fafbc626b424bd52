// tier: all, because it plays whole chains
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Hex } from '../../src/ids.ts'
import { addressOf } from '../nodes/scripted-chain.ts'
import { CONTRACTS, STRANGERS, TOKENS } from './generate.ts'
import type { LedgerTransaction, Step, TokenStep } from './ledger.ts'
import { liveAndSum } from './life.ts'

/** SUMS_ACCOUNTS=1000 SUMS_SAMPLES=1000 SUMS_TURNS=400 is the long form; SUMS_SEED another chain. */
const ACCOUNTS = Number(process.env.SUMS_ACCOUNTS ?? 30)
const SAMPLES = Number(process.env.SUMS_SAMPLES ?? 250)
const TURNS = Number(process.env.SUMS_TURNS ?? 40)
const SEED = Number(process.env.SUMS_SEED ?? 7)

const HONEST: (string | null)[] = [null, ...TOKENS.plain, TOKENS.pieces, TOKENS.items]

for (const tells of ['traces', 'logs'] as const) {
  test(`entries sum up to the balance of every account at every block, with internal transfers by ${tells}`, async (t) => {
    const { counts, differences, kinds, reorganisations, blocks } = await liveAndSum({
      ...{ seed: SEED, accounts: ACCOUNTS, turns: TURNS, samples: SAMPLES, tells },
    })
    t.diagnostic(`${blocks} blocks, ${reorganisations} reorganisations, ${JSON.stringify(counts)}`)
    const ofHonest = differences.filter(({ sum }) => HONEST.includes(sum.token))
    assert.deepEqual(ofHonest.map(textOf), [])
    assert.equal(counts.accounts, SAMPLES)
    // Until the first log of native currency is seen, nobody knows that the chain writes them.
    assert.ok(counts.unknown <= (tells === 'logs' ? SAMPLES / 10 : 0))
    assert.ok(counts.equal > SAMPLES * 1.1, 'native currency alone is no proof')
    for (const kind of ['FEE', 'VALUE', 'MINT', 'INTERNAL', 'WITHDRAWAL', 'REWARD', 'omitted'])
      assert.ok(kinds.has(kind), kind)
    assert.ok(reorganisations > 3)
    const found = differences.filter(({ block }) => block !== null)
    assert.deepEqual(found.filter(({ isOfToken }) => !isOfToken).map(textOf), [])
  })
}

test('the first block is found in which a token does not do what its events say', async () => {
  const [alice, bob] = [addressOf(0xa_0000), addressOf(0xa_0001)]
  const step = (
    token: Hex,
    way: TokenStep['way'],
    ends: { from: Hex | null; to: Hex | null },
    value: bigint,
  ): TokenStep => ({
    ...{ op: 'token', token, way, type: 'ERC20', id: 0n, value, ...ends },
  })
  const sends = (...steps: Step[]): LedgerTransaction => ({
    ...{ from: STRANGERS[0]!, to: CONTRACTS[0]!, created: CONTRACTS[0]!, value: 0n, steps, fails: false },
    ...{ gasUsed: 50_000n, price: 7n, l1Fee: 0n, blobGas: 0n, minted: 0n },
  })
  const { differences } = await liveAndSum({
    ...{ seed: 1, accounts: 2, turns: 0, samples: 20, tells: 'traces' },
    first: [
      sends(
        step(TOKENS.fee, 'plain', { from: null, to: alice }, 5_000n),
        step(TOKENS.silent, 'plain', { from: null, to: alice }, 5n),
      ),
      sends(step(TOKENS.rebase, 'plain', { from: null, to: alice }, 9_000n)),
      sends(step(TOKENS.fee, 'fee', { from: alice, to: bob }, 1_000n)),
      sends(step(TOKENS.silent, 'silent', { from: null, to: alice }, 7n)),
      sends(step(TOKENS.empty, 'empty', { from: bob, to: alice }, 8n)),
      sends(step(TOKENS.rebase, 'rebase', { from: null, to: null }, 0n)),
      sends(),
    ],
  })
  const said = new Map(
    differences.map(({ sum, block, isOfToken }) => [`${sum.address} ${sum.token}`, [isOfToken, block]]),
  )
  // In the third block of the chain is the first of these, and its neighbours follow.
  assert.deepEqual(Object.fromEntries(said), {
    [`${bob} ${TOKENS.fee}`]: [true, 4],
    [`${alice} ${TOKENS.silent}`]: [true, 5],
    [`${alice} ${TOKENS.empty}`]: [true, 6],
    [`${bob} ${TOKENS.empty}`]: [true, 6],
    [`${alice} ${TOKENS.rebase}`]: [true, 7],
  })
})

test('where nothing tells of internal transfers, sums of native currency differ, and by no token’s fault', async () => {
  const { differences } = await liveAndSum({ seed: SEED, accounts: 30, turns: 30, samples: 60, tells: 'nothing' })
  const native = differences.filter(({ sum }) => sum.token === null)
  assert.ok(native.length > 5)
  for (const { isOfToken } of native) assert.equal(isOfToken, false)
})

function textOf({ sum, difference, block }: Awaited<ReturnType<typeof liveAndSum>>['differences'][number]): string {
  return `${sum.address} ${sum.type} ${sum.token} ${sum.tokenId} at ${sum.block}: ${difference} since ${block}`
}
