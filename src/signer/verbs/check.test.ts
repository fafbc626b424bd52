import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ALICE, ask, BOB, refusal, SOMEWHERE, world } from '../../../test/kit/signer.ts'
import type { SignRequest } from '../../signer-wire/wire.ts'

test('a check answers what a signature would, and leaves nothing behind', async (t) => {
  const { signer, address, accessToken } = await world(t)
  const before = (await signer.health()).ledgerEntries
  const request = ask(address, { accessToken })
  const would = { kind: 'send', rule: 'default-allow', stored: false, requires: null }
  for (let round = 0; round < 3; round++) assert.deepEqual(await signer.check(request), would)
  // Nonce and intent are still free, so they can be used for another write.
  const other = ask(address, { accessToken, to: SOMEWHERE, value: '2' })
  assert.deepEqual(await signer.check(other), would)
  assert.equal((await signer.health()).ledgerEntries, before)
  assert.deepEqual(await signer.recall({ intentId: request.intentId }), { attempts: [], hasMore: false })

  const signed = await signer.sign(other)
  assert.deepEqual(await signer.check(other), { kind: 'send', rule: signed.rule, stored: true, requires: null })
  assert.equal(signed.stored, false)
  assert.deepEqual(await signer.sign(other), { ...signed, stored: true })
  const raised = { ...other, maxFeePerGas: '1100', maxPriorityFeePerGas: '110', kind: 'replace' } as const
  assert.deepEqual(await signer.check(raised), { ...would, kind: 'replace' })
  assert.equal((await signer.recall({ intentId: other.intentId })).attempts.length, 1)
})

test('a check refuses what a signature refuses, with the same code and sentence, in the same order', async (t) => {
  const { signer, address, accessToken, place } = await world(t)
  const { address: bob } = await signer.createAccount({ userId: BOB })
  await signer.sign(ask(address, { accessToken }))
  const dear = { gas: '30000000', maxFeePerGas: '1000000000000' }
  const refused: [changes: Partial<SignRequest>, code: string][] = [
    [{ accessToken: 'e30.e30.e30', ...dear }, 'invalid_token'],
    [{ accessToken: await place.token(ALICE, { scope: 'openid' }), ...dear }, 'insufficient_scope'],
    [{ accessToken: await place.token(ALICE, { chain_id: 1 }), ...dear }, 'insufficient_scope'],
    [{ accessToken: await place.token(BOB), ...dear }, 'forbidden_user'],
    [{ accessToken, from: `0x${'ab'.repeat(20)}` }, 'unknown_account'],
    [{ accessToken, ...dear, nonce: 99 }, 'policy_denied'],
    [{ accessToken, nonce: 99 }, 'nonce_gap'],
    [{ accessToken, value: '2' }, 'nonce_conflict'],
    [{ accessToken, nonce: 1, intentId: 'tx_0' }, 'intent_conflict'],
    [{ accessToken, maxFeePerGas: '1001' }, 'nonce_conflict'],
    [{ kind: 'replace', maxFeePerGas: '1001' }, 'replacement_underpriced'],
    [{ nonce: 1 }, 'invalid_token'],
    [{ accessToken, nonce: -1 }, 'bad_request'],
  ]
  for (const [changes, code] of refused) {
    const request = ask(changes.from ?? address, changes)
    const told = await signer.sign(request).catch((error: Error) => error.message)
    await assert.rejects(signer.check(request), (error: Error) => refusal(code)(error) && error.message === told, code)
  }
  assert.notEqual(bob, address)
})

test('filling a nonce without a token costs little; what its user signed for may cost what their writes may', async (t) => {
  const { signer, address, accessToken, again } = await world(t)
  await signer.end('SIGTERM')
  const more = { SIGNER_MAX_FILL_FEE_WEI: String(21_000n * 100n), SIGNER_MAX_FILLS: '2' }
  const limited = await again({ more })
  const cancel = (nonce: number, fee: string, changes: Partial<SignRequest> = {}) =>
    ask(address, { nonce, kind: 'cancel', to: address, value: '0', maxFeePerGas: fee, maxPriorityFeePerGas: fee, ...changes }) // prettier-ignore

  await limited.sign(ask(address, { accessToken }))
  await assert.rejects(limited.sign(cancel(1, '101')), /max-fill-fee/)
  await assert.rejects(limited.check(cancel(1, '101')), refusal('policy_denied'))
  await assert.rejects(limited.sign(cancel(1, '100', { gas: '21001' })), /max-fill-fee/)
  assert.equal((await limited.sign(cancel(1, '90'))).rule, 'max-fill-fee')
  // Fee bumps are possible up to the same limit, and no further.
  assert.equal((await limited.sign(cancel(1, '100', { kind: 'replace' }))).kind, 'cancel')
  await assert.rejects(limited.sign(cancel(1, '110')), /max-fill-fee/)
  await assert.rejects(limited.sign(cancel(1, '110', { kind: 'replace' })), /max-fill-fee/)
  assert.equal((await limited.sign(cancel(1, '110', { accessToken }))).rule, 'default-allow')
  // After an attempt with the user's token, this limit no longer applies, even without a token.
  await limited.sign(cancel(1, '150'))

  await limited.sign(ask(address, { accessToken, nonce: 2, maxFeePerGas: '5000' }))
  assert.equal((await limited.sign(cancel(2, '6000'))).rule, 'default-allow')
  await limited.sign(cancel(2, '7000', { kind: 'replace' }))

  for (const nonce of [3, 4]) await limited.sign(cancel(nonce, '50'))
  await assert.rejects(limited.sign(cancel(5, '50')), /2 consecutive nonces/)
  await limited.sign(ask(address, { accessToken, nonce: 6 }))
  await limited.sign(cancel(5, '50'))
})
