import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
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

test('test after start adds the tools without emptying the folder, start after test keeps them', async (t) => {
  const clone = project(t)
  await clone.run('start')
  await clone.run('contracts')
  await clone.run('start')
  assert.deepEqual(clone.installs(), ['ci --omit=dev', 'install --no-save --include=dev'])
})

test('a benchmark that is not there is refused before anything is installed', async (t) => {
  const clone = project(t)
  for (const name of ['nothing', '../src/main', '']) {
    const { code, err } = await clone.run('bench', name)
    assert.equal(code, 1)
    assert.match(err, /There is no benchmark/)
  }
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

type Run = { code: number | null; out: string; err: string }

/** A project folder with this launcher, a program that says its arguments, and an npm that writes down how it was called. */
function project(t: TestContext) {
  const root = mkdtempSync(join(tmpdir(), 'launcher-'))
  t.after(() => rmSync(root, { recursive: true, force: true }))
  const write = (path: string, text: string) => {
    mkdirSync(join(root, path, '..'), { recursive: true })
    writeFileSync(join(root, path), text)
  }
  cpSync(new URL('run.mjs', import.meta.url), join(root, 'scripts/run.mjs'))
  write('package.json', '{"type":"module"}')
  write('package-lock.json', '{"packages":{"node_modules/a":{}}}')
  write('src/main.ts', 'console.log("started", JSON.stringify(process.argv.slice(2)) as string)')
  write('scripts/contracts.mjs', '')
  write(
    'fake/npm-cli.js',
    `import { appendFileSync, mkdirSync } from 'node:fs'
     if (process.env.FAKE_NPM_FAILS) { console.error('npm error the registry is gone'); process.exit(1) }
     appendFileSync(${JSON.stringify(join(root, 'installs'))}, process.argv.slice(2).filter((arg) => !/^--(loglevel|no-(progress|audit|fund))/.test(arg)).join(' ') + '\\n')
     mkdirSync('node_modules', { recursive: true })
     await new Promise((resolve) => setTimeout(resolve, Number(process.env.FAKE_NPM_MS ?? 300)))`,
  )

  const start = (args: (string | Record<string, string>)[]) => {
    const words = args.filter((arg) => typeof arg === 'string')
    const env = Object.assign({}, ...args.filter((arg) => typeof arg !== 'string'))
    const { npm_lifecycle_event: _, NODE_COMPILE_CACHE: __, ...inherited } = process.env
    const child = spawn(process.execPath, [join(root, 'scripts/run.mjs'), ...words], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...inherited, npm_execpath: join(root, 'fake/npm-cli.js'), ...env },
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
