import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { AppError } from '../errors.ts'
import type { KeyScope } from '../ids.ts'
import type { Quota } from '../store/column-values.ts'
import type { Telemetry } from '../telemetry.ts'
import { allowedTo, assertNotFrozen, assertUser, holds, readBearer, type Caller, type Reader } from './bearer.ts'
import { classOf } from './gate.ts'
import { openLimit, spend, spendBehind } from './limits.ts'
import { openQuotas, type QuotaCharge } from './quotas.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** set before the handler of every route that names a scope; on routes that name a machine scope too, for users only */
    caller: Caller
    /** set on the same routes: who reads, a user or an application */
    reader: Reader
    /**
     * Counts a request that holds several reads as what it is: `more` on top of the one it was let in for.
     * @throws rate_limited, quota_exhausted
     */
    chargeReads: (more: number, reply: FastifyReply) => Promise<void>
    /** what a write was counted for, to be given back when it repeated one that was answered; null when nothing was counted */
    quotaCharge: QuotaCharge | null
  }
  interface FastifyContextConfig {
    /** permission that the access token must carry; a route without one needs no token */
    scope?: 'any' | 'wallet:read' | 'contracts:read' | 'contracts:write' | 'users:directory'
    /** permission with which an application may ask for itself; a route without one is for users only */
    machineScope?: 'users:read'
  }
}

/** Whom a limit counts: however many tokens they have, one person at one application; or an application by itself. */
const personOf = (reader: Reader): string =>
  reader.kind === 'machine' ? reader.clientId : `${reader.clientId} ${reader.accountId}`

/**
 * Authenticates every route that names a scope, before its body is read: token, permission, then limits:
 * reads and writes per person and application, what these let through per application, and what that lets through of its quotas; of a
 * write once its body is there, which says whether it is a dry run.
 * @param isAnswered  whether an idempotency key stands for an answered write, and will for longer than a request takes
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
  // One that cannot be given back stays used.
  server.addHook('onClose', () => quotas.close().catch(() => {}))
  const isCounted = (counts: Quota['counts'], clientId: string): boolean =>
    allowedTo(app, clientId).quotas.some((quota) => quota.counts === counts)
  const count = async (counts: Quota['counts'], clientId: string, many = 1): Promise<QuotaCharge | null> =>
    isCounted(counts, clientId) ? quotas.take(clientId, allowedTo(app, clientId).quotas, counts, many) : null
  // What asks after a write and what takes one back are of neither class, and not counted.
  const isOf = (kind: 'read' | 'write', { routeOptions }: FastifyRequest) =>
    routeOptions.config.scope !== undefined && classOf(routeOptions.config) === kind
  server.decorateRequest('chargeReads', async function (this: FastifyRequest, more: number, reply: FastifyReply) {
    // One is spent already: a full bucket is enough for any batch.
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
      // The person first: what one of them is refused for costs the others of the application nothing.
      const isWrite = scope === 'contracts:write' && reader.kind !== 'machine'
      const [own, person] = [isWrite ? writes : reads, personOf(reader)]
      spend(own, person, reply)
      spendBehind(application, reader.clientId, reply, () => own.giveBack(person))
    }
    if (reader.kind !== 'machine' && scope === 'contracts:write') assertNotFrozen(app, reader)
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
    // A repeat takes nothing from what is new, not even until it is answered, and is answered when nothing is left.
    if (scope !== null && isCounted('writes', clientId) && (await isAnswered(scope))) return
    request.quotaCharge = await count('writes', clientId)
  })
}

/** Before its body is checked. */
const isDryRun = ({ body }: FastifyRequest): boolean =>
  (body as { dryRun?: unknown } | null | undefined)?.dryRun === true

/** By the key as it was sent, unchecked. */
function keyScopeOf({ caller, headers, routeOptions }: FastifyRequest): KeyScope | null {
  const key = headers['idempotency-key'] ?? headers['x-idempotency-key']
  if (typeof key !== 'string') return null
  return { accountId: caller.accountId, clientId: caller.clientId, route: routeOptions.url!, key }
}

/** Series of the metric: of more applications than it has room for the first that come. */
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

/** The network that the caller's application is bound to. */
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
