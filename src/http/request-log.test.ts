import assert from 'node:assert/strict'
import { test } from 'node:test'
import { world } from '../../test/world.ts'
import { readConfig } from '../config.ts'

test('in development every request leaves a line with its code and request id, and never what is secret', async (t) => {
  const here = await world({ NODE_ENV: 'development' })
  t.after(() => here.close())
  const lines: string[] = []
  const write = t.mock.method(process.stderr, 'write', (chunk: string) => lines.push(String(chunk)) > 0)
  const refused = await here.request('/v1/nothing%0a?code=secret-of-mine', {
    headers: { 'x-request-id': 'quoted-by-me' },
  })
  await here.alice.get('/v1/me')
  await here.request('/login/abcdefghijklmnop')
  write.mock.restore()
  assert.equal(refused.status, 404)
  assert.match(lines[0]!, /^\d\d:\d\d:\d\d GET \/v1\/nothing%0a 404 \d+ ms not_found quoted-by-me\n$/)
  assert.match(lines[1]!, /^\d\d:\d\d:\d\d GET \/v1\/me 200 \d+ ms [\w-]+\n$/)
  assert.match(lines[2]!, /GET \/login\/:uid 400 /)
  const all = lines.join('')
  for (const secret of ['secret-of-mine', here.alice.token, 'abcdefghijklmnop']) assert.ok(!all.includes(secret))
})

test('lines of requests are for development; production asks for them, at a level that shows them', () => {
  assert.equal(readConfig({}, 'server').REQUEST_LOG, 'auto')
  const problems = (LOG_LEVEL: string): string => {
    try {
      readConfig({ NODE_ENV: 'production', REQUEST_LOG: 'on', LOG_LEVEL }, 'server')
      return ''
    } catch (error) {
      return (error as Error).message
    }
  }
  assert.match(problems('warn'), /REQUEST_LOG cannot be on with this LOG_LEVEL/)
  assert.doesNotMatch(problems('info'), /REQUEST_LOG/)
})
