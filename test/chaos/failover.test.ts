// tier: all, because it kills processes and nodes under load
import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { testCluster } from '../kit/database.ts'
import { PATIENCE_MS } from '../kit/until.ts'
import { findPrograms } from './failover-pair.ts'
import { describeFailover, runFailover } from './failover-run.ts'

const programs = findPrograms()
const skip =
  testCluster === null
    ? 'needs PostgreSQL: set TEST_DATABASE_URL'
    : programs === null
      ? "needs PostgreSQL's programs on this machine, for a primary and a standby of its own"
      : false

/** The hardest of the failovers; the long form (`npm run prove -- --only failover`) plays all of them. */
test(
  'the database forgets told writes that no block holds, the node its pool: each is on the chain once, under its hash',
  { skip },
  async (t) => {
    const report = await runFailover('wiped-pool', {
      ...{ seed: 11, programs: programs!, log: (line: string) => t.diagnostic(line) },
      limits: { backMs: PATIENCE_MS, foundMs: PATIENCE_MS },
    })
    t.diagnostic(describeFailover(report))
    assert.deepEqual(report.problems, [], report.said)
  },
)
