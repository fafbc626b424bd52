import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { decodeJwt } from 'jose'
import { sql } from 'kysely'
import { watchStatements } from '../../test/watch-statements.ts'
import { revokeAllowed } from './account/allowed.ts'
import { askMe, authorizationUrl, obtainCode, post, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { openBrowser } from '../../test/kit/browser.ts'
import { revokeGrant } from './revoke.ts'
import { endSession } from './sessions.ts'
import { withWall } from '../../test/kit/clock.ts'

const watch = watchStatements()
/** What someone does elsewhere just when a statement has been answered, the first one with these words. */
const once = (part: string, work: () => Promise<unknown>) => {
  watch.onAnswer = async (statement) => {
    if (!statement.includes(part)) return
    watch.rest()
    await work()
  }
}
/** part of the statement that reads a session, with the person and what they allowed */
const SESSION_READ = 'noted.client_id is not null'

let world: Rehearsal
before(async () => void (world = await rehearse({ slow: watch.over })))
after(() => world.close())
afterEach(watch.rest)

const refresh = (token: string) =>
  post(world.origin, '/oauth/token', { grant_type: 'refresh_token', refresh_token: token, client_id: 'demo' })
const recordsOf = (kind: string, userId: string) =>
  world.app.db.selectFrom('oauth_records').selectAll().where('kind', '=', kind).where('user_id', '=', userId).execute()
const accountOf = async (userId: string) =>
  (
    await world.app.db
      .selectFrom('accounts')
      .select('account_id')
      .where('user_id', '=', userId)
      .executeTakeFirstOrThrow()
  ).account_id

/** A sign-in whose access tokens, as far as its grant knows, have nearly ended: clients refresh just then. */
async function nearlyOver(username: string) {
  const { exchange } = await obtainCode(world, { username })
  const { access_token: token, refresh_token: next } = (await exchange()).body
  const grantId = decodeJwt(token!).gid as string
  await world.app.db
    .updateTable('oauth_records')
    .set({ access_until: new Date(Date.now() + 5_000) })
    .where('kind', '=', 'Grant')
    .where('grant_id', '=', grantId)
    .execute()
  return { grantId, next: next! }
}
const forgetAt = async (grantId: string) =>
  (
    await world.app.db
      .selectFrom('revoked_grants')
      .select('forget_at')
      .where('grant_id', '=', grantId)
      .executeTakeFirstOrThrow()
  ).forget_at.getTime()

test('a revocation is remembered to the end of the token that the last refresh gave', async () => {
  const { grantId, next } = await nearlyOver('refreshed')
  const { access_token: token } = (await refresh(next)).body
  await revokeGrant(world.app, grantId)
  assert.ok((await forgetAt(grantId)) >= decodeJwt(token!).exp! * 1_000)
  const before = await forgetAt(grantId)
  await revokeGrant(world.app, grantId)
  assert.equal(await forgetAt(grantId), before, 'twice is the same as once')
})

test('what a refresh gives while its sign-in is revoked is refused as long as it lives', async (t) => {
  const tokens: string[] = []
  // On a slow machine no refresh is as fast as the first revocations.
  for (let round = 0; round < 12 || (tokens.length === 0 && round < 200); round++) {
    const { grantId, next } = await nearlyOver(`crossed-${round}`)
    const [given] = await Promise.all([refresh(next), pause(2 * round).then(() => revokeGrant(world.app, grantId))])
    if (given.status === 200) tokens.push(given.body.access_token!)
  }
  t.diagnostic(`${tokens.length} refreshes came first`)
  assert.ok(tokens.length > 0)
  const real = world.app.clock
  t.after(() => (world.app.clock = real))
  for (const aheadMs of [0, 120_000, 600_000]) {
    world.app.clock = withWall(() => Date.now() + aheadMs)
    for (const token of tokens) assert.equal((await askMe(world.origin, token)).status, 401)
  }
})

test('an application that is removed while it signs somebody in without a page gets nothing', async () => {
  const browser = openBrowser(world.origin)
  await obtainCode(world, { username: 'fay', browser })
  const accountId = await accountOf('DEV-fay')
  once(SESSION_READ, () => revokeAllowed(world.app, { accountId, userId: 'DEV-fay' }, 'demo'))
  await assert.rejects(obtainCode(world, { username: 'fay', browser }), /consent_required/)
  assert.deepEqual(await recordsOf('Grant', 'DEV-fay'), [])
  const consents = await world.app.db.selectFrom('consents').selectAll().where('account_id', '=', accountId).execute()
  assert.deepEqual(consents, [])
})

test('a browser that is signed out while an application signs in with it stays signed out', async () => {
  const browser = openBrowser(world.origin)
  await obtainCode(world, { username: 'gus', browser })
  const [session] = await recordsOf('Session', 'DEV-gus')
  const [before] = await recordsOf('Grant', 'DEV-gus')
  once(SESSION_READ, () => endSession(world.app.db, { userId: 'DEV-gus', uid: session!.uid! }))
  await assert.rejects(obtainCode(world, { username: 'gus', browser }), /no code/)
  assert.deepEqual(await recordsOf('Session', 'DEV-gus'), [])
  assert.deepEqual(
    (await recordsOf('Grant', 'DEV-gus')).map((row) => row.grant_id),
    [before!.grant_id],
  )
  const { headers } = await browser.go(authorizationUrl(world.origin, { prompt: 'none' }).url)
  assert.match(headers.get('location')!, /error=login_required/)
})

test('a new sign-in in the same browser leaves one session, under another id', async () => {
  const browser = openBrowser(world.origin)
  await obtainCode(world, { username: 'again', browser })
  const [first] = await recordsOf('Session', 'DEV-again')
  await obtainCode(world, { username: 'again', browser, parameters: { prompt: 'login' } })
  const after = await recordsOf('Session', 'DEV-again')
  assert.equal(after.length, 1)
  assert.notDeepEqual(after[0]!.id_hash, first!.id_hash)
})

test('that somebody uses an application is noted also where nothing is asked', async () => {
  const browser = openBrowser(world.origin)
  await obtainCode(world, { username: 'plain', browser })
  const accountId = await accountOf('DEV-plain')
  await world.app.db.deleteFrom('application_users').where('account_id', '=', accountId).execute()
  await obtainCode(world, { username: 'plain', browser })
  const uses = await world.app.db
    .selectFrom('application_users')
    .select('client_id')
    .where('account_id', '=', accountId)
    .execute()
  assert.deepEqual(uses, [{ client_id: 'demo' }])
})

test('a revocation is remembered as long as a token lives now, whatever its row says', async () => {
  for (const [index, until] of ['2020-01-01', '-infinity', 'infinity', '294276-12-31 23:59:59+00'].entries()) {
    const { exchange } = await obtainCode(world, { username: `altered-${index}` })
    const token = (await exchange()).body.access_token!
    const grantId = decodeJwt(token).gid as string
    await sql`update oauth_records set access_until = ${until}::timestamptz where grant_id = ${grantId}`.execute(world.app.db) // prettier-ignore
    const answer = await post(world.origin, '/oauth/token/revocation', { token, client_id: 'demo' })
    assert.equal(answer.status, 200, until)
    const left = (await forgetAt(grantId)) - Date.now()
    assert.ok(left > world.app.config.ACCESS_TOKEN_SECONDS * 1_000, until)
    assert.ok(left <= (86_400 + 90) * 1_000, `${until}: ${left}`)
    assert.equal((await askMe(world.origin, token)).status, 401)
  }
})
