// tier: all, because a real chain plays look-alike transfers in every order
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { addressOf } from '../../test/nodes/scripted-chain.ts'
import type { Chain } from '../chain/network.ts'
import { wordDigits, type Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { toWord } from '../store/bytes.ts'
import type { TransactionState } from '../store/column-values.ts'
import { knownTokens } from '../tokens/suspicion.ts'
import { selectUsed } from '../tokens/used.ts'
import { insertTransfers } from './columns.ts'
import { NOBODY } from './native.ts'
import { NATIVE_TYPE_NUMBER } from './native-rows.ts'
import { DIRECTION, type TransferRow } from './rows.ts'
import { judgeTransfers, type PlacedTransfer } from './spam-facts.ts'

const USDC = addressOf(0x70)
const ALICE: Hex = `0x${'a1'.repeat(20)}`
const ALICE_ID = '00000000-0000-8000-8000-0000000000a1'
const OTHER_ID = '00000000-0000-8000-8000-0000000000b0'
const PAYER: Hex = '0xabc4567890123456789012345678901234567def'
const LOOK_ALIKE: Hex = '0xabc4999999999999999999999999999999997def'
const chain = { chainId: 31_337 } as Chain
const known = knownTokens(new Map([[USDC, { symbol: 'USDC', name: 'USD Coin' }]]), { symbol: 'ETH', name: 'Ether' })
const MILLION = 1_000_000n

let database: TestDatabase
before(async () => {
  database = await testDatabase()
  await database.db.insertInto('accounts').values({ account_id: ALICE_ID, user_id: 'DEV-alice', address: fromHex(ALICE) }).execute() // prettier-ignore
})
beforeEach(async () => {
  for (const table of ['transfers', 'attempts', 'carried', 'operations', 'transactions'] as const)
    await database.db.deleteFrom(table).execute()
})
after(() => database.close())

type Moved = { block: number; other: Hex; value: bigint; direction?: 'IN' | 'OUT'; isNative?: boolean; token?: Hex }
const placed = ({ block, other, value, direction = 'IN', isNative = false, token = USDC }: Moved): PlacedTransfer => ({
  ...(isNative
    ? { token: null, tokenType: 'NATIVE', symbol: 'ETH', name: 'Ether', decimals: 18, form: 1 }
    : { token, tokenType: 'ERC20', symbol: 'USDC', name: 'USD Coin', decimals: 6, form: 20 }),
  ...{
    direction,
    other,
    value,
    isZero: false,
    hash: `0x${wordDigits(BigInt(block))}`,
    blockNumber: block,
    logIndex: 0,
  },
})

/** Stores a story, and says of each part whether it is hidden as that of an imitator. */
async function hidden(...story: Moved[]): Promise<boolean[]> {
  const all = story.map(placed)
  const rows = all.map((one, index): TransferRow => ({
    ...{ accountId: ALICE_ID, blockNumber: one.blockNumber, logIndex: 0, batchIndex: 0 },
    ...{
      direction: DIRECTION[one.direction],
      tokenType: one.token === null ? NATIVE_TYPE_NUMBER : 20,
      token: one.token ?? NOBODY,
    },
    ...{ sender: one.direction === 'IN' ? one.other : ALICE, recipient: one.direction === 'IN' ? ALICE : one.other },
    ...{ tokenId: null, value: `0x${wordDigits(story[index]!.value)}`, hash: one.hash, blockHash: one.hash },
    ...{ minedAt: 1_700_000_000 + one.blockNumber, isSpam: false, omitted: 0 },
  }))
  await insertTransfers(database.db, chain, rows)
  const of = { accountId: ALICE_ID, chainId: 31_337, known, isCovered: true }
  const verdicts = await judgeTransfers(database.db, of, all)
  // One by one as on one page: what else is on it changes nothing.
  for (const [index, one] of all.entries())
    assert.deepEqual((await judgeTransfers(database.db, of, [one]))[0], verdicts[index])
  return verdicts.map((spam) => spam?.reasons.includes('look_alike_address') ?? false)
}

/** A write of the person's own to an address, in a block, or in none. */
async function pay(
  target: Hex,
  block: number | null,
  state: TransactionState = block === null ? 'SUBMITTED' : 'FINALIZED',
): Promise<void> {
  await database.db
    .insertInto('transactions')
    .values({
      ...{
        id: `tx_${block}`,
        account_id: ALICE_ID,
        client_id: 'demo',
        chain_id: 31_337,
        sender: fromHex(ALICE),
        nonce: block ?? 0,
      },
      ...{
        target: fromHex(target),
        value: toWord(1n),
        data: Buffer.alloc(0),
        gas_limit: 1,
        max_fee: toWord(1n),
        max_priority_fee: null,
      },
      ...{ abi: '', state, block_number: block, transitions: '[]' },
    })
    .execute()
}

/** The same, signed by the person for a sponsor to send. */
async function sign(
  target: Hex,
  block: number | null,
  state: TransactionState = block === null ? 'SUBMITTED' : 'FINALIZED',
): Promise<void> {
  await database.db
    .insertInto('operations')
    .values({
      ...{ id: `op_${block}`, account_id: ALICE_ID, client_id: 'demo', chain_id: 31_337, sender: fromHex(ALICE) },
      ...{ space: Buffer.alloc(20), sequence: block ?? 0, calls: fromHex(target), gas_limit: 1, deadline: 1, abi: '' },
      ...{ state, outer_id: null, block_number: block, charged: '0', hour: new Date(0), transitions: '[]' },
    })
    .execute()
}
const clear = async () => {
  for (const table of ['transfers', 'operations', 'transactions'] as const)
    await database.db.deleteFrom(table).execute()
}

for (const isNative of [false, true]) {
  const unit = isNative ? 10n ** 18n : MILLION
  const what = isNative ? 'native currency' : 'a known token'
  const moved = (block: number, other: Hex, value: bigint, direction: 'IN' | 'OUT' = 'IN'): Moved => ({ block, other, value, direction, isNative }) // prettier-ignore

  test(`${what}: who paid little before a look-alike paid much is not hidden, neither before nor after`, async () => {
    assert.deepEqual(
      await hidden(
        moved(1, PAYER, 10n * unit),
        moved(2, LOOK_ALIKE, 5_000n * unit),
        moved(3, PAYER, 12n * unit),
        moved(4, PAYER, unit),
      ),
      [false, false, false, false],
    )
  })

  test(`${what}: dust of a look-alike is hidden from when the other was dealt with, to a hundredth of the most`, async () => {
    assert.deepEqual(
      await hidden(
        moved(1, LOOK_ALIKE, unit / 10_000n),
        moved(2, PAYER, 100n * unit),
        moved(3, LOOK_ALIKE, unit),
        moved(4, LOOK_ALIKE, unit + 1n),
        moved(5, PAYER, 1_000n * unit),
        moved(6, LOOK_ALIKE, 2n * unit),
      ),
      [false, false, true, false, false, true],
    )
  })

  test(`${what}: dust that was there first does not make the imitated one the imitator`, async () => {
    assert.deepEqual(
      await hidden(
        moved(1, LOOK_ALIKE, unit / 2_000n),
        moved(2, PAYER, 100n * unit),
        moved(3, LOOK_ALIKE, unit / 2_000n),
      ),
      [false, false, true],
    )
  })

  test(`${what}: of an address that the person has paid, dust is hidden from then on, whoever came first`, async () => {
    await pay(PAYER, 5)
    assert.deepEqual(
      await hidden(
        moved(2, LOOK_ALIKE, unit),
        moved(3, LOOK_ALIKE, unit / 2_000n),
        moved(6, LOOK_ALIKE, unit / 2_000n),
        moved(7, LOOK_ALIKE, unit / 1_000n),
      ),
      [false, false, true, false],
    )
  })

  test(`${what}: what the person paid counts for how much is dust, and who sent it first is no excuse then`, async () => {
    await pay(PAYER, 3)
    assert.deepEqual(
      await hidden(moved(1, LOOK_ALIKE, unit), moved(3, PAYER, 500n * unit, 'OUT'), moved(4, LOOK_ALIKE, 5n * unit)),
      [false, false, true],
    )
  })
}

for (const [what, write] of [
  ['a write', pay],
  ['what was signed for a sponsor', sign],
] as const) {
  const of = { accountId: ALICE_ID, chainId: 31_337 }
  const unknown = (block: number, other: Hex): Moved => ({ block, other, value: 1n, token: addressOf(0x99) })
  /** Both have sent something: of two strangers neither imitates the other. */
  const met = [unknown(1, PAYER), unknown(2, LOOK_ALIKE)]
  const hiddenThen = async (...then: Moved[]) => (await hidden(...met, ...then)).map(Number).join('')

  test(`${what} that paid nothing makes nobody paid, and no token used`, async () => {
    for (const [state, block] of [
      ['REVERTED', 3],
      ['CANCELLED', 3],
      ['REPLACED', 3],
      ['FAILED', 3],
      ['FAILED', null],
      ['VACANT', null],
      ['BOUND', null],
    ] as const) {
      await pay(PAYER, 2)
      await write(LOOK_ALIKE, block, state)
      assert.equal(await hiddenThen(unknown(4, LOOK_ALIKE)), '011', `${state}: the look-alike was not paid`)
      await clear()
      await write(PAYER, block, state)
      assert.equal(await hiddenThen(unknown(4, LOOK_ALIKE)), '000', `${state}: nor was the other`)
      await clear()
      await write(USDC, block, state)
      assert.deepEqual(await selectUsed(database.db, of, [USDC]), new Set(), `${state}: nor was the token used`)
      await clear()
    }
  })

  test(`${what} that is mined, final or on its way to the look-alike ends it`, async () => {
    for (const [state, block] of [
      ['MINED', 9],
      ['FINALIZED', 9],
      ['SUBMITTED', null],
    ] as const) {
      await pay(PAYER, 2)
      await write(LOOK_ALIKE, block, state)
      assert.equal(await hiddenThen(unknown(4, LOOK_ALIKE)), '000', state)
      await clear()
      await write(USDC, block, state)
      assert.deepEqual(await selectUsed(database.db, of, [USDC]), new Set([USDC]), state)
      await clear()
    }
  })

  test(`${what} that is on its way to a look-alike hides nothing, and once it is mined what comes from its block on`, async () => {
    await write(LOOK_ALIKE, null)
    assert.equal(await hiddenThen(unknown(4, PAYER), unknown(6, PAYER)), '0000')
    await clear()
    await write(LOOK_ALIKE, 5, 'MINED')
    assert.equal(await hiddenThen(unknown(4, PAYER), unknown(5, PAYER), unknown(6, PAYER)), '00011')
  })
}

test('an unknown token of a look-alike is hidden only after the other was paid', async () => {
  await pay(PAYER, 5)
  const token = addressOf(0x99)
  assert.deepEqual(
    await hidden(
      { block: 4, other: LOOK_ALIKE, value: 10n ** 30n, token },
      { block: 6, other: LOOK_ALIKE, value: 10n ** 30n, token },
    ),
    [false, true],
  )
})

test('three digits at the end are enough where four in front agree', async () => {
  await pay('0xabc4567890123456789012345678901234561def', 1)
  assert.deepEqual(await hidden({ block: 2, other: LOOK_ALIKE, value: 1n }), [true])
})

test('native currency in a transaction that carries what several people signed is judged, and in one of hers alone it is not', async () => {
  await pay(PAYER, 1)
  const { db } = database
  const of = { account_id: OTHER_ID, user_id: 'DEV-other', address: fromHex(addressOf(0xb0)) }
  await db
    .insertInto('accounts')
    .values(of)
    .onConflict((on) => on.doNothing())
    .execute()
  const dust = { other: LOOK_ALIKE, value: 10n ** 14n, isNative: true }
  for (const [block, signers] of [
    [4, [ALICE_ID, OTHER_ID]],
    [5, [ALICE_ID]],
  ] as const) {
    await pay(addressOf(0xd0), block)
    await db
      .updateTable('transactions')
      .set({ account_id: OTHER_ID, authorizations: '[]' })
      .where('id', '=', `tx_${block}`)
      .execute()
    const hash = fromHex(placed({ ...dust, block }).hash)
    await db
      .insertInto('attempts')
      .values({
        chain_id: 31_337,
        hash,
        transaction_id: `tx_${block}`,
        raw: null,
        gas_limit: 1,
        max_fee: toWord(1n),
        max_priority_fee: null,
      })
      .execute()
    for (const [place, account] of signers.entries()) {
      const id = `op_${block}_${place}`
      await db
        .insertInto('operations')
        .values({
          ...{
            id,
            account_id: account,
            client_id: 'demo',
            chain_id: 31_337,
            sender: fromHex(ALICE),
            space: Buffer.alloc(20),
            sequence: block * 10 + place,
          },
          ...{
            calls: Buffer.alloc(1),
            gas_limit: 1,
            deadline: 1,
            abi: '',
            state: 'MINED',
            outer_id: `tx_${block}`,
            block_number: block,
            charged: '0',
          },
          ...{ hour: new Date(0), transitions: '[]', after_log: place, event_log: place + 1 },
        })
        .execute()
      await db
        .insertInto('carried')
        .values({ operation_id: id, transaction_id: `tx_${block}` })
        .execute()
    }
  }
  assert.deepEqual(await hidden({ ...dust, block: 4 }, { ...dust, block: 5 }), [true, false])
})

test('addresses that end in other digits are not alike, whatever is asked of the database', async () => {
  await pay('0xabc4567890123456789012345678901234567dee', 1)
  assert.deepEqual(await hidden({ block: 2, other: LOOK_ALIKE, value: 1n }), [false])
})

test('of many dealings with somebody the first and the newest are read', async () => {
  const dealings = (much: number): Moved[] =>
    Array.from({ length: 60 }, (_, index) => ({ block: index + 2, other: PAYER, value: index + 2 === much ? 7n * MILLION : MILLION })) // prettier-ignore
  const dust: Moved = { block: 63, other: LOOK_ALIKE, value: 70_000n }
  for (const [much, isHidden] of [
    [5, true],
    [30, false],
    [55, true],
  ] as const) {
    await database.db.deleteFrom('transfers').execute()
    assert.equal((await hidden(...dealings(much), dust)).at(-1), isHidden, String(much))
  }
})
