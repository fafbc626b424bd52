import Fastify, { type FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { WrongChain } from '../chain/rpc/failures.ts'
import type { Listen } from '../config.ts'
import type { PolicyHealth } from '../signer-wire/wire.ts'
import { boundConnections, listenAt } from './listener.ts'
import { type Clock } from '../clock.ts'
import { VERSION } from '../version.ts'
import { noteProxyProbe, proxyProbes } from './proxy-probe.ts'

/** Milliseconds without a stored or confirmed block after which a network is unhealthy. */
const HEAD_STALE_MS = 15_000
/** Milliseconds without a response after which a node is reported as silent. */
const NODE_SILENT_MS = 3_000
/** Connections of the operators' listener, which few clients use. */
const MAX_CONNECTIONS = 64
/** Milliseconds for which a result is reused, so that anonymous requests cannot load database, signer and nodes. */
const LOOK_MS = 1_000

/**
 * A health check.
 * `detail`: the fault, or, if `ok`, a warning
 * `readFrom`: source of transaction results, if the node does not return the receipts of a block together
 * `historyBehind`: followed blocks whose transfers are not stored yet, if any
 * `internalTransfers`: present if neither the network’s logs nor its nodes report them
 * `policy`: the signer's policy in force, and why it differs from its file; null: only the built-in rules
 */
type Check = { name: string; ok: boolean } & More
type More = {
  detail?: string
  readFrom?: string
  historyBehind?: number
  internalTransfers?: 'unknown'
  policy?: PolicyShown | null
}
type PolicyShown = Omit<NonNullable<PolicyHealth>, 'since'> & { since: string }
/**
 * `own`: if one of these fails, this process is not ready. `others`: each may fail while there is something to serve
 * without it.
 */
type Health = { own: Check[]; others: Check[] }
type Questions = {
  isDraining: () => boolean
  /** faults of the sponsors of a network; absent: nobody watches them */
  sponsorFaults?: (chainId: number) => readonly string[]
}

/**
 * Registers GET /healthz and /readyz for load balancers, without a token and without details. Development mode adds the
 * details and /metrics.
 */
export function health(server: FastifyInstance, app: App, questions: Questions): void {
  const isDevelopment = app.config.NODE_ENV !== 'production'
  routes(server, app, { ...questions, tells: isDevelopment })
  if (isDevelopment) metrics(server, app)
}

/**
 * Opens the listener of OPS_LISTEN with every check and /metrics. It has no authentication: every client that reaches
 * it may read it.
 */
export async function openOperatorsListener(app: App, { host, port }: Listen, questions: Questions) {
  const server = Fastify({ logger: false, bodyLimit: 1_024, forceCloseConnections: true })
  boundConnections(server, app, MAX_CONNECTIONS)
  routes(server, app, { ...questions, tells: true })
  metrics(server, app)
  proxyProbes(server, app)
  await listenAt(server, { host, port }).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`OPS_LISTEN cannot be listened on: ${error.code ?? 'failed'}`, { cause: error })
  })
  return server
}

function routes(
  server: FastifyInstance,
  app: App,
  { isDraining, sponsorFaults = () => [], tells }: Questions & { tells: boolean },
): void {
  const look = looker(app, sponsorFaults)
  server.get('/healthz', { schema: { hide: true }, config: { admission: 'vital' } }, (request) => {
    noteProxyProbe(app, request)
    return { status: 'ok' }
  })

  server.get('/readyz', { schema: { hide: true }, config: { admission: 'vital' } }, async (_request, reply) => {
    const { own, others } = await look()
    const drain = isDraining() ? [{ name: 'server', ok: false, detail: 'shutting down' }] : []
    // An unavailable node must not take sign-in and the other networks out of service, on every replica at once.
    const isReady = [...own, ...drain].every((check) => check.ok)
    return reply
      .code(isReady ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({
        status: isReady ? 'ready' : 'not ready',
        ...(tells ? { version: VERSION, checks: [...own, ...drain, ...others] } : {}),
      })
  })
}

function metrics(server: FastifyInstance, { telemetry: { registry } }: App): void {
  server.get('/metrics', { schema: { hide: true }, config: { admission: 'vital' } }, async (_request, reply) =>
    reply.type(registry.contentType).send(await registry.metrics()),
  )
}

/** Returns a function that runs the checks at most once a second and shares the result. */
function looker(app: App, sponsorFaults: SponsorFaults): () => Promise<Health> {
  let at = Number.NEGATIVE_INFINITY
  let last: Promise<Health>
  const stalls: Stalls = new Map()
  return () => {
    if (app.clock.ticks() - at > LOOK_MS) {
      at = app.clock.ticks()
      last = lookAt(app, stalls, sponsorFaults)
    }
    return last
  }
}

type SponsorFaults = NonNullable<Questions['sponsorFaults']>

async function lookAt(app: App, stalls: Stalls, sponsorFaults: SponsorFaults): Promise<Health> {
  // Asked once for all checks; each check decides itself what an unavailable signer means for it.
  const signer = app.signer.health()
  signer.catch(() => {})
  const [own, others] = await Promise.all([
    Promise.all([checkDatabase(app), checkSigner(app, signer)]),
    Promise.all([
      ...(app.auth === null ? [] : [checkAuth(app.clock, app.auth)]),
      ...[...app.chains.keys()].map((chainId) =>
        checkChain(app, chainId, { stalls, signer, sponsors: sponsorFaults(chainId) }),
      ),
    ]),
  ])
  return { own, others }
}

async function checkDatabase({ clock, db, writesRefused }: App): Promise<Check> {
  return settle(clock, 'database', async () => {
    await sql`select 1`.execute(db)
    const why = writesRefused?.() ?? null
    if (why !== null) throw new NotReady(`the database answers, and refuses writes: ${why}`)
  })
}

/** Checks a separate authorization server. Issued tokens remain valid while it is unavailable. */
const checkAuth = (clock: Clock, auth: NonNullable<App['auth']>): Promise<Check> =>
  settle(clock, 'authorization server', async () => {
    if (!(await auth.isThere())) throw new NotReady('no answer at AUTH_SOCKET')
  })

type SignerHealth = ReturnType<App['signer']['health']>

async function checkSigner({ clock, tokenKeys, config, telemetry }: App, signer: SignerHealth): Promise<Check> {
  return settle(clock, 'signer', async () => {
    const answer = await signer
    const { masterKey, policy } = answer
    const shown = { policy: showPolicy(policy, telemetry) }
    const [wrong] = signerFaults(answer, { tokenKeys, accessTokenSeconds: config.ACCESS_TOKEN_SECONDS })
    if (wrong !== undefined) throw new NotReady(wrong.detail, shown)
    // The signer still signs with its open keys, but would not start again.
    const { fault } = masterKey
    return fault === null ? shown : { ...shown, detail: `the master key (KEK) cannot be used: ${fault}` }
  })
}

type SignerFault = {
  code: 'token_key_not_trusted' | 'token_lifetime_too_long' | 'revocations_stale'
  detail: string
}

/** Returns why a signer that responds rejects every token. */
export function signerFaults(
  { revocations, tokenKeys: trusted, maxTokenSeconds }: Awaited<SignerHealth>,
  { tokenKeys, accessTokenSeconds }: Pick<App, 'tokenKeys'> & { accessTokenSeconds: number },
): SignerFault[] {
  const inUse = tokenKeys.keys.find(({ kty }) => kty === 'EC')?.kid
  return [
    ...(inUse !== undefined && !trusted.includes(inUse)
      ? [{ code: 'token_key_not_trusted' as const, detail: 'the signer does not trust the key that tokens are signed with: chatelaine signer trust-key' }] // prettier-ignore
      : []),
    ...(accessTokenSeconds > maxTokenSeconds
      ? [{ code: 'token_lifetime_too_long' as const, detail: 'the signer rejects the lifetime of access tokens: its SIGNER_MAX_TOKEN_SECONDS is below ACCESS_TOKEN_SECONDS' }] // prettier-ignore
      : []),
    ...(revocations === 'stale'
      ? [{ code: 'revocations_stale' as const, detail: 'the signer has no fresh list of revoked tokens' }]
      : []),
  ]
}

/**
 * Returns the policy for operators and sets its metric. A policy that differs from its file is still in force, and no
 * reason to send users to another replica.
 */
function showPolicy(policy: PolicyHealth, { signerPolicy }: App['telemetry']): PolicyShown | null {
  signerPolicy.reset()
  if (policy === null) return null
  const { version, hash, state, since, ...more } = policy
  signerPolicy.set({ version: String(version), hash, state }, 1)
  return { version, hash, state, ...more, since: new Date(since).toISOString() }
}

/** per network and cursor: its block, and since when it has not moved although there is more to read */
type Stalls = Map<string, { at: number; since: number }>

/**
 * Checks a network: its node responds, a head was stored or confirmed recently, and follower and history advance while
 * there are blocks to read. A health request calls no node; it uses what this process already knows.
 */
async function checkChain(
  { chains, clock, db }: App,
  chainId: number,
  { stalls, signer, sponsors }: { stalls: Stalls; signer: SignerHealth; sponsors: readonly string[] },
): Promise<Check> {
  const chain = chains.get(chainId)!
  return settle(clock, `chain ${chain.name}`, async () => {
    const cursor = await db
      .selectFrom('cursors')
      .innerJoin('history_cursors as history', 'history.chain_id', 'cursors.chain_id')
      .leftJoin('native_coverage as native', 'native.chain_id', 'cursors.chain_id')
      .select(['halted', 'blocked_by', 'cursors.block_number', 'read_from', 'history.block_number as indexed'])
      .select(['native.to_block as native_to', 'native.internal_from_block as internal_from'])
      .where('cursors.chain_id', '=', chainId)
      .executeTakeFirst()
    if (cursor === undefined) throw new NotReady('no block followed yet')
    // An unavailable signer has its own check.
    const signs = await signer.catch(() => null)
    if (signs?.chains?.includes(chainId) === false)
      throw new NotReady('the signer signs nothing for it: its SIGNER_CHAINS does not list the chain id')
    if (cursor.halted !== null)
      throw new NotReady(
        `the follower has stopped at block ${cursor.block_number}: ${cursor.halted} The way out is chatelaine network rewind ${chain.name}`,
      )
    const { head } = chain
    if (head.node.failure() instanceof WrongChain) throw head.node.failure()
    if (head.node.silentMs() > NODE_SILENT_MS)
      throw new NotReady(`the node has given no usable answer for ${seconds(head.node.silentMs())}`)
    const newest = head.node.newest()
    if (head.current() === null || newest === null) throw new NotReady('no block followed yet')
    // A confirmed head proves nothing about the follower: any read confirms it.
    const { block_number: followed, read_from: readFrom } = cursor
    const isStuck = isStalled(clock, stalls, `${chainId} transactions`, { at: followed, newest })
    if (isStuck || (cursor.blocked_by !== null && newest > followed))
      throw new NotReady(
        `the follower is stuck at block ${followed}, ${newest - followed} behind the node${causeOf(cursor.blocked_by)}`,
      )
    const { indexed } = cursor
    if (isStalled(clock, stalls, `${chainId} history`, { at: indexed, newest: followed }))
      throw new NotReady(`the history is stuck at block ${indexed}, ${followed - indexed} behind the follower`)
    // A node that announces its blocks is not polled until a block is overdue.
    if (head.ageMs() > HEAD_STALE_MS + 2 * (head.pace.intervalMs() ?? 0))
      throw new NotReady(`the follower has not looked at the node for ${seconds(head.ageMs())}`)
    return {
      // It works, but the operator should know: nodes bill by calls.
      ...(readFrom === null || readFrom === 'block receipts' ? {} : { readFrom }),
      ...(indexed < followed ? { historyBehind: followed - indexed } : {}),
      // Clients that ask for native currency see this as an absent header.
      ...(cursor.native_to !== null && cursor.internal_from === null ? { internalTransfers: 'unknown' as const } : {}),
      ...(sponsors.length === 0 ? {} : { detail: sponsors.join('; ') }),
    }
  })
}

const causeOf = (blockedBy: string | null): string =>
  blockedBy === null ? '' : `, and cannot take the next one: ${blockedBy}`

/** Returns whether a cursor has not moved for HEAD_STALE_MS although there was something to read all the time. */
function isStalled(
  { ticks }: Clock,
  stalls: Stalls,
  which: string,
  { at, newest }: { at: number; newest: number },
): boolean {
  const known = stalls.get(which)
  if (newest <= at) stalls.delete(which)
  else if (known?.at !== at) stalls.set(which, { at, since: ticks() })
  else return ticks() - known.since > HEAD_STALE_MS
  return false
}

const seconds = (ms: number): string => `${Math.floor(ms / 1_000)} s`

/** A failed check with a message of our own, and what is known in spite of it. */
class NotReady extends Error {
  readonly more: More
  constructor(message: string, more: More = {}) {
    super(message)
    this.more = more
  }
}

/**
 * Runs a check for at most 3 s. Only our own messages are shown: those of databases and nodes may contain addresses
 * with secrets.
 */
async function settle({ after }: Clock, name: string, check: () => Promise<void | More>): Promise<Check> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = after(3_000, () => reject(new Error('late')))
  try {
    const more = await Promise.race([check(), late])
    return { name, ok: true, ...more }
  } catch (error) {
    const isOurs = error instanceof NotReady || error instanceof WrongChain
    const more = error instanceof NotReady ? error.more : {}
    return { name, ok: false, ...more, detail: isOurs ? error.message : 'unexpected response' }
  } finally {
    timer.cancel()
  }
}
