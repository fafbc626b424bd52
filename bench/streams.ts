/**
 * `npm run bench:streams [-- --streams=1000 --applications=10 --cuts=100 --rate=300 --seconds=60]`: open streams of events at two
 * servers with one PostgreSQL, whose connections are cut and which go on at the other server. Counts events that are lost or
 * come twice, and measures the time from the commit of a fact to its reader. Cuts are connections, and in turn SIGKILL and
 * SIGTERM of a whole server. On a throw-away PostgreSQL, or on the cluster of TEST_DATABASE_URL. Ends with 1 if an event was
 * lost or came twice.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { sql } from 'kysely'
import { startSigner } from '../src/devnet/signer.ts'
import { accountIdOf } from '../src/ids.ts'
import { openLog } from '../src/log.ts'
import { openPostgres } from '../src/store/db.ts'
import { emptyPostgres } from '../test/kit/database.ts'
import { freePort } from '../test/kit/ports.ts'
import { cpuMillis, startNode, startProgram, type Program } from './place.ts'
import { openStage } from './stage.ts'
import { openStreamReader, type StreamReader, type WrittenFeed } from './stream-reader.ts'

const { values: flags } = parseArgs({
  options: {
    streams: { type: 'string', default: '1000' },
    applications: { type: 'string', default: '10' },
    cuts: { type: 'string', default: '100' },
    rate: { type: 'string', default: '300' },
    seconds: { type: 'string', default: '60' },
  },
})
const [STREAMS, APPLICATIONS, CUTS] = [Number(flags.streams), Number(flags.applications), Number(flags.cuts)]
const [RATE, SECONDS] = [Number(flags.rate), Number(flags.seconds)]
/** Streams of one user: as many as one user may have. */
const PER_USER = 5
/** Two of five streams are those of users, who see their own events; the others see all of their application. */
const USERS = Math.max(1, Math.floor((STREAMS / APPLICATIONS) * 0.4 / PER_USER)) // prettier-ignore
const MACHINES = STREAMS / APPLICATIONS - USERS * PER_USER
/** milliseconds between two statements that write facts */
const WRITE_MS = 20
/** Every twelfth cut is that of a server: killed, or asked to end. */
const SERVER_CUT = 12
const TYPES = 'types=transaction.submitted'

type Replica = { url: string | null; program: Program | null; start(): Promise<void> }

const stage = await openStage()
const folder = await mkdtemp(join(tmpdir(), 'chatelaine-streams-'))
try {
  const cluster = process.env.TEST_DATABASE_URL
  if (cluster === undefined) throw new Error('this bench needs PostgreSQL')
  const node = stage.begun(await startNode())
  const database = await emptyPostgres(cluster)
  stage.begun({ end: database.drop })
  const ports = [await freePort(), await freePort()]
  const origin = `http://localhost:${ports[0]}`
  const shared = { PUBLIC_ORIGIN: origin, DATABASE_URL: database.url, AUTH_KEYS_FILE: join(folder, 'auth-keys.json') }
  // The first start makes keys, tables, applications and users; both servers then use its signer.
  const home = join(folder, 'home')
  const first = await startProgram(node.url, { settings: { ...shared, PORT: String(ports[0]), DATA_DIR: home } })
  const shopsMade = []
  for (let index = 0; index < APPLICATIONS; index++) {
    const names = Array.from({ length: USERS }, (_, user) => `reader-${index}-${user}`)
    shopsMade.push({ clientId: `shop-${index}`, names, ...(await first.feed(`shop-${index}`, names)) })
  }
  await first.end()
  const signer = await startSigner({
    ...{
      dataDir: home,
      jwksFile: join(folder, 'auth-keys.public.json'),
      issuer: `${origin}/oauth`,
      audience: `${origin}/v1`,
    },
    ...{ logLevel: 'error', keyExport: { isOn: false, delaySeconds: 0 }, log: openLog('bench', 'silent') },
  })
  stage.begun({ end: signer.stop })
  const replicas = ports.map((port, index): Replica => {
    const replica: Replica = {
      url: null,
      program: null,
      start: async () => {
        const DATA_DIR = join(folder, String(index))
        replica.program = await startProgram(node.url, {
          settings: {
            ...shared,
            PORT: String(port),
            DATA_DIR,
            SIGNER_SOCKET: signer.socket,
            DEVELOPMENT_OPEN_TO: 'everyone',
          },
        })
        replica.url = `http://localhost:${port}`
      },
    }
    stage.begun({ end: async () => await replica.program?.end() })
    return replica
  })
  for (const { start } of replicas) await start()
  const db = await openPostgres({ url: database.url, pool: 2, prepares: true, pooler: 'none', deadlineMs: 600_000, onError: () => {} }) // prettier-ignore
  stage.begun({ end: () => db.destroy() })

  /** An application, and what is written for it: all of it, and what concerns each of its users. */
  type Shop = { clientId: string; token: string; all: WrittenFeed; users: { accountId: string; token: string; feed: WrittenFeed }[] } // prettier-ignore
  const shops: Shop[] = []
  for (const { clientId, names, secret, people } of shopsMade) {
    const answer = await fetch(`${replicas[0]!.url}/oauth/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`${clientId}:${secret}`).toString('base64')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'events:read' }),
    })
    const { access_token: token } = (await answer.json()) as { access_token: string }
    const users = names.map((name, user) => ({ accountId: accountIdOf('DEV', name), token: people[user]!.token, feed: { numbers: [] } })) // prettier-ignore
    shops.push({ clientId, token, all: { numbers: [] }, users })
  }

  /** ticks at which each fact was committed; a reader may have it before its writer has the answer */
  const committedAt: number[] = []
  /** events by the milliseconds that they took: those committed while their stream was open, and all */
  const [whileOpen, all] = [openHistogram(), openHistogram()]
  const onEvent = (number: number, reader: StreamReader) => {
    if (!reader.judge.note(number)) return
    const at = committedAt[number]
    const ms = at === undefined ? 0 : performance.now() - at
    all.add(ms)
    if (at === undefined || reader.openSince < at) whileOpen.add(ms)
  }
  const readers: StreamReader[] = []
  for (const { token, all: whole, users } of shops) {
    // A stream that is cut before its first event continues there.
    const end = await fetch(`${replicas[0]!.url}/v1/events?cursor=now`, {
      headers: { authorization: `Bearer ${token}` },
    })
    const path = `/v1/events?${TYPES}&cursor=${end.headers.get('x-next-cursor')!}`
    const open = (feed: WrittenFeed, by: string) =>
      readers.push(openStreamReader({ feed, token: by, servers: replicas, server: readers.length % 2, path, onEvent })) // prettier-ignore
    for (let stream = 0; stream < MACHINES; stream++) open(whole, token)
    for (const user of users) for (let stream = 0; stream < PER_USER; stream++) open(user.feed, user.token)
    await allOpen(readers)
  }
  console.log(`${readers.length} streams of ${APPLICATIONS} applications are open, ${USERS * PER_USER} of ${STREAMS / APPLICATIONS} by users`) // prettier-ignore

  const [begun, cpuBefore] = [performance.now(), replicas.map(({ program }) => cpuMillis(program!.pid))]
  let isWriting = true
  let facts = 0
  /** Writes facts at their rate: as many as are due. */
  const writing = (async () => {
    while (isWriting) {
      const due = Math.floor(((performance.now() - begun) / 1_000) * RATE) - facts
      if (due > 0) await writeFacts(Math.min(due, RATE))
      await sleep(WRITE_MS)
    }
  })()
  async function writeFacts(count: number): Promise<void> {
    const rows = Array.from({ length: count }, () => {
      const number = facts++
      const shop = shops[number % APPLICATIONS]!
      const user = shop.users[Math.floor(number / APPLICATIONS) % USERS]!
      shop.all.numbers.push(number)
      user.feed.numbers.push(number)
      return { number, client_id: shop.clientId, account_id: user.accountId }
    })
    await sql`insert into facts (kind, chain_id, client_id, account_id, subject, data)
      select 'write', 31337, client_id, account_id, 'transaction:tx_' || number, jsonb_build_object('id', 'tx_' || number, 'state', 'SUBMITTED',
        'hash', repeat('ab', 32), 'before', null, 'steps', jsonb_build_array(jsonb_build_object('state', 'SUBMITTED', 'at', now())))
      from json_to_recordset(${JSON.stringify(rows)}::json) as rows (number int, client_id text, account_id uuid) order by number`.execute(
      db,
    )
    const now = performance.now()
    for (const { number } of rows) committedAt[number] = now
  }

  const count = { connections: 0, SIGKILL: 0, SIGTERM: 0 }
  for (let cut = 1; cut <= CUTS; cut++) {
    await sleep(Math.max(0, begun + (cut / (CUTS + 1)) * SECONDS * 1_000 - performance.now()))
    if (cut % SERVER_CUT !== 0) {
      count.connections++
      readers[(cut * 7_919) % readers.length]!.cut()
      continue
    }
    const turn = cut / SERVER_CUT - 1
    const signal = turn % 4 === 3 ? 'SIGTERM' : 'SIGKILL'
    count[signal]++
    await endServer(replicas[turn % 2]!, signal)
    // What has moved to the other server comes back, so that both serve streams again.
    await allOpen(readers)
    readers.filter((_, index) => index % 2 === turn % 2).forEach((reader) => reader.cut())
    await allOpen(readers)
  }
  await sleep(Math.max(0, begun + SECONDS * 1_000 - performance.now()))
  isWriting = false
  await writing
  const seconds = (performance.now() - begun) / 1_000
  // All that was written arrives, or does not within ten seconds of the last that did.
  for (let before = -1; before !== all.count(); await sleep(10_000)) {
    before = all.count()
    if (readers.every(({ judge }) => judge.verdict().lost === 0)) break
  }

  const sum = readers.reduce(
    (total, { judge, resumptions, refusals }) => {
      const { read, lost, absent, twice } = judge.verdict()
      return { read: total.read + read, lost: total.lost + lost, absent: total.absent + absent, twice: total.twice + twice, resumptions: total.resumptions + resumptions, refusals: total.refusals + refusals } // prettier-ignore
    },
    { read: 0, lost: 0, absent: 0, twice: 0, resumptions: 0, refusals: 0 },
  )
  console.log(`${facts} facts in ${seconds.toFixed(0)} s (${(facts / seconds).toFixed(0)}/s), ${sum.read} events read (${(sum.read / seconds).toFixed(0)}/s)`) // prettier-ignore
  console.log(`${CUTS} cuts: ${count.connections} connections, ${count.SIGKILL} SIGKILL and ${count.SIGTERM} SIGTERM of a server; ${sum.resumptions} resumptions, ${sum.refusals} refusals`) // prettier-ignore
  console.log(`${sum.lost} lost, ${sum.twice} twice`)
  if (sum.lost > 0)
    console.log(`${sum.absent} of them after the last that its stream had; ${readers.filter(({ openSince }) => !Number.isFinite(openSince)).length} streams had no connection`) // prettier-ignore
  console.log(`from commit to reader: p50 ${whileOpen.at(0.5)} ms, p99 ${whileOpen.at(0.99)} ms of ${whileOpen.count()} events while their stream was open; all: p50 ${all.at(0.5)} ms, p99 ${all.at(0.99)} ms`) // prettier-ignore
  const statements = await Promise.all(replicas.map(async ({ program }) => (await program!.counts()).statements))
  console.log(`load average ${loadavg()[0]!.toFixed(1)}; statements since each server's last start: ${statements.join(' and ')}; CPU ms of servers: ${replicas.map(({ program }, index) => cpuMillis(program!.pid) - (count.SIGKILL > 0 ? 0 : cpuBefore[index]!)).join(' and ')}`) // prettier-ignore
  const { rows: lag } = await sql<{ p50: number; p99: number }>`
    select percentile_cont(0.5) within group (order by late) as p50, percentile_cont(0.99) within group (order by late) as p99
    from (select seq / 1000.0 - extract(epoch from at) * 1000 as late from events where type = 'transaction.submitted') as lags`.execute(
    db,
  )
  console.log(
    `from the fact to its number: p50 ${Number(lag[0]!.p50).toFixed(0)} ms, p99 ${Number(lag[0]!.p99).toFixed(0)} ms`,
  )
  for (const reader of readers) reader.stop()
  if (sum.lost > 0 || sum.twice > 0) process.exitCode = 1
} finally {
  await stage.end()
  await rm(folder, { recursive: true, force: true })
}

/** Ends a server and starts it again, while its streams go on at the other one. */
async function endServer(replica: Replica, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  replica.url = null
  const { pid, end } = replica.program!
  process.kill(pid, signal)
  await end()
  await replica.start()
}

/** Resolves when each stream has a connection. */
async function allOpen(readers: readonly StreamReader[]): Promise<void> {
  while (!readers.every(({ openSince }) => Number.isFinite(openSince))) await sleep(20)
}

/** Counts by milliseconds, up to a minute. */
function openHistogram() {
  const counts = new Uint32Array(60_001)
  let total = 0
  return {
    add: (ms: number) => {
      counts[Math.min(60_000, Math.ceil(ms))]!++
      total++
    },
    count: () => total,
    at: (part: number): number => {
      let seen = 0
      return counts.findIndex((one) => (seen += one) >= part * total)
    },
  }
}
