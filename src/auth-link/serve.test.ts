import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { request as ask, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fastify from 'fastify'
import { attestingSigner } from '../../test/attesting.ts'
import { testDatabase } from '../../test/kit/database.ts'
import { madeSealKeys } from '../../test/seal-keys.ts'
import type { App } from '../app.ts'
import { describeError, type AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { openState } from '../state.ts'
import { listenAtSocket } from '../http/unix-socket.ts'
import { decryptSecret, encryptSecret, secretKeysOf } from '../store/secret-keys.ts'
import { connectAuth } from './connect.ts'
import { keepApart, serveApi } from './serve.ts'
import { systemClock } from '../clock.ts'

const addressOf = (userId: string): Hex => `0x${createHash('sha256').update(userId).digest('hex').slice(0, 40)}`

test('an account that the ledger knows and the database lost comes back by the other program: a person with their identity, a sponsor without one', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  const signer = attestingSigner(addressOf)
  const app = {
    clock: systemClock,
    db,
    signer,
    state: openState(),
    sealKeys: madeSealKeys(),
    telemetry: {},
  } as unknown as App
  const server = fastify()
  t.after(() => server.close())
  serveApi(server, app, { forms: new Map(), publish: async () => {}, webhookKeys: () => new Map() })
  const make = async (provider: string, providerUserId: string) => {
    const payload = { provider, providerUserId }
    const answer = await server.inject({ method: 'POST', url: '/internal/auth/accounts', payload })
    return [answer.statusCode, answer.json().userId ?? answer.json().message]
  }
  assert.deepEqual(await make('ONE', '7'), [200, 'ONE-7'])
  assert.deepEqual(await make('SPONSOR', 'HOUSE'), [200, 'SPONSOR-HOUSE'])
  assert.deepEqual(await make('SPONSOR', 'HOUSE'), [200, 'SPONSOR-HOUSE'])
  assert.match(String((await make('SPONSOR', 'a person'))[1]), /not an identity provider/)
  const accounts = await db.selectFrom('accounts').select('user_id').orderBy('user_id').execute()
  assert.deepEqual(accounts, [{ user_id: 'ONE-7' }, { user_id: 'SPONSOR-HOUSE' }])
  assert.deepEqual(await db.selectFrom('identities').select('provider').execute(), [{ provider: 'ONE' }])
  assert.deepEqual(await db.selectFrom('sponsors').selectAll().execute(), [], 'whether it pays says an operator')
})

test('a separate authorization server answers issuer and pages at AUTH_ORIGIN alone, and questions on its socket alone', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-serve-'))
  const server = fastify()
  server.setErrorHandler((error, _request, reply) => reply.code(describeError((error as AppError).code).status).send())
  keepApart(server, { authOrigin: 'https://sign-in.example' } as App)
  const paths = ['/oauth/.well-known/openid-configuration', '/oauth/jwks', '/oauth/token', '/oauth/auth', '/oauth/me', '/.well-known/oauth-authorization-server/oauth', '/login/callback/ACME', '/consent/x', '/account', '/operator/v1/networks'] // prettier-ignore
  for (const path of [...paths, '/internal/auth/forms', '/healthz', '/readyz'])
    server.get(path, (_request, reply) => reply.send('there'))
  await server.listen({ port: 0, host: '127.0.0.1' })
  const socketPath = join(folder, 'auth.sock')
  const door = await listenAtSocket(server, { path: socketPath, setting: 'AUTH_SOCKET', clock: systemClock })
  t.after(async () => {
    await door.close()
    await server.close()
    await rm(folder, { recursive: true })
  })
  const { port } = server.server.address() as AddressInfo
  const statusOf = async (path: string, at: { host: string } | 'socket'): Promise<number> => {
    const to = at === 'socket' ? { socketPath } : { host: '127.0.0.1', port, headers: at }
    const [answer] = (await once(ask({ ...to, path }).end(), 'response')) as [IncomingMessage]
    answer.resume()
    return answer.statusCode!
  }
  const [own, api] = [{ host: 'sign-in.example' }, { host: 'wallet.example' }]
  for (const path of paths) {
    const statuses = [await statusOf(path, own), await statusOf(path, api), await statusOf(path, 'socket')]
    assert.deepEqual(statuses, [200, 421, 404], path)
  }
  for (const path of ['/internal/auth/forms', '/%69nternal/auth/forms']) {
    const statuses = [await statusOf(path, own), await statusOf(path, api), await statusOf(path, 'socket')]
    assert.deepEqual(statuses, [404, 404, 200], path)
  }
  // Probes of a balancer know no name.
  assert.deepEqual([await statusOf('/healthz', api), await statusOf('/healthz', 'socket')], [200, 200])
  assert.deepEqual([await statusOf('/readyz', api), await statusOf('/readyz', 'socket')], [200, 404])
})

test('the API gets keys for the secrets of webhooks, and nothing that seals rows', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-serve-'))
  const socketPath = join(folder, 'auth.sock')
  const server = fastify()
  const sealKeys = madeSealKeys()
  serveApi(server, { sealKeys } as App, { forms: new Map(), publish: async () => {}, webhookKeys: () => secretKeysOf(sealKeys, 'webhook secrets')! }) // prettier-ignore
  await server.listen({ path: socketPath })
  const link = connectAuth(socketPath, systemClock)
  t.after(async () => {
    link.close()
    await server.close()
    await rm(folder, { recursive: true })
  })
  const keys = await link.webhookKeys()
  const text = encryptSecret(secretKeysOf(sealKeys, 'webhook secrets')!, Buffer.from('secret'), 'whk_1')
  assert.equal(decryptSecret(keys, text, 'whk_1')!.toString(), 'secret')
  assert.equal(decryptSecret(keys, text, 'whk_2'), null)
  assert.equal(decryptSecret(secretKeysOf(sealKeys, 'another purpose')!, text, 'whk_1'), null)
  for (const [kid, key] of keys) assert.ok(!key.equals(sealKeys.macs!.get(kid)!))
})
