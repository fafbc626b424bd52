import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import { BAD_WEATHER } from '../nodes/faulty-node.ts'
import type { Supervised } from './processes.ts'
import { fractionsOf } from '../random.ts'
import { meddle, wantOf } from './transactions-clients.ts'
import { insist, newWrite, type Refusals, type Write } from './transactions-client.ts'
import { judge, type Verdict } from './transactions-oracle.ts'
import { chaosWorld, type Account, type ChaosWorld, type WorldOptions } from './transactions-world.ts'

/** Points at which every replica dies once during the storm, beside the random kills. */
export const SERVER_POINTS = [
  'before-bind',
  'in-bind',
  'after-bind',
  'after-sign',
  'after-store',
  'after-broadcast',
  'before-answer',
  'before-replace',
  'after-replace-sign',
  'after-replace-store',
  'after-replace-broadcast',
  'in-block',
  'in-retract',
  'after-follow',
]

export const SIGNER_POINTS = ['signer.before-commit', 'signer.after-commit', 'signer.after-witness']

export type RunOptions = {
  seed: number
  writes: number
  replicas: number
  /** PostgreSQL cluster, or null for the embedded database */
  cluster: string | null
  accounts?: number
  /** points that each replica is killed at, in turn */
  points?: string[]
  signerPoints?: string[]
  /** milliseconds that a process lives after it got ready, at most; null: no random kills */
  lifeMs?: number | null
  /** the storm does not end before that many processes were killed; they live shorter while kills lag behind the writes */
  leastKills?: number
  /** on a slow machine the storm goes on after its time, until so many processes were killed and so many writes answered */
  atLeast?: { kills: number; answered: number }
  deepest?: number
  /** milliseconds that the faults last at most; else as long as the writes and the points take, which has a bound too */
  stormMs?: number
  /** crashes the database and lets it be away for some milliseconds; only where the cluster is the run's own */
  crashDatabase?: (awayMs: number) => Promise<void>
  /** more of what the servers are told */
  settings?: Record<string, string>
  /** what the world has besides */
  prepare?: WorldOptions['prepare']
  /** folder that holds src/, where it is not this project's */
  home?: string
  /** changes the world before anybody writes. @returns whose writes are made and judged */
  stage?: (world: ChaosWorld) => Promise<Account[]>
  /** what the next write of a client is */
  want?: typeof wantOf
  /** what clients do about a write that they were just told of */
  meddle?: typeof meddle
  /** faults of its own, until it is over */
  fault?: (world: ChaosWorld, signal: AbortSignal) => Promise<unknown>
  /** who says what became of it all */
  judge?: typeof judge
  /** what clients do about writes that they were told of, once the faults stop and until all is judged */
  afterStorm?: (world: ChaosWorld, writes: Write[], signal: AbortSignal) => Promise<void>
  /** what is to be shown in the same world after the verdict */
  epilogue?: (world: ChaosWorld) => Promise<void>
  log?: (line: string) => void
}

export type RunReport = {
  seed: number
  replicas: number
  verdict: Verdict
  kills: { server: number; signer: number }
  /** points that were died at, with each one's times */
  points: Record<string, number>
  missed: string[]
  faults: Record<string, number>
  database: { terminated: number; tornBefore: number; tornAfter: number; crashed: number }
  refusals: Record<string, number>
  /** what clients asked for besides, and what they were told */
  changes: Record<string, number>
  seconds: number
  /** the last of what the processes said, for a run that failed */
  said: string
}

const BLOCK_MS = 150
/** accounts that still write when all writes are made and some points are not */
const MAX_LATE = 6

/** milliseconds that a storm goes on after its time for what it has to do at least */
const LATE_MS = 240_000

/** milliseconds that the faults of a run with so many writes last at most */
export const stormMs = (writes: number): number => 300_000 + writes * 300

/** Random faults of everything at once while clients insist on their writes; then quiet, then the chain's word. */
export async function run(options: RunOptions): Promise<RunReport> {
  const { seed, writes: many, replicas, cluster, points = [], signerPoints = [], log = () => {} } = options
  const startedAt = performance.now()
  const roll = fractionsOf(seed)
  const world = await chaosWorld({
    roll,
    replicas,
    cluster,
    accounts: options.accounts ?? Math.max(6, Math.min(160, Math.ceil(many / 20))),
    settings: { LANE_BUMP_AFTER_SECONDS: '1', ...options.settings },
    ...(options.prepare === undefined ? {} : { prepare: options.prepare }),
    ...(options.home === undefined ? {} : { home: options.home }),
  })
  const { stage = async () => world.accounts, want = wantOf } = options
  const storm = new AbortController()
  const end = new AbortController()
  const terminated = { count: 0, crashes: 0 }
  const tours: Tour[] = [
    ...world.servers.map((one) => ({ one, left: shuffled(points, roll) })),
    { one: world.signer, left: shuffled(signerPoints, roll) },
  ]
  const writes: Write[] = []
  const answeredOf = () => writes.filter(({ hash }) => hash !== null).length
  const killsOf = ({ ends }: Supervised) => ends.filter((how) => how === 'SIGKILL').length
  const kills = () => tours.reduce((sum, { one }) => sum + killsOf(one), 0)
  const isTouring = () =>
    kills() < (options.leastKills ?? 0) || tours.some(({ one, left: some }) => some.length > 0 || one.point !== null)
  const { atLeast = { kills: 0, answered: 0 } } = options
  const isEnough = () => kills() >= atLeast.kills && answeredOf() >= atLeast.answered
  const life = (): Life | null => {
    const { lifeMs = LONG_LIFE.ms, leastKills = 0 } = options
    if (lifeMs === null) return null
    const isBehind = kills() / leastKills < answeredOf() / many
    return isBehind ? SHORT_LIFE : { ...LONG_LIFE, ms: lifeMs }
  }
  const since = () => `+${((performance.now() - startedAt) / 1_000).toFixed(0)} s`
  try {
    const accounts = await stage(world)
    log(`seed ${seed}, ${replicas} replica(s): ready, ${since()}`)
    world.node.weather(BAD_WEATHER)
    world.torn?.tear(0.01, roll)
    const weather = [
      miner(world, end.signal),
      sky(world, { deepest: options.deepest ?? 64, signal: storm.signal }),
      cutter(world, terminated, storm.signal),
      crasher(world, { terminated, crash: options.crashDatabase, signal: storm.signal }),
      options.fault?.(world, storm.signal),
      ...tours.map((tour) => reaper(world, tour, { life, signal: storm.signal })),
    ]
    const refusals: Refusals = new Map()
    const changes: Record<string, number> = {}
    const heard = new Set<string>()
    const teller = setInterval(() => {
      const everybody = [...world.servers, world.signer]
      const up = everybody.filter((one) => one.isReady()).map(({ name }) => name)
      // One that ends by itself says why; each reason is told once.
      for (const one of everybody.filter(({ ends: some }) => /^\d/.test(some.at(-1) ?? ''))) {
        const reason = `${one.name}: ${one.said().trim().split('\n').at(-1)?.slice(0, 300)}`
        if (!heard.has(reason.replace(/\d+/g, ''))) log(`  ${reason}`)
        heard.add(reason.replace(/\d+/g, ''))
      }
      const ends = countOf(everybody.flatMap((one) => one.ends.map((how) => `${one.name} ${how}`)))
      const open = tours.flatMap(({ one, left: some }) => (one.point === null ? some : [one.point, ...some]))
      log(
        `${since()}: ${writes.length} writes, ${answeredOf()} answered, ${world.node.pool.size()} in the pool, ends ${JSON.stringify(ends)}, up now: ${up.join(', ')}; refused ${JSON.stringify(Object.fromEntries(refusals))}, points left: ${open.length}${open.length > 0 && open.length < 5 ? ` (${open.join(', ')})` : ''}`,
      )
    }, 10_000)
    end.signal.addEventListener('abort', () => clearInterval(teller))
    const isDone = () => end.signal.aborted
    let left = many
    const clients = accounts.flatMap((account, index) =>
      // Two at a time for one account: they meet in its lane, on one replica or on two.
      [0, 1].map(async () => {
        // The storm lasts until every point was reached too: a few go on, so that there is something to be killed at.
        while ((left > 0 || ((isTouring() || !isEnough()) && index < MAX_LATE)) && !storm.signal.aborted) {
          left--
          const write = newWrite(account, seed, want(world, account))
          writes.push(write)
          await insist(world, write, { isOver: isDone, refusals })
          await (options.meddle ?? meddle)(world, write, changes)
          if (left <= 0) await pause(500)
        }
      }),
    )
    const answered = Promise.all(clients)
    const endsAt = performance.now() + (options.stormMs ?? stormMs(many))
    // The faults stop when nearly all is answered: what is open then has to settle in quiet.
    while (performance.now() < endsAt && (answeredOf() < many || isTouring())) await pause(200)
    while (performance.now() < endsAt + LATE_MS && !isEnough()) await pause(200)
    storm.abort()
    world.node.weather(null)
    world.node.spike(null)
    world.torn?.tear(0, roll)
    const missed = tours.flatMap(({ one, left: some }) =>
      [...new Set(one.point === null ? some : [one.point, ...some])].map((point) => `${point} (${one.name})`),
    )
    if (kills() < (options.leastKills ?? 0)) missed.push(`${options.leastKills} kills, but ${kills()}`)
    for (const { one } of tours) one.arm()
    log(`${since()}: the faults stop; ${writes.length} writes, ${answeredOf()} answered`)
    const tended = options.afterStorm?.(world, writes, end.signal)
    const verdict = await (options.judge ?? judge)(world, writes, {
      accounts,
      log: (line) => log(`${since()}: ${line}`),
    })
    end.abort()
    await Promise.all([answered, tended, ...weather])
    if (verdict.problems.length === 0) await options.epilogue?.(world)
    return {
      seed,
      replicas,
      verdict,
      kills: {
        server: world.servers.reduce((sum, server) => sum + killsOf(server), 0),
        signer: killsOf(world.signer),
      },
      points: countOf([...world.servers, world.signer].flatMap(({ fired }) => fired)),
      missed,
      faults: { ...world.node.counts },
      database: {
        terminated: terminated.count,
        tornBefore: world.torn?.torn.before ?? 0,
        tornAfter: world.torn?.torn.after ?? 0,
        crashed: terminated.crashes,
      },
      refusals: Object.fromEntries(refusals),
      changes,
      seconds: Math.round((performance.now() - startedAt) / 1_000),
      said: [...world.servers, world.signer].map(({ name, said }) => `${name}:\n${said()}`).join('\n'),
    }
  } finally {
    storm.abort()
    end.abort()
    await world.close()
  }
}

/** The points that a process has still to die at. */
type Tour = { one: Supervised; left: string[] }

function countOf(all: string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const one of all) counts[one] = (counts[one] ?? 0) + 1
  return counts
}

function shuffled<T>(all: readonly T[], roll: () => number): T[] {
  return all
    .map((one) => ({ one, at: roll() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ one }) => one)
}

export async function miner({ node }: Pick<ChaosWorld, 'node'>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await pause(BLOCK_MS)
    await node.mine()
  }
}

/** Reorganisations, wiped pools and dear blocks; what a process waits to be killed at is brought about. */
async function sky(
  { node, roll, servers }: ChaosWorld,
  { deepest, signal }: { deepest: number; signal: AbortSignal },
): Promise<void> {
  let dearUntil = 0
  let replaced = 0
  while (!signal.aborted) {
    await pause(250)
    const wanted = servers.map(({ point }) => point ?? '')
    const now = performance.now()
    if (roll() < (wanted.some((point) => point.includes('retract')) ? 0.3 : 0.05)) {
      const depth = roll() < 0.8 ? 1 + Math.floor(roll() * 4) : 1 + Math.floor(roll() * deepest)
      // anvil keeps the states of its last blocks, those of lost branches too.
      if (replaced + depth > (node.counts.blocks ?? 0)) continue
      replaced += depth
      await node.reorganise(depth, { putBack: roll() < 0.9 })
    }
    if (roll() < 0.02) await node.wipe()
    if (now > dearUntil + 3_000 && roll() < (wanted.some((point) => point.includes('replace')) ? 0.3 : 0.02)) {
      dearUntil = now + 3_000
      node.spike(4_000_000_000n)
    }
    if (now > dearUntil) node.spike(null)
  }
}

/** Ends connections to the database, each as an administrator or a failover would. */
async function cutter(
  { db, servers, roll }: ChaosWorld,
  terminated: { count: number },
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted && db !== null) {
    await pause(300 + roll() * 2_000)
    // Cut off again and again while it starts, a process on a slow machine would never serve.
    if (!servers.some((server) => server.isReady())) continue
    try {
      const { rows } = await sql<{ pid: number }>`
        select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
          and application_name <> 'harness' order by random() limit 1`.execute(db)
      if (rows[0] === undefined) continue
      await sql`select pg_terminate_backend(${rows[0].pid}::int)`.execute(db)
      terminated.count++
    } catch {
      // It was our own: the next one is another.
    }
  }
}

/** Crashes the whole database every half minute or so; the second time it is away for 30 s. */
async function crasher(
  { roll, servers }: ChaosWorld,
  {
    terminated,
    crash,
    signal,
  }: { terminated: { crashes: number }; crash: RunOptions['crashDatabase']; signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted && crash !== undefined) {
    const until = performance.now() + 15_000 + roll() * 30_000
    while (!signal.aborted && (performance.now() < until || !servers.some((server) => server.isReady())))
      await pause(100)
    if (signal.aborted) return
    terminated.crashes++
    await crash(terminated.crashes === 2 ? 30_000 : roll() * 1_000)
  }
}

/** milliseconds that a process may take to get to its point before another one has its turn; the follower's lease alone is 4 s */
const PATIENCE_MS = 12_000

/**
 * How long a process lives at most: milliseconds, and on a slow machine so many times as long as it took to start. Of its
 * lives such a part is spent on the way to a point, which takes longer.
 */
type Life = { ms: number; starts: number; pointed: number }
const LONG_LIFE: Life = { ms: 20_000, starts: 4, pointed: 1 }
/** Nobody would ever serve if all lived so short: only until the kills have caught up with the writes. */
const SHORT_LIFE: Life = { ms: 1_000, starts: 0.5, pointed: 0.25 }

/** Kills one process again and again: at one of its points, at a random moment, at the next point, and so on. */
async function reaper(
  { roll }: ChaosWorld,
  { one, left }: Tour,
  { life, signal }: { life: () => Life | null; signal: AbortSignal },
): Promise<void> {
  const passes = async (ms: number, isSo: () => boolean) => {
    const until = performance.now() + ms
    while (!signal.aborted && performance.now() < until && !isSo()) await pause(20)
  }
  while (!signal.aborted) {
    await passes(60_000, () => one.isReady())
    const most = life()
    const isPointed = most === null || most.pointed === 1 || roll() < most.pointed
    const point = isPointed ? left.shift() : undefined
    if (point !== undefined) {
      const before = one.fired.length
      one.arm(point)
      await passes(PATIENCE_MS, () => one.fired.length > before)
      if (one.fired.length === before) {
        // Another process may be the one that follows or raises: later, in other weather.
        if (signal.aborted) return void left.push(point)
        one.arm()
        left.push(point)
      } else if (left.length > 0 && roll() < 0.6) continue
      await passes(60_000, () => one.isReady())
    }
    if (most === null) {
      await pause(20)
      continue
    }
    const { starts, startMs } = one
    await passes(200 + roll() * Math.max(most.ms, most.starts * startMs), () => one.starts !== starts)
    if (signal.aborted || one.starts !== starts) continue
    one.signal('SIGKILL')
    await one.gone()
  }
}
