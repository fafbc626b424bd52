import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import type { App } from '../app.ts'
import type { Caller } from '../http/bearer.ts'
import { wordDigits, type Hex } from '../ids.ts'
import { insertTransfers } from '../history/columns.ts'
import { FIRST_NATIVE, FIRST_WITHDRAWAL, VALUE_PLACE } from '../history/native.ts'
import { readNativePage } from '../history/native-page.ts'
import { DIRECTION, type TransferRow } from '../history/rows.ts'
import type { AccountOwner } from '../oauth/account/slices.ts'
import { fromHex } from '../hex.ts'
import { toWord } from '../store/bytes.ts'
import { followerStage } from '../../test/follower-stage.ts'
import { noSealKeys } from '../../test/seal-keys.ts'
import { addressOf, scriptedChain } from '../../test/nodes/scripted-chain.ts'
import { readNativeEntries, readNativeTransfers } from './native-activity.ts'
import { accountReads } from './reads.ts'

const ALICE = addressOf(0xa1)
const ACCOUNT_ID = '00000000-0000-8000-8000-0000000000a1'
const FRIEND: Hex = `0xabcde${'1'.repeat(31)}9876`
const ETHER = 10n ** 18n

suite('entries of native currency for a person', () => {
  const stage = followerStage([
    'accounts',
    'blocks',
    'cursors',
    'history_cursors',
    'transfers',
    'tokens',
    'transactions',
  ])
  const script = scriptedChain({ isDevelopment: true, finality: 2 })
  const { chain } = script
  const app = () => ({ ...stage.app, chains: new Map([[31_337, chain]]), sealKeys: noSealKeys }) as App
  const caller = {
    ...{ userId: 'DEV-alice', accountId: ACCOUNT_ID, address: ALICE, clientId: 'demo', chainId: 31_337 },
    ...{ scopes: new Set(['wallet:read']), grantId: 'g', tokenId: 't', expiresAt: 2 ** 40, token: 'x' },
  } as Caller
  const wordOf = (value: bigint): Hex => `0x${wordDigits(value)}`
  type Moved = { from: Hex; to: Hex; value: bigint } & Partial<Pick<TransferRow, 'logIndex' | 'batchIndex' | 'omitted'>>
  const row = (blockNumber: number, { from, to, value, ...more }: Moved): TransferRow => ({
    ...{ accountId: ACCOUNT_ID, blockNumber, logIndex: FIRST_NATIVE, batchIndex: VALUE_PLACE },
    ...{ direction: to === ALICE ? DIRECTION.IN : DIRECTION.OUT, tokenType: 1, token: addressOf(0) },
    ...{ sender: from, recipient: to, tokenId: null, value: wordOf(value), hash: wordOf(BigInt(blockNumber)) },
    ...{ blockHash: wordOf(BigInt(blockNumber)), minedAt: 1_700_000_000 + blockNumber, isSpam: false, omitted: 0 },
    ...more,
  })
  async function stored(...rows: TransferRow[]) {
    const { db } = stage.app
    await db.insertInto('accounts').values({ account_id: ACCOUNT_ID, user_id: 'DEV-alice', address: fromHex(ALICE) }).execute() // prettier-ignore
    while (script.blocks.length <= rows.length) script.mine()
    await stage.followed(script, { isTrailing: true, onBlocks: async () => {}, onRetract: async () => {} })
    if (rows.length > 0) await insertTransfers(db, chain, rows)
  }

  /** By this service. */
  const sent = (nonce: number, target: Hex) => ({
    ...{ id: `tx_${nonce}`, account_id: ACCOUNT_ID, client_id: 'demo', chain_id: 31_337, sender: fromHex(ALICE), nonce },
    ...{ target: fromHex(target), value: toWord(5n), data: Buffer.alloc(0), abi: '', transitions: '[]' },
    ...{ gas_limit: 1, max_fee: toWord(1n), max_priority_fee: null, state: 'MINED' as const, block_number: 1 },
    ...{ block_hash: Buffer.alloc(32, 1), hash: fromHex(wordOf(BigInt(nonce))), created_at: new Date(nonce * 1_000) },
  }) // prettier-ignore

  test('say what of a block has no entry of its own', async () => {
    await stored(
      row(1, { from: ALICE, to: FRIEND, value: ETHER }),
      row(2, { from: FRIEND, to: ALICE, value: 1n }),
      row(3, { from: FRIEND, to: ALICE, value: ETHER, omitted: 7 }),
      row(4, { from: addressOf(0), to: ALICE, value: 5n, logIndex: FIRST_WITHDRAWAL, batchIndex: 0 }),
    )
    const { entries } = await readNativeEntries(app(), caller, chain, { limit: 10 })
    assert.deepEqual(
      entries.map(({ kind, blockNumber, omitted }) => [blockNumber, kind, omitted]),
      [
        [4, 'WITHDRAWAL', 0],
        [3, 'VALUE', 7],
        [2, 'VALUE', 0],
        [1, 'VALUE', 0],
      ],
    )
  })

  test('lead to their transaction, and to the block where none made them', async () => {
    await stored(
      row(1, { from: FRIEND, to: ALICE, value: ETHER }),
      row(2, { from: addressOf(0), to: ALICE, value: 5n, logIndex: FIRST_WITHDRAWAL, batchIndex: 0 }),
      row(3, { from: addressOf(0), to: ALICE, value: 6n, logIndex: 2_100_000_000, batchIndex: 0 }),
    )
    const { entries } = await readNativeEntries(app(), caller, chain, { limit: 10 })
    const explorer = 'http://localhost:4000/explorer'
    assert.deepEqual(
      entries.map(({ kind, explorerUrl }) => [kind, explorerUrl]),
      [
        ['REWARD', `${explorer}/block/3`],
        ['WITHDRAWAL', `${explorer}/block/2`],
        ['VALUE', `${explorer}/tx/${wordOf(1n)}`],
      ],
    )
  })

  test('end with the page that has the last of them, also where that is full', async () => {
    await stored(...[1, 2, 3, 4].map((block) => row(block, { from: FRIEND, to: ALICE, value: ETHER })))
    const pages: number[][] = []
    for (let cursor: string | null | undefined; cursor !== null;) {
      const page = await readNativePage(app(), caller, 'DEV-alice', { limit: 2, cursor, direction: 'all' })
      pages.push(page.entries.map(({ blockNumber }) => blockNumber))
      cursor = page.nextCursor
    }
    assert.deepEqual(pages, [[4, 3], [2, 1]]) // prettier-ignore
  })

  test('lead through all that one transaction moved inside, however much that is', async () => {
    const inside = Array.from({ length: 12 }, (_, index) => row(1, { from: FRIEND, to: ALICE, value: BigInt(index + 1), batchIndex: 3 + index })) // prettier-ignore
    await stored(...inside)
    const seen: string[] = []
    for (let cursor: string | null | undefined; cursor !== null;) {
      const page = await readNativePage(app(), caller, 'DEV-alice', { limit: 3, cursor, direction: 'all' })
      seen.push(...page.entries.map(({ amount }) => amount.value))
      cursor = page.nextCursor
    }
    assert.deepEqual(seen, inside.map(({ value }) => String(BigInt(value))).toReversed()) // prettier-ignore
  })

  test('that our own record alone has say where they went, also to oneself', async () => {
    await stored()
    await stage.app.db
      .insertInto('transactions')
      .values([sent(1, FRIEND), sent(2, ALICE)])
      .execute()
    // What was sent to oneself comes in, too, and is one entry all the same.
    for (const direction of ['out', 'all'] as const) {
      const { entries } = await readNativeTransfers(app(), caller, chain, { limit: 10, direction })
      assert.deepEqual(entries.map((one) => [one.direction, one.other.toLowerCase()]), [['SELF', ALICE], ['OUT', FRIEND]]) // prettier-ignore
    }
    const { entries } = await readNativeTransfers(app(), caller, chain, { limit: 10, direction: 'in' })
    assert.deepEqual(entries.map((one) => one.direction), ['SELF']) // prettier-ignore
  })

  test('are called by the symbol of a currency, and by the name of a collection where it has one', async () => {
    const [coin, items, unnamed] = [addressOf(0x70), addressOf(0x71), addressOf(0x72)]
    const named = { chain_id: 31_337, decimals: 0, state: 'KNOWN' as const, attempts: 1, retry_at: null }
    await stage.app.db
      .insertInto('tokens')
      .values([
        { ...named, address: fromHex(coin), symbol: 'ABC', name: 'A Coin' },
        { ...named, address: fromHex(items), symbol: 'ITM', name: 'Items' },
        { ...named, address: fromHex(unnamed), symbol: 'NON', name: '' },
      ])
      .execute()
    const moved = (block: number, token: Hex, tokenType: number): TransferRow => ({
      ...row(block, { from: FRIEND, to: ALICE, value: 1n, logIndex: 0, batchIndex: 0 }),
      ...{ token, tokenType, tokenId: tokenType === 20 ? null : wordOf(7n) },
    })
    await stored(moved(1, coin, 20), moved(2, items, 721), moved(3, unnamed, 721))
    const owner = { accountId: ACCOUNT_ID, userId: 'DEV-alice', address: ALICE } as AccountOwner
    const { entries } = await accountReads(app()).readTransfers(owner, 31_337, { limit: 10, direction: 'all' })
    assert.deepEqual(entries.map(({ amount }) => amount.symbol), ['NON', 'Items', 'ABC']) // prettier-ignore
  })
  test('of which a thousand were looked at make a page, with few or none on it, and it leads to the rest', async () => {
    await stored(row(1, { from: FRIEND, to: ALICE, value: ETHER }))
    const { db } = stage.app
    // Fees of writes, which stand with these.
    const writes = Array.from({ length: 1_050 }, (_, index) => sent(index + 100, FRIEND))
    const terms = { gas_limit: 1, max_fee: toWord(1n), max_priority_fee: null }
    for (let start = 0; start < writes.length; start += 350) {
      const some = writes.slice(start, start + 350)
      await db.insertInto('transactions').values(some).execute()
      await db.insertInto('attempts').values(some.map(({ id, hash }) => ({ chain_id: 31_337, hash, transaction_id: id, raw: Buffer.alloc(1), ...terms }))).execute() // prettier-ignore
    }
    const fees = writes.map(({ nonce }, index) => ({
      ...row(1, { from: ALICE, to: addressOf(0), value: 1n, logIndex: FIRST_NATIVE + 1 + index, batchIndex: 0 }),
      hash: wordOf(BigInt(nonce)),
    }))
    await insertTransfers(db, chain, fees)
    const page = (cursor?: string) => readNativePage(app(), caller, 'DEV-alice', { limit: 5, cursor, direction: 'all' })
    const first = await page()
    assert.deepEqual([first.entries, first.nextCursor !== null], [[], true])
    const second = await page(first.nextCursor!)
    assert.deepEqual([second.entries.map(({ amount }) => BigInt(amount.value)), second.nextCursor], [[ETHER], null]) // prettier-ignore
  })
})
