import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { after, before, beforeEach, test } from 'node:test'
import { noSealKeys } from '../../test/seal-keys.ts'
import { importJWK, SignJWT } from 'jose'
import { sql } from 'kysely'
import { testDatabase } from '../../test/kit/database.ts'
import { until } from '../../test/kit/until.ts'
import { audienceOf, issuerOf, type App } from '../app.ts'
import { resumeApplication, suspendApplication, updateApplication } from '../applications/manage.ts'
import { saveApplication } from '../applications/registry.ts'
import { readConfig } from '../config.ts'
import { accountIdOf, type Hex } from '../ids.ts'
import { connectSigner } from '../signer-wire/client.ts'
import { ask, CHAIN_ID, makePlace, refusal, startSigner, type Place, type Running } from '../../test/kit/signer.ts'
import { fromHex } from '../hex.ts'
import { openTelemetry } from '../telemetry.ts'
import { freezeAccount, unfreezeAccount } from '../users/freeze.ts'
import { revokeAll } from './account/allowed.ts'
import { newKeys, publicKeys } from './keys.ts'
import { demoApplication } from '../../test/rehearsal.ts'
import { startRevocations, type Publisher } from './revocations.ts'
import { revokeGrant } from './revoke.ts'
import { openState } from '../state.ts'
import { systemClock, type Clock } from '../clock.ts'

const ORIGIN = 'http://localhost:4000'
const USER = 'DISCORD-1'
const keys = newKeys()

let database: Awaited<ReturnType<typeof testDatabase>>
let place: Place
let signer: Running
let address: Hex
let replicas: (App & { publisher: Publisher; logged: string[] })[]
let nonce = 0

before(async () => {
  database = await testDatabase()
  place = await makePlace()
  writeFileSync(place.env.SIGNER_JWKS_FILE!, JSON.stringify(publicKeys(keys)))
  signer = await startSigner(place, { more: { SIGNER_REVOCATIONS_SECONDS: '60' } })
  address = (await signer.createAccount({ userId: USER })).address
  await database.db
    .insertInto('accounts')
    .values({ account_id: accountIdOf('DISCORD', '1'), user_id: USER, address: fromHex(address) })
    .execute()
  await database.db
    .insertInto('identities')
    .values({ provider: 'DISCORD', subject: '1', account_id: accountIdOf('DISCORD', '1'), username: 'one' })
    .execute()
  await saveApplication({ db: database.db, sealKeys: noSealKeys }, demoApplication)
  replicas = [replica(), replica()]
})

beforeEach(async () => {
  for (const { publisher } of replicas) await publisher.publish()
})

after(async () => {
  for (const { publisher, signer: own } of replicas) {
    publisher.stop()
    own.close()
  }
  await signer.end('SIGKILL')
  place.clear()
  await database.close()
})

/** One server of several: its own connection to the signer, the database shared. */
function replica(clock: Clock = systemClock) {
  const logged: string[] = []
  const line = (event: string): void => void logged.push(event)
  const app = {
    config: readConfig({ NODE_ENV: 'test' }, 'server'),
    origin: ORIGIN,
    authOrigin: ORIGIN,
    db: database.db,
    signer: connectSigner({ path: place.env.SIGNER_SOCKET! }),
    telemetry: { ...openTelemetry('test', 'silent'), log: { debug: line, info: line, warn: line, error: line } },
    tokenKeys: publicKeys(keys),
    chains: new Map(),
    state: openState(),
    clock,
  } as App
  return Object.assign(app, { publisher: startRevocations(app, keys), logged })
}

async function tokenOf(grantId: string): Promise<string> {
  const signing = keys.keys[0]!
  return new SignJWT({
    client_id: 'demo',
    scope: 'contracts:write',
    chain_id: CHAIN_ID,
    gid: grantId,
    jti: randomUUID(),
  })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: signing.kid })
    .setIssuer(issuerOf({ authOrigin: ORIGIN }))
    .setAudience(audienceOf(ORIGIN))
    .setSubject(USER)
    .setIssuedAt()
    .setExpirationTime('1h')
    .sign(await importJWK(signing, 'ES256'))
}

/** At the signer itself, as a server that no longer asks anyone would. */
const signWith = (accessToken: string) => signer.sign(ask(address, { accessToken, nonce, intentId: `tx_${nonce++}` }))
async function isRefused(accessToken: string, code: string): Promise<void> {
  const before = nonce
  await assert.rejects(signWith(accessToken), refusal(code))
  nonce = before
}

test('a sign-out at one replica ends the token at the signer at once, whatever the others bring', async () => {
  const second = replicas[1]!
  // The next list that is due by itself never comes from there.
  const first = replica({ ...systemClock, after: (ms, call) => systemClock.after(ms < 5_000 ? ms : 3_600_000, call) })
  replicas.push(first)
  const { bringRevocations } = first.signer
  let brought = 0
  first.signer.bringRevocations = (list) => (brought++, bringRevocations(list))
  const token = await tokenOf('sign-out')
  await signWith(token)
  await revokeGrant(first, 'sign-out')
  await until('the signer refuses', async () => {
    const known = nonce
    const answer = await signWith(token).catch((error: Error & { code: string }) => error.code)
    if (answer === 'invalid_token') nonce = known
    return answer === 'invalid_token'
  })
  await until('it is in a list of the replica', () => brought > 0)
  await second.publisher.publish()
  await isRefused(token, 'invalid_token')
  await signWith(await tokenOf('another sign-in'))
})

test('what another process revoked is in the next list of every replica', async () => {
  const token = await tokenOf('elsewhere')
  await database.db
    .insertInto('revoked_grants')
    .values({ grant_id: 'elsewhere', forget_at: new Date(Date.now() + 60_000) })
    .execute()
  await signWith(token)
  await replicas[1]!.publisher.publish()
  await isRefused(token, 'invalid_token')
})

test('a revocation is remembered as long as a token of before lives, though the setting of today is shorter', async () => {
  const [app] = replicas as [App & { publisher: Publisher }, ...unknown[]]
  const brief = { ...app, config: { ...app.config, ACCESS_TOKEN_SECONDS: 60 } }
  for (const [grantId, livesSeconds] of [
    ['of-before', 3_000],
    ['brief', 30],
  ] as const) {
    // prettier-ignore
    const until = new Date(Date.now() + livesSeconds * 1_000)
    await database.db
      .insertInto('oauth_records')
      .values({
        kind: 'Grant',
        id_hash: Buffer.from(grantId),
        grant_id: grantId,
        payload: '{}',
        expires_at: until,
        access_until: until,
      })
      .execute()
    await revokeGrant(brief, grantId)
    const { forget_at } = await database.db
      .selectFrom('revoked_grants')
      .select('forget_at')
      .where('grant_id', '=', grantId)
      .executeTakeFirstOrThrow()
    assert.ok(forget_at.getTime() >= until.getTime(), grantId)
    assert.ok(forget_at.getTime() < until.getTime() + 180_000, grantId)
  }
})

test('a suspended application’s tokens are refused, and good again when it is resumed', async () => {
  const token = await tokenOf('suspended')
  await suspendApplication({ db: database.db, sealKeys: noSealKeys }, 'demo')
  await replicas[0]!.publisher.publish()
  await isRefused(token, 'application_suspended')
  await resumeApplication({ db: database.db, sealKeys: noSealKeys }, 'demo')
  await replicas[1]!.publisher.publish()
  await signWith(token)
})

test('the signer refuses the tokens of an application that may not write any more', async () => {
  const token = await tokenOf('no longer writing')
  await updateApplication({ db: database.db, sealKeys: noSealKeys }, 'demo', { permissions: ['wallet:read'] })
  await replicas[0]!.publisher.publish()
  await isRefused(token, 'application_suspended')
  await updateApplication({ db: database.db, sealKeys: noSealKeys }, 'demo', {
    permissions: ['wallet:read', 'contracts:write'],
  })
  await replicas[0]!.publisher.publish()
  await signWith(token)
})

test('a frozen account’s tokens are refused, and good again when it is unfrozen', async () => {
  const token = await tokenOf('frozen')
  const { frozenAt } = await freezeAccount(database.db, USER)
  assert.equal((await freezeAccount(database.db, USER)).frozenAt, frozenAt)
  await replicas[0]!.publisher.publish()
  await isRefused(token, 'account_frozen')
  assert.deepEqual(await unfreezeAccount(database.db, USER), { userId: USER, frozenAt: null })
  await replicas[0]!.publisher.publish()
  await signWith(token)
  await assert.rejects(freezeAccount(database.db, 'DISCORD-none'), { code: 'not_found' })
})

test('a database that forgets a freeze or a suspension thaws nothing in the signer; unfreezing after freezing again does', async () => {
  const token = await tokenOf('forgotten')
  const { publish } = replicas[0]!.publisher
  await freezeAccount(database.db, USER)
  await publish()
  await isRefused(token, 'account_frozen')
  // What a restore to before the incident leaves: no freeze, and nobody who lifted it.
  await database.db.updateTable('accounts').set({ frozen_at: null }).where('user_id', '=', USER).execute()
  await publish()
  await isRefused(token, 'account_frozen')
  await freezeAccount(database.db, USER)
  await unfreezeAccount(database.db, USER)
  await publish()
  await signWith(token)

  await suspendApplication({ db: database.db, sealKeys: noSealKeys }, 'demo')
  await publish()
  await database.db.updateTable('applications').set({ suspended_at: null }).execute()
  await publish()
  await isRefused(token, 'application_suspended')
  await suspendApplication({ db: database.db, sealKeys: noSealKeys }, 'demo')
  await resumeApplication({ db: database.db, sealKeys: noSealKeys }, 'demo')
  await publish()
  await signWith(token)
})

test('a clock of the database that was set back cannot keep somebody frozen', async () => {
  const { publish } = replicas[0]!.publisher
  const token = await tokenOf('clock')
  const later = new Date(Date.now() + 5_000)
  await database.db.updateTable('accounts').set({ frozen_at: later }).where('user_id', '=', USER).execute()
  await publish()
  await isRefused(token, 'account_frozen')
  await unfreezeAccount(database.db, USER)
  await publish()
  await signWith(token)
  await freezeAccount(database.db, USER)
  await publish()
  await isRefused(token, 'account_frozen')
  await unfreezeAccount(database.db, USER)
  await publish()
  await signWith(token)
})

test('a freeze without a time in the database is kept like any other, and lifted like one', async () => {
  const token = await tokenOf('timeless')
  const { publish } = replicas[0]!.publisher
  for (const time of ['infinity', '-infinity', '1960-01-01']) {
    await sql`update accounts set frozen_at = ${time}::timestamptz, unfrozen_at = null where user_id = ${USER}`.execute(database.db) // prettier-ignore
    await publish()
    await database.db.updateTable('accounts').set({ frozen_at: null }).where('user_id', '=', USER).execute()
    await publish()
    await isRefused(token, 'account_frozen')
    await sql`update accounts set unfrozen_at = now() + interval '15 s' where user_id = ${USER}`.execute(database.db)
    await publish()
    await signWith(token)
  }
  await database.db.updateTable('accounts').set({ unfrozen_at: null }).where('user_id', '=', USER).execute()
})

test('whoever deletes their data ends every token they have', async () => {
  const grants = ['deleted 1', 'deleted 2']
  for (const grant of grants)
    await database.db
      .insertInto('oauth_records')
      .values({
        kind: 'Grant',
        id_hash: Buffer.from(grant),
        grant_id: grant,
        user_id: USER,
        client_id: 'demo',
        payload: '{}',
        expires_at: new Date(Date.now() + 60_000),
      })
      .execute()
  await revokeAll(replicas[0]!, { accountId: accountIdOf('DISCORD', '1'), userId: USER })
  await replicas[0]!.publisher.publish()
  for (const grant of grants) await isRefused(await tokenOf(grant), 'invalid_token')
})

test('more revocations than a frame holds are brought in parts; those whose tokens are gone are left out', async () => {
  await sql`insert into revoked_grants (grant_id, forget_at)
    select 'many ' || n || repeat('x', 32), now() + interval '1 hour' from generate_series(1, 20000) n`.execute(
    database.db,
  )
  await sql`insert into revoked_grants (grant_id, forget_at) values ('gone', now() - interval '1 second')`.execute(
    database.db,
  )
  await replicas[0]!.publisher.publish()
  const named = (n: number) => `many ${n}${'x'.repeat(32)}`
  for (const n of [1, 9_999, 20_000]) await isRefused(await tokenOf(named(n)), 'invalid_token')
  await signWith(await tokenOf('gone'))
  await sql`delete from revoked_grants where grant_id like 'many %'`.execute(database.db)
})

test('a signer that refuses or is away is told of once, and the server goes on', async () => {
  const [, second] = replicas
  await signer.end('SIGKILL')
  for (let round = 0; round < 3; round++) await assert.rejects(second!.publisher.publish())
  assert.equal(second!.logged.filter((event) => event === 'revocations_not_published').length, 1)
  signer = await startSigner(place, { more: { SIGNER_REVOCATIONS_SECONDS: '2' } })
  await second!.publisher.publish()
  const token = await tokenOf('later')
  await signWith(token)
  for (const { publisher } of replicas) publisher.stop()
  // Nobody brings a list any more: withheld or not made, it is the same.
  await until('it is stale', async () => (await signer.health()).revocations === 'stale')
  await isRefused(token, 'revocations_stale')
})
