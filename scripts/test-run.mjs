/** Runs test files, by their paths from this folder, in batches; names the files that took most CPU at the end. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { atOnce, batchesOf, readWeights, weightsFile } from './test-files.ts'

const NAMED = 20
// A test that hangs must fail and not stop the run; one on a slow machine must pass.
const TEST_TIMEOUT_MS = 900_000
const BATCH_TIMEOUT_MS = 3_600_000

const startedAt = performance.now()
const files = process.argv.slice(2).filter((arg) => !arg.startsWith('--'))
const root = process.cwd()
const folder = join(root, 'tmp', `tests-${process.pid}`)
mkdirSync(folder, { recursive: true })
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
// Until the whole run says that it succeeded, it has not.
process.exitCode = 1

/** One program per batch, named so that the reporter says which files a process that died had. */
const programs = batchesOf(files, readWeights(root), root).map(({ name, files: members }) => {
  const path = join(folder, `${name.replaceAll(/[^\w.-]+/g, '-')}.test.mjs`)
  const weights = `${path}.cpu`
  const lines = members.map((file) => `testFile(${JSON.stringify(file)})`)
  const head = `import { openBatch } from ${JSON.stringify(join(import.meta.dirname, 'test-batch.mjs'))}`
  writeFileSync(
    path,
    [head, `const testFile = openBatch(${JSON.stringify({ root, weights })})`, ...lines, ''].join('\n'),
  )
  return path
})

// Whoever ends the run ends the files that run.
const over = new AbortController()
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(name, () => over.abort())

const tests = run({
  signal: over.signal,
  files: programs,
  concurrency: atOnce(),
  timeout: BATCH_TIMEOUT_MS,
  // A file that leaves something open fails nothing, but must not hold up the rest for ever.
  execArgv: ['--test-force-exit', `--test-timeout=${TEST_TIMEOUT_MS}`, '--no-concurrent-sparkplug'],
})
/** files that no process has told the end of: one that ends early may take the last of them along without a word */
const untold = new Set(files)
for (const event of ['test:pass', 'test:fail']) tests.on(event, ({ name }) => untold.delete(name))
tests.on('test:summary', ({ file, success }) => {
  if (file === undefined && success && untold.size === 0) process.exitCode = 0
})
tests.compose(spec()).pipe(process.stdout)
process.once('beforeExit', () => {
  for (const file of untold) console.log(`✖ ${file}: how it ended was not told`)
  const measured = readCpu()
  if (process.argv.includes('--weigh')) recordWeights(measured)
  const slowest = Object.entries(measured).toSorted(([, a], [, b]) => b - a)
  const cpu = slowest.reduce((sum, [, seconds]) => sum + seconds, 0)
  const wall = (performance.now() - startedAt) / 1_000
  console.log(
    `\n${files.length} files in ${programs.length} processes: ${wall.toFixed(0)} s, ${cpu.toFixed(0)} s of CPU. Most CPU:`,
  )
  for (const [file, seconds] of slowest.slice(0, NAMED)) console.log(`${seconds.toFixed(1).padStart(8)} s  ${file}`)
})

/** Returns CPU seconds by file; what all batches took to import is one of them. */
function readCpu() {
  const measured = {}
  for (const name of readdirSync(folder).filter((one) => one.endsWith('.cpu')))
    for (const line of readFileSync(join(folder, name), 'utf8').trim().split('\n')) {
      const [file, seconds] = line.split(' ')
      measured[file] = (measured[file] ?? 0) + Number(seconds)
    }
  return measured
}

/** Coarsely, so that a new run changes few lines. */
function recordWeights(measured) {
  const ofFiles = Object.entries(measured).filter(([name]) => name !== 'imports')
  const rounded = ofFiles.map(([file, seconds]) => [file, seconds < 1 ? 0.5 : Math.round(seconds)])
  const all = { ...readWeights(root), ...Object.fromEntries(rounded) }
  writeFileSync(
    weightsFile(root),
    `${JSON.stringify(Object.fromEntries(Object.entries(all).toSorted(([a], [b]) => (a < b ? -1 : 1))), null, 1)}\n`,
  )
}
