import { setTimeout as pause } from 'node:timers/promises'
import { fractionsOf } from '../random.ts'
import { until } from '../kit/until.ts'
import { findAll, repeatAll, startLoad, type Answered, type Load } from './failover-load.ts'
import { startPair, type Pair } from './failover-pair.ts'
import { judge, type Verdict } from './transactions-oracle.ts'
import { miner } from './transactions-run.ts'
import { chaosWorld, type ChaosWorld } from './transactions-world.ts'

export type FailoverOptions = {
  seed: number
  /** folder of PostgreSQL's programs */
  programs: string
  /** folder that holds src/, where it is not this project's */
  home?: string
  /** milliseconds between the writes of a client */
  paceMs?: number
  /** what a machine that does nothing else keeps; a slow one is given more */
  limits?: FailoverLimits
  log?: (line: string) => void
}

/** milliseconds that writes may take to be back, and then told ids to be found */
export type FailoverLimits = { backMs: number; foundMs: number }

export type FailoverReport = {
  name: FailoverName
  verdict: Verdict
  /** told before the database forgot, and of these the rows that it forgot */
  told: number
  forgotten: number
  /** milliseconds from the promotion, or the end of the restore, to the first answer to a new write */
  backMs: number
  /** milliseconds from then on until every id told before was found again; 0: each at the first look */
  foundMs: number
  refusals: Record<string, number>
  /** what must not be, as sentences */
  problems: string[]
  said: string
}

/** A moment of a run, and what stands around it. */
export type Stage = {
  pair: Pair
  world: ChaosWorld
  load: Load
  mining: Mining
  isTold: () => number
  problems: string[]
}
type Mining = { pause(): Promise<void>; goOn(): void }

export type Failover = {
  name: string
  isSynchronous?: true
  /** servers are told both servers of the pair instead of the door */
  hasList?: true
  /** brings the database down and up again. @returns performance.now() of the moment from which it takes writes */
  strike(stage: Stage): Promise<number>
  /** what is to be seen after writes are back */
  after?(stage: Stage): Promise<void>
}

const CUT_MS = 2_000
/** writes answered before anything happens, and those that were answered last when the link was cut */
const [WARM, LOST] = [60, 20]

export const failovers = {
  'lost-tail': {
    name: 'asynchronous, the link cut two seconds before the primary is killed, the standby promoted',
    strike: async (stage) => {
      stage.pair.link.cut()
      await loseSome(stage)
      return failOver(stage)
    },
  },
  synchronous: {
    name: 'synchronous, the primary killed, the standby promoted: no answer is lost',
    isSynchronous: true,
    strike: (stage) => failOver(stage),
  },
  'cut-off': {
    name: 'synchronous, the link cut two seconds before the primary is killed: nothing is answered that could be lost',
    isSynchronous: true,
    strike: async (stage) => {
      stage.pair.link.cut()
      await pause(CUT_MS)
      return failOver(stage)
    },
  },
  restored: {
    name: 'a dump of three seconds ago is restored, with the servers stopped meanwhile',
    strike: async ({ pair, world: { servers } }) => {
      await pair.dump()
      await pause(3_000)
      for (const server of servers) {
        server.hold()
        server.signal('SIGKILL')
      }
      await Promise.all(servers.map((server) => server.gone()))
      await pair.restore()
      for (const server of servers) server.goOn()
      await Promise.all(servers.map((server) => server.ready()))
      return performance.now()
    },
  },
  'wiped-pool': {
    name: 'the lost tail of told writes is in no block yet, and the node forgets its pool',
    strike: async (stage) => {
      stage.pair.link.cut()
      await stage.mining.pause()
      await loseSome(stage)
      await stage.pair.primary.kill()
      await stage.world.node.wipe()
      const promotedAt = await failOver(stage)
      stage.mining.goOn()
      return promotedAt
    },
  },
  'old-primary': {
    name: 'the killed primary comes back as a second one, and a server that starts afresh has both in its list',
    hasList: true,
    strike: async (stage) => {
      stage.pair.link.cut()
      await loseSome(stage)
      return failOver(stage)
    },
    after: async ({ pair, world, problems, load, isTold }) => {
      await pair.primary.start()
      const rows = () => pair.primary.ask<{ count: string }>('select count(*) from attempts')
      const [before] = await rows()
      for (const server of world.servers) server.signal('SIGKILL')
      await Promise.all(world.servers.map((server) => server.gone()))
      await Promise.all(world.servers.map((server) => server.ready()))
      const told = isTold()
      await until('writes go on', () => isTold() > told + WARM)
      const [after] = await rows()
      if (after!.count !== before!.count) problems.push('the old primary was written to')
      if (load.faults.length > 0) problems.push(`answers of ${load.faults.join(', ')}`)
    },
  },
} satisfies Record<string, Failover>

export type FailoverName = keyof typeof failovers

/** So long, and until clients were told of writes that the standby will never have. */
async function loseSome({ isTold }: Stage): Promise<void> {
  const told = isTold()
  await pause(CUT_MS)
  await until('writes are told that will be lost', () => isTold() > told + LOST)
}

/** Kills the primary, if nobody has, and promotes the standby; whoever stands at the door is led there. */
async function failOver({ pair }: Stage): Promise<number> {
  await pair.primary.kill()
  pair.door.cut()
  await pair.standby.promote()
  const promotedAt = performance.now()
  pair.door.lead(pair.standby.port)
  return promotedAt
}

const LIMITS: FailoverLimits = { backMs: 10_000, foundMs: 2_000 }
/** of the writes told before, the last ones that are repeated with their keys */
const REPEATED = 200

/** Clients write and repeat with their keys while the database fails over or is set back; then the chain's word. */
export async function runFailover(name: FailoverName, options: FailoverOptions): Promise<FailoverReport> {
  const { seed, limits, log = () => {} } = options
  const failover: Failover = failovers[name]
  const { stage, close } = await setUp(failover, options)
  const { world, load, problems } = stage
  try {
    log(`${name}, seed ${seed}: ready`)
    const strike = await observe(name, stage, { limits, log })
    await failover.after?.(stage)
    await load.stop()
    const verdict = await judge(world, load.writes, { log })
    problems.push(...strike.problems, ...faultsOf(load), ...verdict.problems)
    return {
      ...strike,
      ...{ verdict, problems, said: saidBy(world), refusals: Object.fromEntries(load.refusals) },
    }
  } finally {
    await close()
  }
}

/** A pair, servers on it behind the door or with its list, blocks, and clients that write without a pause. */
export async function setUp(
  { isSynchronous, hasList }: Pick<Failover, 'isSynchronous' | 'hasList'>,
  { seed, programs, home, paceMs }: FailoverOptions,
): Promise<{ stage: Stage; close(): Promise<void> }> {
  const closers: (() => Promise<void>)[] = []
  const close = async () => {
    for (const one of closers.toReversed()) await one()
  }
  try {
    const pair = await startPair(programs)
    closers.push(() => pair.stop())
    if (isSynchronous) await pair.synchronous(true)
    const world = await chaosWorld({
      ...{ roll: fractionsOf(seed), replicas: 2, accounts: 8, cluster: null },
      database: { url: pair.doorUrl, servers: hasList ? pair.listUrl : pair.doorUrl },
      settings: { LANE_BUMP_AFTER_SECONDS: '600' },
      ...(home === undefined ? {} : { home }),
    })
    closers.push(() => world.close())
    const mining = startMining(world)
    closers.push(() => mining.stop())
    const load = startLoad(world, { seed, ...(paceMs === undefined ? {} : { paceMs }) })
    closers.push(() => load.stop())
    return { stage: { pair, world, load, mining, problems: [], isTold: () => load.answered.length }, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** What one failover did, as its clients saw it; `problems` are its own. */
export type Strike = Pick<FailoverReport, 'name' | 'told' | 'forgotten' | 'backMs' | 'foundMs' | 'problems'>

/**
 * Lets clients write, strikes, and asks for what was told: ids, then keys.
 * @param from       so many answers were looked at before
 * @param meanwhile  what is done while keys are repeated
 */
export async function observe(
  name: FailoverName,
  stage: Stage,
  {
    from = 0,
    meanwhile,
    limits: { backMs: mostBackMs, foundMs: mostFoundMs } = LIMITS,
    log = () => {},
  }: {
    from?: number
    meanwhile?: () => Promise<void>
    limits?: FailoverLimits | undefined
    log?: (line: string) => void
  },
): Promise<Strike> {
  const { pair, world, load } = stage
  const failover: Failover = failovers[name]
  const problems: string[] = []
  await until('the clients write', () => load.answered.length >= from + WARM)

  const upAt = await failover.strike(stage)
  const before = load.answered.slice(from).filter(({ at }) => at < upAt)
  const forgotten = await countForgotten(name === 'restored' ? pair.primary : pair.standby, before)
  const firstNew = () => load.answered.slice(from).find(({ askedAt }) => askedAt > upAt)
  await until('writes are back', () => firstNew() !== undefined).catch((error: unknown) =>
    problems.push((error as Error).message),
  )
  const backMs = Math.round((firstNew()?.at ?? Number.POSITIVE_INFINITY) - upAt)
  log(`${before.length} told, ${forgotten} of them forgotten; writes back after ${backMs} ms`)
  const found = await findAll(world, before, mostFoundMs)
  log(`${found.missing.length} ids not found, the last of the others after ${found.tookMs} ms`)
  const [others] = await Promise.all([repeatAll(world, before.slice(-REPEATED)), meanwhile?.()])

  if (!failover.isSynchronous && forgotten === 0) problems.push('nothing was forgotten: this proves nothing')
  if (failover.isSynchronous && forgotten > 0) problems.push(`${forgotten} answers are lost`)
  if (backMs > mostBackMs) problems.push(`writes were back after ${backMs} ms`)
  problems.push(...found.missing.map((one) => `not found within ${mostFoundMs} ms: ${one}`), ...others)
  return { name, told: before.length, forgotten, backMs, foundMs: found.tookMs, problems }
}

export const faultsOf = ({ faults }: Load): string[] =>
  [...new Set(faults)].map((fault) => `a client was answered ${fault}`)

/** The last of what the processes said. */
export const saidBy = ({ servers, signer }: ChaosWorld): string =>
  [...servers, signer].map((one) => `${one.name}:\n${one.said()}`).join('\n')

/** Told writes whose bytes the server that takes over has never heard of. */
async function countForgotten(server: Pair['primary'], told: Answered[]): Promise<number> {
  const hashes = told.map(({ hash }) => Buffer.from(hash.slice(2), 'hex'))
  const known = await server.ask<{ hash: Buffer }>('select hash from attempts where hash = any($1)', [hashes])
  return told.length - new Set(known.map(({ hash }) => hash.toString('hex'))).size
}

function startMining(world: ChaosWorld): Mining & { stop(): Promise<void> } {
  let end = new AbortController()
  let running = miner(world, end.signal)
  const stop = async () => {
    end.abort()
    await running
  }
  return {
    stop,
    pause: stop,
    goOn() {
      end = new AbortController()
      running = miner(world, end.signal)
    },
  }
}

/** One run in a few lines, for people. */
export function describeFailover(report: FailoverReport): string {
  const { name, verdict, told, forgotten, backMs, foundMs, problems, refusals } = report
  const { writes, lost, doubled, wrong, gaps, unanswered, settledMs } = verdict
  return [
    `${problems.length === 0 ? 'held' : 'FAILED'}: ${failovers[name].name}`,
    `  ${writes} writes, ${told} told before, ${forgotten} forgotten: lost ${lost}, doubled ${doubled}, wrong hash ${wrong}, gaps ${gaps}, unanswered ${unanswered}; writes back after ${(backMs / 1_000).toFixed(1)} s, ids found ${foundMs === 0 ? 'at the first look' : `within ${(foundMs / 1_000).toFixed(1)} s`}, settled in ${(settledMs / 1_000).toFixed(1)} s`,
    `  refused meanwhile: ${JSON.stringify(refusals)}`,
    ...problems.slice(0, 8).map((problem) => `  PROBLEM ${problem}`),
    ...(problems.length > 8 ? [`  and ${problems.length - 8} more`] : []),
  ].join('\n')
}
