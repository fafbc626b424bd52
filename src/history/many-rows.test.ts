import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { wordDigits, type Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { toWord } from '../store/bytes.ts'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { addressOf, scriptedChain } from '../../test/nodes/scripted-chain.ts'
import { noteTokens } from '../tokens/record.ts'
import { insertTransfers } from './columns.ts'
import { rowsOf, type FoundTransfer } from './rows.ts'

const [ALICE, STRANGER] = [addressOf(0xa1), addressOf(0x57)]
const ACCOUNT_ID = '00000000-0000-8000-8000-0000000000a1'
const hashOf = (number: number): Hex => `0x${wordDigits(BigInt(number))}`

suite('a block with more than one statement asks about', () => {
  let database: TestDatabase
  const { chain } = scriptedChain()
  before(async () => {
    database = await testDatabase()
    const account = { account_id: ACCOUNT_ID, user_id: 'DEV-alice', address: fromHex(ALICE) }
    await database.db.insertInto('accounts').values(account).execute()
  })
  after(() => database.close())

  const transfer = (number: number, from: Hex, to: Hex, value: bigint): FoundTransfer => ({
    ...{ form: 'ERC20', from, to, tokenId: null, value, batchIndex: 0, omitted: 0, token: addressOf(0x70) },
    ...{ logIndex: number, hash: hashOf(number), sentBy: STRANGER },
    block: { number: 7, hash: hashOf(7), timestamp: 1_700_000_000 },
  })

  test('has the account that comes behind five thousand addresses of others', async () => {
    const others = Array.from({ length: 5_001 }, (_, index) => transfer(index, addressOf(0x1_0000 + index), STRANGER, 1n)) // prettier-ignore
    const { rows } = await rowsOf(database.db, chain, [...others, transfer(6_000, STRANGER, ALICE, 1n)])
    assert.deepEqual(rows.map(({ accountId, logIndex }) => [accountId, logIndex]), [[ACCOUNT_ID, 6_000]]) // prettier-ignore
  })

  test('has what the account initiated behind five thousand transactions of others that moved nothing', async () => {
    const terms = { gas_limit: 1, max_fee: toWord(1n), max_priority_fee: null }
    await database.db
      .insertInto('transactions')
      .values({
        ...{ id: 'tx_1', account_id: ACCOUNT_ID, client_id: 'demo', chain_id: chain.chainId, sender: fromHex(ALICE) },
        ...{ nonce: 1, target: fromHex(addressOf(0x70)), value: toWord(0n), data: Buffer.alloc(0), ...terms, abi: '' },
        ...{ state: 'FINALIZED', block_number: 7, block_hash: fromHex(hashOf(7)), transitions: '[]' },
      })
      .execute()
    await database.db
      .insertInto('attempts')
      .values({
        chain_id: chain.chainId,
        hash: fromHex(hashOf(6_000)),
        transaction_id: 'tx_1',
        raw: Buffer.alloc(1),
        ...terms,
      }) // prettier-ignore
      .execute()
    const others = Array.from({ length: 5_001 }, (_, index) => transfer(index, STRANGER, ALICE, 0n))
    const { rows } = await rowsOf(database.db, chain, [...others, transfer(6_000, ALICE, STRANGER, 0n)])
    assert.deepEqual(rows.flatMap(({ logIndex, isSpam }) => (isSpam ? [] : [logIndex])), [6_000]) // prettier-ignore
  })

  test('has all of its tokens noted', async () => {
    const tokens = Array.from({ length: 401 }, (_, index) => ({ address: addressOf(0x9_0000 + index), form: 'ERC20' as const })) // prettier-ignore
    await noteTokens(database.db, chain, tokens)
    const { count } = await database.db.selectFrom('tokens').select(({ fn }) => fn.countAll<string | number>().as('count')).executeTakeFirstOrThrow() // prettier-ignore
    assert.equal(Number(count), tokens.length)
  })

  test('is stored whole, and says how many of its rows were new', async () => {
    const found = Array.from({ length: 4_001 }, (_, index) => transfer(index, STRANGER, ALICE, 1n))
    const some = found.map((one, index) => ({ ...one, token: addressOf(0x70 + (index % 5)) }))
    const { rows } = await rowsOf(database.db, chain, some)
    assert.equal(rows.length, 4_001)
    const stored = () => insertTransfers(database.db, chain, rows)
    assert.deepEqual([await insertTransfers(database.db, chain, rows.slice(0, 3)), await stored(), await stored()], [3, 3_998, 0]) // prettier-ignore
  })
})
