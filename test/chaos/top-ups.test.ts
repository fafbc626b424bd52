import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { testCluster } from '../database.ts'
import { runToppedUp } from './top-ups.ts'
import { describe } from './transactions-report.ts'

test(
  'through SIGKILLs, a bad node and reorganisations, people without a coin write once, and each top-up is paid once',
  { timeout: 240_000 },
  async (t) => {
    const report = await runToppedUp({
      seed: 20_261_124,
      replicas: testCluster === null ? 1 : 2,
      cluster: testCluster,
      writes: 200,
      leastKills: 4,
      accounts: 8,
      deepest: 16,
      stormMs: 60_000,
      lifeMs: 6_000,
    })
    t.diagnostic(`${describe(report)}; ${report.topUps} top-ups`)
    assert.deepEqual(report.verdict.problems, [], report.said)
    assert.ok(report.kills.server + report.kills.signer >= 3, 'too few were killed')
    assert.ok(report.topUps > 20, `only ${report.topUps} top-ups`)
  },
)
