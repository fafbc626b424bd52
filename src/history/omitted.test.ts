// tier: all, because it writes a block of a hundred thousand transfers
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { TRANSFER_BATCH_TOPIC } from '../abi/transfers.ts'
import type { App } from '../app.ts'
import type { Leading, Trailing } from '../follower/block.ts'
import { startFollower } from '../follower/follow.ts'
import type { Caller } from '../http/bearer.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import { fillPast } from '../../test/fill-past.ts'
import { followerStage } from '../../test/follower-stage.ts'
import { addressOf, scriptedChain, type ScriptedChain, type ScriptedTransfer } from '../../test/nodes/scripted-chain.ts'
import { audit } from './audit.ts'
import { indexTransfers } from './index-transfers.ts'
import { readHistory } from './read.ts'

const ALICE = addressOf(0xa1)
const ACCOUNT = '00000000-0000-8000-8000-0000000000a1'
const STRANGER = addressOf(0x57)
const [ITEMS, COINS] = [addressOf(0x71), addressOf(0x70)]

const batch = (count: number, from = STRANGER, to = ALICE): ScriptedTransfer => ({
  ...{ type: 'ERC1155', token: ITEMS, from, to },
  items: Array.from({ length: count }, (_, index) => ({ id: BigInt(index), value: 1n })),
})
const coin = (from: Hex, to: Hex, value = 1n): ScriptedTransfer => ({
  ...{ type: 'ERC20', token: COINS, from, to },
  items: [{ id: null, value }],
})

suite('more transfers of a token in a block than anybody reads', () => {
  const { app, followed, settled } = followerStage(['accounts', 'blocks', 'cursors', 'transfers', 'tokens'])

  const addAccount = () =>
    app.db.insertInto('accounts').values({ account_id: ACCOUNT, user_id: 'DEV-alice', address: fromHex(ALICE) }).execute() // prettier-ignore
  const follow = (script: ScriptedChain) => followed(script, { ...indexTransfers, afterCommit: () => {} })
  const stored = () =>
    app.db
      .selectFrom('transfers')
      .select(['block_number', 'log_index', 'batch_index', 'direction', 'token', 'is_spam', 'omitted'])
      .orderBy('block_number')
      .orderBy('log_index')
      .orderBy('batch_index')
      .orderBy('direction')
      .execute()

  /** Creates two blocks: block 1 has spam, block 2 is ordinary. */
  function spammed(): ScriptedChain {
    const script = scriptedChain({ isDevelopment: true, finality: 0 })
    const nothings = Array.from({ length: 1_003 }, () => coin(STRANGER, ALICE, 0n))
    script.mine(
      { from: STRANGER, transfers: [batch(400), coin(STRANGER, ALICE), ...nothings, batch(1_500)] },
      {
        from: STRANGER,
        transfers: [batch(7), coin(STRANGER, ALICE), coin(ALICE, STRANGER), batch(2, ALICE, STRANGER)],
      },
    )
    script.mine({ from: STRANGER, transfers: [batch(1_000), coin(ALICE, STRANGER)] })
    return script
  }

  test('230 batches of 1,000 make 1,000 rows, and what the block made of transactions is stored before it is looked at', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 0 })
    await addAccount()
    const events: string[] = []
    const transactions: Leading = {
      onBlock: async () => {},
      onRetract: async () => {},
      onFinalize: async () => {},
      afterCommit: () => void events.push('transactions'),
    }
    const transfers: Trailing = {
      ...indexTransfers,
      onBlocks: async (db, ...rest) => {
        events.push('transfers')
        const { block_number } = await db.selectFrom('cursors').select('block_number').executeTakeFirstOrThrow()
        assert.ok(rest[2].every(({ number }) => number <= block_number))
        await indexTransfers.onBlocks(db, ...rest)
      },
      afterCommit: () => {},
    }
    const follower = startFollower(app, script.chain, [transactions, transfers])
    await settled(script)
    events.length = 0
    script.mine({ from: STRANGER, transfers: Array.from({ length: 230 }, () => batch(1_000)) })
    await settled(script)
    await follower.stop()
    assert.deepEqual(events, ['transactions', 'transfers'])
    const rows = await stored()
    assert.deepEqual([rows.length, rows.at(-1)!.omitted], [1_000, 230_000 - 1_000])
  })

  test('of a kind 1,000 have rows, and the last of them says how many have none', async () => {
    const script = spammed()
    await addAccount()
    await follow(script)
    const rows = await stored()
    const of = (block: number, token: Hex, direction: number, isSpam = false) =>
      rows.filter((row) => row.block_number === block && toHex(row.token) === token && row.direction === direction && row.is_spam === isSpam) // prettier-ignore
    const items = of(1, ITEMS, 0)
    assert.equal(items.length, 1_000)
    assert.deepEqual([items[399]!.log_index, items[400]!.log_index, items[999]!.batch_index], [0, 1_005, 599])
    assert.deepEqual(
      [items[999]!.omitted, items.filter(({ omitted }) => omitted > 0).length],
      [400 + 1_500 + 7 - 1_000, 1],
    )
    const nothings = of(1, COINS, 0, true)
    assert.deepEqual([nothings.length, nothings[999]!.omitted], [1_000, 3])
    // Outgoing transfers, and transfers that move something, are not displaced by these.
    assert.deepEqual([of(1, COINS, 0).length, of(1, COINS, 1).length, of(1, ITEMS, 1).length], [2, 1, 2])
    assert.equal(of(2, ITEMS, 0).length, 1_000)
    assert.ok(rows.filter((row) => row.block_number === 2).every(({ omitted }) => omitted === 0))
  })

  test('the entry says it on the wire, and no other entry has the field', async () => {
    const script = spammed()
    await addAccount()
    await follow(script)
    const reader = {
      ...{ userId: 'DEV-alice', accountId: ACCOUNT, address: ALICE, clientId: 'demo', chainId: 31337 },
      ...{ scopes: new Set(['wallet:read']), grantId: 'g', tokenId: 't', expiresAt: 2 ** 40, token: 'x' },
    } as Caller
    const served = { ...app, chains: new Map([[31337, script.chain]]) } as App
    const seen: { blockNumber: number; omitted?: number }[] = []
    let cursor: string | null = null
    do {
      const page = await readHistory(served, reader, 'DEV-alice', { limit: '200', ...(cursor === null ? {} : { cursor }) }) // prettier-ignore
      seen.push(...page.entries)
      cursor = page.nextCursor
    } while (cursor !== null)
    assert.equal(seen.length, 1_000 + 2 + 1 + 2 + 1_000 + 1)
    const told = seen.filter((entry) => 'omitted' in entry)
    assert.deepEqual(
      told.map(({ blockNumber, omitted }) => [blockNumber, omitted]),
      [[1, 907]],
    )
  })

  test('a backfill leaves out the same, the audit agrees, and what a reorganisation takes back is gone', async () => {
    const script = spammed()
    await addAccount()
    await follow(script)
    const followed = await stored()
    await app.db.deleteFrom('transfers').execute()
    await fillPast(app, script.chain)
    assert.deepEqual(await stored(), followed)
    const compare = (repairs: boolean) =>
      audit(app, script.chain, {
        ...{ from: 0, to: 2, rpc: script.chain.rpc, repairs, onDifference: () => {}, onProgress: () => {} },
      })
    assert.equal((await compare(false)).differences, 0)
    await app.db.updateTable('transfers').set({ omitted: 1 }).where('omitted', '=', 907).execute()
    assert.equal((await compare(true)).differences, 1)
    assert.deepEqual(await stored(), followed)
    script.lose(2)
    script.mine({ from: STRANGER, transfers: [batch(3)] })
    await follow(script)
    assert.deepEqual(
      (await stored()).map(({ omitted }) => omitted),
      [0, 0, 0],
    )
  })

  test('how many have none is exact on another branch, and where blocks are read again over rows that are there', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: 0 })
    const words = (...values: bigint[]): Hex =>
      `0x${values.map((value) => value.toString(16).padStart(64, '0')).join('')}`
    // The token's ids are also its amounts: it was paid for once, and its pieces do not count.
    const overlapping = {
      address: ITEMS,
      topics: [TRANSFER_BATCH_TOPIC, ...[STRANGER, STRANGER, ALICE].map((address) => words(BigInt(address)))],
      data: words(64n, 64n, 1_000n, ...Array.from({ length: 1_000 }, () => 1n)),
    }
    const overlaps = { from: STRANGER, transfers: [], logs: [overlapping, overlapping] }
    script.mine()
    await addAccount()
    const told = async () => {
      await follow(script)
      const rows = await stored()
      return [rows.length, rows.filter(({ omitted }) => omitted > 0).map(({ omitted }) => omitted)]
    }
    script.mine(overlaps)
    assert.deepEqual(await told(), [0, []])
    script.lose(1)
    script.mine({ from: STRANGER, transfers: [batch(1_500), batch(400)] }, overlaps)
    assert.deepEqual(await told(), [1_000, [900]])
    script.lose(1)
    script.mine(overlaps, { from: STRANGER, transfers: [batch(7), batch(1_200), batch(1)] })
    assert.deepEqual(await told(), [1_000, [208]])
    const before = await stored()
    const again = async () => {
      const { number, hash } = script.blocks[1]!
      await app.db
        .updateTable('history_cursors')
        .set({ block_number: number, block_hash: fromHex(hash) })
        .execute()
    }
    await again()
    assert.deepEqual(await told(), [1_000, [208]])
    // This also holds if some rows were lost, including the one with the count.
    await app.db.deleteFrom('transfers').where('batch_index', '>', 900).execute()
    await again()
    assert.deepEqual(await told(), [1_000, [208]])
    assert.deepEqual(await stored(), before)
  })
})
