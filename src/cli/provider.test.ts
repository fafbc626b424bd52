import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { runCommand } from './run-command.ts'
import { command, idleShell } from '../../test/kit/command.ts'
import { freePort } from '../../test/kit/ports.ts'

let folder: string
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-provider-'))
  const entry = { name: 'HOUSE', issuer: `http://localhost:${await freePort()}`, clientId: 'us', clientSecret: 'hush' }
  await writeFile(join(folder, 'providers.json'), JSON.stringify([entry]))
})
after(() => rm(folder, { recursive: true, force: true }))

const run = (words: string[], more: Record<string, string> = {}) =>
  command({ PROVIDERS_FILE: join(folder, 'providers.json'), ...more }, ['provider', 'check', ...words])

test('a provider that is away is told as such, for people and for programs, with exit code 1 and without the secret', async () => {
  const told = await run(['house'])
  assert.equal(told.code, 1)
  assert.match(
    told.out,
    /^WRONG {2}description the connection was refused\n {19}Open http:\S+openid-configuration in a browser/,
  )
  const { code, out } = await run(['HOUSE', '--json'])
  const [finding] = JSON.parse(out) as { about: string; isGood: boolean }[]
  assert.deepEqual([code, finding!.about, finding!.isGood], [1, 'description', false])
  assert.ok(!`${told.out}${told.err}${out}`.includes('hush'))
})

test('a name that is not there, and settings that cannot be used, are sentences on standard error', async () => {
  const { code, err } = await run(['NOBODY'])
  assert.deepEqual([code, err.trim()], [1, 'There is no provider NOBODY; known providers: HOUSE, DEV.'])
  const refused = await run(['HOUSE'], { NODE_ENV: 'production', PUBLIC_ORIGIN: 'https://wallet.example' })
  assert.equal(refused.code, 1)
  assert.match(refused.err, /issuer must be an https URL/)
})

test('--sign-in asks on standard error, reads addresses from standard input, and prints what belongs into the entry', async (t) => {
  const codes = new Map<string, string | null>()
  const server = createServer(async (request, response) => {
    const form = new URLSearchParams(await text(request))
    const verifier = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url')
    const answers: Record<string, [number, object]> = {
      '/authorize': [200, {}],
      '/user': [401, {}],
      '/token': codes.get(form.get('code') ?? '') === verifier ? [200, { access_token: 'x', token_type: 'bearer' }] : [400, { error: 'invalid_grant' }], // prettier-ignore
    }
    const [status, body] = answers[request.url!.split('?', 1)[0]!]!
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  server.listen(0, 'localhost')
  await once(server, 'listening')
  t.after(() => server.close())
  const at = (path: string): string => `http://localhost:${(server.address() as AddressInfo).port}/${path}`
  const file = join(folder, 'forge.json')
  const entry = { kind: 'oauth2', name: 'FORGE', clientId: 'us', clientSecret: 'hush', scopes: ['user'], authorizationUrl: at('authorize'), tokenUrl: at('token'), userUrl: at('user'), subjectClaim: 'id' } // prettier-ignore
  const save = (more: object = {}) => writeFile(file, JSON.stringify([{ ...entry, ...more }]))
  await save()

  const [stdin, stdout] = [new PassThrough(), new PassThrough()]
  const out = text(stdout)
  const say = (asked: string): void => {
    const { searchParams } = new URL(/^http\S+$/m.exec(asked)?.[0] ?? assert.fail(asked))
    codes.set(`code ${codes.size}`, searchParams.get('code_challenge'))
    stdin.write(`${searchParams.get('redirect_uri')}?code=code+${codes.size - 1}&state=${searchParams.get('state')}\n`)
  }
  const settings = { PROVIDERS_FILE: file, PUBLIC_ORIGIN: 'https://wallet.example', AUTH_ORIGIN: 'https://sign-in.example' } // prettier-ignore
  const shell = { ...idleShell(), env: settings, stdin, stdout, console: { log: (line: string) => void stdout.write(`${line}\n`), error: say } } // prettier-ignore
  assert.equal(await runCommand(['provider', 'check', 'forge', '--sign-in'], shell), 0)
  stdout.end()
  const mark = /^ok {5}linking {5}to let users link this provider, add "pkceChecked": "([\w-]{22})"/m.exec(
    await out,
  )?.[1]
  await save({ pkceChecked: mark })
  const { code, out: checked } = await command(settings, ['provider', 'check', 'FORGE'])
  assert.equal(code, 0)
  assert.match(checked, /^ok {5}linking .*PKCE was checked: users can link this provider/m)
  assert.match(checked, /does not reject https:\/\/sign-in\.example\/login\/callback\/FORGE/)

  await save()
  const unread = await command(settings, ['provider', 'check', 'FORGE', '--sign-in'])
  assert.deepEqual([unread.code, /Standard input ended before the check was complete\. Run it again\.$/.test(unread.err.trim())], [1, true]) // prettier-ignore
})
