import { spawnSync } from 'node:child_process'
import { IMPATIENT } from '../kit/until.ts'
import { miner } from './transactions-run.ts'
import { plant, type Mutant } from './transactions-mutants.ts'
import { checkOf, judge, WINDOW_MS, type Verdict } from './transactions-oracle.ts'
import { scenarios, type ScenarioName } from './transactions-scenarios.ts'
import { stageOf } from './transactions-stage.ts'
import { chaosWorld, PROJECT, type ChaosWorld } from './transactions-world.ts'
import { fractionsOf } from '../random.ts'

/** milliseconds that a scenario's few writes take to settle at most, on a machine that is not slow: what a mutant gets, which has to fail */
const MUTANT_WINDOW_MS = 20_000

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
        const outcome = await playOne(world, name, { index })
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

/** How a mutant ended: caught by what was to catch it, or what happened instead. */
export type MutantOutcome = { isCaught: boolean; said: string; seconds: number }

/** Plays what has to catch a mutant on a program with the mistake in it: a scenario, or a test of the suite. */
export async function playMutant(mutant: Mutant, cluster: string): Promise<MutantOutcome> {
  const startedAt = performance.now()
  const { home, remove } = await plant(mutant)
  try {
    const outcome = 'test' in mutant ? runTest(mutant, home) : await playPlanted(mutant, { home, cluster })
    return { ...outcome, seconds: Math.round((performance.now() - startedAt) / 1_000) }
  } finally {
    await remove()
  }
}

/** Caught when the check that is named has found something; that something else did as well is no matter. */
async function playPlanted(
  { scenario, caughtBy }: Extract<Mutant, { scenario: ScenarioName }>,
  { home, cluster }: { home: string; cluster: string },
): Promise<Pick<MutantOutcome, 'isCaught' | 'said'>> {
  const { settings = {} } = scenarios[scenario] as { settings?: Record<string, string> }
  const world = await stageWorld({ cluster, accounts: 1, settings, home })
  try {
    const { verdict, failure } = await playOne(world, scenario, { index: 0, windowMs: MUTANT_WINDOW_MS })
    const found = verdict.problems.find((problem) => checkOf(problem) === caughtBy)
    const instead = `not by "${caughtBy}": ${failure ?? ''} ${verdict.problems.join('; ')}`
    return { isCaught: found !== undefined, said: found ?? instead }
  } finally {
    await world.close()
  }
}

/** Caught when the named test fails with the mistake, and passes without it. */
function runTest(mutant: Extract<Mutant, { test: string }>, home: string): Pick<MutantOutcome, 'isCaught' | 'said'> {
  const run = (cwd: string, settings: Record<string, string> = {}): string => {
    const name = `^${mutant.test.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`
    const flags = ['--disable-warning=ExperimentalWarning', '--test', '--test-reporter=tap', '--test-force-exit']
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: process.env.TMPDIR, ...settings }
    return spawnSync(process.execPath, [...flags, `--test-name-pattern=${name}`, mutant.file], { cwd, env, encoding: 'utf8' }).stdout // prettier-ignore
  }
  const isNamed = (verdict: string, output: string) =>
    output.split('\n').some((line) => line.trimStart().startsWith(verdict) && line.includes(` - ${mutant.test}`))
  if (!isNamed('ok', run(PROJECT)))
    return { isCaught: false, said: `the test "${mutant.test}" does not pass without it` }
  const isCaught = isNamed('not ok', run(home, IMPATIENT))
  return { isCaught, said: `${isCaught ? '' : 'not by '}the test "${mutant.test}"` }
}

const stageWorld = (options: { cluster: string; accounts: number; settings: Record<string, string>; home?: string }) =>
  chaosWorld({
    ...options,
    roll: fractionsOf(1),
    replicas: 2,
    settings: { LANE_BUMP_AFTER_SECONDS: '600', ...options.settings },
  })

async function playOne(
  world: ChaosWorld,
  name: ScenarioName,
  { index, windowMs = WINDOW_MS }: { index: number; windowMs?: number },
): Promise<Outcome> {
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
  const verdict = await judge(world, stage.writes, { accounts: [stage.account], windowMs })
  verdict.problems.push(...stage.problems)
  world.node.spike(null)
  end.abort()
  await Promise.all([mining, ...clients])
  return { name, verdict, failure, seconds: Math.round((performance.now() - startedAt) / 1_000) }
}

/** The engine fails also when a scenario does not come to its point. */
export const isFailed = ({ verdict, failure }: Outcome): boolean => failure !== null || verdict.problems.length > 0
