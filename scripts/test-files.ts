/**
 * Names the test files, the tier and the equipment of each, and the batches that share a process. A file says where it
 * differs from the rule, in a line of its own: `// tier: all, because …` or `// alone, because …`.
 */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const FOLDERS = ['src', 'test', 'scripts', 'e2e', 'packages']

/**
 * `unit` opens nothing, `default` opens a database, a chain, a signer or a server, and `all` runs only with `--all`:
 * it starts the program as a process, drives a browser, or repeats a proof at length.
 */
export type Tier = 'unit' | 'default' | 'all'

/** Returns every test file, by its path from the root of the project, sorted. */
export const testFiles = (root = ROOT): string[] =>
  FOLDERS.flatMap((folder) => globSync(`${folder}/**/*.test.ts`, { cwd: root, exclude: ['**/node_modules'] })).toSorted(
    (a, b) => (a < b ? -1 : 1),
  )

/** The line of a file that gives its tier and the reason. */
const TIER_LINE = /^\/\/ tier: (default|all), because .+$/m
/** The line of a file whose tests change their process, or look at all of it. */
const ALONE_LINE = /^\/\/ alone, because .+$/m

/** The line of a file of the slow tier that .ci/run repeats on the embedded database. */
const EMBEDDED_LINE = /^\/\/ embedded, because .+$/m

export const needsEmbedded = (file: string, root = ROOT): boolean =>
  EMBEDDED_LINE.test(readFileSync(join(root, file), 'utf8'))

export function tierOf(file: string, root = ROOT): Tier {
  const said = TIER_LINE.exec(readFileSync(join(root, file), 'utf8'))?.[1] as Tier | undefined
  return said ?? (equipmentOf(file, root) === null ? 'unit' : 'default')
}

export const hasTierLine = (file: string, root = ROOT): boolean =>
  TIER_LINE.test(readFileSync(join(root, file), 'utf8'))

/** What a test file opens, dearest first: a file belongs to the first line that it reaches. */
const EQUIPMENT: Record<string, RegExp> = {
  writing: /^test\/writing\.ts$/,
  world: /^test\/world\.ts$/,
  rehearsal: /^test\/rehearsal\.ts$/,
  signer: /^test\/kit\/signer\.ts$/,
  database: /^test\/kit\/database\.ts$/,
}
/** Modules of Node.js with which a file starts processes or threads. */
const STARTS = /from 'node:(?:child_process|worker_threads)'/

/** Returns the dearest equipment that a file reaches through other test files, or null if it opens nothing. */
function equipmentOf(file: string, root: string): string | null {
  const reached = reach(file, (from) => namedIn(from, root).filter((name) => !name.startsWith('src/')))
  for (const [name, pattern] of Object.entries(EQUIPMENT)) if (reached.some((one) => pattern.test(one))) return name
  return reached.some((one) => STARTS.test(readFileSync(join(root, one), 'utf8'))) ? 'processes' : null
}

/** Test files that run in one process, one after the other. */
export type Batch = { name: string; files: string[]; weight: number }

/** CPU seconds of a batch: smaller ones repeat the imports, larger ones leave a core idle at the end. */
const BATCH_SECONDS = 24
const MAX_BATCH_FILES = 40

/**
 * Packs files with the same equipment into batches of about equal weight, heaviest batch first. The result depends on
 * the files and their recorded weights alone, so that every machine runs the same batches.
 */
export function batchesOf(files: string[], weights: Record<string, number> = readWeights(), root = ROOT): Batch[] {
  const groups = Map.groupBy(files, (file) => {
    const isAlone = ALONE_LINE.test(readFileSync(join(root, file), 'utf8')) || tierOf(file, root) === 'all'
    return isAlone ? file : (equipmentOf(file, root) ?? 'unit')
  })
  const batches = [...groups].flatMap(([name, members]) => pack(name, members, weights))
  return batches.toSorted((a, b) => b.weight - a.weight || (a.name < b.name ? -1 : 1))
}

function pack(group: string, files: string[], weights: Record<string, number>): Batch[] {
  const weightOf = (file: string) => weights[file] ?? 1
  const total = files.reduce((sum, file) => sum + weightOf(file), 0)
  const count = Math.max(Math.ceil(total / BATCH_SECONDS), Math.ceil(files.length / MAX_BATCH_FILES))
  const batches = Array.from({ length: count }, (_, index) => ({
    name: `${group} ${index + 1}`,
    files: [] as string[],
    weight: 0,
  }))
  for (const file of files.toSorted((a, b) => weightOf(b) - weightOf(a) || (a < b ? -1 : 1))) {
    const lightest = batches.reduce((least, one) => (one.weight < least.weight ? one : least))
    lightest.files.push(file)
    lightest.weight += weightOf(file)
  }
  return batches.filter(({ files: members }) => members.length > 0)
}

const WEIGHTS = 'scripts/test-weights.json'

/** Returns the CPU seconds of each test file as `npm test -- --all --weigh` last recorded them. */
export const readWeights = (root = ROOT): Record<string, number> =>
  existsSync(join(root, WEIGHTS)) ? JSON.parse(readFileSync(join(root, WEIGHTS), 'utf8')) : {}

export const weightsFile = (root = ROOT): string => join(root, WEIGHTS)

const GIGABYTE = 2 ** 30
const MAX_AT_ONCE = 9

/**
 * Returns how many batches run side by side. A batch waits for processes that it started about half of the time;
 * more batches than that only take memory.
 */
export const atOnce = (cores = availableParallelism(), memory = totalmem()): number =>
  Math.max(2, Math.min(2 * cores, MAX_AT_ONCE, Math.floor(memory / GIGABYTE)))

/** The only file through which a test learns of TEST_DATABASE_URL; test-files.test.ts holds that. */
const DATABASE = 'test/kit/database.ts'

/** Returns the files whose run with TEST_DATABASE_URL can differ from one without: they reach the file that reads it. */
export const askingOf = (files: string[], root = ROOT): string[] =>
  files.filter((file) => reaches(file, [DATABASE], root))

/** What no import names: a change of a file that the pattern matches counts as a change of the file on the right. */
const STANDS_FOR: [RegExp, string][] = [
  [/^migrations\//, 'src/store/migrate.ts'],
  [/^contracts\//, 'src/gas/contracts.ts'],
]
/** Files that read the tree: any change may affect them. */
const READS_ALL = ['test/house-rules.test.ts', 'test/words.test.ts', 'test/security.test.ts', 'test/documented.test.ts']
/** A change of these may change every test. */
const TOUCHES_ALL = /^(?:package(?:-lock)?\.json|tsconfig\.json|runtime\/|scripts\/test)/

/** Returns the test files that a change of `changed` can affect, by the import graph. */
export function affectedBy(changed: string[], files: string[], root = ROOT): string[] {
  if (changed.some((file) => TOUCHES_ALL.test(file))) return files
  const targets = changed.flatMap((file) => [
    file,
    ...STANDS_FOR.filter(([pattern]) => pattern.test(file)).map(([, target]) => target),
  ])
  const next = (from: string) => [...namedIn(from, root), ...goneFrom(from, changed, root)]
  return files.filter((file) => READS_ALL.includes(file) || reach(file, next).some((one) => targets.includes(one)))
}

/** Returns the files that a file names, that were changed and are not there any more: who names them may fail. */
const goneFrom = (file: string, changed: string[], root: string): string[] => {
  const gone = changed.filter((name) => !existsSync(join(root, name)))
  if (gone.length === 0) return []
  const named = namesIn(file, root)
  return gone.filter((name) => named.includes(name))
}

const reaches = (file: string, targets: string[], root: string): boolean => {
  const reached = reach(file, (from) => namedIn(from, root))
  return targets.some((target) => reached.includes(target))
}

/** Returns a file and everything that it leads to. */
function reach(file: string, next: (file: string) => string[]): string[] {
  const seen = new Set([file])
  for (const one of seen) for (const named of next(one)) seen.add(named)
  return [...seen]
}

/** By root and file: most test files reach the same hundreds. */
const known = new Map<string, string[]>()

/**
 * Returns the files of ours that a file names in quotes, from its own folder or from the root: imports, and scripts that
 * it starts or reads. Imports of types count as well: one file too many costs seconds, one too few a proof.
 */
function namedIn(file: string, root: string): string[] {
  const key = join(root, file)
  const found = known.get(key) ?? findNamed(file, root)
  known.set(key, found)
  return found
}

const findNamed = (file: string, root: string): string[] =>
  namesIn(file, root).filter((path) => existsSync(join(root, path)))

/** The same whether they are there or not. */
function namesIn(file: string, root: string): string[] {
  if (!/\.(?:ts|mjs)$/.test(file) || !existsSync(join(root, file))) return []
  const names = readFileSync(join(root, file), 'utf8').matchAll(
    /['"`]([\w./-]+\.(?:ts|mjs|js|json|css|md|sql|sol))['"`]/g,
  )
  const places = [...names].flatMap(([, name]) => [resolve(root, dirname(file), name!), resolve(root, name!)])
  return [...new Set(places.map((path) => relative(root, path)))].filter((path) => !/^(\.\.|node_modules)/.test(path))
}
