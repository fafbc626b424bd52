import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { decodeJwt } from 'jose'
import { sql } from 'kysely'
import { hashOf, stage } from '../../test/forged-rows.ts'
import { askMe, authorizationUrl, post, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { madeRowKeys } from '../../test/row-keys.ts'
import { findApplication } from '../applications/registry.ts'
import { suspendApplication, updateApplication } from '../applications/manage.ts'
import type { UserId } from '../ids.ts'
import { openState } from '../state.ts'
import { isMacRight, macOf } from '../store/row-mac.ts'
import {
  authenticateRows,
  countOnOlderRowKeys,
  listUnauthentic,
  renewMacs,
  startRenewingMacs,
} from './authenticate-rows.ts'
import { newKeys } from './keys.ts'
import { newRowKey, rowKeysOf } from './row-keys.ts'
import { endInDatabase, signOut } from './sign-out.ts'
import { systemClock } from '../clock.ts'

test('a MAC is of one row: its table, its key and each of its columns, whatever order the database gives members in', () => {
  const keys = madeRowKeys()
  const content = ['consents', 'a', ['x', 'y'], { one: 1, two: { b: null, a: 'ä' } }] as const
  const mac = macOf(keys, content)
  assert.ok(isMacRight(keys, ['consents', 'a', ['x', 'y'], { two: { a: 'ä', b: null }, one: 1, gone: undefined }], mac))
  const others = [
    ['sign_ins', 'a', ['x', 'y'], content[3]],
    ['consents', 'b', ['x', 'y'], content[3]],
    ['consents', 'a', ['y', 'x'], content[3]],
    ['consents', 'a', ['x'], content[3]],
    ['consents', 'a', 'x', 'y', content[3]],
    ['consents', 'a', ['x', 'y'], { one: '1', two: content[3].two }],
    ['consents', 'a', ['x', 'y'], { one: 1, two: { a: 'ä' } }],
    ['consents', 'a', ['x', 'y']],
  ] as const
  for (const other of others) assert.equal(isMacRight(keys, other, mac), false, JSON.stringify(other))
  const [kid, digest] = mac!.split(' ') as [string, string]
  for (const wrong of [
    null,
    '',
    kid,
    `${kid} `,
    ` ${digest}`,
    digest,
    `${kid} ${digest.slice(1)}`,
    `${kid} ${digest}AAAA`,
    macOf(madeRowKeys(), content),
  ])
    // prettier-ignore
    assert.equal(isMacRight(keys, content, wrong), false, String(wrong))
  assert.equal(macOf(null, content), null)
})

suite('old rows', () => {
  let world: Rehearsal
  before(async () => void (world = await rehearse()))
  after(() => world.close())

  const rowsOf = async (grantId: string) =>
    world.app.db.selectFrom('oauth_records').selectAll().where('grant_id', '=', grantId).execute()
  const putBack = async (rows: Awaited<ReturnType<typeof rowsOf>>) => {
    for (const { payload, ...row } of rows)
      await world.app.db
        .insertInto('oauth_records')
        .values({ ...row, payload: JSON.stringify(payload) })
        .execute()
  }

  test('put back whole let in who has the refresh token that they were of, as far as it went and for as long; the API refuses while it knows that the grant was revoked', async () => {
    const at = stage(world, 'old')
    const { refresh, grantId } = await at.arrive(at.victim, { scope: 'openid wallet:read' })
    const old = await rowsOf(grantId)
    await post(world.origin, '/oauth/token/revocation', { token: refresh, client_id: 'demo' })
    assert.equal(await at.refresh(refresh), null)
    await putBack(old)
    const token = (await at.refresh(refresh))!
    const { sub, scope } = decodeJwt(token) as { sub: string; scope: string }
    assert.deepEqual([sub, scope.includes('contracts:write')], [at.victimId, false])
    assert.equal((await askMe(world.origin, token)).status, 401)
    // Nor does it help to forget the revocation: who did that has a token of what once was allowed, and no other.
    for (const guess of ['', 'x', hashOf(refresh)]) assert.equal(await at.refresh(guess), null)
  })

  test('put back let a browser in that has its cookie, until its person was signed out everywhere, and no other browser', async () => {
    const at = stage(world, 'cookie')
    const { browser } = await at.arrive(at.victim)
    const other = await at.arrive(at.thief)
    const session = () => world.app.db.selectFrom('oauth_records').selectAll().where('kind', '=', 'Session').where('user_id', '=', at.victimId) // prettier-ignore
    const old = await session().execute()
    const cookies = new Map(browser.cookies)
    await world.app.db.deleteFrom('oauth_records').where('kind', '=', 'Session').where('user_id', '=', at.victimId).execute() // prettier-ignore
    await putBack(old)
    assert.notEqual(at.victims(await at.tokenOf(browser)), null)
    assert.equal(at.victims(await at.tokenOf(other.browser)), null)
    await world.app.db.deleteFrom('oauth_records').where('kind', '=', 'Session').where('user_id', '=', at.victimId).execute() // prettier-ignore
    await sql`update accounts set signed_out_at = now() + interval '1 second' where user_id = ${at.victimId}`.execute(world.app.db) // prettier-ignore
    await putBack(old)
    for (const [key, cookie] of cookies) browser.cookies.set(key, cookie)
    assert.equal(await at.tokenOf(browser), null)
  })

  test('a consent that was revoked and is put back is a consent, to what it was to', async () => {
    const at = stage(world, 'consent')
    const { browser } = await at.arrive(at.victim, { scope: 'openid wallet:read' })
    const { db } = world.app
    const { account_id: accountId } = await db.selectFrom('accounts').select('account_id').where('user_id', '=', at.victimId).executeTakeFirstOrThrow() // prettier-ignore
    const old = await db
      .selectFrom('consents')
      .selectAll()
      .where('account_id', '=', accountId)
      .executeTakeFirstOrThrow()
    await db.deleteFrom('consents').where('account_id', '=', accountId).execute()
    assert.equal(await at.tokenOf(browser), null)
    await db.insertInto('consents').values({ ...old, permissions: JSON.stringify(old.permissions), keys: JSON.stringify(old.keys), ways: JSON.stringify(old.ways) }).execute() // prettier-ignore
    assert.notEqual(await at.tokenOf(browser), null)
    assert.equal(await at.tokenOf(browser, { scope: 'openid wallet:read contracts:write' }), null)
  })

  test('what someone wrote into a consent is not kept when its person allows something', async () => {
    const at = stage(world, 'kept')
    const { browser } = await at.arrive(at.victim, { scope: 'openid wallet:read' })
    const whose = `account_id = (select account_id from accounts where user_id = '${at.victimId}')`
    await at.run(`update consents set permissions = '["wallet:read", "contracts:write"]' where ${whose}`)
    await browser.signIn(authorizationUrl(world.origin, { scope: 'openid wallet:read' }).url, at.victim)
    assert.notEqual(await at.tokenOf(browser), null)
    assert.equal(await at.tokenOf(browser, { scope: 'openid wallet:read contracts:write' }), null)
  })

  test('an access token is good whatever becomes of the rows that it came of: it says itself whose it is', async () => {
    const at = stage(world, 'bearer')
    const { access, grantId } = await at.arrive(at.victim)
    await at.run(`update oauth_records set payload = payload || '{"accountId":"x"}' where grant_id = '${grantId}'`)
    assert.equal((await askMe(world.origin, access)).status, 200)
  })

  test('an application that was changed cannot be changed further, only suspended; what was changed is not taken for right', async () => {
    const at = stage(world, 'changed')
    const clientId = await at.application()
    await at.run(`update applications set name = 'Bank' where client_id = '${clientId}'`)
    await assert.rejects(updateApplication(world.app, clientId, { logoUri: null }), {
      code: 'application_not_authentic',
    })
    assert.notEqual((await suspendApplication(world.app, clientId)).suspendedAt, null)
    assert.equal(await findApplication({ ...world.app, state: openState() }, clientId), null)
    const { digest, applications } = await listUnauthentic({ db: world.app.db, rowKeys: world.app.rowKeys! })
    assert.deepEqual(applications.map(({ client_id, name }) => [client_id, name]), [[clientId, 'Bank']]) // prettier-ignore
    await authenticateRows({ db: world.app.db, rowKeys: world.app.rowKeys! }, { listed: digest, withSignIns: false })
    const { name, isSuspended } = (await findApplication({ ...world.app, state: openState() }, clientId))!
    assert.deepEqual([name, isSuspended], ['Bank', true])
    await updateApplication(world.app, clientId, { name: 'Shop' })
  })
})

test('a record that says nothing any more counts as absent, and keeps no operator from the list', async (t) => {
  const world = await rehearse()
  t.after(() => world.close())
  const at = stage(world, 'nothing')
  const { browser, refresh } = await at.arrive(at.victim)
  await at.run(`update oauth_records set payload = 'null' where kind in ('Session', 'RefreshToken', 'Grant')`)
  assert.equal(await at.refresh(refresh), null)
  assert.equal(await at.tokenOf(browser), null)
  await browser.signIn('/account', at.victim)
  assert.notEqual(at.victims(await at.tokenOf(browser)), null)
  const { db, rowKeys } = world.app
  const { signIns } = await listUnauthentic({ db, rowKeys: rowKeys! })
  assert.ok(signIns.Grant! >= 1 && signIns.RefreshToken! >= 1)
  await at.run(`update oauth_records set payload = 'null' where kind in ('Session', 'Grant')`)
  assert.equal((await browser.go('/account')).status, 200)
  const { browsers, applications } = await signOut(db, endInDatabase(db, systemClock), at.victimId as UserId)
  assert.ok(browsers >= 1 && applications >= 1)
})

test('what is changed while an accepted list is written is not accepted with it', async (t) => {
  const world = await rehearse()
  t.after(() => world.close())
  const at = stage(world, 'meanwhile')
  await at.arrive(at.victim, { scope: 'openid wallet:read' })
  const { db, rowKeys } = world.app
  for (const table of ['consents', 'applications']) await sql`update ${sql.table(table)} set mac = null`.execute(db)
  const { digest } = await listUnauthentic({ db, rowKeys: rowKeys! })
  let looks = 0
  // The thief waits until the list was compared.
  const watched = db.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      if (result.rows.some((row) => 'permissions' in row && 'account_id' in row) && ++looks === 1) {
        await at.run(`update consents set permissions = '["wallet:read", "contracts:write"]'`)
        await at.run(`update applications set redirect_uris = '["https://evil.example/cb"]'`)
      }
      return result
    },
  })
  await authenticateRows({ db: watched, rowKeys: rowKeys! }, { listed: digest, withSignIns: false })
  at.forget('demo')
  assert.equal(await findApplication({ ...world.app, state: openState() }, 'demo'), null)
  const { consents, applications } = await listUnauthentic({ db, rowKeys: rowKeys! })
  assert.deepEqual([consents.length, applications.length], [1, 1])
})

suite('after keys were lost or leaked', () => {
  test('an operator who accepts what is there signs nobody out, and nothing that comes later is believed', async (t) => {
    const first = await rehearse({ asksForMacs: false })
    t.after(() => first.close())
    const at = stage(first, 'before')
    const [{ browser, refresh }, late] = [await at.arrive(at.victim), await at.arrive(at.thief)]
    await first.server.close()
    const again = await rehearse({ again: first })
    t.after(() => again.server.close())
    const { db } = again.app
    await db.updateTable('applications').set({ mac: null }).execute()
    const rowKeys = again.app.rowKeys!
    const listed = await listUnauthentic({ db, rowKeys })
    assert.deepEqual(
      listed.applications.map((one) => one.client_id),
      ['demo'],
    )
    assert.deepEqual(
      [listed.consents.map((one) => one.people), listed.signIns.Session, listed.signIns.Grant],
      [[2], 2, 2],
    )
    // What a server writes from now on is its own, and not listed; what a thief writes changes the list.
    await db.updateTable('applications').set({ redirect_uris: '["https://evil.example/cb"]' }).execute()
    assert.equal(await authenticateRows({ db, rowKeys }, { listed: listed.digest, withSignIns: true }), null)
    await db
      .updateTable('applications')
      .set({ redirect_uris: JSON.stringify(first.demo.redirectUris) })
      .execute()
    const done = await authenticateRows({ db, rowKeys }, { listed: listed.digest, withSignIns: true })
    assert.deepEqual([done!.applications, done!.consents, done!.signIns >= 6], [1, 2, true])
    assert.deepEqual(await authenticateRows({ db, rowKeys }, { listed: (await listUnauthentic({ db, rowKeys })).digest, withSignIns: true }), { applications: 0, consents: 0, signIns: 0 }) // prettier-ignore

    const now = stage(again, 'before')
    now.forget('demo')
    assert.notEqual(now.victims(await now.tokenOf(browser)), null, 'the browser is still signed in')
    assert.notEqual(now.victims(await now.refresh(refresh)), null)
    await now.run(`update oauth_records set payload = jsonb_set(payload, '{accountId}', '"${now.thiefId}"') where grant_id = '${late.grantId}'`) // prettier-ignore
    await now.run(`update oauth_records set mac = null where grant_id = '${late.grantId}'`)
    assert.equal(await now.refresh(late.refresh), null)
  })

  test('without sign-ins their people sign in again, and applications and consents remain', async (t) => {
    const world = await rehearse()
    t.after(() => world.close())
    const { db, rowKeys } = world.app
    const at = stage(world, 'ended')
    const { browser, refresh } = await at.arrive(at.victim)
    for (const table of ['oauth_records', 'consents', 'applications'])
      await sql`update ${sql.table(table)} set mac = null`.execute(db)
    at.forget('demo')
    assert.equal(await at.refresh(refresh), null)
    const { digest } = await listUnauthentic({ db, rowKeys: rowKeys! })
    const done = await authenticateRows({ db, rowKeys: rowKeys! }, { listed: digest, withSignIns: false })
    assert.deepEqual(done, { applications: 1, consents: 1, signIns: 0 })
    at.forget('demo')
    assert.equal(await at.refresh(refresh), null)
    assert.equal(await at.tokenOf(browser), null)
    await browser.signIn('/account', at.victim)
    assert.notEqual(at.victims(await at.tokenOf(browser)), null, 'what was allowed is still allowed')
  })
})

test('keys change without signing anyone out: both are known, what an older one has written is renewed, and can go', async (t) => {
  const [old, fresh] = [newRowKey(), newRowKey()]
  const first = await rehearse({ keys: { ...newKeys(), rows: [old] } })
  t.after(() => first.close())
  const { db } = first.app
  const at = stage(first, 'rotated')
  const [used, idle] = [await at.arrive(at.victim), await at.arrive(at.thief)]
  await first.server.close()

  // A replica that has switched, and one that knows both and signs by the old one.
  const switched = await rehearse({ again: first, keys: { ...first.keys, rows: [fresh, old] } })
  const behind = await rehearse({ again: switched, keys: { ...first.keys, rows: [old, fresh] } })
  t.after(async () => void (await Promise.all([switched.server.close(), behind.server.close()])))
  const now = stage(switched, 'rotated')
  const token = async (base: string, refresh: string) =>
    (await post(base, '/oauth/token', { grant_type: 'refresh_token', refresh_token: refresh, client_id: 'demo' })).body
  const one = await token(switched.base, used.refresh)
  const two = await token(behind.base, one.refresh_token!)
  const three = await token(switched.base, two.refresh_token!)
  assert.ok(three.access_token !== undefined && now.victims(three.access_token) !== null)

  const both = switched.app.rowKeys!
  assert.ok((await countOnOlderRowKeys({ db, rowKeys: both })) > 0)
  await db.updateTable('oauth_records').set({ user_id: 'DEV-other' }).where('grant_id', '=', idle.grantId).where('kind', '=', 'Grant').execute() // prettier-ignore
  const worker = startRenewingMacs(switched.app)
  await worker.stop()
  assert.ok((await renewMacs({ db, rowKeys: both })) + renewedIn(switched) > 0)
  assert.equal(await countOnOlderRowKeys({ db, rowKeys: both }), 0)
  const alone = rowKeysOf([fresh])
  assert.deepEqual(
    (await listUnauthentic({ db, rowKeys: alone })).signIns,
    { Grant: 1 },
    'what was changed is not renewed',
  )

  await Promise.all([switched.server.close(), behind.server.close()])
  const dropped = await rehearse({ again: first, keys: { ...first.keys, rows: [fresh] } })
  t.after(() => dropped.server.close())
  const last = stage(dropped, 'rotated')
  assert.notEqual(last.victims(await last.refresh(three.refresh_token!)), null)
  assert.notEqual(last.victims(await last.tokenOf(used.browser)), null)
  assert.equal(await last.refresh(idle.refresh), null)
})

const renewedIn = ({ logged }: Rehearsal): number =>
  logged.map((one) => one as { event: string; fields: { rows: number } }).find(({ event }) => event === 'rows_renewed')?.fields.rows ?? 0 // prettier-ignore
