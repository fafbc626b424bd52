// tier: all, because it starts commands as processes of their own
import { strict as assert } from 'node:assert'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'
import { command, startCommand } from '../../test/kit/command.ts'
import { until } from '../../test/kit/until.ts'
import { world, type World } from '../../test/world.ts'
import { createApplication } from '../applications/manage.ts'

let here: World
let folder: string
before(async () => {
  here = await world()
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-listen-'))
})
after(async () => {
  await here.close()
  await rm(folder, { recursive: true, force: true })
})

const mint = () =>
  here.bob.write({ address: here.facts.contracts.erc20!, abi: 'mint(address,uint256) public', args: [here.bob.address, '1'] }) // prettier-ignore

type Received = { headers: IncomingHttpHeaders; body: string }

/** An endpoint of a developer, which answers with these statuses in turn, then with 204. */
async function endpoint({ statuses = [] as number[], port = 0 } = {}) {
  const received: Received[] = []
  const server = createServer(async (request, response) => {
    received.push({ headers: request.headers, body: await text(request) })
    response.writeHead(statuses.shift() ?? 204).end()
  }).listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    received,
    port: (server.address() as AddressInfo).port,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

function startListen(...words: string[]) {
  const child = startCommand({ DATA_DIR: here.dataDir }, ['listen', ...words])
  let out = ''
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  return {
    out: () => out,
    shows: (pattern: RegExp) =>
      until(`it prints ${pattern}`, async () => {
        if (child.exitCode !== null) throw new Error((await child.ended).err)
        return pattern.exec(out) ?? undefined
      }),
    async end() {
      child.kill('SIGINT')
      return child.ended
    },
  }
}

test('events arrive signed and in order, through an endpoint that is down, and the next start continues', async () => {
  const hook = await endpoint({ statuses: [500] })
  const listening = startListen(
    '--forward-to',
    `http://127.0.0.1:${hook.port}/hook`,
    '--user',
    'bob',
    '--type',
    'transaction.*',
  )
  const [, secret] = await listening.shows(/Secret of the signatures: (whsec_\S+)\n/)
  await mint()
  await listening.shows(/transaction\.submitted {2}evt_\w+ {2}500\n[^]*transaction\.mined {2}evt_\w+ {2}204\n/)
  const verified = hook.received.map(({ headers, body }) => new Webhook(secret!).verify(body, headers as Record<string, string>) as { id: string; type: string; sequence: number }) // prettier-ignore
  assert.deepEqual(verified.slice(0, 2).map(({ type }) => type), ['transaction.submitted', 'transaction.mined']) // prettier-ignore
  assert.deepEqual(hook.received.map(({ headers }) => headers['webhook-id']), verified.map(({ id }) => id)) // prettier-ignore

  await hook.close()
  await mint()
  await listening.shows(/no response, it is retried\n/)
  const again = await endpoint({ port: hook.port })
  await until('the events of the meantime arrive', async () => again.received.length >= 2)
  const { code } = await listening.end()
  assert.equal(code, 0)
  const cursor = /Continue with --cursor (\S+)\n/.exec(listening.out())![1]!

  const before = again.received.length
  await mint()
  const file = join(folder, 'signing')
  await writeFile(file, secret!)
  const next = startListen('--forward-to', `http://127.0.0.1:${hook.port}/hook`, '--user', 'bob', '--type', 'transaction.submitted', '--cursor', cursor, '--secret-file', file) // prettier-ignore
  await next.shows(/transaction\.submitted {2}evt_\w+ {2}204\n/)
  assert.equal((await next.end()).code, 0)
  assert.doesNotMatch(next.out(), /whsec_/)
  for (const { headers, body } of again.received.slice(before))
    new Webhook(secret!).verify(body, headers as Record<string, string>)
  await again.close()
})

test('the secret of an application reads the events of all its users', async () => {
  const draft = { clientId: 'listener', name: 'Listener', network: 'devnet', kind: 'confidential', redirectUris: ['https://shop.example/x'], permissions: ['wallet:read', 'events:read'], allowedOrigins: [], logoUri: null } as const // prettier-ignore
  const { secret } = await createApplication(here.app, { ...draft, redirectUris: [...draft.redirectUris], permissions: [...draft.permissions], allowedOrigins: [] }) // prettier-ignore
  const file = join(folder, 'client')
  await writeFile(file, `${secret}\n`)
  const listening = startListen('--forward-to', 'http://127.0.0.1:9/', '--client-id', 'listener', '--client-secret-file', file, '--origin', here.facts.origin) // prettier-ignore
  await listening.shows(/Forwarding events/)
  assert.equal((await listening.end()).code, 0)
  await writeFile(file, 'wrong')
  const refused = await command({ DATA_DIR: here.dataDir }, ['listen', '--forward-to', 'http://127.0.0.1:9/', '--client-id', 'listener', '--client-secret-file', file]) // prettier-ignore
  assert.equal(refused.code, 1)
  assert.match(refused.err, /gave no token/)
})

test('each wrong option is named, and nothing is sent', async () => {
  const to = ['--forward-to', 'http://127.0.0.1:9/']
  const short = join(folder, 'short')
  await writeFile(short, 'whsec_AAAA')
  const cases: [RegExp, ...string[]][] = [
    [/--forward-to/, '--user', 'bob'],
    [/--forward-to must be an http/, '--forward-to', 'localhost:3000', '--user', 'bob'],
    [/either --client-id/, ...to],
    [/either --client-id/, ...to, '--user', 'bob', '--client-id', 'a', '--client-secret-file', short],
    [/must be given together/, ...to, '--client-id', 'a'],
    [/--client-secret-file: the file cannot be read/, ...to, '--client-id', 'a', '--client-secret-file', join(folder, 'none')], // prettier-ignore
    [/24 to 64 bytes/, ...to, '--user', 'bob', '--secret-file', short],
    [/type/, ...to, '--user', 'bob', '--type', 'transaction.moned'],
    [/cursor/, ...to, '--user', 'bob', '--cursor', 'nonsense'],
  ]
  for (const [pattern, ...words] of cases) {
    const { code, out, err } = await command({ DATA_DIR: here.dataDir }, ['listen', ...words])
    assert.deepEqual([code, out], [1, ''], words.join(' '))
    assert.match(err, pattern, words.join(' '))
  }
})
