/**
 * Runs the test suite, or the files and node:test flags given: `npm test -- src/abi/parse.test.ts --test-only`.
 * With TEST_DATABASE_URL the tests use that PostgreSQL instead of the embedded database; with `--asking-database` only
 * the files run for which that makes a difference.
 */
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { askingOf, atOnce, longestFirst, testFiles } from './test-files.ts'

const ASKING = '--asking-database'
const root = dirname(dirname(fileURLToPath(import.meta.url)))
const args = process.argv.slice(2)
const named = args.filter((arg) => !arg.startsWith('-')).map((file) => relative(root, resolve(file)))
const flags = args.filter((arg) => arg.startsWith('-') && arg !== ASKING)
const asked = named.length > 0 ? named : testFiles(root)
const files = args.includes(ASKING) ? askingOf(asked, root) : asked
if (files.length === 0) {
  console.error('None of these files asks a database.')
  process.exit(1)
}

// Node's own command takes all flags and sorts files by name. Without flags they start in an order of ours.
const sorted = [
  '--test',
  `--test-concurrency=${atOnce()}`,
  '--test-timeout=300000',
  '--test-reporter=spec',
  '--test-force-exit',
]
const runner = flags.length > 0 ? [...sorted, ...flags] : [join(root, 'scripts', 'test-run.mjs')]
// As the launcher starts the program; the processes of the files inherit them.
const NODE_FLAGS = ['--disable-warning=ExperimentalWarning', '--no-concurrent-sparkplug']
const child = spawn(process.execPath, [...NODE_FLAGS, ...runner, ...longestFirst(files)], {
  cwd: root,
  stdio: 'inherit',
})
// A signal to this process alone ends the runner too.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.once('close', (status, signal) => {
  process.exitCode = status ?? 128 + (constants.signals[signal] ?? 0)
})
