import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodeRlp as ethersDecode, encodeRlp as ethersEncode } from 'ethers'
import * as fc from 'fast-check'
import { toRlp } from 'viem'
import { decodeRlp, encodeRlp, type Decoded, type Rlp } from './rlp.ts'

/** Around the lengths at which RLP changes its form. */
const bytes = fc
  .oneof(fc.integer({ min: 0, max: 60 }), fc.constantFrom(255, 256))
  .chain((length) => fc.uint8Array({ minLength: length, maxLength: length }))
const { item } = fc.letrec<{ item: Uint8Array | Uint8Array[] }>((tie) => ({
  item: fc.oneof({ maxDepth: 3 }, bytes, fc.array(tie('item'), { maxLength: 4 }) as fc.Arbitrary<Uint8Array[]>),
}))

const hex = (bytes: Uint8Array) => `0x${Buffer.from(bytes).toString('hex')}` as const
type Nested = `0x${string}` | Nested[]
const nested = (of: Decoded | Rlp): Nested => (of instanceof Uint8Array ? hex(of) : (of as readonly Rlp[]).map(nested))

test('what is encoded is what two other libraries make of it, and decodes to the same', () => {
  fc.assert(
    fc.property(item, (value) => {
      const encoded = encodeRlp(value)
      assert.equal(hex(encoded), toRlp(nested(value)))
      assert.equal(hex(encoded), ethersEncode(nested(value)))
      assert.deepEqual(nested(decodeRlp(encoded)!), ethersDecode(hex(encoded)))
      assert.deepEqual(nested(decodeRlp(encoded)!), nested(value))
    }),
    { numRuns: 300 },
  )
  for (const length of [65_535, 65_536]) {
    const long = Buffer.alloc(length, 7)
    assert.equal(hex(encodeRlp([long])), toRlp([hex(long)]))
    assert.deepEqual(decodeRlp(encodeRlp([long])), [long])
  }
})

test('numbers are their shortest bytes, zero is none, and what is encoded already is taken as it is', () => {
  const hexOf = (item: Rlp) => encodeRlp(item).toString('hex')
  assert.deepEqual([0, 1, 127, 128, 256].map(hexOf), ['80', '01', '7f', '8180', '820100'])
  assert.equal(hexOf(2n ** 256n - 1n), `a0${'ff'.repeat(32)}`)
  assert.equal(hexOf([0n, [], { encoded: encodeRlp(5) }]), 'c380c005')
})

test('what is cut off, or has bytes left over, is nothing', () => {
  fc.assert(
    fc.property(item, fc.nat(), (value, at) => {
      const encoded = encodeRlp(value)
      assert.equal(decodeRlp(encoded.subarray(0, at % encoded.length)), null)
      assert.equal(decodeRlp(Buffer.concat([encoded, Buffer.of(0)])), null)
    }),
    { numRuns: 300 },
  )
  for (const broken of ['', 'b9', 'bb00000001', 'bf00000000000000ff', 'c2', 'c28180ff', 'ff'])
    assert.equal(decodeRlp(Buffer.from(broken, 'hex')), null)
})
