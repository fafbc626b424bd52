import assert from 'node:assert/strict'
import { after, before, beforeEach, suite, test } from 'node:test'
import { wordDigits, type Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { addressOf, scriptedChain } from '../../test/nodes/scripted-chain.ts'
import { insertTransfers } from './columns.ts'
import { noteCoverage } from './coverage.ts'
import type { TransferRow } from './rows.ts'
import { everyAccount } from './sum-audit.ts'
import { differenceOf, sumAccount } from './sums.ts'

const ALICE = addressOf(0xa1)
const ACCOUNT_ID = '00000000-0000-8000-8000-0000000000a1'
const wordOf = (value: number): Hex => `0x${wordDigits(BigInt(value))}`

suite('the sums of an account with more than one statement or request tells', () => {
  let database: TestDatabase
  const script = scriptedChain()
  const { chain } = script
  before(async () => {
    database = await testDatabase()
    const { db } = database
    await db.insertInto('accounts').values({ account_id: ACCOUNT_ID, user_id: 'DEV-a', address: fromHex(ALICE) }).execute() // prettier-ignore
    for (let count = 0; count < 9; count++) script.mine()
    const place = { chain_id: chain.chainId, block_number: 9, block_hash: fromHex(script.blocks[9]!.hash), epoch: 0, lease_owner: null } // prettier-ignore
    await db
      .insertInto('cursors')
      .values({ ...place, finalized_number: 9, lease_until: null, halted: null })
      .execute()
    await db.insertInto('history_cursors').values(place).execute()
    await noteCoverage(db, chain, { accountIds: [ACCOUNT_ID], from: 0 })
  })
  beforeEach(() => database.db.deleteFrom('transfers').execute())
  after(() => database.close())

  const row = (given: Partial<TransferRow>): TransferRow => ({
    ...{ accountId: ACCOUNT_ID, blockNumber: 5, logIndex: 0, batchIndex: 0, direction: 0, tokenType: 20 },
    ...{ token: addressOf(0x70), sender: addressOf(0x57), recipient: ALICE, tokenId: null, value: wordOf(1) },
    ...{ hash: wordOf(1), blockHash: wordOf(5), minedAt: 1_700_000_000, isSpam: false, omitted: 0, ...given },
  })
  const summed = async () => {
    const account = { accountId: ACCOUNT_ID, address: ALICE }
    const sums = await sumAccount(database, chain, { account, block: 9, since: null, rpc: chain.rpc })
    return sums.filter(({ token }) => token !== null)
  }

  test('has each of its tokens asked for, and what was held of it before', async () => {
    const tokens = Array.from({ length: 70 }, (_, index) => addressOf(0x7000 + index))
    await insertTransfers(database.db, chain, tokens.map((token, logIndex) => row({ token, logIndex, value: wordOf(logIndex + 1) }))) // prettier-ignore
    script.answer = (method, [call, at]) => {
      assert.equal(method, 'eth_call')
      const held = tokens.indexOf((call as { to: Hex }).to) + 1
      return wordOf(typeof at === 'string' ? 3 * held : 4 * held)
    }
    const sums = await summed()
    assert.deepEqual(sums.map(({ opening, balance }) => [opening, balance]), tokens.map((_, index) => [BigInt(3 * (index + 1)), BigInt(4 * (index + 1))])) // prettier-ignore
    assert.ok(sums.every((sum) => differenceOf(sum) === 0n))
  })

  test('has each of its entries counted once, wherever within a batch a page of them ends', async () => {
    const entries = Array.from({ length: 5_400 }, (_, index) => row({ tokenType: 1155, tokenId: wordOf(8), logIndex: Math.floor(index / 600), batchIndex: index % 600 })) // prettier-ignore
    await insertTransfers(database.db, chain, entries)
    script.answer = (_method, [, at]) => wordOf(typeof at === 'string' ? 0 : 5_400)
    const [sum, ...others] = await summed()
    assert.deepEqual([others, sum!.net, sum!.balance], [[], 5_400n, 5_400n])
  })

  test('that lacks entries of a token is not known', async () => {
    await insertTransfers(database.db, chain, [row({ tokenType: 20, omitted: 1 })])
    script.answer = (_method, [, at]) => wordOf(typeof at === 'string' ? 0 : 9)
    const [sum] = await summed()
    assert.deepEqual([sum!.balance, differenceOf(sum!)], [9n, null])
  })

  test('of native currency begin where internal transfers do, where those begin later', async () => {
    const { db } = database
    const { chainId } = chain
    const known = { chain_id: chainId, from_block: 3, internal_from_block: 6, to_block: 9, to_hash: null }
    await db.insertInto('native_coverage').values({ ...known, from_at: new Date(), internal_from_at: new Date() }).execute() // prettier-ignore
    await db.insertInto('history_marks').values({ chain_id: chainId, at: new Date(Date.now() + 3_600_000), block_number: 1 }).execute() // prettier-ignore
    const native = { tokenType: 1, token: addressOf(0), logIndex: 1_000_000_000, batchIndex: 1 }
    await insertTransfers(db, chain, [4, 7].map((blockNumber) => row({ ...native, blockNumber, value: wordOf(blockNumber) }))) // prettier-ignore
    script.answer = (_method, [, at]) => (at === '0x5' ? '0x64' : '0x6b')
    const account = { accountId: ACCOUNT_ID, address: ALICE }
    const [sum] = await sumAccount(database, chain, { account, block: 9, since: null, rpc: chain.rpc })
    assert.deepEqual([sum!.from, sum!.opening, sum!.net, sum!.balance], [5, 100n, 7n, 107n])
  })
})

test('every account is summed once, however many pages of them there are', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  const idOf = (number: number) => `00000000-0000-8000-8000-${String(number).padStart(12, '0')}`
  const accounts = Array.from({ length: 2_001 }, (_, number) => ({ account_id: idOf(number), user_id: `DEV-${number}`, address: fromHex(addressOf(0xa_0000 + number)) })) // prettier-ignore
  await db.insertInto('accounts').values(accounts).execute()
  const seen: string[] = []
  for await (const { account, block } of everyAccount(db, 9)) seen.push(`${account.accountId} ${block}`)
  assert.deepEqual(seen, accounts.map(({ account_id }) => `${account_id} 9`)) // prettier-ignore
})
