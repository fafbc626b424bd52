import assert from 'node:assert/strict'
import { test } from 'node:test'
import { keccak256, parseTransaction, toHex, type TransactionSerializable } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { getContractAddress } from 'viem/utils'
import { makeTransaction, signerAt } from '../../test/scripted-transactions.ts'
import { randomOf } from '../../test/random.ts'
import type { Hex } from '../ids.ts'
import { isEthereums, readRaw, readSent, typeOf } from './transaction.ts'

const random = randomOf(11)
const bytesOf = (length: number): Hex => toHex(Uint8Array.from({ length }, () => random(256)))
const account = privateKeyToAccount(keccak256('0x5e'))

/** Returns numbers at the edges of RLP encodings, and others. */
const amount = (): bigint => [0n, 1n, 127n, 128n, 255n, 256n, BigInt(random(2 ** 31)) ** 3n][random(7)]!
const accessList = () =>
  Array.from({ length: random(3) }, () => ({
    address: bytesOf(20),
    storageKeys: Array.from({ length: random(3) }, () => bytesOf(32)),
  }))

async function anyTransaction(type: number): Promise<TransactionSerializable> {
  const to = random(4) === 0 && type < 3 ? null : bytesOf(20)
  const common = {
    to,
    nonce: random(300),
    gas: amount(),
    value: amount(),
    data: bytesOf([0, 1, 55, 56, 300][random(5)]!),
  }
  if (type === 0) return { ...common, type: 'legacy', gasPrice: amount(), ...(random(2) === 0 ? {} : { chainId: 1 + random(99_999) }) } // prettier-ignore
  const listed = { ...common, chainId: 1 + random(99_999), accessList: accessList() }
  if (type === 1) return { ...listed, type: 'eip2930', gasPrice: amount() }
  const maxPriorityFeePerGas = amount()
  const dynamic = { ...listed, maxFeePerGas: maxPriorityFeePerGas + amount(), maxPriorityFeePerGas }
  if (type === 2) return { ...dynamic, type: 'eip1559' }
  if (type === 3) {
    const blobVersionedHashes = Array.from({ length: 1 + random(3) }, (): Hex => `0x01${bytesOf(31).slice(2)}`)
    return { ...dynamic, type: 'eip4844', to: to!, maxFeePerBlobGas: 1n + amount(), blobVersionedHashes }
  }
  const authorization = await account.signAuthorization({
    address: bytesOf(20),
    chainId: random(9),
    nonce: random(300),
  })
  return { ...dynamic, type: 'eip7702', authorizationList: [authorization] }
}

/** Returns a transaction as a node sends it. The library signs and serializes, and supplies hash and sender. */
async function answerOf(type: number) {
  const transaction = await anyTransaction(type)
  const raw = await account.signTransaction(transaction)
  const { r, s, v, yParity } = parseTransaction(raw)
  const quantities = Object.entries({ ...transaction, v: type === 0 ? v : yParity, type }).filter(([, value]) => ['bigint', 'number'].includes(typeof value)) // prettier-ignore
  const hexed = Object.fromEntries(quantities.map(([name, value]) => [name, toHex(value as bigint)]))
  const authorizationList = (transaction as { authorizationList?: { r: Hex; s: Hex; yParity?: number; chainId: number; nonce: number; address: Hex }[] }).authorizationList?.map((one) => ({ address: one.address, chainId: toHex(one.chainId), nonce: toHex(one.nonce), yParity: toHex(one.yParity!), r: toHex(BigInt(one.r)), s: toHex(BigInt(one.s)) })) // prettier-ignore
  const answer = { ...transaction, ...hexed, input: transaction.data, r: toHex(BigInt(r!)), s: toHex(BigInt(s!)), authorizationList } // prettier-ignore
  return { raw, answer, transaction }
}

for (const type of [0, 1, 2, 3, 4]) {
  test(`of type ${type} hash, sender and contract are those that the library finds`, async () => {
    for (let count = 0; count < 60; count++) {
      const { raw, answer, transaction } = await answerOf(type)
      const sent = readSent(answer)
      assert.equal(`0x${sent.encoded.toString('hex')}`, raw)
      assert.equal(sent.hash, keccak256(raw))
      assert.equal(sent.from(), account.address.toLowerCase())
      assert.equal(sent.nonce, transaction.nonce)
      assert.equal(sent.value(), transaction.value)
      assert.equal(`0x${sent.data.toString('hex')}`, transaction.data)
      const [creator, { nonce }] = [sent.from(), sent]
      const created = getContractAddress({ from: creator as Hex, nonce: BigInt(nonce) }).toLowerCase()
      assert.equal(sent.contractAddress(), transaction.to === null ? created : null)
      const same = readRaw(sent.encoded)
      for (const one of ['encoded', 'hash', 'isSigned', 'to', 'data', 'nonce'] as const)
        assert.deepEqual(same[one], sent[one])
      assert.equal(same.value(), sent.value())
      assert.equal(same.from(), sent.from())
      assert.equal(same.contractAddress(), sent.contractAddress())
      for (const baseFee of [null, 0n, 7n, 1n << 70n]) assert.equal(same.priceAt(baseFee), sent.priceAt(baseFee))
    }
  })
}

test('what is paid for gas is the price, or the base fee and the tip up to the most that is offered', () => {
  const [legacy, dynamic] = [0, 2].map(
    (type) => makeTransaction({ from: signerAt(1), to: null, nonce: 1, type }).answer,
  )
  assert.equal(readSent({ ...legacy, gasPrice: '0x9' }).priceAt(5n), 9n)
  const fees = { maxFeePerGas: '0x64', maxPriorityFeePerGas: '0x7' }
  assert.equal(readSent({ ...dynamic, ...fees }).priceAt(50n), 57n)
  assert.equal(readSent({ ...dynamic, ...fees }).priceAt(93n), 100n)
  assert.equal(readSent({ ...dynamic, ...fees }).priceAt(94n), 100n)
  assert.equal(readSent({ ...dynamic, ...fees }).priceAt(null), 7n)
})

test('types of other networks are told from Ethereum’s', () => {
  for (const type of [undefined, null, '0x0', '0x1', '0x2', '0x3', '0x4']) assert.ok(isEthereums(typeOf({ type })))
  for (const type of ['0x5', '0x64', '0x6a', '0x71', '0x7b', '0x7e', '0xff']) {
    assert.ok(!isEthereums(typeOf({ type })))
    assert.throws(() => readSent({ type }), /type/)
  }
})

test('bytes that are no transaction are refused, wherever they are cut off or changed into another form', () => {
  for (const type of [0, 1, 2, 3, 4]) {
    const { encoded } = makeTransaction({ from: signerAt(1), to: signerAt(2), nonce: 300, type })
    for (let end = 0; end < encoded.length; end++)
      assert.throws(() => readRaw(encoded.subarray(0, end)), { name: 'InvalidResponse' })
    assert.throws(() => readRaw(Buffer.concat([encoded, Buffer.of(0)])), { name: 'InvalidResponse' })
    for (const other of [5, 0x7f, 0x80, 0xbf]) {
      const typed = Buffer.concat([Buffer.of(other), encoded.subarray(type === 0 ? 0 : 1)])
      assert.throws(() => readRaw(typed), { name: 'InvalidResponse' })
    }
  }
  assert.throws(() => readRaw(Buffer.from('c0', 'hex')), { name: 'InvalidResponse' })
  // Lists in place of bytes.
  assert.throws(() => readRaw(Buffer.from(`c9${'c0'.repeat(9)}`, 'hex')), { name: 'InvalidResponse' })
})

const NONSENSE = [undefined, null, '', '0x', '0xzz', '0x0g', 5, {}, [], true, '-0x1', `0x${'f'.repeat(65)}`]

test('nonsense in any field is refused as a bad answer of the node, or gives another hash', () => {
  for (const type of [0, 1, 2, 3, 4]) {
    const { answer, hash } = makeTransaction({ from: signerAt(1), to: signerAt(2), nonce: 300, type })
    assert.equal(readSent(answer).hash, hash)
    for (const [name, right] of Object.entries(answer)) {
      for (const wrong of NONSENSE) {
        let found: Hex | null = null
        try {
          found = readSent({ ...answer, [name]: wrong }).hash
        } catch (error) {
          assert.equal((error as Error).name, 'InvalidResponse', `${name}: ${JSON.stringify(wrong)}: ${String(error)}`)
        }
        const isUnread = ['hash', 'from', ...UNREAD[type]!].includes(name)
        const isSaidElsewhere = name === 'yParity' && (wrong === undefined || wrong === null)
        const isNone = name === 'input' && wrong === right
        if (!isUnread && !isSaidElsewhere && !isNone) assert.notEqual(found, hash, `${name}: ${JSON.stringify(wrong)}`)
      }
    }
  }
})

/** Fields of a node's answer that its bytes do not contain: results, or duplicates. */
const UNREAD: Record<number, string[]> = {
  0: ['type', 'chainId'],
  1: [],
  2: ['gasPrice', 'v'],
  3: ['gasPrice', 'v'],
  4: ['gasPrice', 'v'],
}
