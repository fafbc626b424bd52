import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { RawNode, sql, type KyselyPlugin } from 'kysely'
import type { Hex } from '../ids.ts'
import { toHex } from '../hex.ts'
import type { Db } from '../store/db.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { randomOf } from '../../test/random.ts'
import { addressOf } from '../../test/nodes/scripted-chain.ts'
import { insertTransfers } from './columns.ts'
import { readParameters, type TransferFilters, type HistoryParameters, type HistoryPosition } from './query.ts'
import type { TransferRow } from './rows.ts'
import { selectTransfers, type UnlikeToken } from './select.ts'

const CHAIN = { chainId: 31337 } as Parameters<typeof insertTransfers>[1]
const WHALE = '00000000-0000-8000-8000-0000000000a1'
const ME = addressOf(0xa1)
const [COMMON, RARE, NEVER] = [addressOf(0x70), addressOf(0x71), addressOf(0x72)]
const BLOCKS = 12_000
const FIRST_SECOND = 1_767_225_600
const timeOf = (block: number) => new Date((FIRST_SECOND + block * 12) * 1_000).toISOString()
const ORDINARY = { tokenId: null, hash: `0x${'11'.repeat(32)}`, blockHash: `0x${'22'.repeat(32)}` } as const

const BOUNDS = { indexedTo: BLOCKS, finalizedTo: 9 }
/** A collection with the logs of an ERC-20 token. */
const asCollection = (token: Hex): UnlikeToken => ({ token, isUnlike: true, standards: { isFungible: false, isCollection: true, isWrapper: false } }) // prettier-ignore

type Given = Partial<TransferRow> & { blockNumber: number }
/** A row; by default an incoming ERC-20 transfer. */
const row = (given: Given): TransferRow => ({
  ...{
    accountId: WHALE,
    logIndex: 0,
    batchIndex: 0,
    direction: 0,
    tokenType: 20,
    token: COMMON,
    isSpam: false,
    omitted: 0,
  },
  ...{ sender: COMMON, recipient: ME, value: `0x${'01'.padStart(64, '0')}`, ...ORDINARY },
  minedAt: FIRST_SECOND + given.blockNumber * 12,
  ...given,
})

/** Ten old transfers of each rare kind, then transfers of one token from one address, every fourth with a value. */
const rows = Array.from({ length: BLOCKS }, (_, index): TransferRow[] => {
  const blockNumber = index + 1
  if (blockNumber <= 10) {
    const rare = [
      { tokenType: 721, tokenId: `0x${'07'.padStart(64, '0')}` as Hex, token: addressOf(0x75) },
      { direction: 1, sender: ME, recipient: COMMON },
      { direction: 2, sender: ME, recipient: ME },
      { token: RARE },
      { sender: RARE },
      { tokenType: 1155, tokenId: `0x${'07'.padStart(64, '0')}` as Hex, token: addressOf(0x76) },
    ]
    return rare.map((given, logIndex) => row({ blockNumber, logIndex, ...given }))
  }
  return [row({ blockNumber, isSpam: blockNumber % 4 !== 0 })]
}).flat()
/** Accounts with other rows, so that statistics of the whole table do not fit the first account. */
const others = Array.from({ length: 6_000 }, (_, index) =>
  row({
    accountId: `00000000-0000-8000-8000-${String(index % 50).padStart(12, '0')}`,
    ...{ blockNumber: index + 1, direction: 1, tokenType: 721, token: RARE, recipient: RARE, sender: ME },
  }),
)

// The embedded database does not collect statistics by itself.
for (const hasStatistics of [true, false])
  suite(`a page of a history, ${hasStatistics ? 'with' : 'without'} statistics`, () => {
    let database: TestDatabase
    before(async () => {
      database = await testDatabase()
      await insertTransfers(database.db, CHAIN, [...rows, ...others])
      if (hasStatistics) await sql`analyze transfers`.execute(database.db)
    })
    after(() => database.close())

    const wanted = (
      { limit = '50', ...parameters }: HistoryParameters,
      place: HistoryPosition | null = null,
      { unlike = [], ...bounds }: { unlike?: readonly UnlikeToken[]; indexedTo: number; finalizedTo: number } = BOUNDS,
    ) => ({
      ...{ accountId: WHALE, chainId: 31337, after: place, bounds, unlike },
      ...{ filters: readParameters(parameters).filters, limit: Number(limit) },
    })

    /** Returns the number of rows and index entries that the database read for one page. */
    const looks = (...asked: Parameters<typeof wanted>): Promise<number> =>
      looksAt((db) => selectTransfers(db, wanted(...asked)))
    async function looksAt(query: (db: Db) => Promise<unknown>): Promise<number> {
      let looked = 0
      const explain: KyselyPlugin = {
        transformQuery: ({ node }) => {
          assert.ok(RawNode.is(node))
          const [first, ...rest] = node.sqlFragments
          return { ...node, sqlFragments: [`explain (analyze, format json) ${first}`, ...rest] }
        },
        transformResult: async ({ result }) => {
          const [text] = Object.values(result.rows[0]!)
          looked = looksOf((typeof text === 'string' ? JSON.parse(text) : text)[0].Plan)
          // Omit the row of the query plan.
          return { ...result, rows: [{ account_id: null }] }
        },
      }
      await query(database.db.withPlugin(explain))
      return looked
    }
    type Plan = { 'Actual Loops': number; Plans?: Plan[] } & Record<string, unknown>
    const looksOf = (plan: Plan): number => {
      const seen = ['Actual Rows', 'Rows Removed by Filter', 'Rows Removed by Index Recheck']
        .map((key) => Number(plan[key] ?? 0))
        .reduce((sum, count) => sum + count, 0)
      const isScan = String(plan['Node Type']).includes('Scan')
      return (isScan ? seen * plan['Actual Loops'] : 0) + (plan.Plans ?? []).map(looksOf).reduce((a, b) => a + b, 0)
    }

    const old = { block: 3_000, logIndex: 0, batchIndex: 0 }
    const CASES: [name: string, ...Parameters<typeof wanted>][] = [
    ['nothing asked, where most is spam', {}],
    ['spam included', { includeSpam: 'true' }],
    ['a page far behind', {}, old],
    ['a type that is long ago', { type: 'ERC721' }],
    ['a type that never was, with a token', { type: 'ERC1155', token: COMMON }],
    ['a direction that is long ago', { direction: 'out' }],
    ['the other direction', { direction: 'in' }],
    ['a token that is long ago', { token: RARE }],
    ['a token that never was', { token: NEVER }],
    ['the token of nearly everything, in a direction that it never had', { token: RARE, direction: 'out' }],
    ['a counterparty that is long ago', { counterparty: RARE }],
    ['a counterparty that never was', { counterparty: NEVER }],
    ['the counterparty of nearly everything', { counterparty: COMMON }],
    ['the counterparty of nearly everything, in a direction that is long ago', { counterparty: COMMON, direction: 'out' }],
    ['from a time on that is not yet', { from: timeOf(BLOCKS + 9) }],
    ['from a time on that is long ago', { from: timeOf(5) }],
    ['up to a time that is long ago', { to: timeOf(40), includeSpam: 'true' }],
    ['up to a time before everything', { to: '2001-01-01' }],
    ['within a short time, a page behind', { from: timeOf(2_950), to: timeOf(3_100) }, old],
    ['a time and a type', { to: timeOf(11_000), type: 'ERC721' }],
    ['up to a block that is long ago', { toBlock: '40' }],
    ['from a block on that is not yet', { fromBlock: '99999' }],
    ['what is final, which ended long ago', { finality: 'finalized' }],
    ['collections that log like coins', {}, null, { ...BOUNDS, unlike: [asCollection(RARE), asCollection(NEVER)] }],
    ['a collection that logs like a coin, and is nearly everything', { type: 'ERC721' }, old, { ...BOUNDS, unlike: [asCollection(COMMON)] }],
  ] // prettier-ignore

    for (const [name, ...asked] of CASES) {
      test(`costs what it shows, not what the account has: ${name}`, async () => {
        const count = await looks(...asked)
        assert.ok(count < 1_500, `${count} looks`)
      })
    }

    test('the measure can fail: what no index has costs the whole account', async () => {
      const query = sql`select * from transfers where account_id = ${WHALE} and value = '\\x00' order by block_number desc limit 50`
      assert.ok((await looksAt((db) => query.execute(db))) > BLOCKS)
    })

    test('holds exactly what the filters leave, in order, whatever they are', async () => {
      const random = randomOf(7)
      const pick = <T>(...choices: T[]): T => choices[random(choices.length)]!
      const maybe = <T>(value: T): T | undefined => (random(3) === 0 ? value : undefined)
      for (let count = 0; count < 150; count++) {
        // Choose mostly blocks with the rare kinds.
        const block = () => random(random(2) === 0 ? 30 : BLOCKS)
        const [low, high] = [block(), block()].toSorted((a, b) => a - b) as [number, number]
        const parameters: HistoryParameters = Object.fromEntries(
          Object.entries({
            type: maybe(pick('ERC20', 'ERC721', 'ERC20,ERC1155')),
            direction: maybe(pick('in', 'out')),
            token: maybe(pick(COMMON, RARE, NEVER)),
            counterparty: maybe(pick(COMMON, RARE, ME, NEVER)),
            from: maybe(timeOf(low)),
            to: maybe(timeOf(high)),
            fromBlock: maybe(String(low)),
            toBlock: maybe(String(high)),
            finality: random(6) === 0 ? 'finalized' : undefined,
            includeSpam: maybe('true'),
          }).filter(([, value]) => value !== undefined),
        )
        const place = random(2) === 0 ? { block: block(), logIndex: random(6), batchIndex: 0 } : null
        const unlike = pick([], [], [asCollection(RARE)], [asCollection(RARE), asCollection(COMMON)])
        const asked = wanted(parameters, place, { ...BOUNDS, unlike })
        const { rows: found } = await selectTransfers(database.db, { ...asked, limit: 20 })
        const expected = rows.filter((one) => passes(one, asked)).toSorted((a, b) => compare(b, a)).slice(0, 20) // prettier-ignore
        assert.deepEqual(
          found.map((one) => `${one.block_number} ${one.log_index} ${toHex(one.token)}`),
          expected.map((one) => `${one.blockNumber} ${one.logIndex} ${one.token}`),
          JSON.stringify(parameters),
        )
      }
    })

    const compare = (a: TransferRow, b: TransferRow) => a.blockNumber - b.blockNumber || a.logIndex - b.logIndex
    function passes(one: TransferRow, { filters, after: place, bounds, unlike }: ReturnType<typeof wanted>): boolean {
      const isApart = one.tokenType === 20 && unlike.some((other) => other.token === one.token)
      const type = isApart || one.tokenType === 721 ? 'ERC721' : one.tokenType === 20 ? 'ERC20' : 'ERC1155'
      const { types, direction, token, counterparty, fromTime, toTime, fromBlock, toBlock }: TransferFilters = filters
      const at = one.minedAt * 1_000
      const isBehind = (a: HistoryPosition) =>
        one.blockNumber < a.block || (one.blockNumber === a.block && one.logIndex < a.logIndex)
      return (
        one.blockNumber <= (filters.isFinalOnly ? bounds.finalizedTo : bounds.indexedTo) &&
        (place === null || isBehind(place)) &&
        (types === null || types.includes(type)) &&
        (direction === 'all' || one.direction !== (direction === 'in' ? 1 : 0)) &&
        (token === null || one.token === token) &&
        (counterparty === null || (one.direction === 0 ? one.sender : one.recipient) === counterparty) &&
        (fromTime === null || at >= fromTime) &&
        (toTime === null || at <= toTime) &&
        (fromBlock === null || one.blockNumber >= fromBlock) &&
        (toBlock === null || one.blockNumber <= toBlock) &&
        (filters.includesSpam || !one.isSpam || isApart)
      )
    }
  })

test('a page reaches as far as the history, and is final no further', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  const place = { chain_id: 31337, block_hash: Buffer.alloc(32), epoch: 0, lease_owner: null }
  await db.insertInto('cursors').values({ ...place, block_number: 7, finalized_number: 6, lease_until: null, halted: null }).execute() // prettier-ignore
  await db
    .insertInto('history_cursors')
    .values({ ...place, block_number: 7 })
    .execute()
  const asked = {
    accountId: WHALE,
    chainId: 31337,
    after: null,
    bounds: { indexedTo: 20, finalizedTo: 20 },
    limit: 5,
    unlike: [],
  }
  const reached = async () => {
    const { indexedTo, finalizedTo } = await selectTransfers(db, { ...asked, filters: readParameters({}).filters })
    return [indexedTo, finalizedTo]
  }
  assert.deepEqual(await reached(), [7, 6])
  await db.updateTable('history_cursors').set({ block_number: 5 }).execute()
  assert.deepEqual(await reached(), [5, 5])
})
