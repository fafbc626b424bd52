/** A person who signs in to the shop, through the TLS proxy and the identity provider; prints who the shop was told. */
import { createHash, randomBytes } from 'node:crypto'
import { walk } from '../walk.ts'

const ORIGIN = 'https://wallet.example'
const redirectUri = 'https://shop.example/callback'
const verifier = randomBytes(32).toString('base64url')
const query = new URLSearchParams({
  client_id: 'shop',
  response_type: 'code',
  scope: 'openid',
  redirect_uri: redirectUri,
  code_challenge: createHash('sha256').update(verifier).digest('base64url'),
  code_challenge_method: 'S256',
})
const { url } = await walk(`${ORIGIN}/oauth/auth?${query.toString()}`, {
  origin: ORIGIN,
  by: 'https://idp.example:8443',
})
const exchange = await fetch(`${ORIGIN}/oauth/token`, {
  method: 'POST',
  body: new URLSearchParams({
    grant_type: 'authorization_code',
    client_id: 'shop',
    code: url.searchParams.get('code')!,
    redirect_uri: redirectUri,
    code_verifier: verifier,
  }),
})
const tokens = (await exchange.json()) as { access_token: string }
const me = await fetch(`${ORIGIN}/v1/me`, { headers: { authorization: `Bearer ${tokens.access_token}` } })
console.log(await me.text())
