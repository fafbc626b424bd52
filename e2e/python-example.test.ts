// tier: all, because it starts the program as its operator does
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'
import { test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { freePort } from '../test/kit/ports.ts'
import { until } from '../test/kit/until.ts'
import { place, installation } from './start.ts'
import { walk } from './walk.ts'

const EXAMPLE = fileURLToPath(new URL('../examples/python/app.py', import.meta.url))
const TOKEN_SECONDS = 5
const installed = installation(async () => {
  const here = await place()
  Object.assign(here.env, { ACCESS_TOKEN_SECONDS: String(TOKEN_SECONDS) })
  return here
})

async function startExample(t: TestContext): Promise<string> {
  const origin = `http://localhost:${await freePort()}`
  const env = { PATH: process.env.PATH, APP_ORIGIN: origin, WALLET_ORIGIN: installed.program.facts.origin }
  const program = spawn('python3', [EXAMPLE], { env, stdio: ['ignore', 'ignore', 'ignore'] })
  const gone = once(program, 'exit')
  t.after(async () => {
    program.kill('SIGKILL')
    await gone
  })
  await until('the application listens', async () => (await fetch(origin).catch(() => null))?.status === 200)
  return origin
}

/** A signed-in browser at the application. */
async function signIn(
  origin: string,
  username: string,
): Promise<(path: string, form?: URLSearchParams) => Promise<string>> {
  const away = await fetch(`${origin}/sign-in`, { redirect: 'manual' })
  const headers = { cookie: away.headers.get('set-cookie')!.split(';')[0]! }
  const { url } = await walk(away.headers.get('location')!, { origin: installed.program.facts.origin, username })
  const back = await fetch(url, { redirect: 'manual', headers })
  assert.deepEqual([back.status, back.headers.get('location')], [303, '/'])
  return async (path, body) => {
    const post = body === undefined ? {} : { method: 'POST', body }
    return (await fetch(`${origin}${path}`, { ...post, headers })).text()
  }
}

test('a user stays signed in past the end of several access tokens, also with many requests at once', async (t) => {
  const origin = await startExample(t)
  const visit = await signIn(origin, 'petra')
  for (let round = 0; round < 3; round++) {
    // The processes have no clock of ours.
    await wait((TOKEN_SECONDS + 1) * 1_000)
    const pages = await Promise.all(Array.from({ length: 8 }, () => visit('/')))
    for (const page of pages) assert.match(page, /<h1>petra<\/h1><p>0x[0-9a-fA-F]{40}<p>(10|9\.\d+) ETH/)
    const key = /name="key" value="([^"]+)"/.exec(pages[0]!)![1]!
    assert.match(await visit('/send', new URLSearchParams({ key })), /^SUCCESS: /)
  }
  // Another browser is nobody.
  assert.match(await (await fetch(origin)).text(), /^<a href="\/sign-in">/)
})

test('the answer to another browser’s sign-in signs nobody in', async (t) => {
  const origin = await startExample(t)
  const [mine, theirs] = await Promise.all([0, 1].map(() => fetch(`${origin}/sign-in`, { redirect: 'manual' })))
  const { url } = await walk(mine!.headers.get('location')!, {
    origin: installed.program.facts.origin,
    username: 'petra',
  })
  const headers = { cookie: theirs!.headers.get('set-cookie')!.split(';')[0]! }
  assert.equal((await fetch(url, { redirect: 'manual', headers })).status, 400)
  assert.match(await (await fetch(origin, { headers })).text(), /^<a href="\/sign-in">/)
})

test('the quickstart shows the example, which has at most 120 lines of code', async () => {
  const code = await readFile(EXAMPLE, 'utf8')
  const guide = await readFile(new URL('../docs/build/quickstart-python.md', import.meta.url), 'utf8')
  const shown = /^ {3}```python\n([^]*?)\n {3}```/m.exec(guide)![1]!.replaceAll(/^ {3}/gm, '')
  assert.equal(`${shown}\n`, code)
  assert.ok(code.split('\n').filter((line) => line.trim() !== '').length <= 120)
})
