/**
 * The long proof of the transaction engine: `npm run prove transactions -- --writes 20000 --seed 7`. Scenarios, mutants,
 * then random faults with 1, 2 and 3 replicas. `--only scenarios|mutants|random` does a part; `--replicas 2` one number.
 * It makes itself a PostgreSQL cluster, which it also crashes, where PostgreSQL's programs are on PATH; TEST_DATABASE_URL
 * names another one, which is not crashed. Without either: random faults on the embedded database, one replica.
 */
import { parseArgs } from 'node:util'
import { startCluster } from './cluster.ts'
import { mutants } from './transactions-mutants.ts'
import { describe, failureOf } from './transactions-report.ts'
import { run, SERVER_POINTS, SIGNER_POINTS } from './transactions-run.ts'
import { scenarios, type ScenarioName } from './transactions-scenarios.ts'
import { isFailed, playAll, playMutant } from './transactions-stages.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    writes: { type: 'string', default: '20000' },
    replicas: { type: 'string', default: '1,2,3' },
    only: { type: 'string' },
    name: { type: 'string' },
  },
})
const own = process.env.TEST_DATABASE_URL === undefined ? await startCluster() : null
const cluster = process.env.TEST_DATABASE_URL ?? own?.url ?? null
const wants = (part: string): boolean => values.only === undefined || values.only === part
const failures: string[] = []

if (cluster !== null && wants('scenarios')) {
  const names = (Object.keys(scenarios) as ScenarioName[]).filter(
    (name) => values.name === undefined || name === values.name,
  )
  const outcomes = await playAll(names, cluster, console.log)
  failures.push(...outcomes.filter(isFailed).map(({ name }) => `the engine fails in the scenario ${name}`))
}
if (cluster !== null && wants('mutants')) {
  for (const mutant of mutants.filter(({ name }) => values.name === undefined || name === values.name)) {
    const outcome = await playMutant(mutant, cluster)
    const [by] = outcome.verdict.problems
    console.log(
      `${by === undefined ? 'SURVIVED' : 'caught'} in ${outcome.seconds} s: ${mutant.name}: ${by ?? outcome.failure}`,
    )
    if (by === undefined) failures.push(`the mutant "${mutant.name}" survives`)
  }
}
if (wants('random')) {
  const numbers = cluster === null ? [1] : values.replicas.split(',').map(Number)
  for (const replicas of numbers) {
    const report = await run({
      seed: Number(values.seed),
      writes: Math.ceil(Number(values.writes) / numbers.length),
      replicas,
      cluster,
      points: SERVER_POINTS,
      signerPoints: SIGNER_POINTS,
      log: console.log,
      ...(own === null ? {} : { crashDatabase: (awayMs) => own.crash(awayMs) }),
    })
    console.log(describe(report))
    const failure = failureOf(report)
    if (failure === null) continue
    failures.push(`seed ${report.seed} with ${replicas} replica(s): ${failure}`)
    console.log(report.said)
  }
}
await own?.stop()
for (const failure of failures) console.error(`FAILED: ${failure}`)
process.exit(failures.length === 0 ? 0 : 1)
