import { createServer, type ServerResponse } from 'node:http'
import { importJWK, SignJWT, type JWK } from 'jose'
import { newKey, publicKeys, type PrivateKey } from '../src/oauth/keys.ts'
import { freePort } from './kit/ports.ts'

/** For tests: the identity provider of an application. It publishes a description and keys, and signs what it is told. */
export type IssuerStandIn = {
  issuer: string
  /** the newest one signs; all of them are published */
  keys: PrivateKey[]
  /** how often the keys were asked for */
  asked: () => number
  /** answers instead of its own, by path */
  instead: Record<string, (response: ServerResponse) => void>
  /** a good token about alice for `shop`, with these claims over it; undefined leaves one out */
  sign(claims?: Record<string, unknown>, options?: { header?: object; key?: JWK; alg?: string }): Promise<string>
  close(): void
}

export async function issuerStandIn(): Promise<IssuerStandIn> {
  const issuer = `http://localhost:${await freePort()}`
  const keys = [newKey('ES256')]
  const instead: IssuerStandIn['instead'] = {}
  let asked = 0

  const server = createServer((request, response) => {
    const path = request.url!
    if (path === '/keys') asked++
    if (instead[path] !== undefined) return instead[path](response)
    if (path === '/.well-known/openid-configuration') return sendJson(response, { issuer, jwks_uri: `${issuer}/keys` })
    if (path === '/keys') return sendJson(response, publicKeys({ keys }))
    response.writeHead(404).end()
  })
  await new Promise<void>((done) => void server.listen(Number(new URL(issuer).port), 'localhost', done))

  return {
    issuer,
    keys,
    asked: () => asked,
    instead,
    async sign(claims = {}, { header = {}, key = keys[0]!, alg = key.alg! } = {}) {
      const now = Math.floor(Date.now() / 1_000)
      const all = {
        iss: issuer,
        aud: 'shop',
        sub: 'alice',
        iat: now,
        exp: now + 300,
        jti: crypto.randomUUID(),
        ...claims,
      }
      return new SignJWT(JSON.parse(JSON.stringify(all)) as Record<string, unknown>)
        .setProtectedHeader({ alg, kid: key.kid!, ...header })
        .sign(await importJWK(key, alg))
    },
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

export const sendJson = (response: ServerResponse, body: unknown, status = 200): void =>
  void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
