/**
 * The long proof of the transaction engine: `npm run prove -- --writes 20000 --seed 7`. Named crash points, scenarios,
 * mutants, failovers of the database, then random faults, with 1, 2 and 3 replicas; `docs/evidence/proof.md` says what that
 * shows. `--only points|scenarios|mutants|failover|random` does a part, `--replicas 2` one number, `--name …` one point,
 * scenario, mutant or failover, `--rounds 5` each failover so often. `--kills 2000` goes on until so many processes were
 * killed in the random part. `--only failover --promotions 200` plays so many promotions, 25 in a world that goes on.
 * `--failovers 50` plays so many failovers, also beside `--only random`: each kind once, the others as such promotions.
 * `--list` only prints the mutants.
 * It makes itself a PostgreSQL cluster, which it also crashes, where PostgreSQL's programs are on PATH; TEST_DATABASE_URL
 * names another one, which is not crashed. Without either: what the embedded database allows, with one replica.
 */
import { parseArgs } from 'node:util'
import type { Cluster } from './cluster.ts'
import { openProof, playParts } from './proof.ts'
import { findPrograms } from './failover-pair.ts'
import { describePromotions, runPromotions, type PromotionsReport } from './failover-promotions.ts'
import { describeFailover, failovers, runFailover, type FailoverName } from './failover-run.ts'
import { refusesAnotherChain, refusesATornStore } from './transactions-epilogue.ts'
import { mutants, mutantTable } from './transactions-mutants.ts'
import { failureOf as failureOfPoints, playPoints, POINTS, WITHOUT_POSTGRES } from './transactions-points.ts'
import { describe, failureOf } from './transactions-report.ts'
import { run, SERVER_POINTS, SIGNER_POINTS, stormMs } from './transactions-run.ts'
import { scenarios, type ScenarioName } from './transactions-scenarios.ts'
import { isFailed, playAll, playMutant } from './transactions-stages.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    writes: { type: 'string', default: '20000' },
    replicas: { type: 'string', default: '1,2,3' },
    only: { type: 'string' },
    name: { type: 'string' },
    rounds: { type: 'string', default: '1' },
    kills: { type: 'string', default: '0' },
    failovers: { type: 'string' },
    promotions: { type: 'string' },
    list: { type: 'boolean', default: false },
  },
})
/** promotions after which the judge has its say and a new world begins */
const MAX_IN_ONE = 25
/** milliseconds that a kill may take when there are so many to be reached */
const KILL_MS = 4_000
/** accounts then: a server that starts meets all of their clients at once, and more of them wait in vain for the node */
const ACCOUNTS_IF_KILLED = 40

const PARTS = {
  points,
  scenarios: playScenarios,
  mutants: playMutants,
  failover: playFailovers,
  random: () => random(proof.own),
}
if (values.list) {
  console.log(mutantTable())
  process.exit(0)
}
const proof = await openProof(PARTS, values)
const { cluster, replicaCounts, failures } = proof
await playParts(
  proof,
  PARTS,
  (part) =>
    values.only === undefined || values.only === part || (part === 'failover' && values.failovers !== undefined),
)

function isNamed(name: string): boolean {
  return values.name === undefined || name === values.name
}

async function points(): Promise<void> {
  for (const replicas of replicaCounts) {
    const some = (cluster === null ? WITHOUT_POSTGRES : POINTS).filter(isNamed)
    const report = await playPoints({ points: some, replicas, cluster, log: console.log })
    const { verdict, fired } = report
    console.log(
      `points, ${replicas} replica(s): killed at ${fired.length} of ${some.length}; ${verdict.writes} writes, lost ${verdict.lost}, doubled ${verdict.doubled}, wrong hash ${verdict.wrong}, gaps ${verdict.gaps}, unanswered ${verdict.unanswered}; ${report.seconds} s`,
    )
    const failure = failureOfPoints(report)
    if (failure === null) continue
    failures.push(`points with ${replicas} replica(s): ${failure}`)
    console.log(report.said)
  }
}

async function playScenarios(): Promise<void> {
  if (cluster === null) return
  const names = (Object.keys(scenarios) as ScenarioName[]).filter(isNamed)
  const outcomes = await playAll(names, cluster, console.log)
  failures.push(...outcomes.filter(isFailed).map(({ name }) => `the engine fails in the scenario ${name}`))
}

async function playMutants(): Promise<void> {
  if (cluster === null) return
  let caught = 0
  for (const mutant of mutants.filter(({ name }) => isNamed(name))) {
    const { isCaught, said, seconds: took } = await playMutant(mutant, cluster)
    console.log(`${isCaught ? 'caught' : 'SURVIVED'} in ${took} s: ${mutant.name}: ${said}`)
    if (!isCaught) failures.push(`the mutant "${mutant.name}" survives`)
    else caught++
  }
  console.log(`mutants caught: ${caught} of ${mutants.filter(({ name }) => isNamed(name)).length}`)
}

/** Each on a primary and a standby of its own, whatever TEST_DATABASE_URL names; or promotions, many on one. */
async function playFailovers(): Promise<void> {
  const programs = findPrograms()
  if (programs === null) return void failures.push("failover: PostgreSQL's programs are not installed")
  if (values.promotions !== undefined) return playPromotions(programs, Number(values.promotions))
  const names = (Object.keys(failovers) as FailoverName[]).filter(isNamed)
  const rounds = Number(values.rounds) * names.length
  const many = values.failovers === undefined ? rounds : Math.min(Number(values.failovers), rounds)
  for (let index = 0; index < many; index++) {
    const name = names[index % names.length]!
    const seed = Number(values.seed) + Math.floor(index / names.length)
    const report = await runFailover(name, { seed, programs, log: console.log })
    console.log(describeFailover(report))
    if (report.problems.length === 0) continue
    failures.push(`failover ${name}, seed ${seed}: ${report.problems[0]}`)
    console.log(report.said)
  }
  const left = Number(values.failovers ?? many) - many
  if (left > 0) await playPromotions(programs, left)
}

async function playPromotions(programs: string, many: number): Promise<void> {
  const reports: PromotionsReport[] = []
  for (let played = 0; played < many; played += MAX_IN_ONE) {
    const seed = Number(values.seed) + played / MAX_IN_ONE
    const some = { first: played + 1, many: Math.min(MAX_IN_ONE, many - played) }
    const report = await runPromotions(some, { seed, programs, log: console.log })
    reports.push(report)
    if (report.problems.length === 0) continue
    failures.push(`promotions from ${some.first} on, seed ${seed}: ${report.problems[0]}`)
    console.log(report.said)
  }
  console.log(describePromotions(reports))
}

async function random(crashable: Cluster | null): Promise<void> {
  // Signer and replicas: where there are more to kill, more are killed.
  const processes = replicaCounts.reduce((sum, replicas) => sum + 1 + replicas, 0)
  for (const replicas of replicaCounts) {
    const writes = Math.ceil(Number(values.writes) / replicaCounts.length)
    const kills = Math.ceil((Number(values.kills) * (1 + replicas)) / processes)
    const report = await run({
      seed: Number(values.seed),
      writes,
      ...(kills === 0 ? {} : { leastKills: kills, accounts: ACCOUNTS_IF_KILLED, stormMs: stormMs(writes) + kills * KILL_MS }), // prettier-ignore
      replicas,
      cluster,
      points: SERVER_POINTS,
      signerPoints: SIGNER_POINTS,
      log: console.log,
      epilogue: async (world) => {
        await refusesAnotherChain(world)
        await refusesATornStore(world)
      },
      ...(crashable === null ? {} : { crashDatabase: (awayMs) => crashable.crash(awayMs) }),
    })
    console.log(describe(report))
    const failure = failureOf(report)
    if (failure === null) continue
    failures.push(`seed ${report.seed} with ${replicas} replica(s): ${failure}`)
    console.log(report.said)
  }
}
