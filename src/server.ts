import cors from '@fastify/cors'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { accountReads } from './account/reads.ts'
import { accountSending } from './account/sending.ts'
import type { App } from './app.ts'
import { callerAtDoor, serveAccount } from './auth-link/account.ts'
import { keepApart, serveApi } from './auth-link/serve.ts'
import { approvals } from './approvals/routes.ts'
import { startApprovalSweep } from './approvals/sweep.ts'
import { allowsOrigin } from './applications/origins.ts'
import { balances } from './balances/routes.ts'
import type { Chain } from './chain/network.ts'
import { every } from './clock.ts'
import { consolePages } from './console/console.ts'
import { countRequests, startStoringActivity } from './console/activity.ts'
import { events } from './events/routes.ts'
import { startSequencing } from './events/sequence.ts'
import { startEventSweep } from './events/sweep.ts'
import { contractReads } from './contracts/routes.ts'
import { contractWrites } from './contracts/write-route.ts'
import { demo } from './devnet/demo.ts'
import { explorer } from './devnet/explorer.ts'
import { developmentIdp } from './devnet/provider.ts'
import { startFollower } from './follower/follow.ts'
import { startBackfilling } from './history/automatic-backfill.ts'
import { indexTransfers } from './history/index-transfers.ts'
import { history } from './history/routes.ts'
import { openBrand } from './http/brand.ts'
import { authenticated } from './http/caller.ts'
import { documentation } from './http/documentation.ts'
import { front } from './http/front.ts'
import { openGate } from './http/gate.ts'
import { health } from './http/health.ts'
import { openListener } from './http/listener.ts'
import { openapi } from './http/openapi.ts'
import { pageAssets } from './http/page.ts'
import { jsonRpc } from './json-rpc/routes.ts'
import { startRenewingSeals } from './oauth/authenticate-rows.ts'
import { cookieKeysOf, type PrivateKeys } from './oauth/keys.ts'
import { issueToken } from './oauth/issue.ts'
import { oauth } from './oauth/oauth.ts'
import { ownCaller, ownToken } from './oauth/own-token.ts'
import { publishNow } from './oauth/revocations.ts'
import type { AccountSlices, Sender } from './oauth/account/slices.ts'
import type { ProviderSettings } from './oauth/federation/providers.ts'
import { sweep } from './oauth/sweep.ts'
import { startHeadKeeper } from './signing-log/keep.ts'
import { signingLog } from './signing-log/publish.ts'
import { signatures } from './signatures/routes.ts'
import { isSigned } from './signatures/sign.ts'
import { startUnsignedSweep } from './signatures/sweep.ts'
import { followTransactions } from './transactions/settle/follow.ts'
import { startKeeper, type Keeper } from './transactions/recovery/keeper.ts'
import { isAnswered } from './transactions/key.ts'
import { startChanging } from './transactions/recovery/requested-changes.ts'
import { startReplay } from './transactions/recovery/replay.ts'
import { startByteSweep } from './transactions/settle/sweep.ts'
import { startWithdrawing } from './transactions/sponsors/withdraw.ts'
import { transactions } from './transactions/routes.ts'
import type { SubjectForms } from './transfers/recipient.ts'
import { transfers } from './transfers/routes.ts'
import type { OperatorDoor } from './operator/auth.ts'
import { operatorApi } from './operator/routes.ts'
import { sponsorFaults, startWatchingSponsors } from './sponsors/watch.ts'
import { startCountingStopped } from './transactions/recovery/count-stopped.ts'
import { startAttesting } from './users/attest.ts'
import { startCountingPeople } from './users/people.ts'
import { users } from './users/routes.ts'
import { startMarkingExports } from './users/exported.ts'
import { startCopyingKeys } from './users/wrapped-keys.ts'
import { webhookKeysOf } from './webhooks/keys.ts'
import { webhookRequests } from './webhooks/openapi.ts'
import { webhooks } from './webhooks/routes.ts'
import { startDelivering } from './webhooks/worker.ts'

/** Response headers that pages of other origins may read. */
const EXPOSED = [
  'X-Request-Id',
  'X-Block-Number',
  'X-Unanswered-Tokens',
  'X-Next-Cursor',
  'X-Indexed-From-Block',
  'X-Indexed-To-Block',
  'X-Finalized-To-Block',
  'Link',
  'Location',
  'Idempotent-Replayed',
  'RateLimit',
  'RateLimit-Policy',
  'Retry-After',
  'Preference-Applied',
  'WWW-Authenticate',
]

export type ServerOptions = {
  /** null: the authorization server is another program */
  auth: AuthParts | null
  /** null: the API is another program */
  api: ApiParts | null
  isDraining: () => boolean
}
/**
 * Parts of the authorization server. `account`: the account page's access to a separate API; null if the API is in this
 * process.
 */
type AuthParts = {
  keys: PrivateKeys
  providers: ProviderSettings[]
  /** null: there is no operator API */
  operator: OperatorDoor | null
  account: AccountSlices | null
}
type ApiParts = {
  /** the network whose explorer pages this service shows, and its node; null if networks use other explorers */
  explored: { chain: Chain; rpcUrl: string } | null
}

/**
 * Builds the HTTP server with the routes of this program (in development, of both programs). It does not listen yet.
 */
export async function buildServer(app: App, { auth, api, isDraining }: ServerOptions): Promise<FastifyInstance> {
  const server = openListener(app)
  const { refuseBehindCors } = openGate(server, app)
  if (api === null) keepApart(server, app)
  await openapi(server, app, { webhooks: api === null ? {} : webhookRequests() })
  // Only the API uses this: the authorization server answers CORS requests itself, by client.
  await server.register(
    cors,
    () =>
      async ({ headers: { origin }, url }: FastifyRequest) =>
        origin !== undefined && url.startsWith('/v1/') && (await allowsOrigin(app, origin))
          ? { origin: true, exposedHeaders: EXPOSED, methods: ['GET', 'POST'], maxAge: 600 }
          : { origin: false },
  )
  refuseBehindCors()
  authenticated(server, app, {
    isAnswered: (scope) =>
      scope.route.startsWith('/v1/signatures/') ? isSigned(app.db, scope) : isAnswered(app, scope),
  })
  countRequests(server, app)
  health(server, app, { isDraining, sponsorFaults: (chainId) => sponsorFaults(app, chainId) })
  pageAssets(server, openBrand(app.config))

  const forms = auth === null ? { get: (name: string) => app.auth!.subjectForm(name) } : formsOf(auth.providers)
  if (auth !== null) await authSlices(server, app, auth, forms)
  if (api !== null) await apiSlices(server, app, api, forms)
  return server
}

/** Registers the authorization server: sign-in, tokens, pages for users, operator API. */
async function authSlices(server: FastifyInstance, app: App, parts: AuthParts, forms: SubjectForms): Promise<void> {
  const { keys, providers, operator, account } = parts
  const isDevelopment = app.config.NODE_ENV !== 'production'
  const callerOf = async (sender: Sender, chainId: number) =>
    ownCaller(app, await ownToken(app, keys, { ...sender, chainId }))
  await oauth(server, app, {
    keys,
    cookieKeys: cookieKeysOf(keys),
    providers,
    slices: account ?? { ...accountReads(app), sending: accountSending(app, callerOf, forms) },
    isLimited: app.config.RATE_LIMITS === 'on' && !isDevelopment,
    more: (scope, signedIn) => consolePages(scope, app, signedIn),
  })
  if (operator !== null)
    await operatorApi(server, app, operator, isDevelopment ? (whose) => issueToken(app, keys, whose) : null)
  if (providers.some((provider) => provider.isDevelopment))
    await developmentIdp(server, { origin: app.authOrigin, redirectUri: `${app.authOrigin}/login/callback/DEV` })
  if (account === null) return
  server.get('/', { schema: { hide: true } }, (_request, reply) => reply.redirect('/account', 303))
  serveApi(server, app, {
    forms: formsOf(providers),
    publish: () => publishNow(app),
    webhookKeys: () => webhookKeysOf(app.sealKeys),
  })
}

/** Registers the API that applications call, and the explorer pages. */
async function apiSlices(server: FastifyInstance, app: App, parts: ApiParts, forms: SubjectForms): Promise<void> {
  const { explored } = parts
  front(server, app)
  await documentation(server)
  signingLog(server, app)
  users(server, app)
  balances(server, app)
  history(server, app)
  contractReads(server, app)
  contractWrites(server, app)
  jsonRpc(server, app)
  transactions(server, app)
  transfers(server, app, { forms })
  signatures(server, app)
  approvals(server, app)
  events(server, app)
  webhooks(server, app)
  if (explored !== null) {
    await explorer(server, { rpcUrl: explored.rpcUrl, networkName: explored.chain.name, symbol: explored.chain.symbol })
    demo(server)
  }
  if (app.auth !== null)
    serveAccount(server, app, { ...accountReads(app), sending: accountSending(app, callerAtDoor, forms) })
}

/** Returns the patterns of user ids by provider; null where the pattern is unknown. */
const formsOf = (providers: ProviderSettings[]): Map<string, RegExp | null> =>
  new Map(providers.map(({ name, subjectForm }) => [name, subjectForm ?? null]))

const SWEEP_EVERY_MS = 60_000

export type Workers = {
  /** starts following a network that was opened later */
  serve(chain: Chain): void
  /**
   * The database may have been restored to an older state: nothing new is bound until it was compared with the ledger.
   */
  databaseWasAway(): void
  stop(): Promise<void>
}

/**
 * Starts the background work of the authorization server: deletes what has expired, copies wrapped keys, requests
 * missing attestations, records key exports, renews seals, counts users.
 */
export function startAuthWorkers(app: App): { stop(): Promise<void> } {
  const running = [
    startCopyingKeys(app),
    startAttesting(app),
    startMarkingExports(app),
    startRenewingSeals(app),
    startCountingPeople(app),
    startStoringActivity(app),
  ]
  const sweeping = every(app.clock, SWEEP_EVERY_MS, () =>
    sweep(app.db).catch((error: unknown) => app.telemetry.log.warn('sweep_failed', {}, error)),
  )
  return {
    stop: async () => {
      await sweeping.stop()
      await Promise.all(running.map((one) => one.stop()))
    },
  }
}

/** Starts the background work of the API: a follower, a keeper and a backfill per network, sponsors, and clean-up. */
export function startWorkers(app: App): Workers {
  const replay = startReplay(app)
  const running: { stop(): Promise<void> }[] = [
    ...[replay, startByteSweep(app), startUnsignedSweep(app), startApprovalSweep(app), startHeadKeeper(app)],
    ...[startSequencing(app), startEventSweep(app), startDelivering(app)],
    ...[startWithdrawing(app), startChanging(app), startWatchingSponsors(app), startCountingStopped(app)],
    // A separate API counts its own requests; otherwise the workers of the authorization server store all counts.
    ...(app.auth === null ? [] : [startStoringActivity(app)]),
  ]
  const keepers: Keeper[] = []
  const serve = (chain: Chain) => {
    const keeper = startKeeper(app, chain)
    keepers.push(keeper)
    const onNodeBack = keeper.nodeIsBack
    running.push(keeper, startFollower(app, chain, [followTransactions, indexTransfers], { onNodeBack }))
    running.push(startBackfilling(app, chain))
  }
  app.chains.forEach(serve)
  return {
    serve,
    databaseWasAway: () => {
      replay.suspect()
      for (const keeper of keepers) keeper.suspect()
    },
    stop: async () => {
      await Promise.all(running.map((worker) => worker.stop()))
    },
  }
}
