import assert from 'node:assert/strict'
import { after, before, beforeEach, suite, test } from 'node:test'
import type { App } from '../app.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { openTelemetry } from '../telemetry.ts'
import { fillPast } from '../../test/fill-past.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { addressOf, scriptedChain, type ScriptedChain } from '../../test/nodes/scripted-chain.ts'
import { systemClock } from '../clock.ts'

const [STRANGER, TOKEN] = [addressOf(0x57), addressOf(0x70)]
const idOf = (number: number) => `00000000-0000-8000-8000-${String(number).padStart(12, '0')}`
const addressFor = (number: number) => addressOf(0xa_0000 + number)

/** Creates a chain in which each block has one transfer to the account with the block's number. */
function chainOfCoins(blocks: number): ScriptedChain {
  const script = scriptedChain()
  for (let number = 1; number <= blocks; number++) {
    const items = [{ id: null, value: BigInt(number) }]
    const coin = { type: 'ERC20' as const, token: TOKEN, from: STRANGER, to: addressFor(number), items }
    script.mine({ from: STRANGER, transfers: [coin] })
  }
  return script
}

suite('the past of a group of accounts', () => {
  let database: TestDatabase
  let db: Db
  let app: Pick<App, 'clock' | 'db' | 'telemetry'>
  before(async () => {
    database = await testDatabase()
    db = database.db
    app = { clock: systemClock, db: database.db, telemetry: openTelemetry('test', 'silent') }
  })
  beforeEach(async () => {
    for (const table of ['accounts', 'cursors', 'history_cursors', 'transfers', 'tokens'] as const)
      await db.deleteFrom(table).execute()
    // Add another network to the same tables.
    await setCursor({ block: 2, finalized: 1, chainId: 5 })
  })
  after(() => database.close())

  const setCursor = async ({
    block,
    finalized,
    chainId = 31337,
  }: {
    block: number
    finalized: number
    chainId?: number
  }) => {
    for (const table of ['cursors', 'history_cursors'] as const)
      await db.deleteFrom(table).where('chain_id', '=', chainId).execute()
    await db
      .insertInto('history_cursors')
      .values({ chain_id: chainId, block_number: block, block_hash: Buffer.alloc(32), epoch: 0, lease_owner: null })
      .execute()
    await db
      .insertInto('cursors')
      .values({
        ...{ chain_id: chainId, block_number: block, block_hash: Buffer.alloc(32), finalized_number: finalized },
        ...{ epoch: 0, lease_owner: null, lease_until: null, halted: null },
      })
      .execute()
  }
  const addAccounts = (numbers: number[], createdAt = new Date('2026-01-01')) =>
    db
      .insertInto('accounts')
      .values(
        numbers.map((number) => ({
          ...{ account_id: idOf(number), user_id: `DEV-${number}`, address: fromHex(addressFor(number)) },
          created_at: createdAt,
        })),
      )
      .execute()
  async function fill(script: ScriptedChain, from = 0) {
    const asked: { from: number; to: number; accounts: number }[] = []
    script.onAsk = (method, params) => {
      if (method !== 'eth_getLogs') return
      const { fromBlock, toBlock, topics } = params[0] as { fromBlock: Hex; toBlock: Hex; topics: Hex[][] }
      if (topics.length === 2) asked.push({ from: Number(fromBlock), to: Number(toBlock), accounts: topics[1]!.length })
    }
    return { ...(await fillPast(app, script.chain, { from })), asked }
  }
  const storedBlocks = async () =>
    (await db.selectFrom('transfers').select('block_number').orderBy('block_number').execute()).map(
      ({ block_number }) => block_number,
    )

  test('before anything is final stores nothing', async () => {
    await addAccounts([1])
    await setCursor({ block: 3, finalized: -1 })
    assert.deepEqual((await fill(chainOfCoins(3))).nextBlock, 0)
    assert.deepEqual(await storedBlocks(), [])
  })

  test('asks for twice as many blocks each time while all goes well, and never for more than ten thousand', async () => {
    const script = chainOfCoins(1)
    await setCursor({ block: 39_999, finalized: 39_999 })
    await addAccounts([1])
    const asked: number[] = []
    const rpc = {
      ...script.chain.rpc,
      batch: async (calls: { method: string; params: unknown[] }[]) =>
        calls.map(({ method, params }) => {
          if (method !== 'eth_getLogs') return { ...(script.respond(method, ['0x0', false]) as object), number: params[0] } // prettier-ignore
          const { fromBlock, toBlock } = params[0] as { fromBlock: Hex; toBlock: Hex }
          asked.push(Number(toBlock) - Number(fromBlock) + 1)
          return []
        }),
    }
    assert.equal((await fillPast(app, { ...script.chain, rpc })).nextBlock, 40_000)
    // Each range needs three filters.
    assert.deepEqual(asked.filter((_, index) => index % 3 === 0), [1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 5_000]) // prettier-ignore
  })

  test('reads a single block that is left', async () => {
    const script = chainOfCoins(8)
    await setCursor({ block: 8, finalized: 8 })
    await addAccounts([8])
    const { nextBlock, asked } = await fill(script, 8)
    assert.deepEqual([nextBlock, asked, await storedBlocks()], [9, [{ from: 8, to: 8, accounts: 1 }], [8]])
  })

  test('reads no further than the follower, wherever finality is', async () => {
    const script = chainOfCoins(8)
    await addAccounts([1, 2, 3, 4, 5, 6, 7, 8])
    await setCursor({ block: 5, finalized: 7 })
    const { nextBlock, target } = await fill(script)
    assert.deepEqual([nextBlock, target], [6, 5])
    assert.deepEqual(await storedBlocks(), [1, 2, 3, 4, 5])
  })

  test('stores nothing of a block that stopped being final while it was read, and asks again', async () => {
    const script = chainOfCoins(8)
    await setCursor({ block: 8, finalized: 8 })
    await addAccounts([1, 2, 3, 4, 5, 6, 7, 8])
    const running = fill(script)
    const { onAsk } = script
    let hasFallen = false
    script.onAsk = async (method, params) => {
      await onAsk(method, params)
      if (method !== 'eth_getLogs' || hasFallen) return
      hasFallen = true
      await setCursor({ block: 8, finalized: 5 })
    }
    const { nextBlock, asked } = await running
    assert.deepEqual(
      asked.map(({ from, to }) => [from, to]),
      [
        [0, 8],
        [0, 5],
      ],
    )
    assert.deepEqual([nextBlock, await storedBlocks()], [6, [1, 2, 3, 4, 5]])
  })

  test('asks half of what was too much, and twice as much again after each answer', async () => {
    const script = chainOfCoins(40)
    await setCursor({ block: 40, finalized: 40 })
    await addAccounts(Array.from({ length: 40 }, (_, index) => index + 1))
    script.faults.mostBlocks = 6
    const { asked } = await fill(script)
    assert.deepEqual(
      asked.slice(0, 7).map(({ from, to }) => [from, to]),
      [
        [0, 40],
        [0, 19],
        [0, 9],
        [0, 4],
        [5, 14],
        [5, 9],
        [10, 19],
      ],
    )
    assert.deepEqual((await storedBlocks()).length, 40)
  })
})
