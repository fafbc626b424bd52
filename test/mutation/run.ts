import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomOf } from '../random.ts'
import { ROOT, type Copy, type TreeCopy } from './copy.ts'
import type { Folder } from './folders.ts'
import { mutantsOf, type Mutant } from './mutants.ts'
import { noOrder, type Order } from './order.ts'
import { reaches, reachOf, writeAsTheyGo, type Reach } from './reach.ts'
import { tryFile, type Bench } from './trial.ts'

/** What became of a mutant. `by` is the test that failed, or the file that did not end. */
export type Fate = {
  mutant: Mutant
  fate: 'killed' | 'timed out' | 'survived' | 'not reached'
  by: string | null
  ms: number
  /** number of test files that run the place but did not fit into the cap */
  left: number
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

/**
 * What each test file of the folder runs; kept for as long as neither the folder nor the test or what all tests share
 * changes. A file that fails twice without any mutant is named and left out.
 */
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
      const once = () => reachOf(bench, test, files)
      const reach = await once()
        .catch(once)
        .catch((error: Error) => say(`left out: ${error.message}`))
      if (reach === undefined) continue
      say(`${test} passes without mutants in ${Math.round(reach.ms)} ms`)
      writeFileSync(place, JSON.stringify(reach))
    }
    found.push(JSON.parse(readFileSync(place, 'utf8')) as Reach)
  }
  return found
}

/**
 * Tries a mutant with every test file that runs its place until one fails: first what killed most for its time so far,
 * at the beginning the quickest. A file gets six times what it takes alone.
 * @param capMs  sum of what the tried files take without a mutant; files that do not fit are left out
 */
export async function tryMutant(
  bench: Bench,
  copy: Copy,
  mutant: Mutant,
  all: readonly Reach[],
  {
    order = noOrder,
    capMs = Infinity,
    leastTimeoutMs = 20_000,
  }: { order?: Order; capMs?: number; leastTimeoutMs?: number } = {},
): Promise<Fate> {
  const reached = all.filter((reach) => reaches(reach, mutant)).toSorted((a, b) => a.ms - b.ms)
  if (reached.length === 0) return { mutant, fate: 'not reached', by: null, ms: 0, left: 0 }
  const started = performance.now()
  let [left, spentMs] = [0, 0]
  const told = (fate: Fate['fate'], by: string | null): Fate => ({
    ...{ mutant, fate, by, left },
    ms: performance.now() - started,
  })
  for (const { test, ms } of order.sorted(reached, mutant)) {
    if (spentMs + ms > capMs) {
      left += 1
      continue
    }
    spentMs += ms
    const timeoutMs = Math.max(leastTimeoutMs, ms * TIMES)
    const { outcome, failure } = await copy.withMutant(mutant, () => tryFile(bench, test, { timeoutMs }))
    const isKilled = outcome === 'failed' || (outcome === 'timed out' && (await isQuick(bench, test, timeoutMs)))
    order.learn(test, mutant, isKilled)
    if (isKilled) return outcome === 'failed' ? told('killed', `${test}: ${failure}`) : told('timed out', test)
  }
  return told('survived', null)
}

/** The same without the mutant: on a machine that others use too, it may have been the machine. */
async function isQuick(bench: Bench, test: string, timeoutMs: number): Promise<boolean> {
  const { outcome } = await tryFile(bench, test, { timeoutMs: timeoutMs / 5 })
  return outcome === 'passed'
}
