import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import type { App } from '../app.ts'
import { readConfig } from '../config.ts'
import { startFollower } from '../follower/follow.ts'
import { openState } from '../state.ts'
import { fromHex } from '../hex.ts'
import { openTelemetry } from '../telemetry.ts'
import { testDatabase } from '../../test/kit/database.ts'
import { atHead } from '../../test/follower-stage.ts'
import { addressOf } from '../../test/nodes/scripted-chain.ts'
import { ledgerChain } from '../../test/sums/chain.ts'
import { CONTRACTS, GENESIS, STRANGERS, TOKENS } from '../../test/sums/generate.ts'
import { indexTransfers } from './index-transfers.ts'
import { auditSums, everyAccount, sampledAccounts } from './sum-audit.ts'
import { systemClock } from '../clock.ts'

const ALICE = addressOf(0xa_0000)
const ALICE_ID = '00000000-0000-8000-8000-0000000000a1'

test('samples are of every block from the first to the last, both included', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  await db
    .insertInto('accounts')
    .values({ account_id: ALICE_ID, user_id: 'DEV-a', address: fromHex(ALICE) })
    .execute()
  const sampled = async (random: (below: number) => number, from: number, to: number) => {
    const blocks: number[] = []
    for await (const { block } of sampledAccounts(db, { count: 2, random, from, to })) blocks.push(block)
    return blocks
  }
  assert.deepEqual(await sampled((below) => below - 1, 3, 7), [7, 7])
  assert.deepEqual(await sampled(() => 0, 3, 7), [3, 3])
  assert.deepEqual(await sampled((below) => below - 1, 7, 7), [7, 7])
})

suite('sums that cannot be made are counted as unknown', () => {
  type Known = { native: 'traces' | 'off'; areTokensWhole?: boolean; since?: number | null }
  /** Returns the sum of the second of three blocks, each with an incoming token transfer. */
  async function summed({ native, areTokensWhole = true, since = null }: Known) {
    const script = ledgerChain({ genesis: GENESIS, tells: 'traces' })
    const { db, close } = await testDatabase()
    const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 3, NATIVE_HISTORY: native }
    const app = {
      config,
      db,
      telemetry: openTelemetry('test', 'silent'),
      state: openState(),
      clock: systemClock,
    } as App
    await db
      .insertInto('accounts')
      .values({ account_id: ALICE_ID, user_id: 'DEV-a', address: fromHex(ALICE), created_at: new Date(0) })
      .execute()
    const follower = startFollower(app, script.chain, [indexTransfers])
    try {
      const rest = { miner: addressOf(0), withdrawals: [] }
      script.mine({ transactions: [], ...rest })
      for (let count = 0; count < 3; count++)
        script.mine({
          transactions: [
            {
              ...{ from: STRANGERS[0]!, to: CONTRACTS[0]!, created: CONTRACTS[0]!, value: 0n, fails: false },
              ...{ gasUsed: 50_000n, price: 7n, l1Fee: 0n, blobGas: 0n, minted: 0n },
              steps: [
                { op: 'token', token: TOKENS.plain[0]!, way: 'plain', type: 'ERC20', id: 0n, value: 5n, from: null, to: ALICE }, // prettier-ignore
              ],
            },
          ],
          ...rest,
        })
      await atHead(db, 'history_cursors', () => script.blocks.at(-1)!.hash)
      if (!areTokensWhole) await db.deleteFrom('history_marks').execute()
      const differences: bigint[] = []
      const counts = await auditSums(app, script.chain, {
        ...{ targets: everyAccount(db, 2), rpc: script.chain.rpc, since },
        onDifference: ({ difference }) => void differences.push(difference),
        onProgress: () => {},
      })
      return { ...counts, differences }
    } finally {
      await follower.stop()
      await close()
    }
  }
  const none = { accounts: 1, different: 0, ofTokens: 0, differences: [] }

  test('nothing is, where all is there', async () => {
    assert.deepEqual(await summed({ native: 'traces' }), { ...none, equal: 2, unknown: 0 })
  })

  test('native currency that was not looked at is, beside tokens that add up', async () => {
    assert.deepEqual(await summed({ native: 'off' }), { ...none, equal: 1, unknown: 1 })
  })

  test('tokens of a history that is not whole are', async () => {
    assert.deepEqual(await summed({ native: 'off', areTokensWhole: false }), { ...none, equal: 0, unknown: 2 })
  })

  test('what is counted from behind the block of the balances is, and differs by nothing', async () => {
    assert.deepEqual(await summed({ native: 'traces', since: 3 }), { ...none, equal: 0, unknown: 2 })
  })
})
