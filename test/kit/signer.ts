import { spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey } from 'jose'
import { exportTokens } from '../export-tokens.ts'
import { AppError } from '../../src/errors.ts'
import { connectSigner, SignerRefused, type Signer } from '../../src/signer-wire/client.ts'
import { APPROVAL_TOKEN_TYPE, type ApprovalClaims } from '../../src/signer-wire/approval.ts'
import {
  EXPORT_AUDIENCE,
  REVOCATIONS_TYPE,
  type Hex,
  type RevocationList,
  type SignRequest,
} from '../../src/signer-wire/wire.ts'

/** The real signer program on a folder of its own, and an authorization server reduced to its key. For tests and the bench. */
export type Place = {
  folder: string
  env: Record<string, string>
  token: (userId: string, claims?: Record<string, unknown>) => Promise<string>
  /** for one step of an export */
  exportToken: (userId: string, purpose: 'ask' | 'take', claims?: Record<string, unknown>) => Promise<string>
  /** of one request, as the authorization server makes it once the user has approved */
  approval: (userId: string, claims: ApprovalClaims, bent?: BentApproval) => Promise<string>
  /** a list of what is revoked, or a part of one, as the authorization server signs it */
  revocations: (
    list: { secondsAgo?: number; entries: string[] } & Partial<RevocationList>,
    header?: Record<string, string>,
  ) => Promise<string>
  clear: () => void
}

/** Parts of an approval token that a test makes wrong. */
export type BentApproval = {
  typ?: string
  audience?: string
  seconds?: number
  secondsAgo?: number
  key?: CryptoKey
  issuer?: string
}

export const CHAIN_ID = 31_337
export const ISSUER = 'http://localhost:4000/oauth'
const AUDIENCE = 'http://localhost:4000/v1'

export async function makePlace(): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-signer-'))
  const { privateKey, publicKey } = await generateKeyPair('ES256')
  const jwks = join(folder, 'jwks.json')
  writeFileSync(jwks, JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'first', alg: 'ES256' }] }))
  return {
    folder,
    env: {
      SIGNER_SOCKET: join(folder, 'signer.sock'),
      SIGNER_DIR: join(folder, 'store'),
      SIGNER_KEK_FILE: join(folder, 'kek'),
      SIGNER_JWKS_FILE: jwks,
      SIGNER_ISSUER: ISSUER,
      SIGNER_AUDIENCE: AUDIENCE,
      // Most tests have no authorization server that publishes lists.
      SIGNER_REVOCATIONS_SECONDS: '0',
      LOG_LEVEL: 'debug',
    },
    token: (userId, claims = {}) =>
      new SignJWT({
        client_id: 'shop',
        scope: 'openid contracts:write',
        chain_id: CHAIN_ID,
        gid: randomUUID(),
        jti: randomUUID(),
        ...claims,
      })
        .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: 'first' })
        .setIssuer(ISSUER)
        .setAudience(AUDIENCE)
        .setSubject(userId)
        .setIssuedAt()
        .setExpirationTime('1h')
        .sign(privateKey),
    exportToken: (userId, purpose, claims = {}) =>
      exportTokens({ key: privateKey, issuer: ISSUER })(userId, purpose, { claims }),
    approval(userId, claims, bent = {}) {
      const { typ = APPROVAL_TOKEN_TYPE, audience = EXPORT_AUDIENCE, seconds = 60, secondsAgo = 0, key = privateKey, issuer = ISSUER } = bent // prettier-ignore
      const at = Math.floor(Date.now() / 1_000) - secondsAgo
      return new SignJWT({ jti: randomUUID(), ...claims })
        .setProtectedHeader({ alg: 'ES256', typ, kid: 'first' })
        .setIssuer(issuer)
        .setAudience(audience)
        .setSubject(userId)
        .setIssuedAt(at)
        .setExpirationTime(at + seconds)
        .sign(key)
    },
    revocations: ({ secondsAgo = 0, ...claims }, changes = {}) =>
      new SignJWT({ jti: randomUUID(), part: 0, parts: 1, ...claims, iat: Date.now() / 1_000 - secondsAgo })
        .setProtectedHeader({ alg: 'ES256', typ: REVOCATIONS_TYPE, kid: 'first', ...changes })
        .setIssuer(ISSUER)
        .sign(privateKey),
    clear: () => rmSync(folder, { recursive: true, force: true }),
  }
}

export type Running = Signer & {
  /** everything written to standard error so far */
  stderr: () => string
  pid: number
  /** resolves with the exit code, or the signal's name */
  ended: Promise<number | string>
  end: (signal: 'SIGTERM' | 'SIGKILL') => Promise<number | string>
  stdin: NonNullable<ChildProcess['stdin']>
}

/** Starts the program and waits for its `ready`. @throws Error with what it said, when it ends instead */
export async function startSigner(
  { env }: Pick<Place, 'env'>,
  { more = {}, flags = ['--development'] }: { more?: Record<string, string>; flags?: string[] } = {},
): Promise<Running> {
  const { NODE_OPTIONS, NODE_COMPILE_CACHE } = process.env
  const child = spawn(process.execPath, [join(import.meta.dirname, '../../src/signer/main.ts'), ...flags], {
    // A machine that the tests pretend to be is the program's too. Nothing here is worth guarding: what was compiled is kept.
    env: { NODE_OPTIONS, NODE_COMPILE_CACHE, ...env, ...more },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  // `close` comes after the last of its output, `exit` may come before.
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string)
  const ready = once(child.stdout, 'data').then(([text]) => String(text))
  const first = await Promise.race([ready, ended])
  if (first !== 'ready\n') throw new Error(stderr, { cause: first })
  const client = connectSigner({ path: env.SIGNER_SOCKET!, timeoutMs: 60_000 })
  return {
    ...client,
    stderr: () => stderr,
    pid: child.pid!,
    ended,
    stdin: child.stdin,
    async end(signal) {
      client.close()
      child.kill(signal)
      return ended
    },
  }
}

export const SOMEWHERE: Hex = `0x${'c0'.repeat(20)}`

/** A request that is good but for what a test changes. */
export function ask(from: Hex, changes: Partial<SignRequest> = {}): SignRequest {
  return {
    intentId: `tx_${changes.nonce ?? 0}`,
    chainId: CHAIN_ID,
    from,
    nonce: 0,
    to: SOMEWHERE,
    value: '1',
    data: '0x',
    gas: '21000',
    maxFeePerGas: '1000',
    maxPriorityFeePerGas: '100',
    kind: 'send',
    ...changes,
  }
}

export const ALICE = 'DISCORD-1'
export const BOB = 'DISCORD-2'

/** For `assert.rejects`: a refusal with this code. */
export const refusal = (code: string) => (error: unknown) =>
  (error instanceof AppError || error instanceof SignerRefused) && error.code === code

/** A place with a running signer, an account and a token; cleared when the test ends. */
export async function world(t: { after: (end: () => Promise<void>) => void }) {
  const place = await makePlace()
  const signer = await startSigner(place)
  const running = new Set([signer])
  t.after(async () => {
    for (const each of running) await each.end('SIGKILL')
    place.clear()
  })
  const { address } = await signer.createAccount({ userId: ALICE })
  const accessToken = await place.token(ALICE)
  const again = async (...options: Parameters<typeof startSigner> extends [unknown, ...infer O] ? O : never) => {
    const next = await startSigner(place, ...options)
    running.add(next)
    return next
  }
  return { place, signer, address, accessToken, again }
}
