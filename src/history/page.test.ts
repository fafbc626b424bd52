import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { packCalls, type OperationCall } from '../gas/operation.ts'
import { wordDigits, type Hex } from '../ids.ts'
import { openState } from '../state.ts'
import { fromHex, toHex } from '../hex.ts'
import { toWord } from '../store/bytes.ts'
import { openTelemetry } from '../telemetry.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { lookedAt } from '../../test/looked-at.ts'
import { addressOf } from '../../test/nodes/scripted-chain.ts'
import { knownTokens } from '../tokens/suspicion.ts'
import { selectUsed } from '../tokens/used.ts'
import { insertTransfers } from './columns.ts'
import { selectPage } from './page.ts'
import { readParameters, type HistoryPosition } from './query.ts'
import type { TransferRow } from './rows.ts'
import { judgeTransfers, type PlacedTransfer } from './spam-facts.ts'

const CHAIN_ID = 31337
const chain: Pick<Chain, 'chainId' | 'symbol' | 'coin' | 'state'> = { chainId: CHAIN_ID, symbol: 'ETH', coin: 'Ether', state: openState() } // prettier-ignore
const ME = addressOf(0xa1)
const FRIEND: Hex = '0xabc4567890123456789012345678901234567def'
const [USDC, CLAIMS, HONEST] = [addressOf(0x70), addressOf(0x71), addressOf(0x72)]
const LAST_BLOCK = 100_000
const ORDINARY = { tokenId: null, blockHash: `0x${'22'.repeat(32)}`, logIndex: 0, batchIndex: 0, omitted: 0 } as const

/** of the user's earlier actions */
const IN_A_BLOCK = { state: 'FINALIZED' as const, block_number: 1, block_hash: Buffer.alloc(32, 1) }

let accounts = 0
const newAccount = () => `00000000-0000-8000-8000-${String(++accounts).padStart(12, '0')}`

type Given = Partial<TransferRow> & { blockNumber: number }
const rowOf = (accountId: string, given: Given): TransferRow => ({
  ...{ accountId, direction: 0, tokenType: 20, token: USDC, isSpam: false, ...ORDINARY },
  ...{ sender: addressOf(0x57), recipient: ME, value: `0x${wordDigits(5_000_000n)}` },
  hash: `0x${wordDigits(BigInt(given.blockNumber))}`,
  minedAt: 1_767_225_600 + given.blockNumber * 12,
  ...given,
})
const paid = (accountId: string, blockNumber: number, other = FRIEND) =>
  rowOf(accountId, { blockNumber, direction: 1, sender: ME, recipient: other })
const claimed = (accountId: string, blockNumber: number) => ({ ...paid(accountId, blockNumber), token: HONEST })
const cameIn = (accountId: string, blockNumber: number) => rowOf(accountId, { blockNumber, token: HONEST })

suite('a page of a history without spam', () => {
  let database: TestDatabase
  let app: Pick<App, 'db' | 'knownTokens' | 'telemetry'>
  before(async () => {
    database = await testDatabase()
    const listed = new Map([[`${CHAIN_ID}:${USDC}`, { symbol: 'USDC', name: 'USD Coin' }]])
    app = { db: database.db, knownTokens: listed, telemetry: openTelemetry('test', 'silent') }
    const token = (address: Hex, symbol: string, name: string) => ({
      ...{ chain_id: CHAIN_ID, address: fromHex(address), symbol, name, decimals: 6 },
      ...{ state: 'KNOWN' as const, attempts: 1, retry_at: null },
    })
    await app.db
      .insertInto('tokens')
      .values([
        token(USDC, 'USDC', 'USD Coin'),
        token(CLAIMS, 'X', 'claim at x-drop.com'),
        token(HONEST, 'H', 'Honest'),
      ])
      .execute()
  })
  after(() => database.close())

  const store = (rows: TransferRow[]) => insertTransfers(app.db, chain as Chain, rows)
  type Asked = { limit?: number; after?: HistoryPosition | null; isCovered?: boolean; includeSpam?: string }
  const page = (accountId: string, { limit = 50, after: place = null, isCovered = true, ...parameters }: Asked = {}) =>
    selectPage(app, chain as Chain, {
      ...{ accountId, after: place, limit, isCovered, bounds: { indexedTo: LAST_BLOCK, finalizedTo: 0 } },
      filters: readParameters(parameters).filters,
    })
  const blocks = async (...asked: Parameters<typeof page>) => (await page(...asked)).shown.map(({ row }) => row.block_number) // prettier-ignore
  let nonce = 0
  async function write(accountId: string, target: Hex, hash: Hex | null) {
    const id = `tx_${nonce}`
    const terms = { gas_limit: 1, max_fee: toWord(1n), max_priority_fee: null }
    await app.db
      .insertInto('transactions')
      .values({
        ...{ id, account_id: accountId, client_id: 'demo', chain_id: CHAIN_ID, sender: fromHex(ME), nonce: nonce++ },
        ...{ target: fromHex(target), value: toWord(0n), data: Buffer.alloc(0), ...terms, abi: '', ...IN_A_BLOCK },
        transitions: '[]',
      })
      .execute()
    if (hash !== null)
      await app.db
        .insertInto('attempts')
        .values({ chain_id: CHAIN_ID, hash: fromHex(hash), transaction_id: id, raw: Buffer.alloc(1), ...terms })
        .execute()
  }

  async function sign(accountId: string, calls: OperationCall[]) {
    await app.db
      .insertInto('operations')
      .values({
        ...{ id: `op_${nonce}`, account_id: accountId, client_id: 'demo', chain_id: CHAIN_ID, sender: fromHex(ME) },
        ...{ space: Buffer.alloc(20), sequence: nonce++, calls: packCalls(calls), gas_limit: 1, deadline: 1, abi: '' },
        ...{ ...IN_A_BLOCK, charged: '0', hour: new Date(0), transitions: '[]' },
      })
      .execute()
  }

  test('a verdict follows the facts, whatever came first, and goes when they go: as if the chain was indexed from nothing', async () => {
    const [one, other] = [newAccount(), newAccount()]
    await store([claimed(one, 5)])
    assert.deepEqual(await blocks(one), [])
    await store([cameIn(one, 3)])
    await store([cameIn(other, 3)])
    await store([claimed(other, 5)])
    assert.deepEqual(
      [await blocks(one), await blocks(other)],
      [
        [5, 3],
        [5, 3],
      ],
    )
    await app.db.deleteFrom('transfers').where('account_id', '=', one).where('block_number', '=', 3).execute()
    assert.deepEqual(await blocks(one), [])
  })

  test('a verdict follows the words of a token: it comes when the token takes another name, and goes with that name', async () => {
    const one = newAccount()
    const token = addressOf(0x73)
    const named = async (symbol: string, name: string) => {
      const words = { symbol, name, state: 'KNOWN' as const, attempts: 1, retry_at: null, decimals: 6 }
      await app.db
        .insertInto('tokens')
        .values({ chain_id: CHAIN_ID, address: fromHex(token), ...words })
        .onConflict((on) => on.columns(['chain_id', 'address']).doUpdateSet(words))
        .execute()
      return blocks(one)
    }
    await store([rowOf(one, { blockNumber: 5, token })])
    assert.deepEqual(await named('ABC', 'Abc'), [5])
    assert.deepEqual(await named('USDC', 'USD Coin'), [])
    assert.deepEqual(await named('ABC', 'visit abc-drop.com to claim'), [])
    assert.deepEqual(await named('ABC', 'Abc'), [5])
  })

  test('what left by a transaction of the person’s own, or by an approval, is shown, and what a token only claims is not', async () => {
    const one = newAccount()
    const left = (blockNumber: number, token: Hex) => ({ ...paid(one, blockNumber, addressOf(0x99)), token })
    const [swapped, claimed] = [left(10, HONEST), left(11, CLAIMS)]
    await store([swapped, claimed])
    assert.deepEqual(await blocks(one), [])
    assert.deepEqual(await blocks(one, { isCovered: false }), [10])
    await write(one, addressOf(0x70075), swapped.hash)
    assert.deepEqual(await blocks(one), [10])
    await write(one, CLAIMS, null)
    assert.deepEqual(await blocks(one), [11, 10])
  })

  test('what the person signed for a sponsor to send is a call of their own', async () => {
    const one = newAccount()
    await app.db
      .insertInto('accounts')
      .values({ account_id: one, user_id: `DEV-${one}`, address: fromHex(addressOf(0xe000 + accounts)) })
      .execute()
    await store([rowOf(one, { blockNumber: 5, token: CLAIMS })])
    assert.deepEqual(await blocks(one), [])
    await sign(one, [
      { to: fromHex(CLAIMS), value: 0n, data: Buffer.from('095ea7b3', 'hex') },
      { to: fromHex(FRIEND), value: 7n, data: Buffer.alloc(0) },
    ])
    assert.deepEqual(await blocks(one), [5])
  })

  for (const table of ['transactions', 'operations'] as const)
    test(`of ${table} only what was done, or is on its way, uses a token`, async () => {
      const one = newAccount()
      await app.db
        .insertInto('accounts')
        .values({ account_id: one, user_id: `DEV-${one}`, address: fromHex(addressOf(0xe000 + accounts)) })
        .execute()
      const used = async () => (await selectUsed(app.db, { accountId: one, chainId: CHAIN_ID }, [CLAIMS])).has(CLAIMS)
      await (table === 'transactions'
        ? write(one, CLAIMS, null)
        : sign(one, [{ to: fromHex(CLAIMS), value: 0n, data: Buffer.alloc(0) }]))
      for (const [state, isUsed] of [
        ['SUBMITTED', true],
        ['MINED', true],
        ['FINALIZED', true],
        ['REVERTED', false],
        ['CANCELLED', false],
        ['REPLACED', false],
        ['FAILED', false],
        ['VACANT', false],
        ['BOUND', false],
      ] as const) {
        await app.db.updateTable(table).set({ state }).where('account_id', '=', one).execute()
        assert.equal(await used(), isUsed, state)
      }
    })

  test('what came in before may leave, what came in afterwards proves nothing', async () => {
    const one = newAccount()
    await store([
      { ...paid(one, 10, addressOf(0x99)), token: HONEST },
      rowOf(one, { blockNumber: 20, token: HONEST }),
      { ...paid(one, 30, addressOf(0x99)), token: HONEST },
    ])
    assert.deepEqual(await blocks(one), [30, 20])
  })

  for (const moved of ['exported_at', 'imported_at'] as const)
    test(`of a key that was ${moved.slice(0, -3)} no claim is judged: its approvals may be elsewhere`, async () => {
      const one = newAccount()
      await app.db
        .insertInto('accounts')
        .values({ account_id: one, user_id: `DEV-${one}`, address: fromHex(addressOf(0xe000 + accounts)) })
        .execute()
      await store([{ ...paid(one, 10, addressOf(0x99)), token: HONEST }])
      assert.deepEqual(await blocks(one), [])
      await app.db
        .updateTable('accounts')
        .set({ [moved]: new Date() })
        .where('account_id', '=', one)
        .execute()
      assert.deepEqual(await blocks(one), [10])
    })

  test('pages are filled behind spam, follow each other without a gap, and end where they end', async () => {
    const one = newAccount()
    const mostlySpam = Array.from({ length: 300 }, (_, index) => rowOf(one, { blockNumber: index + 1, token: index % 7 === 0 ? USDC : CLAIMS })) // prettier-ignore
    await store(mostlySpam)
    const expected = mostlySpam.filter(({ token }) => token === USDC).map(({ blockNumber }) => blockNumber).toReversed() // prettier-ignore
    const seen: number[] = []
    let place: HistoryPosition | null = null
    for (let count = 0; count === 0 || place !== null; count++) {
      const { shown, next }: Awaited<ReturnType<typeof page>> = await page(one, { limit: 10, after: place })
      assert.ok(next === null || shown.length === 10, 'a page in the middle is full')
      seen.push(...shown.map(({ row }) => row.block_number))
      place = next
    }
    assert.deepEqual(seen, expected)
  })

  test('a page that is just full is the last one where nothing stands behind it, or nothing but spam', async () => {
    const [short, spammed] = [newAccount(), newAccount()]
    await store([1, 2].map((blockNumber) => rowOf(short, { blockNumber })))
    const spam = [1, 2, 3].map((blockNumber) => rowOf(spammed, { blockNumber, token: CLAIMS }))
    await store([...spam, ...[4, 5].map((blockNumber) => rowOf(spammed, { blockNumber }))])
    for (const one of [short, spammed]) {
      const { shown, next } = await page(one, { limit: 2 })
      assert.deepEqual([shown.length, next], [2, null])
    }
  })

  test('a cursor stays good when the verdict about its row changes', async () => {
    const one = newAccount()
    await store([paid(one, 1), ...[10, 11, 12, 13].map((block) => rowOf(one, { blockNumber: block, token: CLAIMS }))])
    const all = await page(one, { includeSpam: 'true', limit: 2 })
    assert.deepEqual(all.shown.map(({ row }) => row.block_number), [13, 12]) // prettier-ignore
    assert.deepEqual(await blocks(one, { after: all.next }), [1])
    await write(one, CLAIMS, null)
    assert.deepEqual(await blocks(one, { after: all.next }), [11, 10, 1])
  })

  test('where there is nothing but spam a page is short and leads on, and its cost is bounded', async () => {
    const one = newAccount()
    const spam = Array.from({ length: 4_000 }, (_, index) => rowOf(one, { blockNumber: index + 10, token: CLAIMS, sender: addressOf(0xbad_0000 + index) })) // prettier-ignore
    await store([rowOf(one, { blockNumber: 1 }), ...spam])
    await sql`analyze transfers`.execute(app.db)
    let place: HistoryPosition | null = null
    const shown: number[] = []
    let pages = 0
    do {
      const found: Awaited<ReturnType<typeof page>> = await page(one, { after: place })
      shown.push(...found.shown.map(({ row }) => row.block_number))
      place = found.next
      pages++
    } while (place !== null)
    assert.deepEqual([shown, pages], [[1], 5])
  })

  for (const hasStatistics of [true, false])
    test(`judging a page costs what stands on it, not what the account has, ${hasStatistics ? 'with' : 'without'} statistics`, async () => {
      const one = newAccount()
      // Far more rows of one counterparty and token than a page has.
      const rows = Array.from({ length: 6_000 }, (_, index) => {
        const token = index % 2 === 0 ? CLAIMS : HONEST
        const sender = index % 3 === 0 ? FRIEND : addressOf(0xbad_0000 + (index % 500))
        return rowOf(one, {
          blockNumber: index + 10,
          token,
          sender,
          direction: index % 5 === 0 ? 1 : 0,
          recipient: sender,
        })
      })
      await store([...rows, paid(one, 1)])
      for (let index = 0; index < 300; index++) await write(one, addressOf(0x1_0000 + index), null)
      if (hasStatistics) await sql`analyze`.execute(app.db)
      const { shown } = await page(one, { limit: 50, includeSpam: 'true' })
      assert.equal(shown.length, 50)
      const transfers = shown.map(({ row }): PlacedTransfer => ({
        ...{
          token: toHex(row.token),
          tokenType: 'ERC20',
          symbol: '',
          name: '',
          value: 5n,
          isZero: false,
          form: 20,
        },
        ...{ hash: toHex(row.hash), blockNumber: row.block_number, logIndex: row.log_index },
        direction: row.direction === 0 ? 'IN' : 'OUT',
      }))
      const known = knownTokens(new Map(), { symbol: 'ETH', name: 'Ether' })
      const facts = await lookedAt(app.db, (db) =>
        judgeTransfers(db, { accountId: one, chainId: CHAIN_ID, known, isCovered: true }, transfers),
      )
      // Reading the whole account would need 6,000 more.
      assert.ok(facts > 0 && facts < 500, `${facts} looks for the facts`)
    })
})
