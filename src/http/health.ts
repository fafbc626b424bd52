import type { FastifyInstance } from 'fastify'
import { sql } from 'kysely'
import type { App } from '../app.ts'

/** Milliseconds without news of a network after which it does not count as ready. */
const HEAD_STALE_MS = 15_000

export type Check = { name: string; ok: boolean; detail?: string }

/** GET /healthz, /readyz, /metrics: for balancers and operators, without a token. */
export function health(server: FastifyInstance, app: App, { isDraining }: { isDraining: () => boolean }): void {
  server.get('/healthz', { schema: { hide: true } }, () => ({ status: 'ok' }))

  server.get('/readyz', { schema: { hide: true } }, async (_request, reply) => {
    const [own, chains] = await Promise.all([
      Promise.all([checkDatabase(app), checkSigner(app)]),
      Promise.all([...app.chains.keys()].map((chainId) => checkChain(app, chainId))),
    ])
    if (isDraining()) own.push({ name: 'server', ok: false, detail: 'shutting down' })
    // One network of several that is down must not take the others out of service.
    const isReady = own.every((check) => check.ok) && chains.some((check) => check.ok)
    const checks = [...own, ...chains]
    return reply
      .code(isReady ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ status: isReady ? 'ready' : 'not ready', checks })
  })

  server.get('/metrics', { schema: { hide: true } }, async (_request, reply) =>
    reply.type(app.telemetry.registry.contentType).send(await app.telemetry.registry.metrics()),
  )
}

async function checkDatabase({ db }: App): Promise<Check> {
  return settle('database', async () => {
    await sql`select 1`.execute(db)
  })
}

async function checkSigner({ signer }: App): Promise<Check> {
  return settle('signer', async () => {
    const { revocations } = await signer.health()
    // It answers, and refuses every token.
    if (revocations === 'stale') throw new Error('the signer has no fresh list of revoked tokens')
  })
}

/** The node answers, and a head was stored or confirmed lately. */
async function checkChain({ chains, db }: App, chainId: number): Promise<Check> {
  const chain = chains.get(chainId)!
  return settle(`chain ${chain.name}`, async () => {
    const cursor = await db.selectFrom('cursors').select('halted').where('chain_id', '=', chainId).executeTakeFirst()
    if (cursor === undefined || cursor.halted !== null) throw new Error('the follower stands still')
    await chain.rpc.call('eth_chainId', [], { timeoutMs: 2_000 })
    if (chain.head.current() === null) throw new Error('no block was followed yet')
    if (chain.head.ageMs() > HEAD_STALE_MS) throw new Error('no news of the head')
  })
}

/** A check's failure is told by name only: messages of databases and nodes may hold addresses with secrets. */
async function settle(name: string, check: () => Promise<void>): Promise<Check> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error('late')), 3_000)
  try {
    await Promise.race([check(), late])
    return { name, ok: true }
  } catch {
    return { name, ok: false, detail: 'does not answer as it should' }
  } finally {
    clearTimeout(timer)
  }
}
