/**
 * Runs the tests:
 *   npm test                      units and slices, on the embedded database
 *   npm test -- --unit            only files that open nothing
 *   npm test -- --changed[=REF]   of the default tier, what a change since REF can affect; since HEAD if REF is left out
 *   npm test -- --all             also processes, browsers, foreign clients, proofs that kill
 *   npm test -- FILE… [flags]     these files; with one file or with flags of node:test, each in a process of its own
 *   npm test -- FOLDER…           the files of the default tier, or with --all of every tier, in these folders
 * With TEST_DATABASE_URL the tests use that PostgreSQL. For .ci/run: `--tier=all` runs that tier alone, `--asking-database`
 * the files for which the variable makes a difference, `--embedded` the other ones and those that the embedded database is
 * the point of. `--list` names the files and runs nothing. `--weigh` records the CPU seconds of each file in
 * scripts/test-weights.json.
 */
import { spawn, spawnSync } from 'node:child_process'
import { constants } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { affectedBy, askingOf, needsEmbedded, testFiles, tierOf } from './test-files.ts'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const args = process.argv.slice(2)
const OURS = /^--(?:unit|all|tier=\w+|changed(?:=.*)?|asking-database|embedded|list|weigh)$/
const named = args.filter((arg) => !arg.startsWith('-')).map((file) => relative(root, resolve(file)))
const flags = args.filter((arg) => arg.startsWith('-') && !OURS.test(arg))
const has = (word) => args.includes(`--${word}`)
const valueOf = (word) => args.find((arg) => arg === `--${word}` || arg.startsWith(`--${word}=`))?.split('=')

const TIERS = ['unit', 'default', 'all']
const files = chosen()
if (has('list')) console.log(files.join('\n'))
if (files.length === 0) console.error('No test file is affected.')
if (has('list') || files.length === 0) process.exit(0)

function chosen() {
  const all = testFiles()
  const ofTiers = all.filter((file) => tiers().includes(tierOf(file)))
  let some = named.length > 0 ? named.flatMap((name) => within(name, all, ofTiers)) : ofTiers
  const since = valueOf('changed')
  if (since !== undefined) some = affectedBy(changedSince(since[1] ?? 'HEAD'), some)
  if (has('asking-database')) some = askingOf(some)
  if (!has('embedded')) return some
  const asking = askingOf(some)
  return some.filter((file) => !asking.includes(file) || needsEmbedded(file))
}

/** The files of the tiers below a folder; anything else is a file's own name. */
function within(name, all, ofTiers) {
  const isBelow = (file) => file.startsWith(`${name}/`)
  return all.some(isBelow) ? ofTiers.filter(isBelow) : [name]
}

function tiers() {
  const only = valueOf('tier')?.[1]
  if (only !== undefined && !TIERS.includes(only)) throw new Error(`There is no tier ${only}: ${TIERS.join(', ')}.`)
  if (only !== undefined) return [only]
  if (has('unit')) return ['unit']
  return has('all') ? TIERS : ['unit', 'default']
}

/** Committed since then, changed in the working tree, and new files that git does not ignore. */
function changedSince(ref) {
  const ask = (...words) => {
    const { status, stdout, stderr } = spawnSync('git', words, { cwd: root, encoding: 'utf8' })
    if (status !== 0) throw new Error(stderr)
    return stdout.split('\n').filter((line) => line !== '')
  }
  return [...ask('diff', '--name-only', '--no-renames', ref), ...ask('ls-files', '--others', '--exclude-standard')]
}

// Node.js has a fault that stops a process at its end now and then (nodejs/node#54918): without this compiler it is gone.
const node = ['--disable-warning=ExperimentalWarning', '--no-concurrent-sparkplug']
const plain = ['--test', '--test-concurrency=2', '--test-timeout=900000', '--test-reporter=spec', '--test-force-exit']
const batched = [join(root, 'scripts', 'test-run.mjs'), ...(has('weigh') ? ['--weigh'] : [])]
const runner = flags.length > 0 || named.length === 1 ? [...plain, ...flags] : batched
const child = spawn(process.execPath, [...node, ...runner, ...files], { cwd: root, stdio: 'inherit' })
// A signal to this process alone ends the runner too.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.once('close', (status, signal) => {
  process.exitCode = status ?? 128 + (constants.signals[signal] ?? 0)
})
