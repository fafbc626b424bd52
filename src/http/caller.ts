import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { AppError } from '../errors.ts'
import type { KeyScope } from '../ids.ts'
import type { Quota } from '../store/column-values.ts'
import type { Telemetry } from '../telemetry.ts'
import {
  allowedTo,
  assertMachine,
  assertNotFrozen,
  assertUser,
  holds,
  readBearer,
  type Caller,
  type Reader,
} from './bearer.ts'
import { classOf, isSigning } from './gate.ts'
import { openLimit, spend, spendBehind } from './limits.ts'
import { openQuotas, type QuotaCharge } from './quotas.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * set before the handler of each route with a scope; on routes with a machine scope, only if the caller is a user
     */
    caller: Caller
    /** set on the same routes: the caller, a user or an application */
    reader: Reader
    /**
     * Counts a request that contains several reads: `more` in addition to the one that was counted on arrival.
     * @throws rate_limited, quota_exhausted
     */
    chargeReads: (more: number, reply: FastifyReply) => Promise<void>
    /** the counted write, to give back if it repeats an answered one; null: nothing was counted */
    quotaCharge: QuotaCharge | null
  }
  interface FastifyContextConfig {
    /** permission that the access token must have; a route without one needs no token; `machine`: for applications only */
    scope?:
      | 'machine'
      | 'any'
      | 'wallet:read'
      | 'contracts:read'
      | 'contracts:write'
      | 'messages:sign'
      | 'users:directory'
    /** permission with which an application may call the route for itself; without one the route is for users only */
    machineScope?: 'users:read' | 'events:read' | 'webhooks:manage'
  }
}

/**
 * Returns the key of a limit: a user at an application, regardless of the number of tokens; or an application by
 * itself.
 */
const personOf = (reader: Reader): string =>
  reader.kind === 'machine' ? reader.clientId : `${reader.clientId} ${reader.accountId}`

/**
 * Authenticates every route with a scope before the body is read: token, then permission, then limits and quotas.
 * - limits per user and application, separately for reads and writes
 * - limit per application, for requests that pass the first
 * - quotas per application, for requests that pass both; those of writes once the body shows whether it is a dry run
 * @param isAnswered  returns whether an idempotency key belongs to an answered write, for longer than a request takes
 */
export function authenticated(
  server: FastifyInstance,
  app: App,
  { isAnswered }: { isAnswered: (scope: KeyScope) => Promise<boolean> },
): void {
  const { config } = app
  const now = () => app.clock.wall()
  const reads = openLimit({ name: 'reads', perSecond: config.READS_PER_SECOND, burst: config.READS_BURST, now })
  const writes = openLimit({
    name: 'writes',
    perSecond: config.WRITES_PER_SECOND,
    burst: config.WRITES_BURST,
    now,
  })
  const application = openLimit({
    name: 'application',
    perSecond: config.APPLICATION_PER_SECOND,
    burst: config.APPLICATION_PER_SECOND,
    now,
  })

  server.decorateRequest('caller', null as never)
  server.decorateRequest('reader', null as never)
  const quotas = openQuotas({ db: app.db, now: () => app.clock.ticks(), onUsed: reportTo(app.telemetry) })
  // If leased requests cannot be returned, they count as used.
  server.addHook('onClose', () => quotas.close().catch(() => {}))
  const isCounted = (counts: Quota['counts'], clientId: string): boolean =>
    allowedTo(app, clientId).quotas.some((quota) => quota.counts === counts)
  const count = async (counts: Quota['counts'], clientId: string, many = 1): Promise<QuotaCharge | null> =>
    isCounted(counts, clientId) ? quotas.take(clientId, allowedTo(app, clientId).quotas, counts, many) : null
  // Transaction states and cancellations are in neither class and do not count.
  const isOf = (kind: 'read' | 'write', { routeOptions }: FastifyRequest) =>
    routeOptions.config.scope !== undefined && classOf(routeOptions.config) === kind
  server.decorateRequest('chargeReads', async function (this: FastifyRequest, more: number, reply: FastifyReply) {
    // The request itself has spent one. Capping the rest lets any batch through with a full bucket.
    const spent = Math.min(more, config.READS_BURST - 1)
    if (config.RATE_LIMITS === 'on' && spent > 0) spend(reads, personOf(this.reader), reply, spent)
    if (more > 0) await count('reads', this.reader.clientId, more)
  })
  server.addHook('onRequest', async (request, reply) => {
    const { scope, machineScope } = request.routeOptions.config
    if (scope === undefined) return
    const reader = await readBearer(app, request)
    reply.header('cache-control', 'no-store')
    if (machineScope === undefined) assertUser(reader)
    if (scope === 'machine') assertMachine(reader)
    const needed = reader.kind === 'machine' ? machineScope! : scope
    if (needed !== 'any' && !holds(app, reader, needed))
      throw new AppError(
        'insufficient_scope',
        reader.scopes.has(needed)
          ? `The operator has removed the permission ${needed} from this application. Nothing was done. Ask the operator to grant the permission.`
          : `This operation needs the permission ${needed}. Nothing was done. Request the permission at sign-in.`,
        reader.jkt === undefined ? {} : { challenge: 'DPoP' },
      )
    if (config.RATE_LIMITS === 'on') {
      // Check the user's limit first: requests rejected by it cost the other users of the application nothing.
      const isWrite = isSigning(scope) && reader.kind !== 'machine'
      const [own, person] = [isWrite ? writes : reads, personOf(reader)]
      spend(own, person, reply)
      spendBehind(application, reader.clientId, reply, () => own.giveBack(person))
    }
    if (reader.kind !== 'machine' && isSigning(scope)) assertNotFrozen(app, reader)
    if (isOf('read', request)) await count('reads', reader.clientId)
    request.reader = reader
    if (reader.kind === 'machine') return
    request.caller = reader
  })
  server.decorateRequest('quotaCharge', null)
  server.addHook('preValidation', async (request) => {
    if (!isOf('write', request)) return
    const { clientId } = request.reader
    if (isDryRun(request)) return void (await count('reads', clientId))
    const scope = keyScopeOf(request)
    // A repeat takes no quota, not even until it is answered. So it is also answered when the quota is used up.
    if (scope !== null && isCounted('writes', clientId) && (await isAnswered(scope))) return
    request.quotaCharge = await count('writes', clientId)
  })
}

/** Reads the body before it is validated. */
const isDryRun = ({ body }: FastifyRequest): boolean =>
  (body as { dryRun?: unknown } | null | undefined)?.dryRun === true

/** Reads the idempotency key before it is validated. */
function keyScopeOf({ caller, headers, routeOptions }: FastifyRequest): KeyScope | null {
  const key = headers['idempotency-key'] ?? headers['x-idempotency-key']
  if (typeof key !== 'string') return null
  return { accountId: caller.accountId, clientId: caller.clientId, route: routeOptions.url!, key }
}

/** Maximum number of series of the metric; the first applications get them. */
const MAX_SERIES = 300

function reportTo({ quotaUsed }: Telemetry) {
  const series = new Set<string>()
  return (clientId: string, { counts, per }: Quota, share: number): void => {
    const name = JSON.stringify([clientId, counts, per])
    if (!series.has(name) && series.size >= MAX_SERIES) return
    series.add(name)
    quotaUsed.set({ client_id: clientId, counts, per }, share)
  }
}

/** Returns the network of the caller's application. @throws chain_unavailable if this process does not serve it */
export function chainOf(app: App, caller: Pick<Reader, 'chainId'>): Chain {
  const chain = app.chains.get(caller.chainId)
  if (chain === undefined)
    throw new AppError(
      'chain_unavailable',
      'This server does not serve the network of the application at the moment. Nothing was done. Retry.',
      {
        retryAfter: 10,
      },
    )
  return chain
}
