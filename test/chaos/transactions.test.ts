import { strict as assert } from 'node:assert'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { testCluster } from '../database.ts'
import { refusesAnotherChain, refusesATornStore } from './transactions-epilogue.ts'
import { mutants } from './transactions-mutants.ts'
import { describe } from './transactions-report.ts'
import { run, SIGNER_POINTS } from './transactions-run.ts'
import type { ScenarioName } from './transactions-scenarios.ts'
import { isFailed, playAll, playMutant } from './transactions-stages.ts'

/** Seeds of runs that once failed; the first is run with everything, whatever it found. */
const seeds = JSON.parse(readFileSync(join(import.meta.dirname, 'seeds.json'), 'utf8')) as {
  seed: number
  replicas: number
  found: string
}[]

/** A few points each, so that a slow machine comes through; the long form (`npm run prove transactions`) takes all. */
const POINTS = [
  ['after-store:2', 'in-block:2', 'after-sign:2'],
  ['in-bind:2', 'after-broadcast:2', 'in-retract'],
]

for (const [index, { seed, replicas, found }] of seeds.entries()) {
  const many = testCluster === null ? 1 : replicas
  // The embedded database lets one replica in: there the first seed says as much as all.
  test(
    `through SIGKILLs, a bad node and reorganisations, every told write is on the chain once (seed ${seed}, ${many} replica(s))`,
    { timeout: 240_000, skip: testCluster === null && index > 0 },
    async (t) => {
      const report = await run({
        seed,
        replicas: many,
        cluster: testCluster,
        writes: 80,
        accounts: 6,
        points: POINTS[index % POINTS.length]!,
        signerPoints: index === 0 ? SIGNER_POINTS.slice(0, 2) : [],
        stormMs: 30_000,
        lifeMs: 6_000,
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
      assert.ok(report.kills.server + report.kills.signer > 0)
    },
  )
}

/** Those that need no long wait; the others are played in the long form. */
const SHORT: ScenarioName[] = [
  'killed-after-broadcast',
  'answer-lost',
  'reorganised-away',
  'paused-replica',
  'nonce-too-low',
]

test(
  'one fault at the worst moment, of each kind, leaves each write on the chain once',
  { timeout: 240_000, skip: testCluster === null },
  async (t) => {
    const outcomes = await playAll(SHORT, testCluster!, (line) => t.diagnostic(line))
    for (const outcome of outcomes) assert.ok(!isFailed(outcome), JSON.stringify(outcome, null, 2))
  },
)

const CAUGHT_QUICKLY = ['a nonce is recycled on a time-out', 'no idempotency', '`nonce too low` gets another nonce']

for (const mutant of mutants.filter(({ name }) => CAUGHT_QUICKLY.includes(name))) {
  test(`the proof catches the mutant: ${mutant.name}`, { timeout: 120_000, skip: testCluster === null }, async () => {
    const { verdict, failure } = await playMutant(mutant, testCluster!)
    assert.ok(verdict.problems.length > 0, failure ?? 'it survived')
  })
}
