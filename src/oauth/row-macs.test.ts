import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { decodeJwt } from 'jose'
import { sql } from 'kysely'
import { hashOf, stage } from '../../test/forged-rows.ts'
import { askMe, authorizationUrl, post, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { madeSealKeys, noSealKeys } from '../../test/seal-keys.ts'
import { findApplication } from '../applications/registry.ts'
import { suspendApplication, updateApplication } from '../applications/manage.ts'
import type { UserId } from '../ids.ts'
import { openState } from '../state.ts'
import { isSealed, sealOf, type SealedTable } from '../store/seal.ts'
import {
  authenticateRows,
  countOnOlderKeys,
  listUnauthentic,
  renewSeals,
  startRenewingSeals,
} from './authenticate-rows.ts'
import { newKeys } from './keys.ts'
import { newSealKey, publicSealKeys, sealKeysOf } from './seal-keys.ts'
import { endInDatabase, signOut } from './sign-out.ts'
import { systemClock } from '../clock.ts'

const rows = {
  consents: { account_id: 'a', client_id: 'shop', permissions: ['x', 'y'], keys: { k: { permissions: ['ä'], at: '1' } }, ways: [] }, // prettier-ignore
  identities: { provider: 'TWO', subject: '7', user_id: 'ONE-1' },
  oauth_records: { kind: 'Session', id_hash: 'ab', grant_id: null, uid: 'u', user_id: 'ONE-1', client_id: null, payload: { exp: 1 }, consumed_at: null }, // prettier-ignore
  applications: {
    client_id: 'shop',
    name: 'Shop',
    chain_id: 1,
    kind: 'web',
    redirect_uris: ['https://shop.example/back'],
    permissions: ['x'],
    allowed_origins: ['https://shop.example'],
    secret_hashes: ['ab'],
    logo_uri: 'https://shop.example/logo.png',
    needs_pkce: true,
    needs_dpop: false,
    issuers: [{ issuer: 'https://shop.example' }],
    post_logout_redirect_uris: ['https://shop.example/out'],
    is_first_party: false,
  },
}

test('a seal is of one row: its table, its key and each of its columns, whatever order the database gives members in', () => {
  const keys = madeSealKeys()
  const isRight = (table: SealedTable, row: object, seal: string | null, by = keys) =>
    isSealed(by, table, { ...row, seal } as never)
  for (const [table, row] of Object.entries(rows) as [keyof typeof rows, Record<string, unknown>][]) {
    const seal = sealOf(keys, table, row as never)
    assert.ok(isRight(table, row, seal), table)
    for (const column of Object.keys(row))
      for (const value of ['other', null, [], { one: '1' }])
        if (JSON.stringify(row[column]) !== JSON.stringify(value))
          assert.equal(
            isRight(table, { ...row, [column]: value }, seal),
            false,
            `${table}.${column} ${JSON.stringify(value)}`,
          )
    for (const other of ['consents', 'identities', 'oauth_records'] as const)
      if (other !== table) assert.equal(isRight(other, { ...rows[other], ...row }, seal), false, `${table} ${other}`)
    const [kid, digest] = seal!.split(' ') as [string, string]
    for (const wrong of [
      null,
      '',
      kid,
      `${kid} `,
      ` ${digest}`,
      digest,
      `${kid} ${digest.slice(1)}`,
      `${kid} ${digest}AAAA`,
      sealOf(madeSealKeys(), table, row as never),
    ])
      assert.equal(isRight(table, row, wrong), false, `${table} ${wrong}`)
    assert.equal(sealOf(noSealKeys, table, row as never), null)
  }
  const { consents } = rows
  const seal = sealOf(keys, 'consents', consents)
  const k = { at: '1', permissions: ['ä'], gone: undefined }
  assert.ok(isRight('consents', { ...consents, keys: { k } }, seal))
  const moved = { ...consents, permissions: ['x'], keys: 'y' }
  for (const other of [{ permissions: ['y', 'x'] }, { permissions: ['x'] }, moved, { keys: { k: { ...k, at: 1 } } }])
    assert.equal(isRight('consents', { ...consents, ...other }, seal), false, JSON.stringify(other))
})

test('a seal is of its table, also where another one has the same columns in the same order', () => {
  const keys = madeSealKeys()
  const [at, bytes] = [new Date(0), Buffer.of(1)]
  const names = { interaction_uid: 'i', provider: 'p', nonce: 'n', code_verifier: 'v', request: null }
  const visit = { ...names, state_hash: bytes, browser_hash: bytes, expires_at: at }
  const record = { kind: '01', id_hash: 'i', grant_id: 'p', uid: 'n', user_id: 'v', client_id: '01', payload: null, consumed_at: at.toISOString() } // prettier-ignore
  const seal = sealOf(keys, 'sign_ins', visit)
  assert.ok(isSealed(keys, 'sign_ins', { ...visit, seal }))
  assert.equal(isSealed(keys, 'oauth_records', { ...record, seal }), false)
})

test('a program that has public keys alone tells false signatures, and no row under a MAC', () => {
  const keys = madeSealKeys()
  const reader = { ...keys, signing: null, macs: null }
  const { identities, consents } = rows
  const seal = sealOf(keys, 'identities', identities)
  assert.ok(isSealed(reader, 'identities', { ...identities, seal }))
  assert.equal(isSealed(reader, 'identities', { ...identities, user_id: 'ONE-2', seal }), false)
  assert.equal(isSealed(reader, 'identities', { ...identities, seal: null }), false)
  assert.ok(isSealed(reader, 'consents', { ...consents, seal: null }))
})

test('what checks a signature makes no MAC: the two have keys of their own', () => {
  const key = newSealKey()
  const { macs, known } = sealKeysOf([key])
  const secret = macs!.get(key.kid)!.export()
  for (const half of [key.d!, key.x]) assert.notDeepEqual(secret, Buffer.from(half, 'base64url'))
  assert.deepEqual(
    [...known.values()].map(({ type }) => type),
    ['public'],
  )
  assert.deepEqual(sealKeysOf(publicSealKeys([key])).macs, null)
  assert.doesNotMatch(JSON.stringify(publicSealKeys([key])), new RegExp(key.d!))
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
    const { digest, applications } = await listUnauthentic({ db: world.app.db, sealKeys: world.app.sealKeys })
    assert.deepEqual(applications.map(({ client_id, name }) => [client_id, name]), [[clientId, 'Bank']]) // prettier-ignore
    await authenticateRows({ db: world.app.db, sealKeys: world.app.sealKeys }, { listed: digest, withSignIns: false })
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
  const { db, sealKeys } = world.app
  const { signIns } = await listUnauthentic({ db, sealKeys })
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
  const { db, sealKeys } = world.app
  for (const table of ['consents', 'applications']) await sql`update ${sql.table(table)} set seal = null`.execute(db)
  const { digest } = await listUnauthentic({ db, sealKeys })
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
  await authenticateRows({ db: watched, sealKeys }, { listed: digest, withSignIns: false })
  at.forget('demo')
  assert.equal(await findApplication({ ...world.app, state: openState() }, 'demo'), null)
  const { consents, applications } = await listUnauthentic({ db, sealKeys })
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
    await db.updateTable('applications').set({ seal: null }).execute()
    const sealKeys = again.app.sealKeys
    const listed = await listUnauthentic({ db, sealKeys })
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
    assert.equal(await authenticateRows({ db, sealKeys }, { listed: listed.digest, withSignIns: true }), null)
    await db
      .updateTable('applications')
      .set({ redirect_uris: JSON.stringify(first.demo.redirectUris) })
      .execute()
    const done = await authenticateRows({ db, sealKeys }, { listed: listed.digest, withSignIns: true })
    assert.deepEqual([done!.applications, done!.consents, done!.signIns >= 6], [1, 2, true])
    assert.deepEqual(await authenticateRows({ db, sealKeys }, { listed: (await listUnauthentic({ db, sealKeys })).digest, withSignIns: true }), { applications: 0, consents: 0, identities: 0, ledBack: 0, operators: 0, signIns: 0 }) // prettier-ignore

    const now = stage(again, 'before')
    now.forget('demo')
    assert.notEqual(now.victims(await now.tokenOf(browser)), null, 'the browser is still signed in')
    assert.notEqual(now.victims(await now.refresh(refresh)), null)
    await now.run(`update oauth_records set payload = jsonb_set(payload, '{accountId}', '"${now.thiefId}"') where grant_id = '${late.grantId}'`) // prettier-ignore
    await now.run(`update oauth_records set seal = null where grant_id = '${late.grantId}'`)
    assert.equal(await now.refresh(late.refresh), null)
  })

  test('without sign-ins their people sign in again, and applications and consents remain', async (t) => {
    const world = await rehearse()
    t.after(() => world.close())
    const { db, sealKeys } = world.app
    const at = stage(world, 'ended')
    const { browser, refresh } = await at.arrive(at.victim)
    for (const table of ['oauth_records', 'consents', 'applications'])
      await sql`update ${sql.table(table)} set seal = null`.execute(db)
    at.forget('demo')
    assert.equal(await at.refresh(refresh), null)
    const { digest } = await listUnauthentic({ db, sealKeys })
    const done = await authenticateRows({ db, sealKeys }, { listed: digest, withSignIns: false })
    assert.deepEqual(done, { applications: 1, consents: 1, identities: 0, ledBack: 0, operators: 0, signIns: 0 })
    at.forget('demo')
    assert.equal(await at.refresh(refresh), null)
    assert.equal(await at.tokenOf(browser), null)
    await browser.signIn('/account', at.victim)
    assert.notEqual(at.victims(await at.tokenOf(browser)), null, 'what was allowed is still allowed')
  })
})

test('keys change without signing anyone out: both are known, what an older one has written is renewed, and can go', async (t) => {
  const [old, fresh] = [newSealKey(), newSealKey()]
  const first = await rehearse({ keys: { ...newKeys(), seals: [old] } })
  t.after(() => first.close())
  const { db } = first.app
  const at = stage(first, 'rotated')
  const [used, idle] = [await at.arrive(at.victim), await at.arrive(at.thief)]
  await first.server.close()

  // A replica that has switched, and one that knows both and signs by the old one.
  const switched = await rehearse({ again: first, keys: { ...first.keys, seals: [fresh, old] } })
  const behind = await rehearse({ again: switched, keys: { ...first.keys, seals: [old, fresh] } })
  t.after(async () => void (await Promise.all([switched.server.close(), behind.server.close()])))
  const now = stage(switched, 'rotated')
  const token = async (base: string, refresh: string) =>
    (await post(base, '/oauth/token', { grant_type: 'refresh_token', refresh_token: refresh, client_id: 'demo' })).body
  const one = await token(switched.base, used.refresh)
  const two = await token(behind.base, one.refresh_token!)
  const three = await token(switched.base, two.refresh_token!)
  assert.ok(three.access_token !== undefined && now.victims(three.access_token) !== null)

  const both = switched.app.sealKeys
  assert.ok((await countOnOlderKeys({ db, sealKeys: both })) > 0)
  await db.updateTable('oauth_records').set({ user_id: 'DEV-other' }).where('grant_id', '=', idle.grantId).where('kind', '=', 'Grant').execute() // prettier-ignore
  const worker = startRenewingSeals(switched.app)
  await worker.stop()
  assert.ok((await renewSeals({ db, sealKeys: both })) + renewedIn(switched) > 0)
  assert.equal(await countOnOlderKeys({ db, sealKeys: both }), 0)
  const alone = sealKeysOf([fresh])
  assert.deepEqual(
    (await listUnauthentic({ db, sealKeys: alone })).signIns,
    { Grant: 1 },
    'what was changed is not renewed',
  )

  await Promise.all([switched.server.close(), behind.server.close()])
  const dropped = await rehearse({ again: first, keys: { ...first.keys, seals: [fresh] } })
  t.after(() => dropped.server.close())
  const last = stage(dropped, 'rotated')
  assert.notEqual(last.victims(await last.refresh(three.refresh_token!)), null)
  assert.notEqual(last.victims(await last.tokenOf(used.browser)), null)
  assert.equal(await last.refresh(idle.refresh), null)
})

const renewedIn = ({ logged }: Rehearsal): number =>
  logged.map((one) => one as { event: string; fields: { rows: number } }).find(({ event }) => event === 'rows_renewed')?.fields.rows ?? 0 // prettier-ignore
