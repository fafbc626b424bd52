import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { id, Interface } from 'ethers'
import * as fc from 'fast-check'
import type { Hex } from '../ids.ts'
import { fuzz } from '../../test/abi-fuzz.ts'
import {
  decodeTransferLog,
  mostTransfersIn,
  TRANSFER_BATCH_TOPIC,
  TRANSFER_SINGLE_TOPIC,
  TRANSFER_TOPIC,
  CONSECUTIVE_TRANSFER_TOPIC,
  DEPOSIT_TOPIC,
  OPERATED_TOPICS,
  TRANSFER_TOPICS,
  WITHDRAWAL_TOPIC,
  WRAPPING_TOPICS,
} from './transfers.ts'

const token: Hex = '0x1111111111111111111111111111111111111111'
const alice: Hex = '0xaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'
const bob: Hex = '0xbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'
const word = (value: bigint | number | Hex) => BigInt(value).toString(16).padStart(64, '0')
const topic = (value: bigint | number | Hex): Hex => `0x${word(value)}`
const data = (...values: (bigint | number | Hex)[]): Hex => `0x${values.map(word).join('')}`
const most = (1n << 256n) - 1n

const batch = (...values: (bigint | number)[]) => ({
  address: token,
  topics: [TRANSFER_BATCH_TOPIC, topic(token), topic(alice), topic(bob)],
  data: data(...values),
})

test('the topics are the hashes of the events', () => {
  assert.equal(TRANSFER_TOPIC, id('Transfer(address,address,uint256)'))
  assert.equal(TRANSFER_SINGLE_TOPIC, id('TransferSingle(address,address,address,uint256,uint256)'))
  assert.equal(TRANSFER_BATCH_TOPIC, id('TransferBatch(address,address,address,uint256[],uint256[])'))
  assert.equal(CONSECUTIVE_TRANSFER_TOPIC, id('ConsecutiveTransfer(uint256,uint256,address,address)'))
  assert.equal(DEPOSIT_TOPIC, id('Deposit(address,uint256)'))
  assert.equal(WITHDRAWAL_TOPIC, id('Withdrawal(address,uint256)'))
})

const sent = { from: alice, to: bob, batchIndex: 0, omitted: 0 }
const parties = [topic(alice), topic(bob)]
const shapes: [what: string, topics: Hex[], data: Hex, transfer: object][] = [
  ['three topics and a word are an ERC-20 transfer', [TRANSFER_TOPIC, ...parties], data(most), { form: 'ERC20', tokenId: null, value: most }], // prettier-ignore
  ['topics in upper case are the same', [TRANSFER_TOPIC, ...parties].map((text): Hex => `0x${text.slice(2).toUpperCase()}`), data(5), { form: 'ERC20', tokenId: null, value: 5n }], // prettier-ignore
  ['four topics and no data are an ERC-721 transfer of one', [TRANSFER_TOPIC, ...parties, topic(most)], '0x', { form: 'ERC721', tokenId: most, value: 1n }], // prettier-ignore
  ['one topic and three words are the old form without indexed parameters', [TRANSFER_TOPIC], data(alice, bob, 5), { form: 'ERC20', tokenId: null, value: 5n }], // prettier-ignore
  ['an ERC-1155 single transfer has its id and value', [TRANSFER_SINGLE_TOPIC, topic(token), ...parties], data(7, 9), { form: 'ERC1155', tokenId: 7n, value: 9n }], // prettier-ignore
]
for (const [what, topics, words, transfer] of shapes)
  test(what, () =>
    assert.deepEqual(decodeTransferLog({ address: token, topics, data: words }), [{ ...sent, ...transfer }]),
  )

test('an ERC-1155 batch is one transfer per element, as ethers encodes it', () => {
  const contract = new Interface([
    'event TransferBatch(address indexed, address indexed, address indexed, uint256[], uint256[])',
  ])
  const log = contract.encodeEventLog('TransferBatch', [token, alice, bob, [1, most, 3], [10, 0, 30]])
  const transfers = decodeTransferLog({ address: token, topics: log.topics as Hex[], data: log.data as Hex })
  assert.deepEqual(
    transfers.map(({ tokenId, value, batchIndex }) => [tokenId, value, batchIndex]),
    [
      [1n, 10n, 0],
      [most, 0n, 1],
      [3n, 30n, 2],
    ],
  )
  assert(transfers.every(({ form, from, to }) => form === 'ERC1155' && from === alice && to === bob))
  assert.deepEqual(decodeTransferLog(batch(64, 96, 0, 0)), [])
})

test('a batch may have its values first, and gaps', () => {
  for (const log of [batch(160, 64, 2, 10, 20, 2, 1, 3), batch(64, 192, 2, 1, 3, 0, 2, 10, 20)])
    assert.deepEqual(
      decodeTransferLog(log).map(({ tokenId, value }) => [tokenId, value]),
      [
        [1n, 10n],
        [3n, 20n],
      ],
    )
})

test('no log announces more transfers than its size lets it', () => {
  for (const count of [0, 1, 2, 999, 1000, 1500]) {
    const items = Array<number>(count).fill(1)
    const log = batch(64, 96 + count * 32, count, ...items, count, ...items)
    const transfers = decodeTransferLog(log).length
    assert.ok(transfers <= mostTransfersIn(log) && mostTransfersIn(log) <= Math.min(1000, transfers + 2), `${count}`)
  }
  assert.equal(mostTransfersIn({ topics: [TRANSFER_TOPIC], data: `0x${'00'.repeat(3200)}` }), 1)
})

test('a batch ends at 1,000 elements, and its last one says how many more there are', () => {
  const items = Array<number>(1500).fill(1)
  const transfers = decodeTransferLog(batch(64, 96 + 1500 * 32, 1500, ...items, 1500, ...items))
  assert.equal(transfers.length, 1000)
  assert.equal(transfers.at(-1)?.batchIndex, 999)
  assert.equal(transfers.at(-1)?.omitted, 500)
  assert.equal(
    transfers.reduce((sum, { omitted }) => sum + omitted, 0),
    500,
  )
})

const hostile: Record<string, ReturnType<typeof batch>> = {
  'lengths differ': batch(64, 160, 2, 1, 2, 1, 1),
  'more values than ids': batch(64, 128, 1, 1, 2, 10, 20),
  'an offset beyond the end': batch(64, 4096, 1, 1),
  'an offset of 2^256 - 1': batch(most, 64, 1, 1),
  'a length beyond the end': batch(64, 64, 2, 1),
  'a length of 2^256 - 1': batch(64, 64, most, 1),
  'ids and values in the same place': batch(64, 64, 2, 1, 2),
  'values that begin with the last id': batch(64, 128, 2, 1, 2, 5, 6),
  'ids that begin within the values': batch(96, 64, 2, 2, 1, 2),
  'one array within the other': batch(64, 96, 3, 1, 7, 8, 9),
  'an array over the offsets': batch(0, 64, 0),
  'an array over the second offset': batch(96, 32, 64, 0),
  'values whose number is their own offset': batch(1_088, 32, ...Array<number>(32).fill(5), 32, ...Array<number>(32).fill(6)), // prettier-ignore
  'no data': batch(),
  'half a byte of data': { ...batch(), data: '0x0' },
  'no hexadecimal data': { ...batch(), data: `0x${'zz'.repeat(64)}` },
  'an ERC-1155 log with three topics': {
    ...batch(64, 64, 0),
    topics: [TRANSFER_BATCH_TOPIC, topic(alice), topic(bob)],
  },
  'a dirty sender': { address: token, topics: [TRANSFER_TOPIC, topic(1n << 160n), topic(bob)], data: data(1) },
  'a dirty recipient': { address: token, topics: [TRANSFER_TOPIC, topic(alice), topic(most)], data: data(1) },
  'a dirty sender in data': { address: token, topics: [TRANSFER_TOPIC], data: data(1n << 160n, bob, 1) },
  'an ERC-20 log without a value': { address: token, topics: [TRANSFER_TOPIC, topic(alice), topic(bob)], data: '0x' },
  'an ERC-20 log with two words': {
    address: token,
    topics: [TRANSFER_TOPIC, topic(alice), topic(bob)],
    data: data(1, 2),
  },
  'an ERC-721 log with data': {
    address: token,
    topics: [TRANSFER_TOPIC, topic(alice), topic(bob), topic(1)],
    data: data(1),
  },
  'two topics': { address: token, topics: [TRANSFER_TOPIC, topic(alice)], data: data(bob, 1) },
  'no topics': { address: token, topics: [], data: data(1) },
  'another event': { address: token, topics: [topic(1), topic(alice), topic(bob)], data: data(1) },
  'a topic that is no word': { address: token, topics: [TRANSFER_TOPIC, '0x1', topic(bob)], data: data(1) },
}
for (const [what, log] of Object.entries(hostile)) {
  test(`no transfer: ${what}`, () => assert.deepEqual(decodeTransferLog(log), []))
}

test('a range of ids (ERC-2309) is one transfer that counts them, however long', () => {
  const log = (first: bigint, last: bigint) => ({ address: token, topics: [CONSECUTIVE_TRANSFER_TOPIC, topic(first), topic(0n), topic(bob)], data: data(last) }) // prettier-ignore
  const cases: [first: bigint, last: bigint, count: bigint | null][] = [
    [5n, 5n, 1n],
    [1n, 5_000n, 5_000n],
    [1n, most, most],
    // One more than a word can count, and one that ends before it begins.
    [0n, most, null],
    [7n, 6n, null],
  ]
  for (const [first, last, count] of cases)
    assert.deepEqual(
      decodeTransferLog(log(first, last)).map(({ form, tokenId, value, to }) => [form, tokenId, value, to]),
      count === null ? [] : [['ERC721', first, count, bob]],
    )
})

test('a deposit and a withdrawal are transfers from and to nobody', () => {
  const nobody = `0x${'0'.repeat(40)}`
  for (const [event, from, to] of [
    [DEPOSIT_TOPIC, nobody, alice],
    [WITHDRAWAL_TOPIC, alice, nobody],
  ]) {
    // prettier-ignore
    const log = { address: token, topics: [event as Hex, topic(alice)], data: data(7) }
    assert.deepEqual(decodeTransferLog(log), [
      { form: 'WRAPPED', from, to, tokenId: null, value: 7n, batchIndex: 0, omitted: 0 },
    ])
    assert.deepEqual(decodeTransferLog({ ...log, topics: [...log.topics, topic(bob)] }), [])
  }
})

test('logs of native transfers (EIP-7708) are no token transfers', () => {
  const address = `0x${'f'.repeat(39)}e` as Hex
  const log = { topics: [TRANSFER_TOPIC, topic(alice), topic(bob)], data: data(1) }
  assert.deepEqual(decodeTransferLog({ ...log, address }), [])
  assert.deepEqual(decodeTransferLog({ ...log, address: `0x${'F'.repeat(39)}E` }), [])
  assert.equal(decodeTransferLog({ ...log, address: `0x${'f'.repeat(40)}` }).length, 1)
})

test('no log makes it throw or invent an element', () => {
  const value = fc.oneof(fc.bigInt({ min: 0n, max: 300n }), fc.bigInt({ min: 0n, max: most }))
  const topics = fc.array(fc.oneof(value.map(topic), fc.constantFrom(topic(alice), topic(bob))), { maxLength: 4 })
  const log = fc.tuple(
    fc.constantFrom(...TRANSFER_TOPICS, ...OPERATED_TOPICS, ...WRAPPING_TOPICS),
    topics,
    fc.array(value, { maxLength: 9 }),
    fc.nat({ max: 9 }),
  )
  fc.assert(
    fc.property(log, ([first, rest, values, cut]) => {
      const whole = data(...values)
      const hex = whole.slice(0, Math.max(2, whole.length - cut)) as Hex
      const transfers = decodeTransferLog({ address: token, topics: [first, ...rest], data: hex })
      assert(transfers.length <= Math.max(1, values.length))
      for (const { from, to } of transfers) assert.match(from + to, /^(0x[0-9a-f]{40}){2}$/)
    }),
    fuzz(1000),
  )
})
