import { parseArgs } from 'node:util'
import { describe } from './transactions-report.ts'
import { run, SERVER_POINTS, SIGNER_POINTS } from './transactions-run.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    writes: { type: 'string', default: '20000' },
    replicas: { type: 'string', default: '2' },
    points: { type: 'string', default: 'on' },
  },
})
const report = await run({
  seed: Number(values.seed),
  writes: Number(values.writes),
  replicas: Number(values.replicas),
  cluster: process.env.TEST_DATABASE_URL ?? null,
  ...(values.points === 'on' ? { points: SERVER_POINTS, signerPoints: SIGNER_POINTS } : {}),
  log: console.log,
})
console.log(describe(report))
if (report.verdict.problems.length > 0) console.log(report.said)
process.exit(report.verdict.problems.length > 0 ? 1 : 0)
