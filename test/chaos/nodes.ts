/**
 * The table of nodes: `npm run prove -- nodes --seed 7`. Each kind of node in front of a real chain, each thing that
 * happens to one, the whole program before it, and the chain as the judge; `docs/evidence/proof.md` says what that shows.
 * `--node geth` plays the nodes whose name holds that, `--fault reorg` the faults, `--write` puts the whole table into the
 * page, `--cells file.json` keeps what was played and leaves it out the next time. On the embedded database, or on PostgreSQL with TEST_DATABASE_URL.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { FAULTS } from './nodes-faults.ts'
import { playNode } from './nodes-play.ts'
import { PROFILES } from './nodes-profiles.ts'
import { keyOf, tableOf, withTable, type Cell } from './nodes-table.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    node: { type: 'string', default: '' },
    fault: { type: 'string', default: '' },
    cells: { type: 'string' },
    write: { type: 'boolean', default: false },
  },
})
const PAGE = join(import.meta.dirname, '../../docs/evidence/proof.md')
const seed = Number(values.seed)
const profiles = PROFILES.filter(({ name }) => name.includes(values.node))
const faults = FAULTS.filter(({ name }) => name.includes(values.fault))
const isWhole = profiles.length === PROFILES.length && faults.length === FAULTS.length
if (profiles.length === 0 || faults.length === 0) throw new Error('no node or no fault has that in its name')
if (values.write && !isWhole) throw new Error('--write is for the whole table')
// What it started ends with it.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

type Kept = { seconds: number; cells: [string, Cell][] }
const kept: Kept =
  values.cells !== undefined && existsSync(values.cells)
    ? (JSON.parse(readFileSync(values.cells, 'utf8')) as Kept)
    : { seconds: 0, cells: [] }
const startedAt = performance.now()
const seconds = (): number => kept.seconds + (performance.now() - startedAt) / 1_000
const cells = new Map(kept.cells)
for (const profile of profiles) {
  const left = faults.filter((fault) => {
    const cell = cells.get(keyOf(profile, fault))
    return cell === undefined || 'problems' in cell
  })
  if (left.length === 0) continue
  for (const [key, cell] of await playNode(profile, left, seed)) {
    cells.set(key, cell)
    if ('problems' in cell) console.log(`${key}:\n${cell.problems.map((problem) => `  ${problem}`).join('\n')}`)
  }
  console.log(`${profile.name}: ${seconds().toFixed(0)} s`)
  if (values.cells !== undefined)
    writeFileSync(values.cells, JSON.stringify({ seconds: seconds(), cells: [...cells] } satisfies Kept))
}
const table = tableOf(cells, { seed, minutes: Math.ceil(seconds() / 60) })
if (values.write) writeFileSync(PAGE, withTable(readFileSync(PAGE, 'utf8'), table))
else console.log(table)
process.exit([...cells.values()].some((cell) => 'problems' in cell) ? 1 : 0)
