import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { isPublicKey, keyPairOf, newKeyPair, seal, unseal } from './hpke.ts'

const hex = (text: string): Buffer => Buffer.from(text, 'hex')

// RFC 9180 A.3.1: DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode, sequence number 0.
const A_3_1 = {
  info: hex('4f6465206f6e2061204772656369616e2055726e'),
  skEm: hex('4995788ef4b9d6132b249ce59a77281493eb39af373d236a1fe415cb0c2d7beb'),
  enc: '04a92719c6195d5085104f469a8b9814d5838ff72b60501e2c4466e5e67b325ac98536d7b61a1af4b78e5b7f951c0900be863c403ce65c9bfcb9382657222d18c4',
  skRm: hex('f3ce7fdae57e1a310d87f1ebbde6f328be0a99cdbcadf4d6589cf29de4b8ffd2'),
  pkRm: '04fe8c19ce0905191ebc298a9245792531f26f0cece2460639e8bc39cb7f706a826a779b4cf969b8a0e539c7f62fb3d30ad6aa8f80e30f1d128aafd68a2ce72ea0',
  aad: hex('436f756e742d30'),
  pt: hex('4265617574792069732074727574682c20747275746820626561757479'),
  ct: '5ad590bb8baa577f8619db35a36311226a896e7342a6d836d8b7bcd2f20b6c7f9076ac232e3ab2523f39513434',
}

test('the vectors of RFC 9180 are sealed and opened', () => {
  const { info, aad, skEm, skRm, pkRm, pt } = A_3_1
  const terms = { info, aad, aead: 'aes-128-gcm' } as const
  const recipient = keyPairOf(skRm)
  assert.equal(recipient.getPublicKey('hex'), pkRm)
  const sealed = seal(hex(pkRm), pt, terms, keyPairOf(skEm))
  assert.equal(sealed.enc.toString('hex'), A_3_1.enc)
  assert.equal(sealed.ciphertext.toString('hex'), A_3_1.ct)
  assert.deepEqual(unseal(recipient, sealed, terms), pt)
})

test('what was sealed opens for its recipient and its terms, and for nothing else', () => {
  const [recipient, info, key] = [newKeyPair(), Buffer.from('alice'), randomBytes(32)]
  const sealed = seal(recipient.getPublicKey(), key, { info })
  assert.deepEqual(unseal(recipient, sealed, { info }), key)
  assert.equal(sealed.ciphertext.includes(key), false)
  assert.throws(() => unseal(newKeyPair(), sealed, { info }))
  assert.throws(() => unseal(recipient, sealed, { info: Buffer.from('bob') }))
  assert.throws(() => unseal(recipient, sealed, { info, aad: Buffer.of(1) }))
  for (let at = 0; at < sealed.ciphertext.length; at++) {
    const ciphertext = Buffer.from(sealed.ciphertext)
    ciphertext[at]! ^= 1
    assert.throws(() => unseal(recipient, { ...sealed, ciphertext }, { info }))
  }
  assert.throws(() => unseal(recipient, { ...sealed, ciphertext: sealed.ciphertext.subarray(0, 8) }, { info }))
  const again = seal(recipient.getPublicKey(), key, { info })
  assert.notDeepEqual(again.enc, sealed.enc)
})

test('a recipient that is no point of the curve is refused', () => {
  const good = newKeyPair().getPublicKey()
  assert.equal(isPublicKey(good), true)
  const off = Buffer.from(good)
  off[64]! ^= 1
  for (const bad of [off, good.subarray(0, 64), Buffer.alloc(65), Buffer.concat([Buffer.of(4), Buffer.alloc(64)])]) {
    assert.equal(isPublicKey(bad), false)
    assert.throws(() => seal(bad, randomBytes(32), { info: Buffer.alloc(0) }))
  }
})
