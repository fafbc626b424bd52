import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { calculateJwkThumbprint, type JWK } from 'jose'
import { jwkThumbprint } from './jwk-thumbprint.ts'

test('it is the one of the standard’s example, and of the library for keys of both kinds', async () => {
  // RFC 7638, 3.1
  const example = {
    kty: 'RSA',
    n: '0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw',
    e: 'AQAB',
    alg: 'RS256',
    kid: '2011-04-29',
  }
  assert.equal(jwkThumbprint(example), 'NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs')
  const pairs = [
    generateKeyPairSync('ec', { namedCurve: 'P-256' }),
    generateKeyPairSync('rsa', { modulusLength: 2_048 }),
  ]
  for (const { publicKey, privateKey } of pairs) {
    const [open, secret] = [publicKey, privateKey].map((key) => key.export({ format: 'jwk' }) as JWK)
    assert.equal(jwkThumbprint(open!), await calculateJwkThumbprint(open!))
    assert.equal(jwkThumbprint(secret!), jwkThumbprint(open!))
  }
})
