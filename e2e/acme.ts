import { createHash, randomBytes } from 'node:crypto'
import https from 'node:https'
import { importJWK, SignJWT } from 'jose'
import { newKey, publicKeys } from '../src/oauth/keys.ts'
import type { Certificate } from '../test/certificate.ts'

/** An identity provider that agrees at once and answers by the book: code, PKCE, RS256 id token. */
export async function startAcme({
  host,
  port,
  certificate,
  secret = 'of the wallet',
}: {
  host: string
  port: number
  certificate: Certificate
  /** the client's */
  secret?: string
}): Promise<{ issuer: string; server: https.Server }> {
  const issuer = `https://${host}:${port}`
  const key = newKey('RS256')
  const asked = new Map<string, URLSearchParams>()
  const server = https.createServer(certificate, async (request, response) => {
    const url = new URL(request.url!, issuer)
    const json = (body: unknown, status = 200) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (url.pathname === '/.well-known/openid-configuration')
      return json({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        token_endpoint_auth_methods_supported: ['client_secret_post'],
        jwks_uri: `${issuer}/keys`,
        id_token_signing_alg_values_supported: ['RS256'],
      })
    if (url.pathname === '/keys') return json(publicKeys({ keys: [key] }))
    if (url.pathname === '/authorize') {
      const code = randomBytes(16).toString('hex')
      asked.set(code, url.searchParams)
      const back = new URL(url.searchParams.get('redirect_uri')!)
      back.search = new URLSearchParams({ code, state: url.searchParams.get('state')!, iss: issuer }).toString()
      return response.writeHead(302, { location: back.href }).end()
    }
    let text = ''
    for await (const chunk of request as AsyncIterable<Buffer>) text += chunk.toString()
    const form = new URLSearchParams(text)
    const was = asked.get(form.get('code') ?? '')
    const challenge = createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url') // prettier-ignore
    if (was === undefined || was.get('code_challenge') !== challenge || form.get('client_secret') !== secret)
      return json({ error: 'invalid_grant' }, 400)
    const now = Math.floor(Date.now() / 1_000)
    const id_token = await new SignJWT({ nonce: was.get('nonce'), preferred_username: 'Nell', email: 'n@acme.example' })
      .setProtectedHeader({ alg: 'RS256', kid: key.kid })
      .setIssuer(issuer)
      .setAudience('wallet')
      .setSubject('4711')
      .setIssuedAt(now)
      .setExpirationTime(now + 60)
      .sign(await importJWK(key, 'RS256'))
    return json({ access_token: 'x', token_type: 'Bearer', expires_in: 60, id_token })
  })
  await new Promise<void>((done) => void server.listen(port, 'localhost', done))
  return { issuer, server }
}
