/** Which test files there are, which of them ask the database that the suite is given, and which are started first. */
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const FOLDERS = ['src', 'test', 'scripts', 'e2e']
/** the only file through which a test learns of TEST_DATABASE_URL; test-files.test.ts holds that */
const DATABASE = 'test/database.ts'
const DURATIONS = join('node_modules', '.cache', 'test-durations.json')

/** The longest files, longest first, for a machine that has measured none; what a run measures counts more. */
export const LONGEST: readonly string[] = [
  'e2e/browser.test.ts',
  'test/chaos/transactions.test.ts',
  'e2e/restart.test.ts',
  'test/chaos/nodes.test.ts',
  'e2e/pages.test.ts',
  'src/http/ending.test.ts',
  'test/fuzz/strings.test.ts',
  'e2e/foreign/openapi.test.ts',
  'test/fuzz/tokens.test.ts',
  'e2e/misconfigured.test.ts',
  'test/fuzz/openapi.test.ts',
  'e2e/guides.test.ts',
  'test/chaos/history.test.ts',
  'e2e/foreign/glewlwyd.test.ts',
  'test/nodes/real-nodes.test.ts',
  'scripts/run.test.ts',
]

const GIGABYTE = 2 ** 30

/**
 * How many files run side by side. One alone keeps half a core busy: it waits for processes it started, for a chain or a
 * browser. Where nothing waits for a core any more, more of them only take memory, and time from what has a deadline.
 */
export const atOnce = (cores = availableParallelism(), memory = totalmem()): number =>
  Math.max(2, Math.min(2 * cores + 1, MOST_AT_ONCE, Math.floor(memory / GIGABYTE)))
const MOST_AT_ONCE = 9

/** Every test file, by its path from the root of the project, in the order of their names. */
export const testFiles = (root = ROOT): string[] =>
  FOLDERS.flatMap((folder) => globSync(`${folder}/**/*.test.ts`, { cwd: root, exclude: ['**/node_modules'] })).toSorted(
    (a, b) => (a < b ? -1 : 1),
  )

/**
 * The files whose run with TEST_DATABASE_URL can differ from one without: they reach the file that reads the variable, by
 * imports or by naming a script that is started. Types are followed too: one file too many costs seconds, one too few a
 * proof. Each file is read once for all of them, because most reach the same hundreds.
 */
export function askingOf(files: string[], root = ROOT): string[] {
  const known = new Map<string, string[]>()
  const namedIn = (file: string): string[] => {
    const names = known.get(file) ?? filesNamedIn(file, root)
    known.set(file, names)
    return names
  }
  return files.filter((file) => reachesDatabase(file, namedIn))
}

function reachesDatabase(file: string, namedIn: (file: string) => string[]): boolean {
  const waiting = [file]
  const seen = new Set(waiting)
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (next === DATABASE) return true
    for (const named of namedIn(next).filter((one) => !seen.has(one))) {
      seen.add(named)
      waiting.push(named)
    }
  }
  return false
}

/** Files of ours that a file names in quotes, from its own folder or from the root. */
function filesNamedIn(file: string, root: string): string[] {
  const names = readFileSync(join(root, file), 'utf8').matchAll(/['"`]([\w./-]+\.(?:ts|mjs))['"`]/g)
  const places = [...names].flatMap(([, name]) => [resolve(root, dirname(file), name!), resolve(root, name!)])
  const found = places.map((path) => relative(root, path))
  return found.filter((path) => !/^(\.\.|node_modules)/.test(path) && existsSync(join(root, path)))
}

/** The longest first, so that none of them runs on alone at the end; of which nothing is known come before short ones. */
export function longestFirst(files: string[], durations = readDurations()): string[] {
  const guess = (file: string) => (LONGEST.includes(file) ? 60_000 + LONGEST.length - LONGEST.indexOf(file) : 5_000)
  const ms = (file: string) => durations[file] ?? guess(file)
  return files.toSorted((a, b) => ms(b) - ms(a))
}

/** @returns milliseconds that each file took when it ran last, on this machine */
export function readDurations(root = ROOT): Record<string, number> {
  try {
    return JSON.parse(readFileSync(join(root, DURATIONS), 'utf8'))
  } catch {
    return {}
  }
}

/** Keeps what a run has measured beside what others have. */
export function keepDurations(measured: Record<string, number>, root = ROOT): void {
  const path = join(root, DURATIONS)
  mkdirSync(dirname(path), { recursive: true })
  const part = `${path}.${process.pid}`
  writeFileSync(part, JSON.stringify({ ...readDurations(root), ...measured }, null, 1))
  renameSync(part, path)
}
