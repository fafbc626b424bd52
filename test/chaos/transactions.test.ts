// tier: all, because it kills processes and nodes under load
import { strict as assert } from 'node:assert'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { testCluster } from '../kit/database.ts'
import { refusesAnotherChain, refusesATornStore } from './transactions-epilogue.ts'
import { applied, mutants, mutantTable } from './transactions-mutants.ts'
import { failureOf as failureOfPoints, playPoints, WITHOUT_POSTGRES, type Point } from './transactions-points.ts'
import { describe } from './transactions-report.ts'
import { run } from './transactions-run.ts'
import type { ScenarioName } from './transactions-scenarios.ts'
import { isFailed, playAll, playMutant } from './transactions-stages.ts'

/** Seeds of runs that once failed; the first is run with everything, whatever it found. */
const seeds = JSON.parse(readFileSync(join(import.meta.dirname, 'seeds.json'), 'utf8')) as {
  seed: number
  replicas: number
  /** found after thousands of writes: repeated by the long form, and by a scenario here */
  isLong?: boolean
  found: string
}[]

/** Every way to a point once; the long form (`npm run prove`) goes to all of them, with 1, 2 and 3 replicas. */
const SHORT_POINTS: Point[] = [
  'in-bind',
  'after-sign',
  'after-store',
  'after-replace-store',
  'after-fill-sign',
  'in-block',
  'in-retract',
  'signer.before-commit',
  'signer.after-commit (its write is torn)',
]

test('whoever kills itself at a named point, every told write is on the chain once', async (t) => {
  const report = await playPoints({
    points: SHORT_POINTS.filter((point) => testCluster !== null || WITHOUT_POSTGRES.includes(point)),
    replicas: testCluster === null ? 1 : 2,
    cluster: testCluster,
    log: (line) => t.diagnostic(line),
  })
  assert.equal(failureOfPoints(report), null, report.said)
})

for (const [index, { seed, replicas, found }] of seeds.filter(({ isLong }) => !isLong).entries()) {
  const many = testCluster === null ? 1 : replicas
  // The embedded database lets one replica in: there the first seed says as much as all.
  test(
    `through SIGKILLs, a bad node and reorganisations, every told write is on the chain once (seed ${seed}, ${many} replica(s))`,
    { skip: testCluster === null && index > 0 },
    async (t) => {
      const report = await run({
        seed,
        replicas: many,
        cluster: testCluster,
        writes: 300,
        leastKills: 6,
        atLeast: { kills: 3, answered: 20 },
        stormMs: 40_000,
        lifeMs: 4_000,
        ...(index === 0
          ? {
              epilogue: async (world) => {
                await refusesAnotherChain(world)
                await refusesATornStore(world)
              },
            }
          : {}),
      })
      t.diagnostic(describe(report))
      assert.deepEqual(report.verdict.problems, [], `seed ${seed}, which once found: ${found}\n${report.said}`)
      assert.ok(report.kills.server + report.kills.signer >= 3, 'too few were killed')
    },
  )
}

/** Those that need no long wait; the others are played in the long form. */
const SHORT: ScenarioName[] = [
  'killed-after-broadcast',
  'answer-lost',
  'reorganised-away',
  'many-put-back',
  'paused-replica',
  'nonce-too-low',
]

test(
  'one fault at the worst moment, of each kind, leaves each write on the chain once',
  { skip: testCluster === null },
  async (t) => {
    const outcomes = await playAll(SHORT, testCluster!, (line) => t.diagnostic(line))
    for (const outcome of outcomes) assert.ok(!isFailed(outcome), JSON.stringify(outcome, null, 2))
  },
)

test('the page of the mutants lists them all', () => {
  const page = readFileSync(join(import.meta.dirname, '../../docs/evidence/proof-mutants.md'), 'utf8')
  assert.ok(page.includes(`${mutantTable()}\n`), 'npm run prove -- --list prints the table')
})

test('every mutant of the proof fits the program that it is made from', async () => {
  for (const mutant of mutants) assert.ok((await applied(mutant)).size > 0)
  assert.equal(new Set(mutants.map(({ name }) => name)).size, mutants.length)
})

const CAUGHT_QUICKLY = ['reuses a nonce after a time-out', 'ignores the idempotency key']

for (const mutant of mutants.filter(({ name }) => CAUGHT_QUICKLY.includes(name))) {
  test(`the proof catches the mutant: ${mutant.name}`, { skip: testCluster === null }, async () => {
    const { isCaught, said } = await playMutant(mutant, testCluster!)
    assert.ok(isCaught, said)
  })
}
