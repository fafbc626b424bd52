// tier: all, because it kills processes and nodes under load
import { strict as assert } from 'node:assert'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { testCluster } from '../kit/database.ts'
import { playSponsorMutant, sponsorMutants, sponsorMutantTable } from './sponsor-mutants.ts'
import { failureOfPoints, playSponsorPoints, type SponsorPoint } from './sponsor-points.ts'
import { describeSponsored, runSponsored } from './sponsor-run.ts'
import { sponsorScenarios } from './sponsor-scenarios.ts'
import { applied } from './transactions-mutants.ts'

/** One of each kind of way; `npm run prove sponsor` goes to all of them, with 1, 2 and 3 replicas. */
const SHORT: SponsorPoint[] = ['in-store-outer', 'signer.after-commit:2', 'in-retract', 'before-repack']

test('killed on the way of an operation, of what carries it or of its block, each write that a sponsor sends is done once', async (t) => {
  const replicas = testCluster === null ? 1 : 2
  const report = await playSponsorPoints({ points: SHORT, replicas, cluster: testCluster })
  t.diagnostic(`killed at ${report.fired.join(', ')}; packed again ${report.verdict.packedAgain}; ${report.seconds} s`)
  assert.equal(failureOfPoints(report), null, report.said)
})

/** Seeds of runs that once failed: the timing of the machine decides with them. */
const seeds = JSON.parse(readFileSync(join(import.meta.dirname, 'sponsor-seeds.json'), 'utf8')) as { seed: number; found: string }[] // prettier-ignore

for (const { seed, found } of seeds)
  test(`through SIGKILLs, a bad node, reorganisations and lost tails, what people sign is done once (seed ${seed})`, async (t) => {
    const report = await runSponsored({
      ...{ seed, replicas: testCluster === null ? 1 : 2, cluster: testCluster, writes: 90, accounts: 8 },
      ...{
        deepest: 16,
        stormMs: 20_000,
        lifeMs: 6_000,
        leastKills: 6,
        atLeast: { kills: 1, answered: 45 },
        losesTails: testCluster !== null,
      },
    })
    t.diagnostic(describeSponsored(report))
    assert.deepEqual(report.verdict.problems, [], `seed ${seed}, which once found: ${found}\n${report.said}`)
    assert.ok(report.kills.server + report.kills.signer >= 1, 'too few were killed')
    assert.ok(report.verdict.mined > 20, `only ${report.verdict.mined} writes were done`)
  })

test('every mutant of sponsored writes fits the program that it is made from, and the page lists them all', async () => {
  for (const mutant of sponsorMutants) if ('patches' in mutant) assert.ok((await applied(mutant)).size > 0)
  for (const [name, scenario] of Object.entries(sponsorScenarios))
    if ('patches' in scenario) assert.ok((await applied({ name, patches: scenario.patches as never })).size > 0)
  assert.equal(new Set(sponsorMutants.map(({ name }) => name)).size, sponsorMutants.length)
  const page = readFileSync(join(import.meta.dirname, '../../docs/evidence/proof-mutants.md'), 'utf8')
  assert.ok(page.includes(`${sponsorMutantTable()}\n`), 'npm run prove sponsor -- --list prints the table')
})

const CAUGHT_QUICKLY = 'trusts the status of the transaction'

for (const mutant of sponsorMutants.filter(({ name }) => name === CAUGHT_QUICKLY))
  test(`the proof of sponsored writes catches the mutant: ${mutant.name}`, { skip: testCluster === null }, async () => {
    const { isCaught, said } = await playSponsorMutant(mutant, testCluster!)
    assert.ok(isCaught, said)
  })
