import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import { BAD_WEATHER } from './faulty-node.ts'
import { randomOf } from './random.ts'
import { insist, newWrite, type Refusals, type Write } from './transactions-client.ts'
import { judge, type Verdict } from './transactions-oracle.ts'
import { chaosWorld, type ChaosWorld, type Server } from './transactions-world.ts'

/** Points at which every replica is killed once, before random kills begin; `:n` lets the first n-1 times pass. */
export const SERVER_POINTS = [
  'before-bind:2',
  'in-bind:2',
  'after-bind:2',
  'after-sign:2',
  'after-store:2',
  'after-broadcast:2',
  'before-replace',
  'after-replace-sign',
  'after-replace-store',
  'after-replace-broadcast',
  'in-block:2',
  'in-retract',
]

export const SIGNER_POINTS = ['signer.before-commit:3', 'signer.after-commit:3', 'signer.after-witness:3']

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
  /** milliseconds that a process lives after it got ready, at most, once its points are done; null: no random kills */
  lifeMs?: number | null
  deepest?: number
  /** milliseconds that the faults last at most; by default as long as the writes and the points take */
  stormMs?: number
  /** crashes the database and lets it be away for some milliseconds; only where the cluster is the run's own */
  crashDatabase?: (awayMs: number) => Promise<void>
  /** what is to be shown in the same world after the verdict */
  epilogue?: (world: ChaosWorld) => Promise<void>
  log?: (line: string) => void
}

export type RunReport = {
  seed: number
  replicas: number
  verdict: Verdict
  kills: { server: number; signer: number }
  points: string[]
  missed: string[]
  faults: Record<string, number>
  database: { terminated: number; tornBefore: number; tornAfter: number; crashed: number }
  refusals: Record<string, number>
  seconds: number
  /** the last of what the processes said, for a run that failed */
  said: string
}

const BLOCK_MS = 150

/** Random faults of everything at once while clients insist on their writes; then quiet, then the chain's word. */
export async function run(options: RunOptions): Promise<RunReport> {
  const { seed, writes: many, replicas, cluster, points = [], signerPoints = [], log = () => {} } = options
  const startedAt = performance.now()
  const roll = randomOf(seed)
  const world = await chaosWorld({
    roll,
    replicas,
    cluster,
    accounts: options.accounts ?? Math.max(6, Math.min(48, Math.ceil(many / 50))),
    points: Array.from({ length: replicas }, () => shuffled(points, roll)),
    signerPoints,
    settings: { LANE_BUMP_AFTER_SECONDS: '1' },
  })
  const storm = new AbortController()
  const end = new AbortController()
  const terminated = { count: 0, crashes: 0 }
  try {
    log(`ready after ${((performance.now() - startedAt) / 1_000).toFixed(1)} s`)
    world.node.weather(BAD_WEATHER)
    world.torn?.tear(0.01, roll)
    const weather = [
      miner(world, end.signal),
      sky(world, { deepest: options.deepest ?? 64, signal: storm.signal }),
      cutter(world, terminated, storm.signal),
      crasher(world, { terminated, crash: options.crashDatabase, signal: storm.signal }),
      ...[...world.servers, world.signer].map((one) =>
        reaper(world, one as Server, {
          lifeMs: options.lifeMs === undefined ? 4_000 : options.lifeMs,
          signal: storm.signal,
          points,
        }),
      ),
    ]
    const refusals: Refusals = new Map()
    const writes: Write[] = []
    const isDone = () => end.signal.aborted
    let left = many
    const clients = world.accounts.flatMap((account) =>
      // Two at a time for one account: they meet in its lane, on one replica or on two.
      [0, 1].map(async () => {
        // The storm lasts until every point was reached too; but the number of writes has a bound.
        while ((left > 0 || (isTouring(world) && writes.length < many * 4)) && !storm.signal.aborted) {
          left--
          const write = newWrite(account, seed)
          writes.push(write)
          await insist(world, write, { isOver: isDone, refusals })
          if (left <= 0) await pause(100)
        }
      }),
    )
    const answered = Promise.all(clients)
    // The faults stop when nearly all is answered: what is open then has to settle in quiet.
    await Promise.race([answered, untilStormIsOver(world, writes, many, options.stormMs ?? 120_000 + many * 250)])
    storm.abort()
    world.node.weather(null)
    world.node.spike(null)
    world.torn?.tear(0, roll)
    for (const one of [...world.servers, world.signer]) {
      one.points.length = 0
      if (one.point !== null) one.signal('SIGKILL')
    }
    log(
      `${writes.length} writes, ${writes.filter(({ hash }) => hash !== null).length} answered, faults stop after ${((performance.now() - startedAt) / 1_000).toFixed(1)} s`,
    )
    const verdict = await judge(world, writes)
    end.abort()
    await Promise.all([answered, ...weather])
    if (verdict.problems.length === 0) await options.epilogue?.(world)
    return {
      seed,
      replicas,
      verdict,
      kills: {
        server: world.servers.reduce((sum, { ends }) => sum + ends.filter((how) => how === 'SIGKILL').length, 0),
        signer: world.signer.ends.filter((how) => how === 'SIGKILL').length,
      },
      points: [...world.servers, world.signer].flatMap(({ fired }) => fired),
      missed: [...points, ...signerPoints].filter(
        (point) => ![...world.servers, world.signer].some(({ fired }) => fired.includes(point)),
      ),
      faults: { ...world.node.counts },
      database: {
        terminated: terminated.count,
        tornBefore: world.torn?.torn.before ?? 0,
        tornAfter: world.torn?.torn.after ?? 0,
        crashed: terminated.crashes,
      },
      refusals: Object.fromEntries(refusals),
      seconds: Math.round((performance.now() - startedAt) / 1_000),
      said: [...world.servers, world.signer].map(({ name, said }) => `${name}:\n${said()}`).join('\n'),
    }
  } finally {
    storm.abort()
    end.abort()
    await world.close()
  }
}

const isTouring = ({ servers, signer }: ChaosWorld): boolean =>
  [...servers, signer].some(({ points, point }) => points.length > 0 || point !== null)

/** A storm has an end too: what cannot be answered in it is answered after it, or never. */
async function untilStormIsOver(world: ChaosWorld, writes: Write[], many: number, mostMs: number): Promise<void> {
  const startedAt = performance.now()
  while (performance.now() - startedAt < mostMs) {
    const answered = writes.filter(({ hash }) => hash !== null).length
    if (answered >= many && !isTouring(world)) return
    await pause(200)
  }
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
  while (!signal.aborted) {
    await pause(250)
    const wanted = servers.map(({ point }) => point ?? '')
    const now = performance.now()
    if (roll() < (wanted.some((point) => point.includes('retract')) ? 0.3 : 0.05)) {
      const depth = roll() < 0.8 ? 1 + Math.floor(roll() * 4) : 1 + Math.floor(roll() * deepest)
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
async function cutter({ db, roll }: ChaosWorld, terminated: { count: number }, signal: AbortSignal): Promise<void> {
  while (!signal.aborted && db !== null) {
    await pause(300 + roll() * 2_000)
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
  { roll }: ChaosWorld,
  {
    terminated,
    crash,
    signal,
  }: { terminated: { crashes: number }; crash: RunOptions['crashDatabase']; signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted && crash !== undefined) {
    const until = performance.now() + 15_000 + roll() * 30_000
    while (!signal.aborted && performance.now() < until) await pause(100)
    if (signal.aborted) return
    terminated.crashes++
    await crash(terminated.crashes === 2 ? 30_000 : roll() * 1_000)
  }
}

/** milliseconds that a process may take to reach the point it is to die at; the follower's lease alone is 4 s */
const patienceMs = (point: string): number => (/^in-(block|retract)|replace/.test(point) ? 15_000 : 6_000)

/** Kills one process again and again: at its points first, and where one is not reached in time, it comes up again later. */
async function reaper(
  { roll }: ChaosWorld,
  one: Server,
  { lifeMs, signal, points }: { lifeMs: number | null; signal: AbortSignal; points: string[] },
): Promise<void> {
  const again = new Map<string, number>()
  while (!signal.aborted) {
    await pause(20)
    if (!one.isReady()) continue
    const { point, starts } = one
    if (point === null && lifeMs === null) continue
    const until = performance.now() + (point === null ? 200 + roll() * lifeMs! : patienceMs(point))
    while (!signal.aborted && performance.now() < until && one.starts === starts) await pause(20)
    if (signal.aborted || one.starts !== starts) continue
    if (point !== null && points.length > 0) {
      again.set(point, (again.get(point) ?? 0) + 1)
      if (again.get(point)! < 3) one.points.push(point)
    }
    one.signal('SIGKILL')
    await one.gone()
  }
}
