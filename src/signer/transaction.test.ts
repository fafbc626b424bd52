import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { Transaction as EthersTransaction } from 'ethers'
import * as fc from 'fast-check'
import { keccak256, serializeTransaction, type TransactionSerializable } from 'viem'
import { addressOf, publicKeyOf, signDigest, type Signature } from './keys/curve.ts'
import { assemble, digestOf, type FeeFields, type UnsignedTransaction } from './transaction.ts'

const uint = (bits: number) =>
  fc.oneof(fc.constantFrom(0n, 1n, 127n, 128n, 255n, 256n), fc.bigInt(0n, 2n ** BigInt(bits) - 1n))

const fees: fc.Arbitrary<FeeFields> = fc.oneof(
  fc.record({ type: fc.constant('legacy' as const), gasPrice: uint(96) }),
  fc.tuple(uint(96), uint(96)).map(([a, b]) => ({
    type: 'eip1559' as const,
    maxFeePerGas: a > b ? a : b,
    maxPriorityFeePerGas: a > b ? b : a,
  })),
)

const transaction: fc.Arbitrary<UnsignedTransaction> = fc.record({
  chainId: fc.oneof(fc.constantFrom(1, 31_337), fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER })),
  from: fc.constant(Buffer.alloc(20)),
  nonce: fc.oneof(fc.constantFrom(0, 1, 127, 128, 255, 256), fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER })),
  to: fc.uint8Array({ minLength: 20, maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
  value: uint(256),
  data: fc.constant(Buffer.alloc(0)),
  gas: uint(64),
  fees,
})

/** Around the lengths at which RLP changes its form. */
const lengths = fc.oneof(fc.integer({ min: 0, max: 60 }), fc.constantFrom(255, 256, 65_535, 65_536))

const hex = (bytes: Uint8Array) => `0x${Buffer.from(bytes).toString('hex')}` as const

function forViem({ chainId, nonce, to, value, data, gas, fees }: UnsignedTransaction): TransactionSerializable {
  const common = { chainId, nonce, to: hex(to!), value, data: hex(data), gas }
  return fees.type === 'legacy' ? { ...common, ...fees } : { ...common, ...fees }
}

function forEthers({ chainId, nonce, to, value, data, gas, fees }: UnsignedTransaction): EthersTransaction {
  const { type, ...prices } = fees
  const common = { chainId, nonce, to: hex(to!), value, data: hex(data), gasLimit: gas }
  return EthersTransaction.from({ ...common, ...prices, type: type === 'legacy' ? 0 : 2 })
}

test('any transaction is serialised, signed and hashed as viem and ethers do it', () => {
  const key = randomBytes(32)
  const address = addressOf(publicKeyOf(key))
  fc.assert(
    fc.property(transaction, lengths, fc.integer({ min: 0, max: 255 }), (terms, length, fill) => {
      const tx = { ...terms, data: Buffer.alloc(length, fill) }
      const reference = forEthers(tx)
      const digest = digestOf(tx)
      assert.equal(hex(digest), reference.unsignedHash)
      const signature = signDigest(digest, key, address)
      const { raw, hash } = assemble(tx, signature)
      assert.equal(hex(raw), serializeTransaction(forViem(tx), forViemSignature(signature)))
      const read = EthersTransaction.from(hex(raw))
      assert.equal(read.from?.toLowerCase(), hex(address))
      assert.equal(read.hash, hex(hash))
      assert.equal(read.data, hex(tx.data))
    }),
    { numRuns: 200 },
  )
})

test('with authorizations it is of type 4, serialised and hashed as viem does it', () => {
  const word = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).fill(1, 31))
  const authorization = fc.record({
    chainId: fc.integer({ min: 1, max: 2 ** 31 }),
    address: fc.constant(Buffer.alloc(20, 0xde)),
    nonce: fc.constantFrom(0, 1, 127, 128, 65_536),
    ...{ r: word, s: word, recovery: fc.constantFrom(0 as const, 1 as const) },
  })
  const authorizations = fc.array(authorization, { minLength: 1, maxLength: 3 })
  fc.assert(
    fc.property(transaction, authorizations, (terms, authorizations) => {
      const fees = { type: 'eip1559', maxFeePerGas: 2_000n, maxPriorityFeePerGas: 1n } as const
      const tx = { ...terms, fees, authorizations }
      const authorizationList = authorizations.map(({ address, r, s, recovery, ...rest }) => ({
        ...{ ...rest, address: hex(address), r: hex(r), s: hex(s), yParity: recovery },
      }))
      const theirs = { ...forViem(tx), type: 'eip7702', authorizationList } as TransactionSerializable
      assert.equal(hex(digestOf(tx)), keccak256(serializeTransaction(theirs)))
      const signature = { r: Buffer.alloc(32, 7), s: Buffer.alloc(32, 9), recovery: 1 } as const
      const { raw, hash } = assemble(tx, signature)
      assert.equal(hex(raw), serializeTransaction(theirs, forViemSignature(signature)))
      assert.equal(hex(hash), keccak256(raw))
    }),
    { numRuns: 50 },
  )
})

test('r and s that begin with zero bytes are written without them', () => {
  const tx: UnsignedTransaction = {
    chainId: 1,
    from: Buffer.alloc(20),
    nonce: 0,
    to: Buffer.alloc(20, 1),
    value: 0n,
    data: Buffer.alloc(0),
    gas: 21_000n,
    fees: { type: 'legacy', gasPrice: 1n },
  }
  const r = Buffer.concat([Buffer.alloc(2), randomBytes(30).fill(0x11, 0, 1)])
  const signature = { r, s: Buffer.alloc(32, 0x22).fill(0, 0, 1), recovery: 1 as const }
  assert.equal(hex(assemble(tx, signature).raw), serializeTransaction(forViem(tx), forViemSignature(signature)))
})

const forViemSignature = ({ r, s, recovery }: Signature) => ({
  r: hex(r),
  s: hex(s),
  v: BigInt(27 + recovery),
  yParity: recovery,
})

test('a signature that does not recover to the account is not given away', () => {
  const digest = randomBytes(32)
  assert.throws(() => signDigest(digest, randomBytes(32), addressOf(publicKeyOf(randomBytes(32)))), /does not recover/)
})
