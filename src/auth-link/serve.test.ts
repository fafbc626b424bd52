import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import fastify from 'fastify'
import { attestingSigner } from '../../test/attesting.ts'
import { testDatabase } from '../../test/kit/database.ts'
import { madeIdentityKeys } from '../../test/identity-keys.ts'
import type { App } from '../app.ts'
import type { Hex } from '../ids.ts'
import { openState } from '../state.ts'
import { serveApi } from './serve.ts'
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
    identityKeys: madeIdentityKeys(),
    telemetry: {},
  } as unknown as App
  const server = fastify()
  t.after(() => server.close())
  serveApi(server, app, { forms: new Map(), publish: async () => {} })
  const make = async (provider: string, providerUserId: string) => {
    const payload = { provider, providerUserId }
    const answer = await server.inject({ method: 'POST', url: '/internal/auth/accounts', payload })
    return [answer.statusCode, answer.json().userId ?? answer.json().message]
  }
  assert.deepEqual(await make('ONE', '7'), [200, 'ONE-7'])
  assert.deepEqual(await make('SPONSOR', 'HOUSE'), [200, 'SPONSOR-HOUSE'])
  assert.deepEqual(await make('SPONSOR', 'HOUSE'), [200, 'SPONSOR-HOUSE'])
  assert.match(String((await make('SPONSOR', 'a person'))[1]), /no identity provider/)
  const accounts = await db.selectFrom('accounts').select('user_id').orderBy('user_id').execute()
  assert.deepEqual(accounts, [{ user_id: 'ONE-7' }, { user_id: 'SPONSOR-HOUSE' }])
  assert.deepEqual(await db.selectFrom('identities').select('provider').execute(), [{ provider: 'ONE' }])
  assert.deepEqual(await db.selectFrom('sponsors').selectAll().execute(), [], 'whether it pays says an operator')
})
