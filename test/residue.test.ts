// tier: all, because it reads the memory of processes
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openNative, openWasm } from '../src/secp256k1.ts'
import { digestOf, nonceOf, residueOf } from './residue.ts'

const skip = process.platform !== 'linux' && 'reads /proc'

test('the nonce that is looked for is the one of the signature', () => {
  const key = Buffer.alloc(32, 5)
  const { signature } = openWasm().sign(digestOf(3), key)
  // r is the x coordinate of the nonce's point.
  assert.deepEqual(
    openWasm()
      .publicKeyOf(nonceOf(key, digestOf(3)))
      .slice(1, 33),
    signature.slice(0, 32),
  )
})

for (const curve of ['native', 'wasm'] as const) {
  const none = curve === 'native' && openNative() === null && 'no native binding here'
  test(
    `${curve}: nothing of a wiped key is left in memory after 200 signatures, nor of a nonce`,
    { skip: skip || none },
    async () => {
      assert.deepEqual(await residueOf({ curve }), { key: 0, nonce: 0 })
    },
  )

  test(`${curve}: one copy that was kept is found`, { skip: skip || none }, async () => {
    const { key } = await residueOf({ curve, mistake: true })
    assert.ok(key >= 2, `${key} halves`)
  })
}
