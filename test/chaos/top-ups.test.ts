// tier: all, because it kills processes and nodes under load
import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { testCluster } from '../kit/database.ts'
import { playTopUpPoints } from './top-up-points.ts'
import { runToppedUp } from './top-ups.ts'
import { describe } from './transactions-report.ts'

test('through SIGKILLs, a bad node and reorganisations, people without a coin write once, and each top-up is paid once', async (t) => {
  const report = await runToppedUp({
    seed: 20_261_124,
    replicas: testCluster === null ? 1 : 2,
    cluster: testCluster,
    writes: 120,
    leastKills: 4,
    atLeast: { kills: 3, answered: 80 },
    accounts: 8,
    deepest: 16,
    stormMs: 60_000,
    lifeMs: 6_000,
  })
  t.diagnostic(`${describe(report)}; ${report.topUps} top-ups`)
  assert.deepEqual(report.verdict.problems, [], report.said)
  assert.ok(report.kills.server + report.kills.signer >= 3, 'too few were killed')
  assert.ok(report.topUps > 10, `only ${report.topUps} top-ups`)
})

test('killed between two steps of a top-up, or of the write behind it, a person without a coin is paid once and writes once', async (t) => {
  const points = ['after-bind', 'after-store', 'after-bind:2', 'signer.after-commit']
  const report = await playTopUpPoints({ points, replicas: 1, cluster: testCluster })
  const { fired, missed, verdict, topUps, said } = report
  t.diagnostic(`killed at ${fired.join(', ')}; ${topUps} top-ups in ${report.seconds} s`)
  assert.deepEqual([missed, verdict.problems], [[], []], said)
  assert.equal(topUps, points.length)
})
