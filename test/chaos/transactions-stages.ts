import { miner } from './transactions-run.ts'
import { plant, type Mutant } from './transactions-mutants.ts'
import { judge, type Verdict } from './transactions-oracle.ts'
import { scenarios, stageOf, type ScenarioName } from './transactions-scenarios.ts'
import { chaosWorld, type ChaosWorld } from './transactions-world.ts'
import { fractionsOf } from '../random.ts'

/** milliseconds that a scenario's few writes may take to settle; a mutant gets no longer than the engine */
const WINDOW_MS = 20_000

export type Outcome = {
  name: string
  verdict: Verdict
  seconds: number
  /** what did not even come to a verdict */ failure: string | null
}

/** Plays scenarios one after the other, each with an account of its own, and judges each. */
export async function playAll(
  names: ScenarioName[],
  cluster: string,
  log: (line: string) => void = () => {},
): Promise<Outcome[]> {
  // What waits for a raise and what must not be raised cannot share a setting.
  const groups = Map.groupBy(names, (name) =>
    JSON.stringify((scenarios[name] as { settings?: unknown }).settings ?? {}),
  )
  const outcomes: Outcome[] = []
  for (const [settings, some] of groups) {
    const world = await stageWorld({
      cluster,
      accounts: some.length,
      settings: JSON.parse(settings) as Record<string, string>,
    })
    try {
      for (const [index, name] of some.entries()) {
        const outcome = await playOne(world, name, index)
        log(
          `${outcome.verdict.problems.length === 0 && outcome.failure === null ? 'settled' : 'FAILED'} in ${outcome.seconds} s: ${scenarios[name].name}`,
        )
        for (const problem of [...outcome.verdict.problems, ...(outcome.failure === null ? [] : [outcome.failure])])
          log(`  ${problem}`)
        outcomes.push(outcome)
      }
    } finally {
      await world.close()
    }
  }
  return outcomes
}

/** Plays one scenario on a program with a mistake in it. It is caught when the verdict is not clean. */
export async function playMutant(mutant: Mutant, cluster: string): Promise<Outcome> {
  const { home, remove } = await plant(mutant)
  try {
    const { settings = {} } = scenarios[mutant.scenario] as { settings?: Record<string, string> }
    const world = await stageWorld({ cluster, accounts: 1, settings, home })
    try {
      return await playOne(world, mutant.scenario, 0)
    } finally {
      await world.close()
    }
  } finally {
    await remove()
  }
}

const stageWorld = (options: { cluster: string; accounts: number; settings: Record<string, string>; home?: string }) =>
  chaosWorld({
    ...options,
    roll: fractionsOf(1),
    replicas: 2,
    settings: { LANE_BUMP_AFTER_SECONDS: '600', ...options.settings },
  })

async function playOne(world: ChaosWorld, name: ScenarioName, index: number): Promise<Outcome> {
  const startedAt = performance.now()
  const stage = stageOf(world, world.accounts[index]!)
  for (const one of [...world.servers, world.signer]) one.arm()
  let failure: string | null = null
  const end = new AbortController()
  try {
    await scenarios[name].play(stage)
  } catch (error) {
    failure = (error as Error).message
  }
  const mining = miner(world, end.signal)
  const clients = stage.writes
    .filter(({ hash, isAbandoned }) => hash === null && !isAbandoned)
    .map((write) => stage.told(write))
  const verdict = await judge(world, stage.writes, { accounts: [stage.account], windowMs: WINDOW_MS })
  world.node.spike(null)
  end.abort()
  await Promise.all([mining, ...clients])
  return { name, verdict, failure, seconds: Math.round((performance.now() - startedAt) / 1_000) }
}

/** A mutant is caught by its verdict alone; the engine fails also when a scenario does not come to its point. */
export const isFailed = ({ verdict, failure }: Outcome): boolean => failure !== null || verdict.problems.length > 0
