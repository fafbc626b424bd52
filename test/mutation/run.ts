import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomOf } from '../random.ts'
import { ROOT, type Copy, type TreeCopy } from './copy.ts'
import type { Folder } from './folders.ts'
import { mutantsOf, type Mutant } from './mutants.ts'
import { noOrder, type Order } from './order.ts'
import { reaches, reachOf, writeAsTheyGo, type Reach } from './reach.ts'
import { tryFiles, type Bench } from './trial.ts'

/** What became of a mutant. `by` is the test that failed, or the file that did not end. */
export type Fate = {
  mutant: Mutant
  fate: 'killed' | 'timed out' | 'survived' | 'not reached'
  by: string | null
  ms: number
}

/** A time-out kills only what takes less than a fifth of it without the mutant. */
const TIMES = 6

export const allMutants = (folder: Folder): Mutant[] =>
  folder.files.flatMap((file) => mutantsOf(file, readFileSync(join(ROOT, file), 'utf8')))

/** So many of a list in the order of chance, the same for the same seed: each beginning of it is a smaller sample. */
export function sampleOf<T>(all: readonly T[], count: number, seed: number): T[] {
  const below = randomOf(seed)
  const places = all.map((_, at) => at)
  for (let at = places.length - 1; at > 0; at--) {
    const other = below(at + 1)
    ;[places[at], places[other]] = [places[other]!, places[at]!]
  }
  return places.slice(0, count).map((at) => all[at]!)
}

/** What each test file of the folder runs; kept for as long as neither the folder nor the test or what all tests share changes. */
export async function reachOfAll(
  bench: Bench,
  { digestFor }: TreeCopy,
  { files, tests }: Folder,
  say: (line: string) => void,
): Promise<Reach[]> {
  const kept = join(tmpdir(), 'chatelaine-reach')
  mkdirSync(kept, { recursive: true })
  const places = new Map(
    tests.map((test) => [test, join(kept, `${test.replaceAll('/', '-')}-${digestFor([...files, test])}.json`)]),
  )
  writeAsTheyGo(bench)
  const found: Reach[] = []
  for (const [test, place] of places) {
    if (!existsSync(place)) {
      const reach = await reachOf(bench, test, files)
      say(`${test} passes without mutants in ${Math.round(reach.ms)} ms`)
      writeFileSync(place, JSON.stringify(reach))
    }
    found.push(JSON.parse(readFileSync(place, 'utf8')) as Reach)
  }
  return found
}

/** milliseconds without the end of a test after which test files that share a process hang */
const STALL_MS = 60_000

/** Sees test files that are to share a process pass in it, without any mutant. @throws Error when they do not */
export async function seeTogether(bench: Bench, { together }: Folder, all: readonly Reach[]): Promise<void> {
  for (const files of together) {
    const here = files.filter((file) => all.some(({ test }) => test === file))
    if (here.length < 2) continue
    const { outcome, failure, by } = await tryFiles(bench, here, { timeoutMs: 600_000, stallMs: STALL_MS })
    if (outcome !== 'passed') throw new Error(`${here.join(' ')} ${outcome} without any mutant: ${by} ${failure}`)
  }
}

/**
 * Tries a mutant with every test file that runs its place until one fails: first what killed most for its time so far,
 * at the beginning the quickest. A file gets six times what it takes alone.
 */
export async function tryMutant(
  bench: Bench,
  copy: Copy,
  mutant: Mutant,
  all: readonly Reach[],
  {
    order = noOrder,
    together = [],
    leastTimeoutMs = 20_000,
  }: { order?: Order; together?: Folder['together']; leastTimeoutMs?: number } = {},
): Promise<Fate> {
  const reached = all.filter((reach) => reaches(reach, mutant)).toSorted((a, b) => a.ms - b.ms)
  if (reached.length === 0) return { mutant, fate: 'not reached', by: null, ms: 0 }
  const started = performance.now()
  const told = (fate: Fate['fate'], by: string | null): Fate => ({ mutant, fate, by, ms: performance.now() - started })
  for (const files of unitsOf(order.sorted(reached, mutant), together)) {
    const tests = files.map(({ test }) => test)
    const timeoutMs = Math.max(leastTimeoutMs, files.reduce((sum, { ms }) => sum + ms, 0) * TIMES)
    const limits = { timeoutMs, ...(files.length > 1 ? { stallMs: STALL_MS } : {}) }
    const { outcome, failure, by } = await copy.withMutant(mutant, () => tryFiles(bench, tests, limits))
    const isKilled = outcome === 'failed' || (outcome === 'timed out' && (await isQuick(bench, tests, limits)))
    const killer = isKilled ? (by ?? tests[0]!) : null
    for (const test of tests) {
      order.learn(test, mutant, test === killer)
      if (test === killer) break
    }
    if (isKilled) return outcome === 'failed' ? told('killed', `${killer}: ${failure}`) : told('timed out', killer)
  }
  return told('survived', null)
}

/** What runs in one process; files that run together come with the first of them. */
function unitsOf(sorted: readonly Reach[], together: Folder['together']): Reach[][] {
  const units = new Map<string, Reach[]>()
  for (const reach of sorted) {
    const files = together.find((some) => some.includes(reach.test)) ?? [reach.test]
    units.set(
      files.join(),
      sorted
        .filter(({ test }) => files.includes(test))
        .toSorted((a, b) => files.indexOf(a.test) - files.indexOf(b.test)),
    )
  }
  return [...units.values()]
}

/** The same without the mutant: on a machine that others use too, it may have been the machine. */
async function isQuick(
  bench: Bench,
  tests: readonly string[],
  { timeoutMs, stallMs = timeoutMs }: { timeoutMs: number; stallMs?: number },
): Promise<boolean> {
  const { outcome } = await tryFiles(bench, tests, { timeoutMs: timeoutMs / 5, stallMs: stallMs / 2 })
  return outcome === 'passed'
}
