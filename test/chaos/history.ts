/**
 * `npm run prove:history`: the long form of history.test.ts, several lives side by side. On PostgreSQL
 * (TEST_DATABASE_URL) two processes on one database are killed and frozen while node and chain misbehave; on the
 * embedded database one process is killed and started again on the same folder.
 * Arguments: how many seeds (200), the first of them (1), and how many lives at once (3).
 */
import { testCluster } from '../kit/database.ts'
import { openHome } from './history-home.ts'
import { runHistory, type HistoryOutcome } from './history-run.ts'

const [count = 200, first = 1, lanes = 3] = process.argv.slice(2).map(Number)
const startedAt = performance.now()
const outcomes: HistoryOutcome[] = []
let next = first

async function live(): Promise<void> {
  const home = await openHome()
  while (next < first + count) {
    const seed = next++
    const outcome = await runHistory(seed, home, { turns: 30, boundMs: 30_000 })
    outcomes.push(outcome)
    if (outcome.problem !== null) console.log(`seed ${seed}: ${outcome.problem}`)
    else if (outcomes.length % 10 === 0) console.log(`${outcomes.length} of ${count} seeds`)
  }
  await home.close()
}
await Promise.all(Array.from({ length: lanes }, live))

const sum = (read: (outcome: HistoryOutcome) => number) => outcomes.reduce((total, one) => total + read(one), 0)
const lies = sum((one) => Object.values(one.lies).reduce((total, times) => total + times, 0))
const failed = outcomes.filter(({ problem }) => problem !== null).map(({ seed }) => seed)
console.log(
  [
    `${outcomes.length} seeds on ${testCluster === null ? 'the embedded database' : 'PostgreSQL'} in ${((performance.now() - startedAt) / 60_000).toFixed(1)} minutes, ${failed.length} failed${failed.length > 0 ? ` (${failed.join()})` : ''}`,
    `${sum((one) => one.blocks)} final blocks with ${sum((one) => one.transfers)} rows`,
    `${sum((one) => one.reorganisations)} reorganisations, the deepest of ${Math.max(...outcomes.map((one) => one.deepest))} blocks`,
    `${sum((one) => one.kills)} kills, ${sum((one) => one.freezes)} freezes, ${lies} lies and failures of the node`,
  ].join('\n'),
)
process.exit(failed.length === 0 ? 0 : 1)
