#!/usr/bin/env node
/**
 * The launcher behind every command: finds a Node.js that is new enough, installs what is missing, runs the
 * program and ends as it ended. Plain JavaScript without dependencies, because it runs before anything is
 * installed and on Node.js 18.
 */
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { constants } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { anvilOf, checkPin, isAnvil, sayNoAnvil } from './anvil.mjs'

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const OLDEST_NODE = [24, 12]
const NODE_FLAGS = [
  // node:sqlite, the signer's store, still announces itself on every start.
  '--disable-warning=ExperimentalWarning',
  // A thread that compiles while the process exits can deadlock with it, so that the process never ends
  // (nodejs/node#54918, open). Compiling on the main thread instead costs no measurable CPU at startup.
  '--no-concurrent-sparkplug',
]

/** The process in the foreground: an install, then the program. */
let child

async function main([command, ...rest]) {
  const production = () => ready('production')
  const everything = () => ready('everything')
  const withChain = async (packages) => readyChain(await packages())
  switch (command) {
    case 'start':
      return runNode(await (bringsChain(rest) ? withChain(production) : production()), ['src/main.ts', ...rest])
    case 'test':
      return runNode(await withChain(everything), ['scripts/test.mjs', ...rest])
    case 'fuzz': {
      // The long form of what the suite does briefly. Another seed each time; a failure names its own.
      const long = { FUZZ_REQUESTS: '200000', FUZZ_STRINGS: '100000', FUZZ_SEED: String(Date.now() % 1_000_000) }
      Object.assign(process.env, { ...long, ...process.env })
      const files = ['openapi', 'strings', 'tokens'].map((name) => join(ROOT, `test/fuzz/${name}.test.ts`))
      return runNode(await withChain(everything), ['scripts/test.mjs', '--test-timeout=7200000', ...files, ...rest])
    }
    case 'check':
      return runNode(await everything(), ['scripts/check.mjs', ...rest])
    case 'contracts':
      return runNode(await everything(), ['scripts/contracts.mjs', ...rest])
    case 'bench': {
      const file = benchmark(rest[0])
      return runNode(await withChain(everything), [file, ...rest.slice(1)])
    }
    case 'prove': {
      // Without a name it is the engine that moves money.
      const [name, args] =
        rest[0] === undefined || rest[0].startsWith('-') ? ['transactions', rest] : [rest[0], rest.slice(1)]
      const file = proof(name)
      return runNode(await withChain(everything), [file, ...args])
    }
    case 'mutate':
      return runNode(await withChain(everything), ['test/mutation/mutate.ts', ...rest])
    case 'docs':
      return runNode(await production(), ['src/cli/docs.ts', ...rest])
    case 'client':
      // What `npm pack packages/client` runs first, also in a checkout that has no tools yet.
      return runNode(await everything(), [
        'node_modules/typescript/bin/tsc',
        '-p',
        join(ROOT, 'packages/client/tsconfig.build.json'),
      ])
    case 'release':
      return runNode(await production(), ['scripts/release.mjs', ...rest])
    case 'site':
      return runNode(await readySite(), ['site/build.mjs'])
    default:
      // What was meant for another program could load code beside the keys, or open a debugger; so could what another
      // program compiled.
      if (command === 'signer') {
        delete process.env.NODE_OPTIONS
        process.env.NODE_DISABLE_COMPILE_CACHE = '1'
      }
      return runNode(await production(), ['src/cli/main.ts', ...process.argv.slice(2)])
  }
}

/** Whether the server brings a chain: its settings are environment variables only. Words instead of settings are refused. */
function bringsChain(words) {
  const { NODE_ENV, RPC_URL = '' } = process.env
  return words.length === 0 && NODE_ENV !== 'production' && RPC_URL === ''
}

/** The long form of a test that kills and lies: `prove history`, `prove transactions`. */
function proof(name = '') {
  const file = join('test', 'chaos', `${name}.ts`)
  if (/^[a-z-]+$/.test(name) && existsSync(join(ROOT, file))) return file
  throw new InstallError(`There is nothing to prove called "${name}": see test/chaos/.`)
}

function benchmark(name = '') {
  const file = join('bench', `${name}.ts`)
  if (/^[a-z-]+$/.test(name) && existsSync(join(ROOT, file))) return file
  throw new InstallError(`There is no benchmark "${name}": see bench/.`)
}

/**
 * Runs a script of the project; the script's folder is made absolute so that the caller's own folder stays its own. What
 * is compiled is kept beside the packages: starting is mostly compiling. Where that folder is not ours to write, nothing
 * is kept.
 */
function runNode(node, [script, ...args]) {
  return run(node, [...NODE_FLAGS, join(ROOT, script), ...args], {
    stdio: 'inherit',
    env: {
      NODE_COMPILE_CACHE: join(ROOT, 'node_modules', '.cache', 'compiled'),
      ...process.env,
      // What the program starts in turn (npx, compilers) must find the same Node.js.
      PATH: `${dirname(node)}${delimiter}${process.env.PATH ?? ''}`,
    },
  })
}

/** @returns the exit code; 128 + n when signal n ended it, as a shell would say. */
function run(file, args, options) {
  return new Promise((resolve, reject) => {
    child = spawn(file, args, options)
    child.once('error', reject)
    child.once('close', (code, signal) => resolve(code ?? 128 + (constants.signals[signal] ?? 0)))
  })
}

/**
 * Ctrl-C reaches the whole foreground group, the program included, and npm repeats it to us: with a terminal we
 * only wait. Without one, and for every other signal, the program hears it from us, once.
 */
function passSignalsOn() {
  // Left to itself Node opens a debugger on SIGUSR1, and we may run as the user who owns the keys.
  process.on('SIGUSR1', () => {})
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    let last = 0
    process.on(signal, () => {
      const repeated = Date.now() - last < 1_000
      last = Date.now()
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) {
        process.exit(128 + constants.signals[signal])
      }
      if (!repeated && !(signal === 'SIGINT' && process.stdin.isTTY)) child.kill(signal)
    })
  }
}

/**
 * npm may put a shell between itself and us that dies of a signal without passing it on. When npm or that shell is
 * gone the program is asked to end; nobody could reach it any more. Started without npm there is nothing to watch, and
 * nobody above npm is watched: `nohup npm start &` outlives the shell it was typed into.
 */
function endWithNpm() {
  if (process.env.npm_lifecycle_event === undefined) return
  const parentIsNpm = isNpm(process.ppid)
  const ancestors = () => [process.ppid, parentIsNpm ? '' : parentOf(process.ppid)].join()
  const first = ancestors()
  const watch = setInterval(() => {
    if (ancestors() === first) return
    clearInterval(watch)
    process.emit('SIGTERM')
  }, 500)
  watch.unref()
}

/** Whether a process is npm, by its command line as Linux tells it; elsewhere false, and parentOf knows nobody either. */
function isNpm(pid) {
  try {
    return /\bnpm\b/.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8'))
  } catch {
    return false
  }
}

/** @returns the parent of a process as Linux tells it; elsewhere undefined, and only our own parent is watched */
function parentOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) \S /s, '')
      .split(' ')[0]
  } catch {
    return undefined
  }
}

// Installing

class InstallError extends Error {}

/** Installs what `kind` needs and is missing, of the tests' foreign clients too when it is everything. @returns the path of a Node.js that is new enough */
async function ready(kind) {
  const node = await findNode()
  // What others wrote and only tests run against us has a lock of its own.
  const paths = [ROOT, join(ROOT, 'e2e', 'foreign')].slice(0, kind === 'everything' ? 2 : 1)
  for (const path of paths.filter((one) => existsSync(join(one, 'package-lock.json')))) await install(node, path, kind)
  return node
}

/** Installs what builds the documentation's site, which has a lock of its own and needs nothing of the product's. @returns as above */
async function readySite() {
  const node = await findNode()
  await install(node, join(ROOT, 'site'), 'everything')
  return node
}

async function install(node, path, kind) {
  const folder = { path, stamp: stampOf(path, kind) }
  if (!isInstalled(folder)) await withLock(async () => !isInstalled(folder) && installPackages(node, folder))
}

async function findNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])) return process.execPath
  const folder = { path: join(ROOT, 'runtime'), stamp: stampOf(join(ROOT, 'runtime'), 'everything') }
  const platform = process.platform === 'win32' ? 'win' : process.platform
  const binary = join(
    folder.path,
    'node_modules',
    `node-${platform}-${process.arch}`,
    'bin',
    platform === 'win' ? 'node.exe' : 'node',
  )
  const missing = () => !isInstalled(folder) || !existsSync(binary)
  if (missing()) await withLock(async () => missing() && installRuntime(folder, binary))
  // Packaged ones are linked with glibc: where there is another C library the file is there and does not start.
  // One that is packaged and not there was not fetched: npm lets such packages be missing.
  const isPackaged = `node_modules/node-${platform}-${process.arch}` in packagesOf(folder.path, 'package-lock.json')
  const why = !existsSync(binary)
    ? isPackaged
      ? 'a newer one could not be fetched (is there a network?)'
      : `no newer one is packaged for ${platform}-${process.arch}`
    : starts(binary)
      ? undefined
      : 'the packaged one does not start here'
  if (why === undefined) return binary
  throw new InstallError(
    `Chatelaine needs Node.js ${OLDEST_NODE.join('.')} or newer. This is ${process.version}, and ${why}: install it from https://nodejs.org.`,
  )
}

const starts = (binary) => spawnSync(binary, ['--version'], { stdio: 'ignore' }).status === 0

async function installRuntime(folder, binary) {
  if (existsSync(binary) && readStamp(folder) === undefined && matchesLock(folder)) return writeStamp(folder)
  console.error(`Installing Node.js 24 for this project (the one on PATH is ${process.version}) …`)
  await npm(process.execPath, folder, ['ci'])
}

/**
 * The embedded chain's program: of the platform at hand only, in the version that the project was tried with. Somebody
 * else's on PATH serves where none is packaged or none can be fetched. @returns the same Node.js
 */
async function readyChain(node) {
  const anvil = anvilOf(ROOT)
  const folder = { path: anvil.folder, stamp: anvil.stamp }
  const missing = () => !isInstalled(folder) || !existsSync(anvil.binary)
  // On a platform without one the program itself says so, where it needs a chain.
  if (anvil.name === undefined || !missing()) return node
  if (isAnvil('anvil', anvil.version)) return node
  await withLock(async () => missing() && installAnvil(node, folder, anvil))
  return node
}

async function installAnvil(node, folder, anvil) {
  console.error(`Fetching the embedded chain, anvil ${anvil.version} for ${anvil.platform} …`)
  // `package-lock=false` leaves nothing behind but the packages: the version and the checksum stand in anvil.json.
  const once = ['--no-save', '--package-lock=false', '--ignore-scripts', '--fetch-retries=0']
  try {
    await npm(node, folder, ['install', ...once, `${anvil.name}@${anvil.version}`], () => checkPin(anvil))
  } catch (error) {
    if (!(error instanceof InstallError)) throw error
    rmSync(join(folder.path, 'node_modules'), { recursive: true, force: true })
    if (!isAnvil('anvil')) throw new InstallError(sayNoAnvil(anvil, error.message))
    console.error('It could not be fetched: the anvil on PATH is used instead.')
  }
}

async function installPackages(node, folder) {
  const omit = folder.stamp.kind === 'production' ? '--omit=dev' : '--include=dev'
  const before = readStamp(folder)
  if (before === undefined && matchesLock(folder)) return writeStamp(folder)
  console.error(folder.stamp.kind === 'production' ? 'Installing packages …' : 'Installing packages and tools …')
  // The same lock, only the tools are missing: add them, because `ci` empties the folder under a running server.
  const addsOnly = before?.lock === folder.stamp.lock && before?.platform === folder.stamp.platform
  await npm(node, folder, addsOnly ? ['install', '--no-save', omit] : ['ci', omit])
}

// Left to itself npm waits for 70 s before it says that there is no network.
const IMPATIENT = ['--fetch-retry-mintimeout=1000', '--fetch-retry-maxtimeout=5000']

/** @param check  looks at what is there now, and says what is wrong with it */
async function npm(node, folder, args, check = () => undefined) {
  const packages = join(folder.path, 'node_modules')
  // `npm ci` empties the folder, which behind a link is another project's.
  if (lstatSync(packages, { throwIfNoEntry: false })?.isSymbolicLink()) {
    throw new InstallError(
      `${packages} is a link and does not hold the packages of this version. Remove the link, or install behind it.`,
    )
  }
  const cli = findNpm()
  const quiet = ['--loglevel=error', '--no-progress', '--no-audit', '--no-fund', ...IMPATIENT]
  const [file, first] = cli === undefined ? ['npm', []] : [node, [cli]]
  let output = ''
  const exit = run(file, [...first, ...args, ...quiet], {
    cwd: folder.path,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env.PATH ?? ''}` },
    shell: cli === undefined && process.platform === 'win32',
  })
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => (output = (output + chunk).slice(-8_000)))
  const stopTelling = tellProgress(packages)
  const code = await exit.finally(stopTelling)
  if (code > 128) process.exit(code)
  if (code !== 0)
    throw new InstallError(`${output.trim()}\nThe packages could not be installed; see above. Nothing was started.`)
  const wrong = check()
  if (wrong !== undefined) throw new InstallError(wrong)
  writeStamp(folder)
}

/**
 * A first install takes a minute in which npm says nothing that is for people: how far it is, by the folders that are
 * there. On a terminal one line that changes, elsewhere a line now and then.
 */
function tellProgress(packages) {
  const startedAt = Date.now()
  const { isTTY } = process.stderr
  let wasTold = false
  const tell = () => {
    const seconds = Math.round((Date.now() - startedAt) / 1_000)
    wasTold = true
    const count = countPackages(packages)
    const text = `  ${seconds} s, ${count} ${count === 1 ? 'package' : 'packages'} so far`
    process.stderr.write(isTTY ? `\r${text}` : `${text}\n`)
  }
  const timer = setInterval(tell, isTTY ? 1_000 : 5_000)
  timer.unref()
  return () => {
    clearInterval(timer)
    if (isTTY && wasTold) process.stderr.write('\r\u001b[K')
  }
}

function countPackages(packages) {
  try {
    const names = readdirSync(packages).filter((name) => !name.startsWith('.'))
    return names.reduce((sum, name) => sum + (name.startsWith('@') ? readdirSync(join(packages, name)).length : 1), 0)
  } catch {
    return 0
  }
}

/** npm-cli.js of the npm that runs us, or the one beside this Node.js; undefined means `npm` on PATH. */
function findNpm() {
  const beside = dirname(process.execPath)
  return [
    process.env.npm_execpath,
    join(beside, '..', 'lib', 'node_modules', 'npm', 'bin', 'npm-cli.js'),
    join(beside, 'node_modules', 'npm', 'bin', 'npm-cli.js'),
    '/usr/share/nodejs/npm/bin/npm-cli.js',
  ].find((path) => path?.endsWith('npm-cli.js') && existsSync(path))
}

// What is installed

function stampOf(path, kind) {
  const lock = createHash('sha256')
    .update(readFileSync(join(path, 'package-lock.json')))
    .digest('hex')
  return { lock, platform: `${process.platform}-${process.arch}`, kind }
}

const stampFile = (folder) => join(folder.path, 'node_modules', '.chatelaine-installed.json')
const writeStamp = (folder) => {
  mkdirSync(dirname(stampFile(folder)), { recursive: true })
  writeFileSync(stampFile(folder), JSON.stringify(folder.stamp))
}

function readStamp(folder) {
  try {
    return JSON.parse(readFileSync(stampFile(folder), 'utf8'))
  } catch {
    return undefined
  }
}

function isInstalled(folder) {
  const have = readStamp(folder)
  const want = folder.stamp
  return (
    have?.lock === want.lock &&
    have.platform === want.platform &&
    (have.kind === want.kind || have.kind === 'everything')
  )
}

/** True when somebody ran npm here by hand and npm's own list of what it put there agrees with the lock. */
function matchesLock(folder) {
  const installed = packagesOf(folder.path, 'node_modules/.package-lock.json')
  const mayMiss = ({ optional, devOptional, dev }) =>
    optional || devOptional || (dev && folder.stamp.kind === 'production')
  return Object.entries(packagesOf(folder.path, 'package-lock.json'))
    .filter(([path]) => path !== '')
    .every(([path, entry]) => (path in installed ? installed[path].integrity === entry.integrity : mayMiss(entry)))
}

function packagesOf(path, file) {
  try {
    return JSON.parse(readFileSync(join(path, file), 'utf8')).packages ?? {}
  } catch {
    return {}
  }
}

// One install at a time

/** Runs `work` while no other launcher of this folder installs. The lock names its holder, so a crash leaves nothing stuck. */
async function withLock(work) {
  const lock = join(ROOT, 'tmp', 'install.lock')
  mkdirSync(dirname(lock), { recursive: true })
  for (let waits = 0; !takeLock(lock); waits++) {
    if (waits === 1) console.error('Waiting for another install of this folder to finish …')
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  const release = () => {
    rmSync(lock, { force: true })
    try {
      rmdirSync(dirname(lock))
    } catch {
      // Somebody else keeps something there.
    }
  }
  process.once('exit', release)
  try {
    await work()
  } finally {
    release()
    process.off('exit', release)
  }
}

function takeLock(lock) {
  try {
    mkdirSync(dirname(lock), { recursive: true })
    writeFileSync(lock, String(process.pid), { flag: 'wx' })
    return true
  } catch (error) {
    if (error.code !== 'EEXIST' && error.code !== 'ENOENT') throw error
  }
  try {
    const holder = readFileSync(lock, 'utf8')
    const ageMs = Date.now() - statSync(lock).mtimeMs
    if (ageMs < 5_000 || (isAlive(Number(holder)) && ageMs < 15 * 60_000)) return false
    // Of several who find a dead holder's lock, one moves it away; whoever moved a fresh one puts it back.
    const aside = `${lock}.${process.pid}`
    renameSync(lock, aside)
    if (readFileSync(aside, 'utf8') === holder) rmSync(aside)
    else renameSync(aside, lock)
  } catch {
    // The lock went away in between: try again.
  }
  return false
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

passSignalsOn()
endWithNpm()
process.exitCode = await main(process.argv.slice(2)).catch((error) => {
  console.error(error instanceof InstallError ? error.message : error)
  return 1
})
