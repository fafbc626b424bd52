// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite, test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { until } from '../test/kit/until.ts'
import { buildClient, givePackages } from './client-package.ts'
import { keepCompiled } from './programs.ts'
import { installation } from './start.ts'
import { freePort } from '../test/kit/ports.ts'
import { walk } from './walk.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const installed = installation()

/** Starts a program of a page, and waits until it prints where it is. */
async function startSite(
  t: TestContext,
  [command, ...words]: string[],
  env: Record<string, string> = {},
): Promise<string> {
  const program = spawn(command!, words, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, ...env },
  })
  const gone = once(program, 'exit')
  t.after(async () => {
    program.kill('SIGKILL')
    await gone
  })
  let printed = ''
  for (const stream of [program.stdout, program.stderr])
    stream.on('data', (chunk: Buffer) => {
      printed += chunk.toString()
    })
  return until('the application listens', async () => {
    if (program.exitCode !== null) throw new Error(printed)
    return /Open (\S+)/.exec(printed)?.[1]
  })
}

test('the application of the first guide works as it stands', async (t) => {
  const guide = await readFile(join(root, 'docs/build/first-application.md'), 'utf8')
  const { facts } = installed.program
  const port = await freePort()
  const code = /<!-- run -->\n```js\n([\s\S]*?)```/
    .exec(guide)![1]!
    .replaceAll('http://localhost:4000', facts.origin)
    .replaceAll('3000', String(port))
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-guide-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  await writeFile(join(folder, 'shop.mjs'), code)
  const site = await startSite(t, [process.execPath, join(folder, 'shop.mjs')], { ERC20: facts.contracts.erc20! })

  const away = await fetch(`${site}/sign-in`, { redirect: 'manual' })
  // As in a browser, where this machine's cookies arrive together whatever their port.
  const cookie = `chatelaine_dev_session=other; ${away.headers.get('set-cookie')!.split(';')[0]!}`
  const visit = async (path: string, init: RequestInit = {}): Promise<{ status: number; text: string }> => {
    const response = await fetch(new URL(path, site), { ...init, redirect: 'manual', headers: { cookie } })
    return { status: response.status, text: await response.text() }
  }
  assert.match(await fetch(site).then((response) => response.text()), /href="\/sign-in"/)
  const { url: back } = await walk(away.headers.get('location')!, { origin: facts.origin, username: 'gwen' })
  assert.equal((await visit(back.pathname + back.search)).status, 303)

  const before = await visit('/')
  assert.match(before.text, /<h1>gwen<\/h1><p>0x[0-9a-fA-F]{40}\s+<p>10 ETH, 0 SMPL/)
  const minted = await visit('/mint', { method: 'POST' })
  assert.equal(minted.status, 303, minted.text)
  const shown = await until('the transfer is shown', async () => {
    const { text } = await visit('/')
    return text.includes('<li>') ? text : null
  })
  assert.match(shown, /, 1 SMPL/)
  const explorer = /<li>[^<]*<a href="([^"]+)">1 SMPL/.exec(shown)![1]!
  assert.equal((await fetch(explorer)).status, 200)
})

test('the guide to token exchange works as it stands: commands, identity provider and exchange', async (t) => {
  const guide = await readFile(join(root, 'docs/build/token-exchange.md'), 'utf8')
  const { facts, dataDir } = installed.program
  const port = await freePort()
  const exampleOf = (language: string) =>
    new RegExp(`<!-- run -->\\n\`\`\`${language}\\n([\\s\\S]*?)\`\`\``)
      .exec(guide)![1]!
      .replaceAll('http://localhost:4000', facts.origin)
      .replaceAll('3100', String(port))
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-guide-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const main = join(root, 'src/cli/main.ts')
  const command = `#!/bin/sh\nexec "${process.execPath}" --disable-warning=ExperimentalWarning "${main}" "$@"\n`
  await writeFile(join(folder, 'chatelaine'), command)
  await chmod(join(folder, 'chatelaine'), 0o755)
  const { DATABASE_URL } = installed.here.env
  const env = {
    PATH: `${folder}:${process.env.PATH}`,
    ...keepCompiled(),
    DATA_DIR: dataDir,
    ...(DATABASE_URL === undefined ? {} : { DATABASE_URL }),
  }
  const run = promisify(execFile)
  const told = await run('sh', ['-euc', exampleOf('sh')], { cwd: folder, env })
  const secret = /chs_[\w-]{43}/.exec(told.stdout)![0]
  assert.match(told.stdout, /Trusted issuers +APP_SHOP/)

  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  await writeFile(join(folder, 'exchange.mjs'), exampleOf('js'))
  const { stdout } = await run(process.execPath, ['exchange.mjs'], { cwd: folder, env: { ...env, SECRET: secret }, timeout: 300_000 }) // prettier-ignore
  assert.match(stdout, /id: 'APP_SHOP-alice'/)
  assert.match(stdout, /network: 'devnet'/)
  assert.match(stdout, /address: '0x[0-9a-fA-F]{40}'/)
})

/** What the shell examples of a page print as JSON, one after the other, in the folder of the repository. */
async function runShellOf(t: TestContext, page: string) {
  const guide = await readFile(join(root, page), 'utf8')
  const { facts, dataDir } = installed.program
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-guide-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  await symlink(dataDir, join(folder, '.chatelaine'))
  // As a newcomer runs it: in the folder of the repository, where `npx chatelaine` is this one.
  await writeFile(
    join(folder, 'npx'),
    `#!/bin/sh\nshift\nexec "${process.execPath}" --disable-warning=ExperimentalWarning "${join(root, 'src/cli/main.ts')}" "$@"\n`,
  )
  await chmod(join(folder, 'npx'), 0o755)
  const script = [...guide.matchAll(/<!-- run -->\n```sh\n([\s\S]*?)```/g)]
    .map(([, block]) => block!.replaceAll('http://localhost:4000', facts.origin).replaceAll(/^call/gm, 'echo; call'))
    .join('')
    .replace('echo; call()', 'call()')
  const { DATABASE_URL } = installed.here.env
  const { stdout } = await promisify(execFile)('sh', ['-euc', script], {
    cwd: folder,
    env: {
      ...{
        PATH: `${folder}:${process.env.PATH}`,
        ...keepCompiled(),
        HOME: folder,
        DATA_DIR: dataDir,
        PORT: String(installed.program.port),
      },
      ...(DATABASE_URL === undefined ? {} : { DATABASE_URL }),
    },
  })
  return stdout
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))
}

test('the page on transfers works as it stands', async (t) => {
  const answers = await runShellOf(t, 'docs/build/transfers.md')
  assert.deepEqual(
    answers.map(({ status }) => status),
    Array.from({ length: 6 }, () => 'SUCCESS'),
    JSON.stringify(answers),
  )
  const [, tokens, coins, dry, plain, supply] = answers
  assert.deepEqual(
    [tokens.state, tokens.amount.value, tokens.recipient.hasSignedIn],
    ['MINED', '1500000000000000000', false],
  )
  assert.deepEqual(coins.recipient, tokens.recipient)
  assert.deepEqual([dry.hash, dry.recipient.address, plain.tx.data], [undefined, tokens.recipient.address, '0x'])
  assert.equal(BigInt(supply.response.hex) >= 5_000_000_000_000_000_000n, true)
})

test('the page on writes works as it stands: the same key returns the same transaction', async (t) => {
  const answers = await runShellOf(t, 'docs/build/writing-transactions.md')
  assert.deepEqual(
    // A block can be final by the time of the second response.
    answers.map(({ status, state }) => [status, state.replace('FINALIZED', 'MINED')]),
    [
      ['SUCCESS', 'MINED'],
      ['SUCCESS', 'MINED'],
    ],
    JSON.stringify(answers),
  )
  assert.deepEqual([answers[1].id, answers[1].hash], [answers[0].id, answers[0].hash])
})

test('the page on messages works as it stands: a sign-in, a permit, and a text that needs its user', async (t) => {
  const page = 'docs/build/sign-messages.md'
  const [login, terms, dry] = await runShellOf(t, page)
  assert.deepEqual(
    [login.class, terms.code, dry.class, dry.approval],
    ['login', 'approval_required', 'text', 'required'],
  )
  assert.match(terms.approval.url, /\/account\/approvals\/apr_/)

  const { facts, dataDir, port } = installed.program
  const code = /<!-- run -->\n```js\n([\s\S]*?)```/
    .exec(await readFile(join(root, page), 'utf8'))![1]!
    .replaceAll('http://localhost:4000', facts.origin)
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-guide-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  await writeFile(join(folder, 'sign.mjs'), code)
  const { DATABASE_URL } = installed.here.env
  const env = {
    ...{ PATH: process.env.PATH, ...keepCompiled(), DATA_DIR: dataDir, PORT: String(port) },
    ...(DATABASE_URL === undefined ? {} : { DATABASE_URL }),
  }
  const run = promisify(execFile)
  const main = join(root, 'src/cli/main.ts')
  const token = await run(process.execPath, ['--disable-warning=ExperimentalWarning', main, 'token', 'erin'], { env })
  const { stdout } = await run(process.execPath, ['sign.mjs'], { cwd: folder, env: { ...env, TOKEN: token.stdout.trim() } }) // prettier-ignore
  assert.deepEqual(stdout.split('\n').slice(0, 3), [
    'signed in: true',
    'allowance not_required 1500000',
    'permit: true',
  ])
  assert.match(stdout, /method: 'eoa'/)
})

suite('a quickstart works as it stands: sign-in, balance, and one transfer to a user who has never signed in', () => {
  const quickstarts = [
    ['express', 'js', 'app.mjs', process.execPath, 'built'],
    ['python', 'python', 'app.py', 'python3', null],
  ] as const
  for (const [name, language, file, command, client] of quickstarts)
    test(name, async (t) => {
      const { facts } = installed.program
      const guide = await readFile(join(root, `docs/build/quickstart-${name}.md`), 'utf8')
      const found = new RegExp(`^( *)\`\`\`${language}\\n([\\s\\S]*?)\\n\\1\`\`\``, 'm').exec(guide)!
      const folder = await mkdtemp(join(tmpdir(), 'chatelaine-quickstart-'))
      t.after(() => rm(folder, { recursive: true, force: true }))
      if (client !== null) {
        const built = await buildClient()
        t.after(built.drop)
        await givePackages(folder, built.folder, ['express'])
      }
      const code = found[2]!
        .replaceAll(new RegExp(`^${found[1]!}`, 'gm'), '')
        .replaceAll('http://localhost:4000', facts.origin)
        .replaceAll('3000', String(await freePort()))
      await writeFile(join(folder, file), code)
      const site = await startSite(t, [command, join(folder, file)])

      const jar = new Map<string, string>()
      const cookie = () => [...jar].map(([one, value]) => `${one}=${value}`).join('; ')
      const visit = async (path: string, init: RequestInit = {}) => {
        const response = await fetch(new URL(path, site), {
          ...init,
          redirect: 'manual',
          headers: { cookie: cookie() },
        })
        for (const line of response.headers.getSetCookie()) {
          const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
          jar.set(name!, value!)
        }
        return { away: response.headers.get('location'), text: await response.text() }
      }
      assert.match((await visit('/')).text, /href="\/sign-in"/)
      const { away } = await visit('/sign-in')
      const { url: back } = await walk(away!, { origin: facts.origin, username: `quick-${name}` })
      const { away: home } = await visit(back.pathname + back.search)
      assert.equal(new URL(home!, site).href, `${site}/`)
      const { text } = await visit('/')
      assert.match(text, new RegExp(`<h1>quick-${name}</h1><p>0x[0-9a-fA-F]{40}<p>10 ETH`))
      const body = new URLSearchParams({ key: /name="key" value="([^"]+)"/.exec(text)![1]! })
      const [first, again] = [
        await visit('/send', { method: 'POST', body }),
        await visit('/send', { method: 'POST', body }),
      ]
      assert.match(first.text, /^(SUCCESS|Sent): /)
      assert.equal(again.text, first.text)
    })
})
