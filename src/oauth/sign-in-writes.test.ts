import assert from 'node:assert/strict'
import { afterEach, before, after, test } from 'node:test'
import { sql } from 'kysely'
import { testCluster } from '../../test/kit/database.ts'
import { until } from '../../test/kit/until.ts'
import { watchStatements } from '../../test/watch-statements.ts'
import { findApplication, forgetApplication, saveApplication } from '../applications/registry.ts'
import { askMe, authorizationUrl, obtainCode, post, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { openBrowser } from '../../test/kit/browser.ts'
import { revokeGrant } from './revoke.ts'
import { sha256 } from '../sha256.ts'
import type { UserId } from '../ids.ts'
import { identitySealOf } from '../users/proven-identity.ts'

/** On one connection nothing waits for something else. */
const isEmbedded = testCluster === null && 'needs PostgreSQL: set TEST_DATABASE_URL'

const watch = watchStatements()

let world: Rehearsal
before(async () => void (world = await rehearse({ slow: watch.over })))
after(() => world.close())
afterEach(watch.rest)

const refresh = (token: string) =>
  post(world.origin, '/oauth/token', { grant_type: 'refresh_token', refresh_token: token, client_id: 'demo' })

const recordsOf = async (kind: string): Promise<number> =>
  (await world.app.db.selectFrom('oauth_records').select('kind').where('kind', '=', kind).execute()).length

const counts = async () => [await recordsOf('Grant'), await recordsOf('AuthorizationCode'), await recordsOf('Session')]

const isUsed = async (code: string): Promise<boolean> => {
  const row = await world.app.db
    .selectFrom('oauth_records')
    .select('consumed_at')
    .where('kind', '=', 'AuthorizationCode')
    .where('id_hash', '=', sha256(code))
    .executeTakeFirstOrThrow()
  return row.consumed_at !== null
}

const grantOf = async (code: string): Promise<string> => {
  const row = await world.app.db
    .selectFrom('oauth_records')
    .select('grant_id')
    .where('kind', '=', 'AuthorizationCode')
    .where('id_hash', '=', sha256(code))
    .executeTakeFirstOrThrow()
  return row.grant_id!
}

const count = async (work: () => Promise<unknown>): Promise<number> => {
  // An application is remembered for a few seconds: read now, it is not read while statements are counted.
  forgetApplication(world.app, 'demo')
  await findApplication(world.app, 'demo')
  let statements = 0
  watch.onStatement = () => void statements++
  await work()
  watch.onStatement = () => {}
  return statements
}

const away = () => Object.assign(new Error('terminating connection'), { code: '57P01' })

test('a first sign-in takes twelve statements, one with a session four, a refresh two', async () => {
  await obtainCode(world, { username: 'counted' })
  const browser = openBrowser(world.origin)
  let token = ''
  const signIn = async () => {
    const { exchange } = await obtainCode(world, { username: 'counted', browser })
    token = (await exchange()).body.refresh_token!
  }
  assert.equal(await count(signIn), 12)
  assert.equal(await count(signIn), 4)
  assert.equal(await count(() => refresh(token)), 2)
})

test('grant, code and session of a sign-in are written together, or none of them and nobody is sent on', async () => {
  const browser = openBrowser(world.origin)
  await obtainCode(world, { username: 'whole', browser })
  const before = await counts()
  watch.onStatement = (statement) => {
    if (/^\S+ prepared.*insert into oauth_records/s.test(statement)) throw away()
  }
  const page = await browser.go(authorizationUrl(world.origin).url)
  watch.onStatement = () => {}
  assert.equal(page.status, 503)
  assert.equal(page.headers.get('location'), null)
  assert.notEqual(page.headers.get('retry-after'), null)
  assert.deepEqual(await counts(), before)
  // The same where only one statement fails, and what is written after it is not.
  let failures = 0
  watch.onStatement = (statement) => {
    if (/^\S+ prepared.*insert into oauth_records/s.test(statement) && failures++ === 0) throw away()
  }
  const refused = await browser.go(authorizationUrl(world.origin).url)
  watch.onStatement = () => {}
  assert.ok(failures > 0)
  assert.deepEqual([refused.status, refused.headers.get('location')], [503, null])
  const again = await obtainCode(world, { username: 'whole', browser })
  assert.equal((await again.exchange()).status, 200)
  assert.deepEqual(await counts(), [before[0]! + 1, before[1]! + 1, before[2]])
})

test('a code whose exchange the database did not take is good for one more try', async () => {
  const { code, exchange } = await obtainCode(world, { username: 'patient' })
  watch.onStatement = (statement) => {
    if (statement.includes('with used')) throw away()
  }
  const failed = await exchange()
  watch.onStatement = () => {}
  assert.deepEqual([failed.status, failed.body.error], [503, 'temporarily_unavailable'])
  assert.equal(await isUsed(code), false)
  assert.equal((await exchange()).status, 200)
  assert.equal((await exchange()).body.error, 'invalid_grant')
})

test('a code whose use was committed is used, also where the answer of the database was lost', async () => {
  const { code, exchange } = await obtainCode(world, { username: 'unlucky' })
  const grantId = await grantOf(code)
  watch.onAnswer = async (statement) => {
    if (statement.includes('with used')) throw away()
  }
  const failed = await exchange()
  watch.onAnswer = async () => {}
  assert.deepEqual([failed.status, failed.body.error], [503, 'temporarily_unavailable'])
  assert.equal(await isUsed(code), true)
  assert.equal((await exchange()).body.error, 'invalid_grant')
  const left = await world.app.db.selectFrom('oauth_records').select('kind').where('grant_id', '=', grantId).execute()
  assert.deepEqual(left, [], 'and its sign-in has ended')
})

/** So that what came of sign-ins up to now is worth nothing, and is there all the same. */
const signOut = (userId: string) =>
  world.app.db
    .updateTable('accounts')
    .set({ signed_out_at: new Date(Date.now() + 60_000) })
    .where('user_id', '=', userId)
    .execute()

test('of parallel exchanges that are all refused one uses the code, and the others end its grant', async () => {
  const { code, exchange } = await obtainCode(world, { username: 'leaver' })
  const grantId = await grantOf(code)
  await signOut('DEV-leaver')
  for (const { status, body } of await Promise.all([exchange(), exchange(), exchange()]))
    assert.deepEqual([status, body.error], [400, 'invalid_grant'])
  const left = await world.app.db.selectFrom('oauth_records').select('kind').where('grant_id', '=', grantId).execute()
  assert.deepEqual(left, [])
})

test('a code that was shown once by somebody who may not come in any more is used', async () => {
  const { code, exchange } = await obtainCode(world, { username: 'gone' })
  await signOut('DEV-gone')
  assert.equal((await exchange()).body.error, 'invalid_grant')
  assert.equal(await isUsed(code), true)
})

test('where a grant is revoked while its code is exchanged nothing follows', async () => {
  const { code, exchange } = await obtainCode(world, { username: 'crossed' })
  const grantId = await grantOf(code)
  watch.onAnswer = async (statement) => {
    if (!statement.includes('grant_payload')) return
    watch.onAnswer = async () => {}
    await world.app.db.deleteFrom('oauth_records').where('kind', '=', 'Grant').where('grant_id', '=', grantId).execute()
  }
  const refused = await exchange()
  assert.deepEqual([refused.status, refused.body.error], [400, 'invalid_grant'])
  const left = await world.app.db.selectFrom('oauth_records').select('kind').where('grant_id', '=', grantId).execute()
  assert.deepEqual(
    left.map(({ kind }) => kind),
    ['AuthorizationCode'],
  )
})

test('revocations and exchanges that meet leave nothing that is still good', async () => {
  for (let round = 0; round < 20; round++) {
    const { code, exchange } = await obtainCode(world, { username: 'met' })
    const grantId = await grantOf(code)
    const [answer] = await Promise.all([exchange(), revokeGrant(world.app, grantId)])
    assert.ok(answer.status === 200 || answer.body.error === 'invalid_grant', JSON.stringify(answer.body))
    if (answer.status === 200) {
      assert.equal((await askMe(world.origin, answer.body.access_token!)).status, 401)
      assert.equal((await refresh(answer.body.refresh_token!)).body.error, 'invalid_grant')
    }
  }
})

test('an exchange and a revocation that wait for each other both end', { skip: isEmbedded }, async () => {
  const { app } = world
  const { code, exchange } = await obtainCode(world, { username: 'knot' })
  const grantId = await grantOf(code)
  const revocation = await app.db.startTransaction().execute()
  const end = () => revocation.deleteFrom('oauth_records').where('grant_id', '=', grantId)
  await end().where('kind', '=', 'Grant').execute()
  const answer = exchange()
  const waiting = sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  await until('the exchange waits for the grant', async () => (await waiting.execute(app.db)).rows.length > 0)
  // It has the code and waits for the grant; this has the grant and waits for the code. PostgreSQL ends the one that has waited for a second by
  // then, which is the exchange but where a second has passed already: that looks once.
  const isRevoked = await end()
    .execute()
    .then(
      () => true,
      (error: { code?: string }) => (assert.equal(error.code, '40P01'), false),
    )
  await (isRevoked ? revocation.commit() : revocation.rollback()).execute()
  const { status, body } = await answer
  assert.deepEqual([status, body.error], isRevoked ? [400, 'invalid_grant'] : [200, undefined])
})

test('what the pages were for is gone as soon as the application has its code', async () => {
  const begun = authorizationUrl(world.origin)
  const page = await openBrowser(world.origin).signIn(begun.url, 'once')
  assert.ok(page.url.searchParams.has('code'))
  const interactions = await world.app.db
    .selectFrom('oauth_records')
    .select('payload')
    .where('kind', '=', 'Interaction')
    .execute()
  const states = interactions.map(({ payload }) => (payload.params as { state?: string }).state)
  assert.equal(states.includes(begun.state), false)
})

test('what is allowed one application allows nothing to another, although one statement reads both', async () => {
  await saveApplication(world.app, { ...world.demo, clientId: 'second' })
  const browser = openBrowser(world.origin)
  await obtainCode(world, { username: 'chooser', browser })
  const page = await browser.go(authorizationUrl(world.origin, { client_id: 'second' }).url)
  assert.match(page.url.pathname, /^\/consent\//)
  const twice = await browser.go(`${authorizationUrl(world.origin).url}&client_id=second`)
  assert.equal(twice.url.searchParams.has('code'), false)
})

test('somebody who comes by a linked identity is who they are, whichever statement reads them', async () => {
  await obtainCode(world, { username: 'owner' })
  const owner = await world.app.db
    .selectFrom('accounts')
    .select('account_id')
    .where('user_id', '=', 'DEV-owner')
    .executeTakeFirstOrThrow()
  await world.app.db
    .insertInto('identities')
    .values({
      ...{ provider: 'DEV', subject: 'second-self', account_id: owner.account_id, username: 'second-self' },
      ...{ image_src: null, email: null, email_verified: null },
      seal: identitySealOf(world.app.sealKeys, {
        provider: 'DEV',
        subject: 'second-self',
        user_id: 'DEV-owner' as UserId,
      }),
    })
    .execute()
  const browser = openBrowser(world.origin)
  let token = ''
  const signIn = async () => {
    const { exchange } = await obtainCode(world, { username: 'second-self', browser })
    token = (await exchange()).body.access_token!
  }
  for (const statements of [14, 6]) {
    assert.equal(await count(signIn), statements)
    assert.equal((await askMe(world.origin, token)).body.sub, 'DEV-owner')
  }
  await world.app.db.deleteFrom('identities').where('subject', '=', 'second-self').execute()
  const page = await browser.go(authorizationUrl(world.origin).url)
  assert.match(page.url.pathname, /^\/login\//)
})
