import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { openNative, openWasm, type Curve } from './secp256k1.ts'

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const bytesOf = (number: bigint): Buffer => Buffer.from(number.toString(16).padStart(64, '0'), 'hex')
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

const wasm = openWasm()
const native = openNative()

for (const curve of native === null ? [wasm] : [native, wasm]) {
  test(`${curve.kind}: signs as RFC 6979 says, with low s`, () => {
    // Source: the vectors for secp256k1 that Trezor published and bitcoinjs and others carry.
    const signed = (key: bigint, message: string) => hex(curve.sign(createHash('sha256').update(message).digest(), bytesOf(key)).signature) // prettier-ignore
    assert.equal(
      signed(1n, 'Satoshi Nakamoto'),
      '934b1ea10a4b3c1757e2b0c017d0b6143ce3c9a7e6a4a49860d7a6ab210ee3d82442ce9d2b916064108014783e923ec36b49743e2ffa1c4496f01a512aafd9e5',
    )
    assert.equal(
      signed(ORDER - 1n, 'Satoshi Nakamoto'),
      'fd567d121db66e382991534ada77a6bd3106f0a1098c231e47993447cd6af2d06b39cd0eb1bc8603e159ef5c20a5c8ad685a45b06ce9bebed3f153d10d93bed5',
    )
  })

  test(`${curve.kind}: keys are the numbers 1 to n-1`, () => {
    for (const key of [1n, 2n, ORDER - 1n]) assert.equal(curve.isScalar(bytesOf(key)), true)
    for (const key of [0n, ORDER, ORDER + 1n, 2n ** 256n - 1n]) assert.equal(curve.isScalar(bytesOf(key)), false)
  })

  test(`${curve.kind}: what is no signature recovers to nobody`, () => {
    const digest = randomBytes(32)
    for (const signature of [
      Buffer.alloc(64),
      Buffer.concat([bytesOf(ORDER), bytesOf(1n)]),
      Buffer.concat([bytesOf(1n), bytesOf(0n)]),
      Buffer.alloc(64, 0xff),
    ])
      for (const recovery of [0, 1]) assert.throws(() => curve.recover(signature, recovery, digest))
  })
}

test('both give the same bytes for 200 keys', { skip: native === null && 'no native binding here' }, () => {
  const [a, b] = [native!, wasm]
  for (let time = 0; time < 200; time++) {
    const [key, digest] = [randomBytes(32), randomBytes(32)]
    const by = (curve: Curve) => {
      const { signature, recovery } = curve.sign(digest, key)
      const publicKey = curve.publicKeyOf(key)
      assert.equal(hex(curve.recover(signature, recovery, digest)), hex(publicKey))
      return [hex(signature), recovery, hex(publicKey)]
    }
    assert.deepEqual(by(a), by(b))
  }
})
