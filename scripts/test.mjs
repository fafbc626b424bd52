/**
 * Runs the tests:
 *   npm test                      units and slices, on the embedded database
 *   npm test -- --unit            only files that open nothing
 *   npm test -- --changed[=REF]   of the default tier, what a change since REF can affect; HEAD if nothing is said
 *   npm test -- --all             also processes, browsers, foreign clients, proofs that kill
 *   npm test -- FILE… [flags]     these files, each in a process of its own, with flags of node:test
 * With TEST_DATABASE_URL the tests use that PostgreSQL, and `--asking-database` leaves out the files for which that makes
 * no difference. `--weigh` records the CPU seconds of each file in scripts/test-weights.json.
 */
import { spawn, spawnSync } from 'node:child_process'
import { constants } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { affectedBy, askingOf, testFiles, tierOf } from './test-files.ts'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const args = process.argv.slice(2)
const OURS = /^--(?:unit|all|changed(?:=.*)?|asking-database|weigh)$/
const named = args.filter((arg) => !arg.startsWith('-')).map((file) => relative(root, resolve(file)))
const flags = args.filter((arg) => arg.startsWith('-') && !OURS.test(arg))
const has = (word) => args.includes(`--${word}`)

let files = named.length > 0 ? named : filesOfTier()
const since = args.find((arg) => /^--changed/.test(arg))
if (since !== undefined) files = affectedBy(changedSince(since.split('=')[1] ?? 'HEAD'), files)
if (has('asking-database')) files = askingOf(files)
if (files.length === 0) {
  console.log('No test file is affected.')
  process.exit(0)
}

function filesOfTier() {
  const tiers = has('unit') ? ['unit'] : has('all') ? ['unit', 'default', 'all'] : ['unit', 'default']
  return testFiles().filter((file) => tiers.includes(tierOf(file)))
}

/** Committed since then, changed in the working tree, and new files that git does not ignore. */
function changedSince(ref) {
  const ask = (...words) => {
    const { status, stdout, stderr } = spawnSync('git', words, { cwd: root, encoding: 'utf8' })
    if (status !== 0) throw new Error(stderr)
    return stdout.split('\n').filter((line) => line !== '')
  }
  return [...ask('diff', '--name-only', ref), ...ask('ls-files', '--others', '--exclude-standard')]
}

// Node.js has a fault that stops a process at its end now and then (nodejs/node#54918): without this compiler it is gone.
const node = ['--disable-warning=ExperimentalWarning', '--no-concurrent-sparkplug']
const plain = ['--test', '--test-concurrency=2', '--test-timeout=300000', '--test-reporter=spec', '--test-force-exit']
const batched = [join(root, 'scripts', 'test-run.mjs'), ...(has('weigh') ? ['--weigh'] : [])]
const runner = flags.length > 0 || named.length === 1 ? [...plain, ...flags] : batched
const child = spawn(process.execPath, [...node, ...runner, ...files], { cwd: root, stdio: 'inherit' })
// A signal to this process alone ends the runner too.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.once('close', (status, signal) => {
  process.exitCode = status ?? 128 + (constants.signals[signal] ?? 0)
})
