import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { importJWK, type CryptoKey } from 'jose'
import { exportTokens } from '../../test/export-tokens.ts'
import { world, type World } from '../../test/world.ts'
import type { PrivateKeys } from '../oauth/keys.ts'
import { connectSigner } from '../signer-wire/client.ts'

let here: World
let operator: string
before(async () => {
  here = await world({ KEY_EXPORT: 'on', SIGNER_EXPORT_DELAY_SECONDS: '3600' })
  operator = (await readFile(join(here.dataDir, 'operator-token'), 'utf8')).trim()
})
after(() => here.close())

const operate = (method: string, path: string) =>
  here.request(`/operator/v1/accounts/${path}`, { method, headers: { authorization: `Bearer ${operator}` } })

test('the operator sees a key that was requested past the server, and ends it', async () => {
  const { alice } = here
  const none = await operate('GET', 'exports')
  assert.deepEqual([none.body, none.headers.get('x-total-count')], [[], '0'])
  const { keys } = JSON.parse(await readFile(join(here.dataDir, 'auth-keys.json'), 'utf8')) as PrivateKeys
  const jwk = keys.find(({ alg }) => alg === 'ES256')!
  const token = exportTokens({ key: (await importJWK(jwk, 'ES256')) as CryptoKey, issuer: here.facts.issuer })
  const signer = connectSigner({ path: here.app.config.SIGNER_SOCKET ?? join(here.dataDir, 'signer.sock') })
  await signer.askKey({ token: await token(alice.userId, 'ask', { header: { kid: jwk.kid } }) })
  signer.close()
  const listed = await operate('GET', 'exports')
  assert.equal(listed.headers.get('x-total-count'), '1')
  const [requested, ...others] = listed.body
  assert.deepEqual(
    [requested.userId, requested.state, requested.exportedAt, others.length],
    [alice.userId, 'waiting', null, 0],
  )
  assert.equal(Date.parse(requested.readyAt) - Date.parse(requested.askedAt), 3_600_000)
  assert.equal((await operate('POST', `${alice.userId}/cancel-export`)).body.state, 'none')
  assert.deepEqual((await operate('GET', 'exports')).body, [])
  assert.equal((await operate('POST', 'DEV-nobody/cancel-export')).status, 404)
})
