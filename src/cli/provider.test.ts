import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { command } from '../../test/kit/command.ts'
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
    /^WRONG {2}description the connection is refused\n {19}Open http:\S+openid-configuration in a browser/,
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
