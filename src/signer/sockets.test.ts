import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { ALICE, ask, makePlace, refusal, startSigner } from '../../test/kit/signer.ts'
import { connectSigner } from '../signer-wire/client.ts'

test('beside a socket for the authorization server the other one makes no account and takes no list, and that one signs nothing', async (t) => {
  const place = await makePlace()
  const authSocket = join(place.folder, 'auth', 'signer.sock')
  const api = await startSigner(place, { more: { SIGNER_AUTH_SOCKET: authSocket, SIGNER_REVOCATIONS_SECONDS: '60' } })
  const auth = connectSigner({ path: authSocket })
  t.after(async () => {
    auth.close()
    await api.end('SIGKILL')
    place.clear()
  })

  const named = (verb: string, socket: string) => (error: unknown) =>
    refusal('bad_request')(error) && (error as Error).message === `${verb} is available only on ${socket}.`
  await assert.rejects(api.createAccount({ userId: ALICE }), named('createAccount', 'SIGNER_AUTH_SOCKET'))
  const list = await place.revocations({ entries: [] })
  await assert.rejects(api.bringRevocations([list]), named('revocations', 'SIGNER_AUTH_SOCKET'))
  await assert.rejects(api.wrapped({ after: 0 }), named('wrapped', 'SIGNER_AUTH_SOCKET'))
  await assert.rejects(api.heldElsewhere({ accounts: [] }), named('heldElsewhere', 'SIGNER_AUTH_SOCKET'))

  const { address } = await auth.createAccount({ userId: ALICE })
  await auth.bringRevocations([list])
  assert.equal((await auth.wrapped({ after: 0 })).keys.length, 1)
  assert.deepEqual(await auth.heldElsewhere({ accounts: [] }), { taken: 0, refused: 0 })
  const accessToken = await place.token(ALICE)
  const request = ask(address, { accessToken })
  await assert.rejects(auth.sign(request), named('sign', 'SIGNER_SOCKET'))
  await assert.rejects(auth.check(request), named('check', 'SIGNER_SOCKET'))
  await assert.rejects(auth.recall({ intentId: 'tx_0' }), named('recall', 'SIGNER_SOCKET'))
  await assert.rejects(auth.recallSince({ after: 0 }), named('recallSince', 'SIGNER_SOCKET'))

  const { raw } = await api.sign(request)
  assert.equal((await api.recall({ intentId: 'tx_0' })).attempts[0]!.raw, raw)
  for (const socket of [api, auth]) assert.equal((await socket.health()).accounts, 1)
})
