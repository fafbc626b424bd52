import { createLocalJWKSet, jwtVerify } from 'jose'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { audienceOf, issuerOf, type App } from '../app.ts'
import { BoundedMap } from '../bounded-map.ts'
import { ACCOUNT_FROZEN, AppError } from '../errors.ts'
import { assertProven } from './dpop.ts'
import { OWN_CLIENT, type Hex } from '../ids.ts'
import { provenAddress, storedAddressOf } from './proven-address.ts'
import { areTexts, quotasIn, textsIn, type Quota } from '../store/column-values.ts'
import { BUDGET_COLUMNS, pagesBudgetOf, sponsorBudgetOf, type SponsorBudget } from '../store/sponsor-budget.ts'
import { slot } from '../state.ts'

/** A user at an application, with the granted scopes, read from a verified access token. */
export type Caller = {
  kind?: 'user'
  userId: string
  accountId: string
  /** 20 bytes, lower-case */
  address: Hex
  clientId: string
  chainId: number
  scopes: ReadonlySet<string>
  grantId: string
  tokenId: string
  /** seconds since 1970 */
  expiresAt: number
  /** the access token itself, for the signer, which verifies it again; never logged */
  token: string
  /** hosts for which the token may sign in with its account (ERC-4361); absent: none */
  domains?: readonly string[]
  /** thumbprint of the key that each request must prove (RFC 9449); absent: a bearer token */
  jkt?: string
}

/**
 * An application that acts for itself, without a user (`client_credentials`). It is a separate type, so that code for
 * users cannot accept it by mistake.
 */
export type Machine = Omit<Caller, 'kind' | 'userId' | 'accountId' | 'address'> & { kind: 'machine' }

/** The caller of a route that also accepts applications. */
export type Reader = Caller | Machine

/**
 * Rejects an application where a user is needed. The code is not invalid_token, because the token is valid for other
 * routes.
 * @throws insufficient_scope
 */
export function assertUser(reader: Reader): asserts reader is Caller {
  if (reader.kind === 'machine')
    throw new AppError(
      'insufficient_scope',
      'This operation needs the access token of a user, not of an application. Nothing was done.',
      reader.jkt === undefined ? {} : { challenge: 'DPoP' },
    )
}

/** Rejects a user where an application must act for itself. @throws insufficient_scope */
export function assertMachine(reader: Reader): asserts reader is Machine {
  if (reader.kind !== 'machine')
    throw new AppError(
      'insufficient_scope',
      'This operation needs the access token of an application (`client_credentials`), not of a user. Nothing was done.',
      reader.jkt === undefined ? {} : { challenge: 'DPoP' },
    )
}

const MAX_CACHED = 20_000
/** Our tokens are shorter; verifying a longer one would only cost time. */
const MAX_TOKEN_CHARACTERS = 4_096
const REVOCATIONS_EVERY_MS = 5_000

type BearerState = {
  /** by access token, which its holder has anyway */
  cache: BoundedMap<string, Reader>
  revoked: Set<string>
  suspended: Set<string>
  /** present permissions of each application whose token was seen, by client id */
  applications: Map<string, Allowed>
  /** gas budgets of the account pages, by chain id */
  pages: Map<number, SponsorBudget | null>
  frozen: Set<string>
  revokedReadAt: number
  reading: Promise<void> | null
  verify: ReturnType<typeof createLocalJWKSet>
}
/** An application's permissions, quotas and weight, as the operator set them. */
type Allowed = {
  permissions: ReadonlySet<string>
  quotas: readonly Quota[]
  weight: number
  /** gas budget for its users' writes; null: none */
  sponsor: SponsorBudget | null
}
const NOTHING: Allowed = { permissions: new Set(), quotas: [], weight: 1, sponsor: null }

const states = slot('access tokens', (app: App): BearerState => ({
  cache: new BoundedMap(MAX_CACHED),
  revoked: new Set(),
  suspended: new Set(),
  applications: new Map(),
  pages: new Map(),
  frozen: new Set(),
  revokedReadAt: Number.NEGATIVE_INFINITY,
  reading: null,
  verify: createLocalJWKSet(app.tokenKeys),
}))

/**
 * Returns the user or application of an access token, after checking signature, issuer, audience, type, lifetime and
 * revocation.
 * Verified tokens are cached. Revocations, suspended applications and their permissions are read every 5 s, so that a
 * revocation is effective everywhere within 10 s.
 * @throws invalid_token, application_suspended
 * Source: RFC 9068 §4
 */
export async function verifyAccessToken(app: App, token: string): Promise<Reader> {
  if (token.length > MAX_TOKEN_CHARACTERS)
    throw new AppError('invalid_token', 'The access token is malformed. Nothing was done. Get a new access token.')
  const state = states.of(app)
  const caller = state.cache.get(token) ?? remember(state, token, await readToken(app, state, token))
  assertNotExpired(app, state, caller)
  if (isStale(app, state)) await readRevocations(app, state)
  assertInForce(state, caller)
  return caller
}

/**
 * Returns the user or application of a request. An unbound token must use the scheme Bearer; a token that is bound to a
 * key must use the scheme DPoP, with a proof.
 * @throws invalid_token, invalid_dpop_proof, application_suspended
 * Source: RFC 9449 §7
 */
export async function readBearer(app: App, request: FastifyRequest): Promise<Reader> {
  const state = states.of(app)
  // Fast path: a cached bearer token needs no parsing.
  const known = knownReader(app, request)
  if (known === undefined || known.jkt !== undefined || isStale(app, state) || isDpop(request))
    return readPresented(app, request)
  assertNotExpired(app, state, known)
  assertInForce(state, known)
  return known
}

async function readPresented(app: App, request: FastifyRequest): Promise<Reader> {
  const token = accessToken(request)
  if (!isDpop(request)) {
    const reader = await verifyAccessToken(app, token)
    if (reader.jkt === undefined) return reader
    throw dpopRefusal(
      'The access token is bound to a key. Nothing was done. Send `Authorization: DPoP <token>` with a proof of possession of that key.',
    )
  }
  const reader = await verifyAccessToken(app, token).catch((error: unknown) => {
    throw error instanceof AppError && error.code === 'invalid_token' ? dpopRefusal(error.message, error) : error
  })
  if (reader.jkt === undefined)
    throw dpopRefusal('The access token is not bound to a key. Nothing was done. Send `Authorization: Bearer <token>`.')
  await assertProven(app, request, reader)
  return reader
}

const dpopRefusal = (detail: string, cause?: unknown): AppError =>
  new AppError('invalid_token', detail, { challenge: 'DPoP', cause })

const isDpop = ({ headers: { authorization } }: { headers: IncomingHttpHeaders }): boolean =>
  authorization !== undefined && /^DPoP /i.test(authorization)

/**
 * Returns the cached reader of a request's token. It verifies nothing: the token may have expired or been revoked
 * since, and the proof of its key is not checked.
 */
export function knownReader(
  app: App,
  { headers: { authorization } }: { headers: IncomingHttpHeaders },
): Reader | undefined {
  if (authorization === undefined) return undefined
  if (authorization.startsWith('Bearer ')) return states.of(app).cache.get(authorization.slice(7))
  return authorization.startsWith('DPoP ') ? states.of(app).cache.get(authorization.slice(5)) : undefined
}

/** @throws invalid_token */
function assertNotExpired(app: App, state: BearerState, caller: Reader): void {
  if (caller.expiresAt * 1_000 > app.clock.wall()) return
  state.cache.delete(caller.token)
  throw new AppError('invalid_token', 'The access token has expired. Nothing was done. Get a new access token.')
}

/** @throws invalid_token, application_suspended */
function assertInForce(state: BearerState, caller: Reader): void {
  if (state.revoked.has(caller.grantId))
    throw new AppError(
      'invalid_token',
      'The access token was revoked. Nothing was done. Ask the user to sign in again.',
    )
  // Not invalid_token: clients sign their user out on 401, and a new sign-in would not help.
  if (state.suspended.has(caller.clientId))
    throw new AppError(
      'application_suspended',
      'The operator has suspended this application. Nothing was done. Ask the operator to resume the application.',
    )
}

/**
 * Returns whether a token has a scope and its application still has that permission. Permissions are up to 10 s old.
 * OpenID Connect scopes are not permissions: only the token counts.
 */
export const holds = (app: App, { clientId, scopes }: Pick<Reader, 'clientId' | 'scopes'>, scope: string): boolean =>
  scopes.has(scope) && (!scope.includes(':') || allowedTo(app, clientId).permissions.has(scope))

/** Returns the operator's settings of an application whose token was seen, up to 10 s old. */
export const allowedTo = (app: App, clientId: string): Allowed => states.of(app).applications.get(clientId) ?? NOTHING

/**
 * Returns the gas budget for a caller's writes, up to 10 s old: that of the application, or that of the account pages on
 * the network; null: sponsors pay nothing.
 */
export const gasBudgetOf = (
  app: App,
  { clientId, chainId }: Pick<Reader, 'clientId' | 'chainId'>,
): SponsorBudget | null =>
  clientId === OWN_CLIENT ? (states.of(app).pages.get(chainId) ?? null) : allowedTo(app, clientId).sponsor

/** Returns the scopes of a token that are still permitted. */
export const scopesOf = (app: App, reader: Reader): string[] =>
  [...reader.scopes].filter((scope) => holds(app, reader, scope))

/**
 * Rejects a user whose account the operator froze. The list of frozen accounts is up to 10 s old.
 * @throws account_frozen
 */
export function assertNotFrozen(app: App, { userId }: Caller): void {
  if (states.of(app).frozen.has(userId)) throw new AppError('account_frozen', ACCOUNT_FROZEN)
}

/**
 * Returns the bearer token of the Authorization header.
 * @throws invalid_token if there is none
 */
export function bearerToken({ headers: { authorization } }: FastifyRequest): string {
  if (authorization === undefined)
    throw new AppError(
      'invalid_token',
      'The request has no access token. Nothing was done. Send `Authorization: Bearer <token>`.',
    )
  const match = /^Bearer +([\w.~+/-]+=*) *$/i.exec(authorization)
  if (match === null)
    throw new AppError(
      'invalid_token',
      'The `Authorization` header is not `Bearer <token>`. Nothing was done. Correct the header.',
    )
  return match[1]!
}

/** Returns the token of the Authorization header, of scheme Bearer or DPoP. */
function accessToken(request: FastifyRequest): string {
  if (!isDpop(request)) return bearerToken(request)
  const match = /^DPoP +([\w.~+/-]+=*) *$/i.exec(request.headers.authorization!)
  if (match === null)
    throw dpopRefusal('The `Authorization` header is not `DPoP <token>`. Nothing was done. Correct the header.')
  return match[1]!
}

function remember(state: BearerState, token: string, caller: Reader): Reader {
  state.cache.set(token, caller)
  return caller
}

async function readToken(app: App, state: BearerState, token: string): Promise<Reader> {
  const { payload } = await jwtVerify(token, state.verify, {
    issuer: issuerOf(app),
    audience: audienceOf(app.origin),
    typ: 'at+jwt',
    algorithms: ['ES256'],
    requiredClaims: ['sub', 'exp', 'jti', 'client_id'],
    currentDate: new Date(app.clock.wall()),
  }).catch((cause: unknown) => {
    const expired = (cause as { code?: string }).code === 'ERR_JWT_EXPIRED'
    throw new AppError(
      'invalid_token',
      expired
        ? 'The access token has expired. Nothing was done. Get a new access token.'
        : 'The access token is not valid for this service. Nothing was done. Get a new access token.',
      { cause },
    )
  })
  const { client_id: clientId, chain_id: chainId, gid: grantId, scope, sub, jti, exp, cnf, domains } = payload
  if (typeof clientId !== 'string' || typeof chainId !== 'number')
    throw new AppError('invalid_token', 'The access token lacks a claim. Nothing was done. Get a new access token.')
  if (!state.applications.has(clientId)) await readAllowed(app, state, [clientId])
  const claims = {
    clientId,
    chainId,
    scopes: new Set(typeof scope === 'string' ? scope.split(' ') : []),
    tokenId: jti!,
    expiresAt: exp!,
    token,
    ...(areTexts(domains) ? { domains } : {}),
    ...(cnf === undefined ? {} : { jkt: thumbprintOf(cnf) }),
  }
  // The token of an application itself (RFC 9068 §2.2). It has no grant; each such token is revoked separately.
  if (sub === clientId && grantId === undefined) return { kind: 'machine', ...claims, grantId: machineGrantOf(jti!) }
  if (typeof grantId !== 'string')
    throw new AppError('invalid_token', 'The access token lacks a claim. Nothing was done. Get a new access token.')
  const account = await app.db
    .selectFrom('accounts')
    .select(['account_id', 'user_id', 'address', 'attestation'])
    .where('user_id', '=', sub!)
    .executeTakeFirst()
  if (account === undefined)
    throw new AppError(
      'invalid_token',
      'The user of this access token no longer exists. Nothing was done. Ask the user to sign in again.',
    )
  return {
    userId: sub!,
    accountId: account.account_id,
    address: await provenAddress(app, storedAddressOf(account)),
    ...claims,
    grantId,
  }
}

/**
 * Returns the thumbprint of the key that a token is bound to. Any other kind of binding cannot be checked.
 * @throws invalid_token
 */
function thumbprintOf(confirmation: unknown): string {
  const { jkt, ...others } = (confirmation ?? {}) as { jkt?: unknown }
  if (typeof jkt !== 'string' || Object.keys(others).length > 0)
    throw new AppError(
      'invalid_token',
      'The access token is bound in a way that is not supported. Nothing was done. Bind the token to a DPoP key.',
    )
  return jkt
}

/** Returns the id that stands for an application's own token in the list of revoked grants. */
export const machineGrantOf = (tokenId: string): string => `machine ${tokenId}`

/**
 * The absolute difference also covers a clock that was set back; otherwise no revocation would be read until it caught
 * up.
 */
const isStale = (app: App, { revokedReadAt }: BearerState): boolean =>
  Math.abs(app.clock.wall() - revokedReadAt) >= REVOCATIONS_EVERY_MS

/**
 * Reads revoked grants, suspended applications, permissions of the applications that were seen, and frozen accounts.
 * Concurrent callers share one read.
 */
async function readRevocations(app: App, state: BearerState): Promise<void> {
  state.reading ??= (async () => {
    try {
      const grants = await app.db
        .selectFrom('revoked_grants')
        .select('grant_id')
        .where('forget_at', '>', new Date(app.clock.wall()))
        .execute()
      const applications = await app.db
        .selectFrom('applications')
        .select('client_id')
        .where('suspended_at', 'is not', null)
        .execute()
      const accounts = await app.db
        .selectFrom('accounts')
        .select('user_id')
        .where('frozen_at', 'is not', null)
        .execute()
      await readAllowed(app, state, [...state.applications.keys()])
      state.revoked = new Set(grants.map((row) => row.grant_id))
      state.suspended = new Set(applications.map((row) => row.client_id))
      state.frozen = new Set(accounts.map((row) => row.user_id))
      state.revokedReadAt = app.clock.wall()
    } finally {
      state.reading = null
    }
  })()
  await state.reading
}

/** Reads permissions, quotas, weight and gas budget. An unknown application may do nothing. */
async function readAllowed({ db }: App, state: BearerState, clientIds: string[]): Promise<void> {
  const { applications } = state
  if (clientIds.length === 0) return
  if (clientIds.includes(OWN_CLIENT)) {
    const networks = await db.selectFrom('networks').select(['chain_id', 'pages_per_user', 'pages_per_day']).execute()
    state.pages = new Map(networks.map(({ chain_id: chainId, ...budget }) => [chainId, pagesBudgetOf(budget)]))
  }
  const rows = await db
    .selectFrom('applications')
    .select(['client_id', 'permissions', 'quotas', 'weight', ...BUDGET_COLUMNS])
    .where('client_id', 'in', clientIds)
    .execute()
  const known = new Map(
    rows.map(({ client_id, permissions, quotas, weight, ...budget }) => [
      client_id,
      {
        permissions: new Set(textsIn(permissions)),
        quotas: quotasIn(quotas),
        weight,
        sponsor: sponsorBudgetOf(budget),
      },
    ]),
  )
  for (const clientId of clientIds) applications.set(clientId, known.get(clientId) ?? NOTHING)
}

/** Adds a revoked grant to this process's list immediately. Other processes read it from the table. */
export function addRevokedGrant(app: App, grantId: string): void {
  states.of(app).revoked.add(grantId)
}
