import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Transaction } from 'ethers'
import { ask, refusal, world } from '../../test/kit/signer.ts'
import { verifyStore } from './verify.ts'
import type { Hex } from './wire.ts'

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

for (const [point, isKept] of [
  ['signer.before-commit', false],
  ['signer.after-commit', true],
  ['signer.after-witness', true],
] as const) {
  test(`killed ${point}, the signature is ${isKept ? 'kept' : 'not there'} and the request can be repeated`, async (t) => {
    const { place, signer, address, accessToken, again } = await world(t)
    await signer.end('SIGTERM')
    // The first commit of this run is the one of the signature.
    const doomed = await again({ more: { CRASH_AT: point } })
    await assert.rejects(doomed.sign(ask(address, { accessToken })), refusal('signer_unavailable'))
    assert.equal(await doomed.ended, 'SIGKILL')
    const revived = await again()
    assert.equal((await revived.recall({ intentId: 'tx_0' })).attempts.length, isKept ? 1 : 0)
    const { stored, raw } = await revived.sign(ask(address, { accessToken }))
    assert.equal(stored, isKept)
    assert.equal(Transaction.from(raw).from?.toLowerCase(), address)
    assert.deepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
  })
}
