import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask, refusal, world } from '../../test/kit/signer.ts'
import { verifyStore } from './programs/verify.ts'
import type { Hex } from '../signer-wire/wire.ts'

test('after SIGKILL under load every answered signature is still there, byte for byte', async (t) => {
  const { place, signer, address, accessToken, again } = await world(t)
  const answered: { nonce: number; raw: Hex }[] = []
  const request = (nonce: number) => ask(address, { nonce, intentId: `load_${nonce}`, accessToken })
  let next = 0
  const caller = async () => {
    for (;;) {
      const nonce = next++
      const { raw } = await signer.sign(request(nonce))
      answered.push({ nonce, raw })
      if (answered.length === 150) process.kill(signer.pid, 'SIGKILL')
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: 8 }, caller))
  for (const end of ends) assert.ok(end.status === 'rejected' && refusal('signer_unavailable')(end.reason))
  assert.equal(await signer.ended, 'SIGKILL')

  const revived = await again()
  for (const { nonce, raw } of answered) {
    const repeated = await revived.sign(request(nonce))
    assert.equal(repeated.raw, raw)
    assert.equal(repeated.stored, true)
    const other = { ...request(nonce), value: '2', maxFeePerGas: '2000', maxPriorityFeePerGas: '200' }
    await assert.rejects(revived.sign(other), refusal('nonce_conflict'))
  }
  assert.deepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
})
