import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { accountIdOf } from '../ids.ts'
import { addConsent, readConsent, readConsentForKey } from './consents.ts'
import { raceCodes, slowed } from '../../test/race-codes.ts'
import { askMe, obtainCode, obtainTokens, post, rehearse, type Rehearsal } from '../../test/rehearsal.ts'

const application = { redirectUris: ['https://demo.example/callback'], secretHashes: [] }
let world: Rehearsal
before(async () => void (world = await rehearse({ slow: slowed })))
after(() => world.close())

const PARALLEL = 16
const times = <T>(work: () => Promise<T>): Promise<T[]> => Promise.all(Array.from({ length: PARALLEL }, work))
const refresh = (token: string) =>
  post(world.origin, '/oauth/token', { grant_type: 'refresh_token', refresh_token: token, client_id: 'demo' })

test('of 16 parallel redemptions of one code exactly one succeeds, and what it gave is revoked', async () => {
  for (let round = 0; round < 3; round++) {
    const { exchange } = await obtainCode(world)
    const answers = await times(() => exchange())
    const good = answers.filter(({ status }) => status === 200)
    assert.equal(good.length, 1)
    assert.ok(answers.every(({ status, body }) => status === 200 || body.error === 'invalid_grant'))
    assert.equal((await askMe(world.origin, good[0]!.body.access_token!)).status, 401)
    assert.equal((await refresh(good[0]!.body.refresh_token!)).body.error, 'invalid_grant')
  }
})

test('on two replicas, 16 parallel redemptions of one code give one success, round after round', async (t) => {
  const second = await rehearse({ slow: slowed, again: world })
  t.after(() => second.close())
  // The long form is `npm run prove codes`.
  await raceCodes([world, second], { rounds: 10, parallel: PARALLEL })
})

test('16 parallel uses of one refresh token give one successor', async () => {
  for (let round = 0; round < 3; round++) {
    const { refresh: token } = await obtainTokens(world)
    const answers = await times(() => refresh(token))
    assert.ok(answers.every(({ status }) => status === 200))
    const successors = new Set(answers.map(({ body }) => body.refresh_token!))
    assert.equal(successors.size, 1)
    const next = await times(() => refresh([...successors][0]!))
    assert.equal(new Set(next.map(({ body }) => body.refresh_token)).size, 1)
  }
})

test('two first sign-ins of one person at once give one account', async () => {
  const answers = await Promise.all([1, 2, 3, 4].map(() => obtainTokens(world, { username: 'newcomer' })))
  const users = await Promise.all(answers.map(({ access }) => askMe(world.origin, access)))
  assert.equal(new Set(users.map(({ body }) => body.address)).size, 1)
  const accounts = await world.app.db
    .selectFrom('accounts')
    .select('address')
    .where('user_id', '=', 'DEV-newcomer')
    .execute()
  assert.equal(accounts.length, 1)
})

test('without a grace time one of 16 parallel uses of a refresh token succeeds', async (t) => {
  const strict = await rehearse({ slow: slowed, env: { REFRESH_GRACE_SECONDS: '0' } })
  t.after(() => strict.close())
  const { refresh: token } = await obtainTokens(strict)
  const answers = await times(() =>
    post(strict.origin, '/oauth/token', { grant_type: 'refresh_token', refresh_token: token, client_id: 'demo' }),
  )
  assert.equal(answers.filter(({ status }) => status === 200).length, 1)
})

test('what is allowed an application in several browsers at once is all remembered, in the order it was asked', async () => {
  const whose = { accountId: accountIdOf('DEV', 'everywhere'), clientId: 'demo' }
  await addConsent(world.app, { ...whose, application, permissions: ['email', 'wallet:read'] })
  const more = ['contracts:read', 'contracts:write', 'users:directory', 'users:read']
  await Promise.all(more.map((one) => addConsent(world.app, { ...whose, application, permissions: ['email', one] })))
  const allowed = [...(await readConsent(world.app, whose, application))]
  assert.deepEqual(allowed.slice(0, 2), ['email', 'wallet:read'])
  assert.deepEqual(allowed.slice(2).toSorted(), more)
})

test('what is allowed two keys at once is remembered for each, and of many keys the last twenty', async () => {
  const whose = { accountId: accountIdOf('DEV', 'with-keys'), clientId: 'demo' }
  const keyOf = (number: number) => String(number).padStart(43, 'k')
  const allowedTo = async (number: number) => {
    const allowed = await readConsentForKey(world.app, whose, { key: keyOf(number), application })
    return allowed === null ? null : [...allowed]
  }
  await addConsent(world.app, { ...whose, application, permissions: ['wallet:read'], key: keyOf(0) })
  assert.deepEqual([await allowedTo(0), await allowedTo(1)], [['wallet:read'], null])
  await Promise.all([
    addConsent(world.app, { ...whose, application, permissions: ['contracts:read'], key: keyOf(0) }),
    addConsent(world.app, { ...whose, application, permissions: ['contracts:write'], key: keyOf(1) }),
    addConsent(world.app, { ...whose, application, permissions: ['email'] }),
  ])
  assert.deepEqual(
    [await allowedTo(0), await allowedTo(1)],
    [['wallet:read', 'contracts:read'], ['contracts:write']],
    'what one key was allowed says nothing of another',
  )
  assert.deepEqual([...(await readConsent(world.app, whose, application))].toSorted(), [
    'contracts:read',
    'contracts:write',
    'email',
    'wallet:read',
  ])
  for (let number = 2; number < 21; number++)
    await addConsent(world.app, { ...whose, application, permissions: ['email'], key: keyOf(number) })
  const kept = await Promise.all(Array.from({ length: 21 }, async (_, number) => (await allowedTo(number)) !== null))
  assert.deepEqual([kept.filter(Boolean).length, kept[20]], [20, true])
})
