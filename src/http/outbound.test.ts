import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import type { LookupAddress } from 'node:dns'
import { after, before, test } from 'node:test'
import { isPublicAddress, openOutbound } from './outbound.ts'
import { freePort } from '../../test/kit/ports.ts'

let server: Server
let origin: string
let connections = 0
before(async () => {
  const port = await freePort()
  origin = `http://localhost:${port}`
  server = createServer((request, response) => {
    if (request.url === '/away') return response.writeHead(302, { location: `${origin}/` }).end()
    if (request.url === '/large') return response.end(Buffer.alloc(1_048_577))
    if (request.url === '/silent') return undefined
    return response.end('here')
  })
  server.on('connection', () => connections++)
  await new Promise<void>((done) => void server.listen(port, 'localhost', done))
})
after(() => {
  server.closeAllConnections()
  server.close()
})

const strict = { allowsPrivate: false, isDevelopment: false }
const lookupOf = (...addresses: string[]) => {
  const found: LookupAddress[] = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
  return {
    lookup: (_host: string, _options: unknown, done: (error: null, all: LookupAddress[]) => void) => done(null, found),
  }
}
const causeOf = (pattern: RegExp) => (error: Error) =>
  error instanceof TypeError && error.message === 'fetch failed' && pattern.test((error.cause as Error).message)

test('an address that is not https, or not public, is not visited', async () => {
  const out = openOutbound(strict)
  for (const url of ['http://provider.example/', 'ftp://provider.example/', 'file:///etc/passwd', 'data:,x'])
    await assert.rejects(out(url), causeOf(/not https/))
  for (const host of [
    '127.0.0.1',
    '2130706433',
    '0x7f.1',
    '10.1.2.3',
    '100.100.100.200',
    '169.254.169.254',
    '168.63.129.16',
    '0.0.0.0',
    '255.255.255.255',
    '[::]',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:8.8.8.8]',
    '[64:ff9b::7f00:1]',
    '[2002:7f00:1::]',
    '[fd00:ec2::254]',
    '[fe80::1]',
    '[ff02::1]',
  ])
    await assert.rejects(out(`https://${host}/`), causeOf(/not public/), host)
})

test('a name one of whose addresses is private is not connected to', async () => {
  const port = new URL(origin).port
  const opened = connections
  for (const addresses of [['127.0.0.1'], ['93.184.215.14', '127.0.0.1'], ['::1'], ['::ffff:127.0.0.1']]) {
    const out = openOutbound({ ...strict, ...lookupOf(...addresses) })
    await assert.rejects(out(`https://provider.example:${port}/`), causeOf(/not public/))
  }
  await assert.rejects(openOutbound({ ...strict, ...lookupOf() })('https://provider.example/'), causeOf(/no address/))
  assert.equal(connections, opened)
})

test('a provider in the operator’s own network is visited when that is allowed, by https only', async () => {
  const port = new URL(origin).port
  const out = openOutbound({ ...strict, allowsPrivate: true, ...lookupOf('127.0.0.1') })
  await assert.rejects(out(`http://provider.example:${port}/`), causeOf(/not https/))
  const opened = connections
  // It is let through, and fails at TLS, which that server does not speak.
  await assert.rejects(out(`https://provider.example:${port}/`), causeOf(/SSL|EPROTO|packet|version/i))
  assert.equal(connections, opened + 1)
})

test('redirects are not followed, large and slow answers are given up', async () => {
  const out = openOutbound({ allowsPrivate: false, isDevelopment: true, patienceMs: 300 })
  assert.equal(await (await out(`${origin}/`)).text(), 'here')
  assert.equal((await out(`${origin}/away`)).status, 302)
  await assert.rejects(out(`${origin}/large`), causeOf(/too large/))
  await assert.rejects(out(`${origin}/silent`), causeOf(/abort|timeout/i))
})

test('public addresses are public', () => {
  for (const address of ['8.8.8.8', '93.184.215.14', '2606:4700::1111', '2a00:1450:4001:80b::200e'])
    assert.ok(isPublicAddress(address), address)
})
