import assert from 'node:assert/strict'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { command, type Ended } from '../../test/kit/command.ts'
import { testCluster, testPooler } from '../../test/kit/database.ts'
import { world, type World } from '../../test/world.ts'

let here: World
let settings: Record<string, string>
before(async () => {
  here = await world()
  const { DATABASE_URL } = here.app.config
  // With PostgreSQL the command works by itself and needs the signer; otherwise it asks the server.
  const own: Record<string, string> =
    DATABASE_URL === undefined
      ? {}
      : { DATABASE_URL, DATABASE_POOLER: testPooler, SIGNER_SOCKET: join(here.dataDir, 'signer.sock') }
  settings = { DATA_DIR: here.dataDir, ...own }
})
after(() => here.close())

const run = (...words: string[]): Promise<Ended> => command(settings, words)
const json = async (...words: string[]) => {
  const { code, out, err } = await run(...words, '--json')
  assert.deepEqual([code, err], [0, ''])
  return JSON.parse(out)
}

test('applications and the issuers they bring are managed beside the server', async () => {
  const late = ['--name', 'Late', '--client-id', 'late', '--network', 'devnet', '--redirect-uri', 'https://late.example/x'] // prettier-ignore
  assert.match((await json('app', 'create', ...late, '--confidential')).secret, /^chs_/)
  const listed = (await json('app', 'list')) as { clientId: string }[]
  assert.deepEqual(
    listed.map(({ clientId }) => clientId),
    ['demo', 'late'],
  )
  const permissions = ['wallet:read', 'contracts:read']
  const more = await json('app', 'update', 'late', ...permissions.flatMap((one) => ['--permission', one]))
  assert.deepEqual(more.permissions, permissions)
  assert.equal((await json('app', 'update', 'late')).name, 'Late')
  assert.equal((await json('app', 'rotate-secret', 'late')).application.liveSecrets, 2)
  assert.equal((await json('app', 'rotate-secret', 'late', '--end-old')).application.liveSecrets, 1)
  const issuer = ['--provider', 'APP_LATE', '--issuer', 'https://id.late.example', '--audience', 'late', '--max-age', '600'] // prettier-ignore
  const [trusted] = (await json('app', 'trust-issuer', 'late', ...issuer)).issuers
  assert.deepEqual([trusted.provider, trusted.maxAgeSeconds, trusted.jwksUri], ['APP_LATE', 600, null])
  const told = await run('app', 'show', 'late')
  assert.match(told.out, /Trusted issuers +APP_LATE: https:\/\/id\.late\.example, for late/)
  for (const wrong of [
    ['--max-age', 'soon'],
    ['--algorithm', 'HS256'],
    ['--subject-claim', 'email'],
  ])
    // prettier-ignore
    assert.equal((await run('app', 'trust-issuer', 'late', ...issuer, ...wrong)).code, 1)
  assert.deepEqual((await json('app', 'distrust-issuer', 'late', 'APP_LATE')).issuers, [])
  assert.notEqual((await json('app', 'suspend', 'late')).suspendedAt, null)
  assert.equal((await json('app', 'resume', 'late')).suspendedAt, null)
  assert.equal((await json('app', 'show', 'late')).name, 'Late')
  assert.equal((await json('network', 'show', 'devnet')).applications, 2)
  const refused = await run('app', 'create', '--network', 'mars')
  assert.equal(refused.code, 1)
  for (const part of ['name', 'redirect', 'mars|network']) assert.match(refused.err, new RegExp(part))
})

test('a sponsor is made beside the server, twice the same, and listed with its balance', async () => {
  const sponsor = await json('sponsor', 'create', 'HOUSE', '--network', 'devnet')
  assert.match(sponsor.address, /^0x[0-9a-fA-F]{40}$/)
  const again = await run('sponsor', 'create', 'HOUSE', '--network', 'devnet')
  assert.match(again.out, new RegExp(`^  Address +${sponsor.address}$[^]*Fund this address`, 'm'))
  const [listed] = await json('sponsor', 'list')
  assert.deepEqual([listed.name, listed.network, listed.address], ['HOUSE', 'devnet', sponsor.address])
  // The embedded chain is in the server: a command beside PostgreSQL has no node to ask.
  assert.equal(listed.balance, settings.DATABASE_URL === undefined ? '0' : null)
  assert.match(
    (await run('sponsor', 'list')).out,
    /^NAME +NETWORK +ADDRESS +BALANCE +OPEN +LOW BELOW *\nHOUSE +devnet +0x/,
  )
  assert.match((await run('sponsor', 'create', 'house', '--network', 'devnet')).err, /upper-case/)
})

test('an account is made before its first sign-in, frozen, unfrozen and signed out beside the server', async () => {
  const { isNew, ...early } = await json('account', 'create', '--provider', 'DEV', '--user-id', 'early')
  assert.deepEqual([isNew, early.userId], [true, 'DEV-early'])
  assert.equal((await here.person('early')).address, early.address)
  const frozen = await json('account', 'freeze', 'DEV-early')
  assert.deepEqual(await json('account', 'frozen'), [frozen])
  assert.match((await run('account', 'frozen')).out, /USER +SINCE\nDEV-early +20\d\d-/)
  assert.equal((await json('account', 'unfreeze', 'DEV-early')).frozenAt, null)
  assert.deepEqual(await json('account', 'sign-out', 'DEV-early'), { userId: 'DEV-early', browsers: 0, applications: 0 }) // prettier-ignore
  assert.equal((await run('account', 'frozen')).out, 'No account is frozen.\n')
})

test('people are listed, found, shown and counted beside the server, with what they sent', async () => {
  const all = (await json('account', 'list')) as { userId: string; address: string }[]
  const { code, out, err } = await run('account', 'list', '--limit', '1')
  assert.deepEqual([code, out.split('\n').length], [0, 3])
  const [, cursor = ''] = /^For the next page: --cursor (\S+)$/m.exec(err) ?? []
  assert.deepEqual((await json('account', 'list', '--cursor', cursor))[0], all[1])
  const [alice] = await json('account', 'list', '--search', 'ALI')
  assert.deepEqual([alice.userId, alice.address, alice.identities[0].username], [here.alice.userId, here.alice.address, 'alice']) // prettier-ignore
  assert.deepEqual(await json('account', 'show', here.alice.userId), alice)
  assert.equal((await json('account', 'count')).accounts, all.length)
  const { body } = await here.alice.post('/v1/transactions', { to: here.bob.address, value: '1' })
  const [sent] = await json('account', 'transactions', here.alice.userId, '--network', 'devnet')
  assert.deepEqual([sent.id, sent.to, sent.value], [body.id, here.bob.address, '1'])
  assert.equal((await run('account', 'show', 'DEV-nobody')).code, 1)
  assert.match((await run('account', 'list', '--limit', '0')).err, /--limit must be 1 to 200/)
})

test('operators of the console are added, listed and removed beside the server, and recorded', async () => {
  const id = ['--provider', 'GOOGLE', '--user-id', '1']
  assert.deepEqual(await json('operator', 'add', ...id, '--role', 'owner'), { userId: 'GOOGLE-1', role: 'owner' })
  assert.equal((await json('operator', 'add', ...id, '--role', 'viewer')).role, 'viewer')
  const [listed] = await json('operator', 'list')
  assert.deepEqual([listed.userId, listed.role, listed.isAuthentic], ['GOOGLE-1', 'viewer', true])
  assert.match((await run('operator', 'add', ...id, '--role', 'king')).err, /--role must be one of owner, operator/)
  assert.match((await run('operator', 'add', '--provider', 'google', '--user-id', '1', '--role', 'owner')).err, /not a user id/) // prettier-ignore
  assert.deepEqual(await json('operator', 'remove', ...id), { userId: 'GOOGLE-1' })
  assert.equal((await run('operator', 'remove', ...id)).code, 1)
  assert.equal((await run('operator', 'list')).out, 'The console has no operators.\n')
  const actions = (await json('actions', 'list')) as { action: string; target: string }[]
  assert.deepEqual(
    actions.filter(({ target }) => target === 'GOOGLE-1').map(({ action }) => action),
    ['remove-operator', 'add-operator', 'add-operator'],
  )
})

test('a change of a transaction is requested beside the server, and one of none is refused', async () => {
  const { body } = await here.alice.post('/v1/transactions', { to: here.bob.address, value: '1' })
  const { code, out, err } = await run('transaction', 'cancel', body.id, '--json')
  // The chain may have mined it already.
  if (code === 0) assert.deepEqual([JSON.parse(out).transactionId, JSON.parse(out).change], [body.id, 'cancel'])
  else assert.match(err, /already MINED/)
  assert.match((await run('transaction', 'speed-up', 'tx_none')).err, /No signed transaction has this id/)
})

test('a token of anybody is had without a browser, from the server that runs', async () => {
  const beside = { ...settings, DATA_DIR: here.dataDir }
  const { code, out } = await command(beside, ['token', 'bob'])
  assert.equal(code, 0)
  const me = await here.request('/v1/me', { headers: { authorization: `Bearer ${out.trim()}` } })
  assert.deepEqual([me.status, me.body.id], [200, 'DEV-bob'])
  // The same person as at the sign-in page, however the name is written.
  for (const name of ['DEV-Zoë', 'ZOË']) {
    const other = JSON.parse((await command(beside, ['token', name, '--json'])).out)
    assert.equal(other.userId, 'DEV-zoë')
  }
  for (const [words, env, why] of [
    [['token', 'GOOGLE-1'], beside, /Only users of the development sign-in/],
    [['token', 'new one'], beside, /This is not a valid user name/],
    [['token', 'DEV-new one'], beside, /This is not a valid user name/],
    [['token', 'bob', '--app', 'nobody'], beside, /No application/],
    [['token', 'bob'], { ...beside, NODE_ENV: 'production', DATABASE_URL: 'postgres://x/y' }, /in development only/],
    [
      ['token', 'bob'],
      { DATA_DIR: join(here.dataDir, 'nothing') },
      /No development server runs on DATA_DIR .*npm start/,
    ],
  ] as const) {
    const refused = await command(env, [...words])
    assert.equal(refused.code, 1)
    assert.match(refused.err, why)
  }
})

test('what cannot be done while it runs is said plainly', { skip: testCluster !== null }, async () => {
  const { code, err } = await command(settings, ['network', 'remove', 'devnet'])
  assert.equal(code, 1)
  assert.match(
    err,
    new RegExp(
      `Process ${process.pid} is using DATA_DIR .* Stop it, run this command again, and start the process again`,
    ),
  )
  await rm(join(here.dataDir, 'operator-token'))
  assert.match((await command(settings, ['app', 'list'])).err, /does not respond/)
  await writeFile(join(here.dataDir, 'operator-token'), 'another-token-that-is-long-enough-to-be-one\n')
  assert.match((await command(settings, ['app', 'list'])).err, /not an operator token/)
})
