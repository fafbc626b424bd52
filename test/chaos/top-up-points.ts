import { setTimeout as pause } from 'node:timers/promises'
import { fractionsOf } from '../random.ts'
import { hurry, judgeTopUps, withSponsor } from './top-ups.ts'
import { PATIENCE_MS, until } from '../kit/until.ts'
import { insist, insistAt, newWrite, type Write } from './transactions-client.ts'
import { judge, type Verdict } from './transactions-oracle.ts'
import { miner } from './transactions-run.ts'
import { chaosWorld } from './transactions-world.ts'

/** Between the steps of a write: of a person without funds the first time is the top-up's, the second that of what they asked for. */
const STEPS = ['before-bind', 'in-bind', 'after-bind', 'after-sign', 'after-store', 'after-broadcast', 'before-answer']
const SIGNER_STEPS = ['signer.before-commit', 'signer.after-commit', 'signer.after-witness']
export const TOP_UP_POINTS = [...STEPS, ...SIGNER_STEPS].flatMap((step) => [step, `${step}:2`])

const SEED = 0x70b

export type TopUpPointsReport = {
  replicas: number
  fired: string[]
  missed: string[]
  verdict: Verdict
  topUps: number
  seconds: number
  said: string
}

/** A process dies at each point for a person of its own, who repeats until they are told; then the chain's word. */
export async function playTopUpPoints({
  points = TOP_UP_POINTS,
  replicas,
  cluster,
  log = () => {},
}: {
  points?: string[]
  replicas: number
  cluster: string | null
  log?: (line: string) => void
}): Promise<TopUpPointsReport> {
  const startedAt = performance.now()
  const settings = { LANE_BUMP_AFTER_SECONDS: '1', NETWORK_GAS: 'topup' }
  const world = await chaosWorld({ roll: fractionsOf(SEED), replicas, cluster, accounts: points.length, settings })
  const end = new AbortController()
  const mining = miner(world, end.signal)
  try {
    const people = await withSponsor(world)
    const writes: Write[] = []
    const [fired, missed]: string[][] = [[], []]
    for (const [index, point] of points.entries()) {
      const server = world.servers[index % replicas]!
      const dying = point.startsWith('signer.') ? world.signer : server
      const write = newWrite(people[index]!, SEED, { kind: 'echo' })
      writes.push(write)
      dying.arm(point)
      void insistAt(world, server, { write, dying })
      try {
        await until(`somebody dies at ${point}`, () => dying.fired.at(-1) === point)
        fired!.push(point)
        log(`${replicas} replica(s): ${dying.name} killed at ${point}`)
      } catch (error) {
        missed!.push(point)
        log(`${replicas} replica(s): FAILED at ${point}: ${(error as Error).message}`)
      }
      dying.arm()
      dying.fired.length = 0
      await Promise.all([...world.servers, world.signer].map((one) => one.ready()))
      const endsAt = performance.now() + PATIENCE_MS
      if (write.hash === null)
        await insist(world, write, { isOver: () => performance.now() > endsAt, refusals: new Map() })
      await pause(200)
    }
    const tended = hurry(world, writes, end.signal)
    const verdict = await judge(world, writes, { accounts: people })
    end.abort()
    await tended
    await mining
    const topUps = verdict.problems.length === 0 ? await judgeTopUps(world, writes) : 0
    return {
      ...{ replicas, fired: fired!, missed: missed!, verdict, topUps },
      seconds: Math.round((performance.now() - startedAt) / 1_000),
      said: [...world.servers, world.signer].map(({ name, said }) => `${name}:\n${said()}`).join('\n'),
    }
  } finally {
    end.abort()
    await mining
    await world.close()
  }
}
