/**
 * The long proof of sponsored writes: `npm run prove sponsor -- --writes 3000 --kills 200 --replicas 1,2,3 --seed 7`. People sign, two
 * sponsors send: a process dies at each point of an operation and of what carries it, one fault at a time, mistakes that the judge has to
 * find, then the storm of `transactions.ts` without and with lost tails of the database. `docs/evidence/proof.md` says what that shows.
 * `--only points|scenarios|mutants|random|tails` does a part, `--name …` those with that in their name, `--list` prints the mutants.
 * PostgreSQL as there.
 */
import { parseArgs } from 'node:util'
import { openProof, playParts } from './proof.ts'
import { failureOfPoints, playSponsorPoints, SPONSOR_POINTS, WITHOUT_POSTGRES } from './sponsor-points.ts'
import { playSponsorMutant, playSponsorScenario, sponsorMutants, sponsorMutantTable } from './sponsor-mutants.ts'
import { describeSponsored, runSponsored, STORM_POINTS, type SponsoredRunOptions } from './sponsor-run.ts'
import { sponsorScenarios, type SponsorScenarioName } from './sponsor-scenarios.ts'
import { failureOf } from './transactions-report.ts'
import { SIGNER_POINTS, stormMs } from './transactions-run.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    writes: { type: 'string', default: '3000' },
    replicas: { type: 'string', default: '1,2,3' },
    kills: { type: 'string', default: '0' },
    accounts: { type: 'string', default: '24' },
    only: { type: 'string' },
    name: { type: 'string', default: '' },
    list: { type: 'boolean', default: false },
  },
})
/** milliseconds that a kill may take when there are so many to be reached */
const KILL_MS = 4_000
const LEAST_TAILS = 3

const PARTS = { points, scenarios, mutants, random, tails }
if (values.list) {
  console.log(sponsorMutantTable())
  process.exit(0)
}
const proof = await openProof(PARTS, values)
const { cluster, replicaCounts, failures } = proof
await playParts(proof, PARTS, (part) => values.only === undefined || values.only === part)

async function points(): Promise<void> {
  const some = (cluster === null ? WITHOUT_POSTGRES : SPONSOR_POINTS).filter((point) => point.includes(values.name))
  for (const replicas of replicaCounts) {
    const report = await playSponsorPoints({ points: some, replicas, cluster, log: console.log })
    const { verdict, fired, seconds: took } = report
    console.log(
      `points, ${replicas} replica(s): killed at ${fired.length} of ${some.length}; ${verdict.writes} writes, done ${verdict.mined}, failed ${verdict.failed}, packed again ${verdict.packedAgain}, lost ${verdict.lost}, doubled ${verdict.doubled}, wrong ${verdict.wrong}, unanswered ${verdict.unanswered}; ${took} s`,
    )
    const failure = failureOfPoints(report)
    if (failure === null) continue
    failures.push(`points with ${replicas} replica(s): ${failure}`)
    console.log(report.said)
  }
}

async function scenarios(): Promise<void> {
  if (cluster === null) return
  for (const name of Object.keys(sponsorScenarios) as SponsorScenarioName[]) {
    if (!name.includes(values.name)) continue
    const { problems, seconds: took } = await playSponsorScenario(name, { cluster })
    console.log(`${problems.length === 0 ? 'settled' : 'FAILED'} in ${took} s: ${sponsorScenarios[name].name}`)
    if (problems.length > 0) failures.push(`${name}: ${problems.join('; ')}`)
  }
}

async function mutants(): Promise<void> {
  if (cluster === null) return
  const some = sponsorMutants.filter(({ name }) => name.includes(values.name))
  let caught = 0
  for (const mutant of some) {
    const { isCaught, said, seconds: took } = await playSponsorMutant(mutant, cluster)
    console.log(`${isCaught ? 'caught' : 'SURVIVED'} in ${took} s: ${mutant.name}: ${said}`)
    if (isCaught) caught++
    else failures.push(`the mutant "${mutant.name}" survives`)
  }
  console.log(`mutants caught: ${caught} of ${some.length}`)
}

async function storm(more: (replicas: number) => Partial<SponsoredRunOptions>): Promise<void> {
  for (const replicas of replicaCounts) {
    const writes = Math.ceil(Number(values.writes) / replicaCounts.length)
    const kills = Math.ceil(Number(values.kills) / replicaCounts.length)
    const report = await runSponsored({
      ...{ seed: Number(values.seed), writes, replicas, cluster, accounts: Number(values.accounts), log: console.log },
      ...(kills === 0 ? {} : { leastKills: kills, stormMs: stormMs(writes) + kills * KILL_MS }),
      ...more(replicas),
    })
    console.log(describeSponsored(report))
    const failure = failureOf(report)
    if (failure === null) continue
    failures.push(`seed ${report.seed} with ${replicas} replica(s): ${failure}`)
    console.log(report.said)
  }
}

async function random(): Promise<void> {
  await storm(() => ({ points: STORM_POINTS, signerPoints: SIGNER_POINTS }))
}

/** With each tail all servers die; the storm goes on until so many were lost. */
async function tails(): Promise<void> {
  if (cluster !== null)
    await storm((replicas) => ({ losesTails: true, lifeMs: null, leastKills: LEAST_TAILS * replicas }))
}
