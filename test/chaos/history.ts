/**
 * `npm run prove:history`: the long form of history.test.ts. Needs PostgreSQL (TEST_DATABASE_URL); two processes on one
 * database are killed and frozen while node and chain misbehave.
 * Arguments: how many seeds (200), and the first of them (1).
 */
import { testCluster, testDatabase } from '../database.ts'
import { runHistory, type HistoryOutcome } from './history-run.ts'

const [count = 200, first = 1] = process.argv.slice(2).map(Number)
if (testCluster === null) {
  console.error('Set TEST_DATABASE_URL to a PostgreSQL cluster: the embedded database lets one process in.')
  process.exit(2)
}
const database = await testDatabase()
const outcomes: HistoryOutcome[] = []
for (let seed = first; seed < first + count; seed++) {
  const outcome = await runHistory(seed, { db: database.db, url: database.url! }, { turns: 30 })
  outcomes.push(outcome)
  if (outcome.problem !== null) console.log(`seed ${seed}: ${outcome.problem}`)
  else if (outcomes.length % 10 === 0) console.log(`${outcomes.length} of ${count} seeds`)
}
await database.close()

const sum = (read: (outcome: HistoryOutcome) => number) => outcomes.reduce((total, one) => total + read(one), 0)
const lies = sum((one) => Object.values(one.lies).reduce((total, times) => total + times, 0))
const failed = outcomes.filter(({ problem }) => problem !== null).map(({ seed }) => seed)
console.log(
  [
    `${outcomes.length} seeds, ${failed.length} failed${failed.length > 0 ? ` (${failed.join()})` : ''}`,
    `${sum((one) => one.blocks)} final blocks with ${sum((one) => one.transfers)} rows`,
    `${sum((one) => one.reorganisations)} reorganisations, the deepest of ${Math.max(...outcomes.map((one) => one.deepest))} blocks`,
    `${sum((one) => one.kills)} kills, ${sum((one) => one.freezes)} freezes, ${lies} lies and failures of the node`,
  ].join('\n'),
)
process.exit(failed.length === 0 ? 0 : 1)
