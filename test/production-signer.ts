import { spawn } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { exportJWK, generateKeyPair, SignJWT, type JWK } from 'jose'
import { jwkThumbprint } from '../src/jwk-thumbprint.ts'
import { REVOCATIONS_TYPE } from '../src/signer-wire/wire.ts'
import { ALICE, CHAIN_ID, ISSUER, makePlace, startSigner } from './kit/signer.ts'

/** The signer as production has it, and an authorization server that can offer keys and sign with any. */
export async function productionSigner(t: TestContext) {
  const place = await makePlace()
  t.after(() => place.clear())
  writeFileSync(place.env.SIGNER_KEK_FILE!, randomBytes(32), { mode: 0o600 })
  const env: Record<string, string> = {
    ...place.env,
    SIGNER_REVOCATIONS_SECONDS: '60',
    SIGNER_CHAINS: String(CHAIN_ID),
  }
  const offered: JWK[] = []
  async function newKey(kid: string) {
    const { publicKey, privateKey } = await generateKeyPair('ES256')
    const jwk = { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' }
    const sign = (
      typ: string,
      claims: object,
      { audience, isDated = true }: { audience?: string; isDated?: boolean } = {},
    ) => {
      const jwt = new SignJWT({ jti: randomUUID(), ...claims })
        .setProtectedHeader({ alg: 'ES256', typ, kid: jwkThumbprint(jwk) })
        .setIssuer(ISSUER)
        .setSubject(ALICE)
      if (audience !== undefined) jwt.setAudience(audience)
      if (!isDated) jwt.setIssuedAt().setExpirationTime('1h')
      return jwt.sign(privateKey)
    }
    return {
      jwk,
      fingerprint: jwkThumbprint(jwk),
      token: (times?: { iat?: number; exp: number }) =>
        sign(
          'at+jwt',
          { client_id: 'shop', scope: 'contracts:write', chain_id: CHAIN_ID, gid: 'g', ...times },
          { audience: env.SIGNER_AUDIENCE, isDated: times !== undefined },
        ),
      list: () => sign(REVOCATIONS_TYPE, { iat: Date.now() / 1_000, part: 0, parts: 1, entries: [] }),
    }
  }
  const offer = (...keys: JWK[]) => {
    offered.push(...keys)
    writeFileSync(env.SIGNER_JWKS_FILE!, JSON.stringify({ keys: offered }))
  }
  offer()
  const trust = async (...words: string[]) => {
    const child = spawn(
      process.execPath,
      [join(import.meta.dirname, '../src/signer/programs/trust-key.ts'), ...words],
      {
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    )
    const [out, err, code] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      new Promise<number | null>((resolve) => child.once('close', resolve)),
    ])
    return { out, err, code }
  }
  return { env, folder: place.folder, newKey, offer, trust, start: () => startSigner({ env }, { flags: [] }) }
}
