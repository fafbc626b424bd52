import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { world, type World } from '../../test/world.ts'
import { trustIssuer } from '../applications/issuers.ts'
import { createApplication } from '../applications/manage.ts'
import { issuerStandIn, type IssuerStandIn } from '../../test/issuer-stand-in.ts'

let here: World
let idp: IssuerStandIn
before(async () => {
  ;[here, idp] = await Promise.all([world(), issuerStandIn()])
})
after(async () => {
  idp.close()
  await here.close()
})

test('somebody of an application’s own provider has an account, reads it and writes; the signer takes the token', async () => {
  const { secret } = await createApplication(here.app, {
    clientId: 'shop',
    name: 'Shop',
    network: 'devnet',
    kind: 'confidential',
    redirectUris: ['https://shop.example/callback'],
    permissions: ['wallet:read', 'contracts:write'],
    allowedOrigins: [],
    logoUri: null,
  })
  await trustIssuer(here.app, 'shop', 'APP_SHOP', { issuer: idp.issuer, audience: 'shop' })
  const exchanged = await here.request('/oauth/token', {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
      subject_token: await idp.sign({ sub: 'user|0815', name: 'Nell' }),
      client_id: 'shop',
      client_secret: secret!,
    }),
  })
  assert.equal(exchanged.status, 200, JSON.stringify(exchanged.body))
  const authorization = `Bearer ${exchanged.body.access_token}`
  const me = (await here.request('/v1/me', { headers: { authorization } })).body
  assert.deepEqual(
    [me.id, me.provider, me.username, me.network, me.linked],
    ['APP_SHOP-user|0815', 'APP_SHOP', 'Nell', 'devnet', ['APP_SHOP-user|0815']],
  )
  const { erc20 } = here.facts.contracts
  const write = await here.request('/v1/contracts/method/write?wait=mined', {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ address: erc20, abi: 'mint(address,uint256) public', args: [me.address, '7'] }),
  })
  assert.equal(write.status, 200, JSON.stringify(write.body))
  const path = `/v1/users/${encodeURIComponent(me.id)}/balance/${erc20}`
  const balance = await here.request(path, { headers: { authorization } })
  assert.equal((Object.values(balance.body)[0] as { balance: string }).balance, '7')
  // What it may not do: what its application is not registered with, and other people.
  assert.equal((await here.request('/v1/users/DEV-alice', { headers: { authorization } })).body.code, 'forbidden_user')
})
