/** Runs the test files given, by their paths from this folder and in their order, keeps how long each took, and names the slowest at the end. */
import { relative } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { atOnce, keepDurations } from './test-files.ts'

// A test that hangs must fail, not stop the run.
const TIMEOUT_MS = 300_000
const NAMED = 10

const startedAt = performance.now()
const durations = {}
// Until the whole says that it succeeded, it has not.
process.exitCode = 1

// Who ends the run ends the files that run.
const over = new AbortController()
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(name, () => over.abort())

const tests = run({
  signal: over.signal,
  files: process.argv.slice(2),
  concurrency: atOnce(),
  timeout: TIMEOUT_MS,
  // A file that leaves something open fails nothing, but must not hold up the rest for ever.
  execArgv: ['--test-force-exit'],
})
tests.on('test:complete', ({ name, nesting, file, details }) => {
  // Beside the tests of a file there is one that is the file, from the start of its process to the end.
  if (nesting === 0 && file !== undefined && name === relative(process.cwd(), file))
    durations[name] = Math.round(details.duration_ms)
})
tests.on('test:summary', ({ file, success }) => {
  if (file === undefined && success) process.exitCode = 0
})
tests.compose(spec()).pipe(process.stdout)
process.once('exit', () => {
  keepDurations(durations, process.cwd())
  const slowest = Object.entries(durations).toSorted(([, a], [, b]) => b - a)
  if (slowest.length <= 1) return
  console.log(`\n${slowest.length} files in ${seconds(performance.now() - startedAt)}. The slowest:`)
  for (const [file, ms] of slowest.slice(0, NAMED)) console.log(`${seconds(ms).padStart(8)}  ${file}`)
})

const seconds = (ms) => `${(ms / 1_000).toFixed(1)} s`
