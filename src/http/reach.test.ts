import assert from 'node:assert/strict'
import http from 'node:http'
import { test } from 'node:test'
import { world, type World } from '../../test/world.ts'
import { withWall } from '../../test/kit/clock.ts'

/** Status and code of a request with headers that `fetch` does not let one set. */
function ask({ facts }: World, path: string, headers: Record<string, string>): Promise<[number, string]> {
  const { hostname, port } = new URL(facts.origin)
  return new Promise((resolve, reject) => {
    const request = http.get({ hostname, port, path, headers }, async (response) => {
      let text = ''
      for await (const chunk of response) text += String(chunk)
      const isJson = /json/.test(response.headers['content-type'] ?? '')
      resolve([response.statusCode!, isJson ? (JSON.parse(text).code ?? '') : ''])
    })
    request.once('error', reject)
  })
}

test('in development only names of this machine are answered: a page elsewhere cannot point its name here', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const { port } = new URL(here.facts.origin)
  for (const host of [`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`, 'shop.localhost', 'LOCALHOST'])
    assert.deepEqual(await ask(here, '/healthz', { host }), [200, ''], host)
  for (const host of ['evil.example', `evil.example:${port}`, 'localhost.evil.example', '192.0.2.7', ']', 'a b'])
    for (const path of ['/healthz', '/v1/me', '/devnet/idp/auth', '/nothing']) {
      const [status, code] = await ask(here, path, { host })
      assert.deepEqual([status, code], [421, 'misdirected_request'], `${host} ${path}`)
    }
})

test('a client that writes X-Forwarded-For itself is counted by the address that the proxy saw', async (t) => {
  const here = await world({ DEVELOPMENT_OPEN_TO: 'everyone', TRUST_PROXY: '1', RATE_LIMITS: 'on' })
  t.after(() => here.close())
  const at = Date.now()
  here.app.clock = withWall(() => at)
  const guess = (forged: string, seen: string) =>
    ask(here, '/operator/v1/networks', {
      host: 'wallet.example',
      'x-forwarded-for': `${forged}, ${seen}`,
      authorization: 'Bearer wrong',
    })
  const answers = []
  for (let time = 0; time < 60; time++) answers.push((await guess(`203.0.113.${time}`, '198.51.100.1'))[0])
  assert.deepEqual([answers.filter((status) => status === 401).length, answers.at(-1)], [50, 429])
  assert.deepEqual(await guess('203.0.113.1', '198.51.100.2'), [401, 'invalid_token'])
})
