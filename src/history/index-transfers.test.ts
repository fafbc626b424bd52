import assert from 'node:assert/strict'
import { before, suite, test } from 'node:test'
import { sql } from 'kysely'
import { noteUser } from '../applications/registry.ts'
import { eventId } from '../events/describe.ts'
import { sequence } from '../events/sequence.ts'
import { startFollower } from '../follower/follow.ts'
import type { Hex } from '../ids.ts'
import { fromHex, toHex } from '../hex.ts'
import { fromWord, toWord } from '../store/bytes.ts'
import {
  addressOf,
  logOf,
  scriptedChain,
  type ScriptedBlock,
  type ScriptedChain,
  type ScriptedTransfer,
} from '../../test/nodes/scripted-chain.ts'
import { followerStage } from '../../test/follower-stage.ts'
import { expectedTransfers, storedTransfers } from '../../test/expected-transfers.ts'
import { randomOf } from '../../test/random.ts'
import { indexTransfers } from './index-transfers.ts'
import { nameOf } from './page.ts'
import { DIRECTION } from './rows.ts'

/** HISTORY_SEEDS=200 is the long form. */
const SEEDS = Number(process.env.HISTORY_SEEDS ?? 5)

const ALICE = addressOf(0xa1)
const BOB = addressOf(0xb0b)
const STRANGER = addressOf(0x57)
const TOKEN = addressOf(0x70)
const ITEMS = addressOf(0x71)
const ACCOUNTS: Record<Hex, string> = {
  [ALICE]: '00000000-0000-8000-8000-0000000000a1',
  [BOB]: '00000000-0000-8000-8000-000000000b0b',
}

const coins = (from: Hex, to: Hex, value: bigint, token = TOKEN): ScriptedTransfer => ({
  type: 'ERC20',
  token,
  from,
  to,
  items: [{ id: null, value }],
})
const batch = (from: Hex, to: Hex, ...items: [id: bigint, value: bigint][]): ScriptedTransfer => ({
  type: 'ERC1155',
  token: ITEMS,
  from,
  to,
  items: items.map(([id, value]) => ({ id, value })),
})
const piece = (from: Hex, to: Hex, id: bigint): ScriptedTransfer => ({
  type: 'ERC721',
  token: addressOf(0x72),
  from,
  to,
  items: [{ id, value: 1n }],
})

suite('the index of transfers', () => {
  const { app, settled, following } = followerStage([
    'blocks',
    'cursors',
    'transfers',
    'tokens',
    'attempts',
    'transactions',
    'facts',
    'events',
    'feeds',
    'final_transfers',
    'retracted_blocks',
  ])
  before(async () => {
    await sql`insert into applications (client_id, name, chain_id, kind, redirect_uris, permissions, allowed_origins, secret_hashes)
      values ('shop', 'Shop', 31337, 'public', '[]', '["events:read"]', '[]', '[]')`.execute(app.db)
    for (const [address, account_id] of Object.entries(ACCOUNTS)) {
      await app.db
        .insertInto('accounts')
        .values({ account_id, user_id: `DEV-${account_id}`, address: fromHex(address as Hex) })
        .execute()
      await noteUser(app.db, { clientId: 'shop', accountId: account_id })
    }
    await app.db.deleteFrom('facts').execute()
  })

  const index = (script: ScriptedChain, work: () => Promise<void> = async () => {}) =>
    following(script, indexTransfers, async () => {
      await work()
      await settled(script)
    })
  const storedRows = () => storedTransfers(app.db)
  /** Reads the whole feed, and returns the transfers that it leaves: those detected and not retracted. */
  async function toldTransfers(): Promise<string[]> {
    while ((await sequence(app.db)) > 0);
    const left = new Map<unknown, string>()
    const events = await app.db.selectFrom('events').selectAll().orderBy('seq').execute()
    for (const { id, type, account_id, data } of events) {
      const what = [account_id, data.id, data.blockHash, data.direction].join(' ')
      if (type === 'transfer.detected') {
        assert.ok(!left.has(eventId(id)), 'no transfer is detected twice under one id')
        left.set(eventId(id), what)
      } else if (type === 'transfer.retracted') {
        assert.equal(left.get(data.retracts), what)
        left.delete(data.retracts)
      } else assert.ok([...left.values()].includes(what), 'what is final was detected')
    }
    return [...left.values()].toSorted()
  }
  const shownTransfers = async () =>
    (await app.db.selectFrom('transfers').selectAll().where('is_spam', '=', false).execute())
      .map((row) =>
        [
          ...[row.account_id, `${toHex(row.hash)}:${row.log_index}:${row.batch_index}`, toHex(row.block_hash)],
          nameOf(DIRECTION, row.direction),
        ].join(' '),
      )
      .toSorted()
  const expectedRows = (blocks: ScriptedBlock[]) => expectedTransfers(blocks, ACCOUNTS)

  test('keeps each kind of transfer that touches an account, once for each side of ours', async () => {
    const script = scriptedChain({ isDevelopment: true })
    script.mine(
      { from: ALICE, transfers: [coins(ALICE, STRANGER, 7n), coins(STRANGER, STRANGER, 8n), coins(ALICE, BOB, 9n)] },
      { from: ALICE, transfers: [coins(ALICE, ALICE, 1n), piece(STRANGER, BOB, 2n ** 255n)] },
      {
        from: STRANGER,
        transfers: [batch(BOB, ALICE, [1n, 5n], [1n, 5n], [2n, 2n ** 256n - 1n]), batch(STRANGER, BOB, [9n, 1n])],
      },
      { from: STRANGER, transfers: [coins(STRANGER, ALICE, 100n)], reverted: true },
    )
    await index(script)
    const rows = await storedRows()
    assert.deepEqual(rows, expectedRows(script.blocks))
    assert.equal(rows.length, 1 + 2 + 1 + 1 + 6 + 1)
  })

  test('hostile logs are left out and the honest ones beside them are kept', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const honest = logOf(coins(STRANGER, ALICE, 5n))
    const forged = logOf(batch(STRANGER, ALICE, [1n, 1n], [2n, 2n]))
    const dirty = `0x${'ff'.repeat(12)}${ALICE.slice(2)}` as Hex
    const logs = [
      { ...honest, topics: [] },
      { ...honest, topics: honest.topics.slice(0, 1) },
      { ...honest, topics: honest.topics.slice(0, 2) },
      { ...honest, data: '0x' as Hex },
      { ...honest, data: `${honest.data}00` as Hex },
      { ...honest, topics: [honest.topics[0]!, honest.topics[1]!, dirty] },
      { ...honest, address: `0x${'ff'.repeat(19)}fe` as Hex },
      { ...forged, data: forged.data.slice(0, -64) as Hex },
      { ...forged, data: forged.data.replace(/2(?=0{0})/, '2') as Hex, topics: forged.topics.slice(0, 3) },
      { ...forged, data: `0x${'ff'.repeat(64)}` as Hex },
      { ...forged, data: `0x${'ff'.repeat(100_000)}` as Hex },
      honest,
    ]
    script.mine({ from: STRANGER, transfers: [], logs })
    await index(script)
    const rows = await app.db.selectFrom('transfers').select(['log_index', 'value']).execute()
    assert.deepEqual(
      rows.map(({ log_index, value }) => [log_index, fromWord(value)]),
      [[logs.length - 1, 5n]],
    )
  })

  test('a block with thousands of our transfers is stored whole', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const items = Array.from({ length: 900 }, (_, id): [bigint, bigint] => [BigInt(id), 1n])
    script.mine({ from: ALICE, transfers: [batch(ALICE, BOB, ...items), batch(BOB, ALICE, ...items)] })
    await index(script)
    assert.deepEqual(await storedRows(), expectedRows(script.blocks))
  })

  test('moving nothing is spam unless the account initiated it, by its own key or through us', async () => {
    const script = scriptedChain({ isDevelopment: true })
    const nothing = coins(ALICE, BOB, 0n)
    const { transactions } = script.mine(
      { from: STRANGER, transfers: [nothing] },
      { from: ALICE, transfers: [nothing] },
      // A sponsor sends the transaction that Alice requested.
      { from: STRANGER, transfers: [nothing] },
      { from: STRANGER, transfers: [coins(STRANGER, ALICE, 1n)] },
    )
    const id = 'tx_1'
    await app.db
      .insertInto('transactions')
      .values({
        ...{ id, account_id: ACCOUNTS[ALICE]!, client_id: 'demo', chain_id: 31337, sender: fromHex(ALICE), nonce: 0 },
        ...{ target: fromHex(TOKEN), value: toWord(0n), data: Buffer.alloc(0), gas_limit: 21_000, max_fee: toWord(1n) },
        ...{ abi: '', state: 'SUBMITTED' },
        transitions: '[]',
      })
      .execute()
    await app.db
      .insertInto('attempts')
      .values({
        chain_id: 31337,
        hash: fromHex(transactions[2]!.hash),
        transaction_id: id,
        raw: Buffer.alloc(1),
        gas_limit: 21_000,
        max_fee: toWord(1n),
        max_priority_fee: null,
      })
      .execute()
    await index(script)
    const rows = await app.db
      .selectFrom('transfers')
      .select(['account_id', 'log_index', 'is_spam'])
      .orderBy('log_index')
      .orderBy('direction', 'desc')
      .execute()
    assert.deepEqual(
      rows.map((row) => [row.account_id === ACCOUNTS[ALICE] ? 'alice' : 'bob', row.log_index, row.is_spam]),
      [['alice', 0, true], ['bob', 0, true], ['alice', 1, false], ['bob', 1, true], ['alice', 2, false], ['bob', 2, true], ['alice', 3, false]], // prettier-ignore
    )
  })

  test('after a reorganisation the tokens that were asked at a lost block are asked again', async () => {
    const script = scriptedChain()
    for (let count = 0; count < 3; count++) script.mine()
    await index(script, async () => {
      await settled(script)
      script.mine({ from: ALICE, transfers: [coins(ALICE, BOB, 1n)] })
      script.mine({ from: ALICE, transfers: [coins(ALICE, BOB, 1n, ITEMS)] })
      await settled(script)
      await app.db.updateTable('tokens').set({ state: 'KNOWN', retry_at: null, asked_block: 4 }).execute()
      await app.db.updateTable('tokens').set({ asked_block: 5 }).where('address', '=', fromHex(ITEMS)).execute()
      script.lose(1)
      script.mine()
      script.mine()
    })
    const tokens = await app.db.selectFrom('tokens').select(['address', 'state']).orderBy('address').execute()
    assert.deepEqual(
      tokens.map(({ address, state }) => [toHex(address), state]),
      [
        [TOKEN, 'KNOWN'],
        [ITEMS, 'NEW'],
      ],
    )
  })

  for (let seed = 1; seed <= SEEDS; seed++) {
    test(`whatever the chain does, the table equals an index from scratch, and so do the events that were not retracted (seed ${seed})`, async () => {
      const random = randomOf(seed)
      const pick = <T>(list: readonly T[]): T => list[random(list.length)]!
      const isDevelopment = seed % 2 === 0
      const script = scriptedChain({ isDevelopment, finality: isDevelopment ? 3 : 14 })
      const somebody = () => pick([ALICE, BOB, STRANGER, addressOf(random(50) + 1)])
      const transfer = (): ScriptedTransfer =>
        pick([
          () => coins(somebody(), somebody(), BigInt(random(3)), pick([TOKEN, ITEMS])),
          () => piece(somebody(), somebody(), BigInt(random(100))),
          () =>
            batch(
              somebody(),
              somebody(),
              ...Array.from({ length: random(4) + 1 }, (): [bigint, bigint] => [BigInt(random(9)), BigInt(random(3))]),
            ),
        ])()
      const mine = () =>
        script.mine(
          ...Array.from({ length: random(3) }, () => ({
            from: somebody(),
            reverted: random(8) === 0,
            transfers: Array.from({ length: random(4) }, transfer),
          })),
        )
      const { faults } = script
      let follower = startFollower(app, script.chain, [indexTransfers])
      try {
        // Follow from block 0: a network other than a development chain starts at its final block.
        await settled(script)
        for (let turn = 0; turn < 60; turn++) {
          pick([
            () => mine(),
            () => mine(),
            () => Array.from({ length: 5 }, mine),
            () => {
              const depth = Math.min(random(10) + 1, script.blocks.length - 1)
              script.lose(depth)
              for (let count = 0; count < depth + random(3); count++) mine()
            },
            () => void (isDevelopment && script.lose(random(Math.min(20, script.blocks.length)))),
            () => void (faults.emptyReceipts = random(3)),
            () => void (faults.nullReceipts = random(3)),
            () => void (faults.partialReceipts = random(3)),
            () => void (faults.nullBlocks = random(3)),
            () => void (faults.isAway = !faults.isAway),
            () => void (faults.lag = isDevelopment ? 0 : random(3)),
            // Once a process has detected this, it requests only single receipts.
            () => void (faults.hasNoBlockReceipts = seed % 3 === 0),
          ])()
          if (random(5) === 0) await sequence(app.db)
          if (random(10) === 0) {
            await follower.stop()
            follower = startFollower(app, script.chain, [indexTransfers])
          }
          // Sometimes the follower keeps up, and sometimes blocks are added while it works.
          if (random(4) === 0 && !faults.isAway && faults.lag === 0) {
            mine()
            await settled(script)
            assert.deepEqual(await storedRows(), expectedRows(script.blocks), `turn ${turn}`)
          } else await new Promise((resolve) => setImmediate(resolve))
        }
        Object.assign(faults, { isAway: false, lag: 0 })
        for (let count = 0; count < 12; count++) mine()
        await settled(script)
      } finally {
        await follower.stop()
      }
      const stored = await storedRows()
      assert.ok(stored.length > 0)
      assert.deepEqual(stored, expectedRows(script.blocks))
      assert.deepEqual(await toldTransfers(), await shownTransfers())
    })
  }
})
