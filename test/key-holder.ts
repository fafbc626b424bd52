import { generateKeyPairSync, hash, randomUUID, type KeyObject } from 'node:crypto'
import { calculateJwkThumbprint, SignJWT, type JWK } from 'jose'

/** A client that holds a key and proves it (RFC 9449), for tests; each part of a proof can be bent. */
export type KeyHolder = {
  jkt: string
  /** the public part */
  jwk: JWK
  key: KeyObject
  /** a proof for one request; claims and header are put over what is right, undefined leaves one out */
  prove(request: Request, bent?: { claims?: object; header?: object; key?: KeyObject }): Promise<string>
  /** the headers of a request with a bound token */
  headers(request: Request & { token: string }): Promise<{ authorization: string; dpop: string }>
}

type Request = { method?: string; uri: string; token?: string }

export async function keyHolder(alg: 'ES256' | 'Ed25519' = 'ES256'): Promise<KeyHolder> {
  const { publicKey, privateKey } =
    alg === 'ES256' ? generateKeyPairSync('ec', { namedCurve: 'P-256' }) : generateKeyPairSync('ed25519')
  const jwk = publicKey.export({ format: 'jwk' }) as JWK
  const prove: KeyHolder['prove'] = ({ method = 'GET', uri, token }, { claims, header, key = privateKey } = {}) =>
    new SignJWT({
      htm: method,
      htu: uri,
      jti: randomUUID(),
      iat: Math.floor(Date.now() / 1_000),
      ...(token === undefined ? {} : { ath: hash('sha256', token, 'base64url') }),
      ...claims,
    })
      .setProtectedHeader({ typ: 'dpop+jwt', alg, jwk, ...header })
      .sign(key)
  return {
    jkt: await calculateJwkThumbprint(jwk),
    jwk,
    key: privateKey,
    prove,
    headers: async (request) => ({ authorization: `DPoP ${request.token}`, dpop: await prove(request) }),
  }
}
