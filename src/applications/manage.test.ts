import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { guarded } from '../../test/seal-keys.ts'
import { AppError } from '../errors.ts'
import {
  createApplication,
  listApplications,
  resetSecret,
  resumeApplication,
  rotateSecret,
  suspendApplication,
  updateApplication,
  type Changes,
  type Draft,
} from './manage.ts'
import { bindNetwork, listNetworks, removeNetwork, templatesAt } from './networks.ts'
import { findApplication, isSecretRight } from './registry.ts'
import { openState } from '../state.ts'
import { systemClock } from '../clock.ts'

let here: TestDatabase & ReturnType<typeof guarded>
before(async () => {
  here = { ...(await testDatabase()), ...guarded() }
  await bindNetwork(here.db, { ...sepolia, genesisHash: `0x${'11'.repeat(32)}` }, { mayBegin: false })
})
after(() => here.close())

const sepolia = {
  chainId: 11_155_111,
  name: 'sepolia',
  symbol: 'ETH',
  coin: 'Sepolia Ether',
  explorer: templatesAt('https://sepolia.etherscan.io/'),
  gasSpace: null,
  delegate: 'chatelaine' as const,
  finality: 'finalized' as const,
  blockVerification: null,
  feeCapGwei: null,
  gas: 'self' as const,
}
const shop: Draft = {
  name: 'Shop',
  network: 'sepolia',
  kind: 'public',
  redirectUris: ['https://shop.example/callback'],
  permissions: ['wallet:read'],
  allowedOrigins: ['https://shop.example'],
  logoUri: null,
}

const refusal =
  (code: string, ...pointers: string[]) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof AppError)
    assert.equal(error.code, code)
    assert.deepEqual(new Set((error.errors ?? []).map(({ pointer }) => pointer)), new Set(pointers))
    return true
  }

test('a public application is registered under an id made from its name, and has no secret', async () => {
  const { application, secret } = await createApplication(here, shop)
  assert.equal(secret, null)
  assert.match(application.clientId, /^shop-[a-z2-9]{6}$/)
  assert.deepEqual(
    { ...application, clientId: '', createdAt: '' },
    {
      ...shop,
      clientId: '',
      chainId: 11_155_111,
      needsPkce: true,
      needsDpop: false,
      postLogoutRedirectUris: [],
      isFirstParty: false,
      quotas: [],
      weight: 1,
      sponsor: null,
      liveSecrets: 0,
      issuers: [],
      createdAt: '',
      suspendedAt: null,
    },
  )
  const again = await createApplication(here, shop)
  assert.notEqual(again.application.clientId, application.clientId)
})

test('every reason against a registration is named at once, with its place, and nothing is stored', async () => {
  const stored = (await listApplications(here.db)).length
  const bad: Draft = {
    clientId: 'a b',
    name: 'Sh\u202eop',
    network: 'mainnet',
    kind: 'public',
    redirectUris: ['http://shop.example/', 'https://shop.example/ok', 'http://localhost/*', 'https://a.example/\0'],
    postLogoutRedirectUris: ['https://shop.example/ok', 'https://shop.example/*', 'http://localhost/*', 'javascript:x'],
    permissions: ['users:read', 'everything'],
    allowedOrigins: ['https://shop.example/', 'http://shop.example', 'null'],
    logoUri: 'http://shop.example/logo.png',
    needsPkce: false,
  }
  await assert.rejects(
    createApplication(here, bad),
    refusal(
      'invalid_request',
      ...['/clientId', '/name', '/network', '/redirectUris/0', '/redirectUris/2', '/redirectUris/3', '/permissions/0'],
      ...['/postLogoutRedirectUris/1', '/postLogoutRedirectUris/2', '/postLogoutRedirectUris/3'],
      ...['/permissions/1', '/allowedOrigins/0', '/allowedOrigins/1', '/allowedOrigins/2', '/logoUri', '/needsPkce'],
    ),
  )
  await assert.rejects(
    createApplication(here, { ...shop, name: '', redirectUris: [], permissions: [] }),
    refusal('invalid_request', '/name', '/redirectUris', '/permissions'),
  )
  assert.equal((await listApplications(here.db)).length, stored)
})

test('an application of the operator’s own stays that while its answers go where they went; another origin takes a new word', async () => {
  const [own, other] = ['https://own.example/a', 'https://other.example/a']
  await createApplication(here, { ...shop, clientId: 'own', redirectUris: [own], isFirstParty: true })
  const update = async (changes: Changes) => (await updateApplication(here, 'own', changes)).isFirstParty
  assert.equal(await update({ name: 'Own', redirectUris: ['https://own.example/b', own] }), true)
  assert.equal(await update({ redirectUris: [own, other] }), false)
  assert.equal(await update({ redirectUris: [own] }), false)
  assert.equal(await update({ isFirstParty: true }), true)
  assert.equal(await update({ redirectUris: [own, other], isFirstParty: true }), true)
  assert.equal(await update({ redirectUris: ['com.own.app:/a'] }), false)
})

test('a client id is given once', async () => {
  await createApplication(here, { ...shop, clientId: 'once' })
  await assert.rejects(createApplication(here, { ...shop, clientId: 'once', name: 'Thief' }), refusal('already_exists'))
  assert.equal((await findApplication({ ...here, state: openState(), clock: systemClock }, 'once'))?.name, 'Shop')
})

test('of the secrets of a confidential application the two newest are valid, and only hashes are kept', async () => {
  const { secret: first } = await createApplication(here, { ...shop, clientId: 'server', kind: 'confidential' })
  const { secret: second } = await rotateSecret(here, 'server')
  const { secret: third, application } = await rotateSecret(here, 'server')
  assert.equal(application.liveSecrets, 2)
  const live = async () => {
    const found = (await findApplication({ ...here, state: openState(), clock: systemClock }, 'server'))!
    return [first!, second, third].map((secret) => isSecretRight(found, secret))
  }
  assert.deepEqual(await live(), [false, true, true])
  await resetSecret(here, 'server')
  assert.deepEqual(await live(), [false, false, false])
  const rows = JSON.stringify(await here.db.selectFrom('applications').selectAll().execute())
  for (const secret of [first!, second, third]) assert.ok(!rows.includes(secret))
})

test('rotations at the same moment leave two secrets that were really handed out', async () => {
  await createApplication(here, { ...shop, clientId: 'race', kind: 'confidential' })
  const made = await Promise.all(Array.from({ length: 6 }, () => rotateSecret(here, 'race')))
  const found = (await findApplication({ ...here, state: openState(), clock: systemClock }, 'race'))!
  assert.equal(made.filter(({ secret }) => isSecretRight(found, secret)).length, 2)
})

test('a public application has no secret to rotate', async () => {
  await createApplication(here, { ...shop, clientId: 'open' })
  await assert.rejects(rotateSecret(here, 'open'), refusal('invalid_request', '/clientId'))
  await assert.rejects(rotateSecret(here, 'nobody'), refusal('not_found'))
})

test('a change touches what it names; a suspension survives it', async () => {
  await createApplication(here, { ...shop, clientId: 'changing', logoUri: 'https://shop.example/logo.png' })
  await suspendApplication(here, 'changing')
  const changed = await updateApplication(here, 'changing', {
    permissions: ['wallet:read', 'contracts:write', 'wallet:read'],
    logoUri: null,
    name: undefined,
  })
  assert.deepEqual(
    [changed.name, changed.permissions, changed.logoUri],
    ['Shop', ['wallet:read', 'contracts:write'], null],
  )
  assert.notEqual(changed.suspendedAt, null)
  assert.equal(
    (await findApplication({ ...here, state: openState(), clock: systemClock }, 'changing'))?.isSuspended,
    true,
  )
  await assert.rejects(
    updateApplication(here, 'changing', {
      redirectUris: ['http://a.example/', 'https://b.example/#x'],
      permissions: ['users:read'],
    }),
    refusal('invalid_request', '/redirectUris/0', '/redirectUris/1', '/permissions/0'),
  )
})

test('quotas and a weight are given, replaced as a whole and taken away; what they cannot be is refused with its place', async () => {
  const day = { counts: 'writes', limit: 100_000, per: 'day' } as const
  const hour = { counts: 'reads', limit: 5_000, per: 'hour' } as const
  const made = await createApplication(here, { ...shop, clientId: 'metered', quotas: [day, hour], weight: 2 })
  assert.deepEqual([made.application.quotas, made.application.weight], [[day, hour], 2])
  const changed = await updateApplication(here, 'metered', { quotas: [{ ...day, limit: 7 }] })
  assert.deepEqual([changed.quotas, changed.weight], [[{ ...day, limit: 7 }], 2])
  const none = await updateApplication(here, 'metered', { quotas: [], weight: 1 })
  assert.deepEqual([none.quotas, none.weight], [[], 1])
  const bad: [Partial<Draft>, string][] = [
    [{ quotas: [day, { ...day, limit: 5 }] }, '/quotas/1'],
    [{ quotas: [{ ...day, limit: 0 }] }, '/quotas/0'],
    [{ quotas: [{ ...day, limit: 1_000_000_000_001 }] }, '/quotas/0'],
    [{ weight: 0 }, '/weight'],
    [{ weight: 101 }, '/weight'],
    [{ weight: 1.5 }, '/weight'],
  ]
  for (const [changes, pointer] of bad) {
    await assert.rejects(updateApplication(here, 'metered', changes), refusal('invalid_request', pointer))
    await assert.rejects(createApplication(here, { ...shop, ...changes }), refusal('invalid_request', pointer))
  }
})

test('what sponsors may send for an application is given, replaced as a whole and taken away; whoever writes for it reads the same wei', async () => {
  const coin = { perUser: '1000000000000000000', perApplication: `${2n ** 256n - 1n}` }
  const read = async () =>
    (await findApplication({ ...here, state: openState(), clock: systemClock }, 'sponsored'))?.sponsor
  const made = await createApplication(here, { ...shop, clientId: 'sponsored', sponsor: coin })
  assert.deepEqual(made.application.sponsor, { ...coin, contracts: null })
  assert.deepEqual(await read(), { perUser: 10n ** 18n, perApplication: 2n ** 256n - 1n, contracts: null })
  const untouched = await updateApplication(here, 'sponsored', { name: 'Sponsored' })
  assert.deepEqual(untouched.sponsor, { ...coin, contracts: null })
  const less = await updateApplication(here, 'sponsored', { sponsor: { perUser: '0', perApplication: '007' } })
  assert.deepEqual(less.sponsor, { perUser: '0', perApplication: '7', contracts: null })
  // What is omitted stays: a list of contracts is not lost with other amounts, and an amount not with a list.
  const contracts = [`0x${'AB'.repeat(20)}`, `0x${'ab'.repeat(20)}`, `0x${'01'.repeat(20)}`]
  const named = [`0x${'ab'.repeat(20)}`, `0x${'01'.repeat(20)}`]
  const listed = await updateApplication(here, 'sponsored', { sponsor: { contracts } })
  assert.deepEqual(listed.sponsor, { perUser: '0', perApplication: '7', contracts: named })
  assert.deepEqual((await read())?.contracts, named)
  const more = await updateApplication(here, 'sponsored', { sponsor: { perUser: '9' } })
  assert.deepEqual(more.sponsor, { perUser: '9', perApplication: '7', contracts: named })
  const nobody = await updateApplication(here, 'sponsored', { sponsor: { contracts: [] } })
  assert.deepEqual(nobody.sponsor?.contracts, [])
  const anyone = await updateApplication(here, 'sponsored', { sponsor: { contracts: null } })
  assert.equal(anyone.sponsor?.contracts, null)
  const none = await updateApplication(here, 'sponsored', { sponsor: null })
  assert.deepEqual([none.sponsor, await read()], [null, null])
  for (const [sponsor, pointer] of [
    [{ contracts, perApplication: '7' }, '/sponsor/perUser'],
    [{ ...coin, contracts: ['0x12'] }, '/sponsor/contracts/0'],
    [{ ...coin, contracts: [contracts[0]!, `${contracts[0]}0`] }, '/sponsor/contracts/1'],
    [{ ...coin, contracts: Array.from({ length: 1_001 }, () => contracts[0]!) }, '/sponsor/contracts'],
    [{ ...coin, perUser: '1.5' }, '/sponsor/perUser'],
    [{ ...coin, perUser: '-1' }, '/sponsor/perUser'],
    [{ ...coin, perUser: '1e18' }, '/sponsor/perUser'],
    [{ ...coin, perApplication: '' }, '/sponsor/perApplication'],
    [{ ...coin, perApplication: `${2n ** 256n}` }, '/sponsor/perApplication'],
  ] as const) {
    await assert.rejects(updateApplication(here, 'sponsored', { sponsor }), refusal('invalid_request', pointer))
    await assert.rejects(createApplication(here, { ...shop, sponsor }), refusal('invalid_request', pointer))
  }
})

test('suspended twice it keeps its first time; resumed it is as before', async () => {
  await createApplication(here, { ...shop, clientId: 'paused' })
  const first = await suspendApplication(here, 'paused')
  assert.deepEqual(await suspendApplication(here, 'paused'), first)
  assert.equal((await resumeApplication(here, 'paused')).suspendedAt, null)
  assert.equal(
    (await findApplication({ ...here, state: openState(), clock: systemClock }, 'paused'))?.isSuspended,
    false,
  )
  for (const act of [suspendApplication, resumeApplication])
    for (const nobody of ['nobody', 'a\0b', 'x'.repeat(300)])
      await assert.rejects(act(here, nobody), refusal('not_found'))
})

test('a list goes on behind the client id that the page before ended with', async () => {
  const all = (await listApplications(here.db)).map(({ clientId }) => clientId)
  const first = (await listApplications(here.db, { limit: 2 })).map(({ clientId }) => clientId)
  const rest = (await listApplications(here.db, { after: first[1]! })).map(({ clientId }) => clientId)
  assert.deepEqual([...first, ...rest], all)
})

test('a network keeps its chain for ever, and what else is said of it can be changed', async () => {
  const { db } = here
  const genesisHash = `0x${'11'.repeat(32)}` as const
  const bind = (changes: object) => bindNetwork(db, { ...sepolia, genesisHash, ...changes }, { mayBegin: false })
  await assert.rejects(bind({ genesisHash: `0x${'22'.repeat(32)}` }), /another chain/)
  await assert.rejects(bind({ name: 'other' }), /known to this database as sepolia/)
  await assert.rejects(bind({ chainId: 5 }), /belongs to another chain id/)
  await bind({ symbol: 'SEP', finality: 12, explorer: null, blockVerification: 'count', feeCapGwei: 7 })
  const [changed] = await listNetworks(db)
  assert.deepEqual([changed!.symbol, changed!.finality, changed!.explorer], ['SEP', 12, null])
  assert.deepEqual([changed!.blockVerification, changed!.feeCapGwei], ['count', 7])
  await bind({})
  const { applications, readFrom, native, backfill, sponsors, ...others } = (await listNetworks(db))[0]!
  const {
    sponsorPerDay,
    sponsorLow,
    sponsorSpent,
    topUpContracts,
    pagesPerUser,
    pagesPerDay,
    backfillFrom,
    backfillProgress,
    ...facts
  } = others
  assert.deepEqual([backfillFrom, backfillProgress], [null, null])
  assert.deepEqual(
    [sponsorPerDay, sponsorLow, pagesPerUser, pagesPerDay, sponsorSpent, topUpContracts],
    [null, null, null, null, '0', []],
  )
  assert.deepEqual([facts, readFrom, native, backfill, sponsors], [sepolia, null, null, null, 0])
  assert.ok(applications > 0)
})

test('a network is not removed while applications are bound to it, suspended ones included', async () => {
  const { db } = here
  await bindNetwork(
    db,
    { ...sepolia, chainId: 10, name: 'optimism', genesisHash: `0x${'33'.repeat(32)}` },
    { mayBegin: false },
  )
  await createApplication(here, { ...shop, clientId: 'bound', network: 'optimism' })
  await suspendApplication(here, 'bound')
  await assert.rejects(removeNetwork(db, 'optimism'), /applications bound to it: 1/)
  await db.deleteFrom('applications').where('client_id', '=', 'bound').execute()
  await removeNetwork(db, 'optimism')
  await assert.rejects(removeNetwork(db, 'optimism'), /No network has the name/)
})
