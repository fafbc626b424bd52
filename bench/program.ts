/**
 * The program as `src/main.ts` runs it, in a process of its own that a benchmark started: it says where it listens
 * and issues access tokens over the channel between the two, where a person would sign in with a browser.
 */
import { readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import net from 'node:net'
import { Session } from 'node:inspector/promises'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import pg from 'pg'
import { createApplication } from '../src/applications/manage.ts'
import { saveApplication } from '../src/applications/registry.ts'
import { readConfig } from '../src/config.ts'
import { open } from '../src/open.ts'
import { createSponsor } from '../src/sponsors/create.ts'

/** wei: what a benchmark is not to run into */
const PLENTY = 10n ** 27n
const counts = { statements: 0, commits: 0, requests: 0 }
countStatements()
countRequests()

const config = readConfig(process.env, 'server')
await mkdir(config.DATA_DIR, { recursive: true, mode: 0o700 })
const { app, development, close } = await open(config)
const { facts, issueToken } = development!
// A node that is given in development may lose any number of blocks, and is asked at every turn; here it stands for a public one.
if (process.env.BENCH_NETWORK === 'public') for (const chain of app.chains.values()) chain.isDevelopment = false

const inspector = new Session()
inspector.connect()
const delays = monitorEventLoopDelay({ resolution: 10 })
delays.enable()

process.on(
  'message',
  async ({
    id,
    users,
    application,
    weight,
    memory,
    loop,
    profile,
    counts: isCounting,
    open: isAskedForOpen,
    sponsor,
    feed,
  }: {
    id: number
    users?: string[]
    application?: string
    weight?: number
    memory?: true
    loop?: true
    profile?: 'start' | 'stop'
    counts?: true
    open?: true
    sponsor?: string
    feed?: string
  }) => {
    if (feed !== undefined) {
      const made = await createApplication(app, {
        ...{ clientId: feed, name: feed, network: app.chains.values().next().value!.name, kind: 'confidential' },
        ...{ redirectUris: ['http://localhost/back'], allowedOrigins: [], logoUri: null },
        permissions: ['wallet:read', 'events:read'],
      })
      const people: { userId: string; token: string }[] = []
      for (const username of users!) people.push(await issueToken({ username, clientId: feed }))
      process.send!({ id, secret: made.secret, people })
      return
    }
    if (sponsor !== undefined) {
      process.send!({ id, address: (await createSponsor(app, { name: sponsor, chainId: facts.chainId })).address })
      return
    }
    if (isAskedForOpen) {
      const { count } = await app.db
        .selectFrom('transactions')
        .select((eb) => eb.fn.countAll<number>().as('count'))
        .where('state', 'in', ['BOUND', 'SUBMITTED', 'VACANT'])
        .executeTakeFirstOrThrow()
      process.send!({ id, open: Number(count) })
      return
    }
    if (isCounting) {
      process.send!({ id, counts: { ...counts, rpc: await rpcCalls() } })
      return
    }
    if (profile === 'start') {
      await inspector.post('Profiler.enable')
      await inspector.post('Profiler.start')
      process.send!({ id })
      return
    }
    if (profile === 'stop') {
      process.send!({ id, profile: (await inspector.post('Profiler.stop')).profile })
      return
    }
    if (loop) {
      // The histogram holds whole turns of its timer: what is more than the timer's 10 ms is delay.
      const delayMs = Math.max(0, delays.percentile(99) / 1e6 - 10)
      delays.reset()
      process.send!({ id, delayMs })
      return
    }
    if (memory) {
      ;(globalThis as { gc?: () => void }).gc?.()
      process.send!({ id, memory: process.memoryUsage() })
      return
    }
    const tokens: { userId: string; token: string }[] = []
    const clientId = application ?? facts.clientId
    if (application !== undefined)
      await saveApplication(app, {
        ...{ clientId, name: application, chainId: facts.chainId, kind: 'public', secretHashes: [], logoUri: null },
        ...{ redirectUris: ['http://localhost/*'], allowedOrigins: [], isSuspended: false },
        permissions: ['wallet:read', 'contracts:read', 'contracts:write'],
        sponsor: { perUser: PLENTY, perApplication: PLENTY, contracts: null },
      })
    if (application !== undefined && weight !== undefined)
      await app.db.updateTable('applications').set({ weight }).where('client_id', '=', application).execute()
    for (const username of users!) tokens.push(await issueToken({ username, clientId }))
    process.send!({ id, tokens })
  },
)
let ending: Promise<void> | null = null
const end = () => void (ending ??= close().then(() => process.exit()))
process.on('SIGTERM', end)
process.on('disconnect', end)
process.send!({ origin: app.origin, signerPid: signerOf() })

/** Every statement that goes to PostgreSQL, and those that end a transaction in which something was written. */
function countStatements(): void {
  const query = pg.Client.prototype.query as (this: unknown, ...args: unknown[]) => unknown
  const inside = new WeakMap<object, { wrote: boolean }>()
  pg.Client.prototype.query = function (this: object, ...args: unknown[]) {
    const [first] = args
    const text = (typeof first === 'string' ? first : (first as { text: string }).text).trimStart().toLowerCase()
    counts.statements++
    const open = inside.get(this)
    const writes = !text.startsWith('select') && (!text.startsWith('with') || /\b(insert|update|delete)\b/.test(text))
    if (text.startsWith('begin') || text.startsWith('start transaction')) inside.set(this, { wrote: false })
    else if (text.startsWith('commit') || text.startsWith('rollback')) {
      if (open?.wrote && text.startsWith('commit')) counts.commits++
      inside.delete(this)
    } else if (writes && open === undefined) counts.commits++
    else if (writes) open!.wrote = true
    return query.apply(this, args)
  } as typeof pg.Client.prototype.query
}

/** Each request to the node begins with its own write; what a WebSocket beside says is none. */
function countRequests(): void {
  const { write } = net.Socket.prototype
  const port = Number(new URL(process.env.RPC_URL!.split(',')[0]!).port)
  net.Socket.prototype.write = function (this: net.Socket, ...args: Parameters<typeof write>) {
    const [data] = args
    const head = typeof data === 'string' ? data.slice(0, 5) : Buffer.from(data).toString('latin1', 0, 5)
    if (this.remotePort === port && head === 'POST ') counts.requests++
    return write.apply(this, args)
  } as typeof write
}

async function rpcCalls(): Promise<Record<string, number>> {
  const calls: Record<string, number> = {}
  for (const [, method, count] of (await app.telemetry.registry.metrics()).matchAll(
    /^rpc_calls_total\{method="(\w+)".*\} (\d+)/gm,
  ))
    calls[method!] = (calls[method!] ?? 0) + Number(count)
  return calls
}

/** The only child that the program has besides its database is the signer, if it starts one; proc(5). Linux only. */
function signerOf(): number {
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8')
    .trim()
    .split(' ')
    .filter(Boolean)
    .map(Number)
  return children.find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('signer/main.ts')) ?? 0
}
