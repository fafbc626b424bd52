import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { world, type Answer, type World } from '../../test/world.ts'
import { createApplication } from '../applications/manage.ts'
import { saveApplication } from '../applications/registry.ts'
import { writeCursor } from '../http/cursor.ts'
import { addConsent } from '../oauth/consents.ts'
import { obtainTokens, post, REDIRECT } from '../../test/rehearsal.ts'

/** These tests need no consents. */
const ANY = { redirectUris: [], secretHashes: [] }

let here: World
const tokens = new Map<string, string>()
before(async () => {
  here = await world()
  for (const clientId of ['social', 'private'])
    await saveApplication(here.app, {
      clientId,
      name: clientId,
      chainId: here.facts.chainId,
      kind: 'public',
      redirectUris: [REDIRECT],
      permissions: clientId === 'social' ? ['wallet:read', 'users:directory'] : ['wallet:read'],
      allowedOrigins: [],
      secretHashes: [],
      logoUri: null,
      isSuspended: false,
    })
  for (const [clientId, ...names] of [
    ['social', 'ann', 'ben'],
    ['private', 'cas'],
  ])
    for (const username of names) {
      const { access } = await obtainTokens(here.facts, {
        username,
        parameters: { client_id: clientId!, scope: 'openid' },
      })
      tokens.set(username, access)
    }
})
after(() => here.close())

const get = (path: string, token: string): Promise<Answer> =>
  here.request(path, { headers: { authorization: `Bearer ${token}` } })
const look = (query: string, who = 'ann') => get(`/v1/users?${query}`, tokens.get(who)!)

test('people of one application find each other by their exact name, and see a profile without e-mail', async () => {
  const { status, body } = await look('username=ben')
  assert.equal(status, 200)
  assert.deepEqual(body, [(await get('/v1/users/DEV-ben', tokens.get('ben')!)).body])
  assert.deepEqual(Object.keys(body[0]), ['id', 'provider', 'username', 'address', 'imageSrc'])
  assert.deepEqual((await look('username=ben&provider=DEV')).body, body)
  assert.deepEqual((await look('username=ann')).body.length, 1, 'oneself, too')
  for (const query of [
    'username=be',
    'username=BEN',
    'username=ben%20',
    'username=%25',
    'username=a%00',
    'username=ben&provider=DISCORD',
  ])
    // prettier-ignore
    assert.deepEqual((await look(query)).body, [], query)
  const profile = await get('/v1/users/DEV-ben', tokens.get('ann')!)
  assert.deepEqual([profile.status, profile.body], [200, body[0]])
  for (const path of ['balance', 'balances', 'history'])
    assert.equal((await get(`/v1/users/DEV-ben/${path}`, tokens.get('ann')!)).body.code, 'forbidden_user', path)
})

test('who is not of the application, or did not allow being found, is not there, in the words for nobody', async () => {
  const { db } = here.app
  // Alice signed in to the demo application. Dan signed in to this one before it requested the directory.
  const dan = (await here.person('dan')).userId
  const { account_id: accountId } = await db.selectFrom('accounts').select('account_id').where('user_id', '=', dan).executeTakeFirstOrThrow() // prettier-ignore
  await db.insertInto('application_users').values({ client_id: 'social', account_id: accountId }).execute()
  await addConsent(here.app, { accountId, clientId: 'social', permissions: ['wallet:read'], application: ANY })
  const said = []
  for (const id of ['DEV-alice', 'DEV-cas', 'DEV-dan', 'DEV-nobody']) {
    const { status, body } = await get(`/v1/users/${id}`, tokens.get('ann')!)
    said.push(JSON.stringify([status, body.code, body.detail]))
    assert.deepEqual((await look(`username=${id.slice(4)}`)).body, [])
  }
  assert.equal(new Set(said).size, 1)
  await addConsent(here.app, { accountId, clientId: 'social', permissions: ['users:directory'], application: ANY })
  assert.equal((await look('username=dan')).body.length, 1)
})

test('without the permission nobody is looked up', async () => {
  assert.deepEqual([(await look('username=cas', 'cas')).status, (await look('username=cas', 'cas')).body.code], [403, 'insufficient_scope']) // prettier-ignore
  assert.equal((await get('/v1/users/DEV-ann', tokens.get('cas')!)).body.code, 'forbidden_user')
})

test('a look-up without a name, or with what belongs to the other use, is 400', async () => {
  for (const query of [
    '',
    'provider=DEV',
    'username=',
    'username=ben&limit=5',
    'username=ben&cursor=x',
    'username=ben&provider=dev',
    'name=ben',
    `username=${'x'.repeat(256)}`,
  ])
    // prettier-ignore
    assert.equal((await look(query)).status, 400, query)
})

test('ten names a minute, then 429', async (t) => {
  const { config } = here.app
  t.after(() => Object.assign(config, { RATE_LIMITS: 'off' }))
  Object.assign(config, { RATE_LIMITS: 'on' })
  const answers = []
  for (let n = 0; n < 11; n++) answers.push(await look('username=ben', 'ben'))
  assert.deepEqual(answers.map(({ status }) => status), [...Array.from({ length: 10 }, () => 200), 429]) // prettier-ignore
  assert.match(answers[10]!.body.detail, /limit is 10 per minute/)
})

test('an application lists who allowed it to read them, each once, the newest first, page by page', async () => {
  const { db } = here.app
  const { secret } = await createApplication(here.app, {
    clientId: 'office',
    name: 'Office',
    network: 'devnet',
    kind: 'confidential',
    redirectUris: [REDIRECT],
    permissions: ['wallet:read', 'users:read'],
    allowedOrigins: [],
    logoUri: null,
  })
  const people = ['eva', 'fin', 'gil', 'hal', 'ivy']
  for (const name of people) {
    const { userId } = await here.person(name)
    const { account_id: accountId } = await db.selectFrom('accounts').select('account_id').where('user_id', '=', userId).executeTakeFirstOrThrow() // prettier-ignore
    // All users but one have the same time: the order is total nevertheless.
    const created_at = name === 'gil' ? '2026-01-02T00:00:00.000002Z' : '2026-01-02T00:00:00.000001Z'
    await db
      .insertInto('application_users')
      .values({ client_id: 'office', account_id: accountId, created_at })
      .execute()
    if (name !== 'ivy')
      await addConsent(here.app, { accountId, clientId: 'office', permissions: ['users:read'], application: ANY })
  }
  const basic = { authorization: `Basic ${Buffer.from(`office:${secret}`).toString('base64')}` }
  const { body } = await post(here.facts.origin, '/oauth/token', { grant_type: 'client_credentials' }, basic)
  const machine = body.access_token!
  const all = await get('/v1/users', machine)
  assert.deepEqual(all.body.map(({ id }: { id: string }) => id).toSorted(), [
    'DEV-eva',
    'DEV-fin',
    'DEV-gil',
    'DEV-hal',
  ])
  assert.equal(all.body[0].id, 'DEV-gil')
  assert.equal(all.headers.get('x-next-cursor'), null)
  const paged: unknown[] = []
  let path: string | null = '/v1/users?limit=1'
  while (path !== null) {
    const page: Answer = await get(path, machine)
    assert.equal(page.status, 200)
    paged.push(...page.body)
    path = /<([^>]*)>; rel="next"/.exec(page.headers.get('link') ?? '')?.[1] ?? null
  }
  assert.deepEqual(paged, all.body)
  for (const query of ['username=eva', 'provider=DEV', 'limit=0', 'limit=201', 'cursor=nonsense', 'user=x'])
    assert.equal((await get(`/v1/users?${query}`, machine)).status, 400, query)
  for (const parts of [
    ['2026-13-45T99:99:99.000000Z', crypto.randomUUID()],
    ['2026-02-31T00:00:00.000000Z', crypto.randomUUID()],
    ['0000-01-01T00:00:00.000000Z', 'x'],
    [1, 2],
  ])
    // prettier-ignore
    assert.equal((await get(`/v1/users?cursor=${writeCursor(parts)}`, machine)).body.code, 'invalid_cursor')
})
