import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { world, type Answer, type World } from '../../test/world.ts'
import { listActions, recorded, verifyActions, type Actor } from './actions.ts'

let here: World
let folder: string
let own: string
const TOKENS = { mira: `cho_${'m'.repeat(43)}`, vera: `cho_${'v'.repeat(43)}`, old: `cho_${'o'.repeat(43)}` }
const hashOf = (token: string) => createHash('sha256').update(token).digest('hex')

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-operators-'))
  const file = join(folder, 'operators')
  await writeFile(
    file,
    `${hashOf(TOKENS.mira)} mira operator\n${hashOf(TOKENS.vera)} vera viewer # reads\n${hashOf(TOKENS.old)}\n`,
  )
  here = await world({ OPERATOR_TOKEN_FILE: file })
  own = (await readFile(join(here.dataDir, 'operator-token'), 'utf8')).trim()
})
after(async () => {
  await here.close()
  await rm(folder, { recursive: true, force: true })
})

const operate = (token: string, method: string, path: string, body?: unknown): Promise<Answer> =>
  here.request(`/operator/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })

const mira: Actor = { name: 'mira', via: 'api' }

test('every change is written down with who did it, what changed and nothing else; reads and refusals are not', async () => {
  const start = (await listActions(here.app.db)).length
  const draft = { name: 'Shop', clientId: 'shop', network: 'devnet', redirectUris: ['https://shop.example/callback'], kind: 'confidential' } // prettier-ignore
  const made = await operate(TOKENS.mira, 'POST', '/applications', draft)
  assert.equal(made.status, 201)
  await operate(TOKENS.mira, 'PATCH', '/applications/shop', { name: 'Corner shop' })
  const rotated = await operate(TOKENS.old, 'POST', '/applications/shop/rotate-secret')
  await operate(own, 'POST', '/applications/shop/suspend')
  await operate(TOKENS.mira, 'POST', `/accounts/${here.bob.userId}/freeze`)
  await operate(TOKENS.mira, 'POST', `/accounts/${here.bob.userId}/unfreeze`)
  await operate(TOKENS.mira, 'POST', '/accounts', { provider: 'DEV', providerUserId: 'zora' })
  await operate(TOKENS.mira, 'POST', `/accounts/${here.bob.userId}/sign-out`)

  assert.equal((await operate(TOKENS.mira, 'POST', '/applications', draft)).status, 409)
  assert.equal((await operate(TOKENS.mira, 'POST', '/accounts/DEV-nobody/freeze')).status, 404)
  assert.equal((await operate(TOKENS.mira, 'POST', '/accounts/DEV-nobody/sign-out')).status, 404)
  assert.equal((await operate(TOKENS.mira, 'PATCH', '/applications/shop', { redirectUris: [] })).status, 400)

  const { status, body } = await operate(TOKENS.vera, 'GET', '/actions')
  assert.equal(status, 200)
  const told = body.slice(0, body.length - start).toReversed() as Awaited<ReturnType<typeof listActions>>
  assert.deepEqual(
    told.map(({ actor, via, action, target }) => [actor, via, action, target]),
    [
      ['mira', 'api', 'create-application', 'shop'],
      ['mira', 'api', 'update-application', 'shop'],
      [`token ${hashOf(TOKENS.old).slice(0, 8)}`, 'api', 'rotate-secret', 'shop'],
      ['this machine', 'api', 'suspend', 'shop'],
      ['mira', 'api', 'freeze', here.bob.userId],
      ['mira', 'api', 'unfreeze', here.bob.userId],
      ['mira', 'api', 'create-account', 'DEV-zora'],
      ['mira', 'api', 'sign-out', here.bob.userId],
    ],
  )
  assert.deepEqual([told[0]!.before, told[0]!.after!.name], [null, 'Shop'])
  assert.deepEqual([told[1]!.before, told[1]!.after], [{ name: 'Shop' }, { name: 'Corner shop' }])
  assert.deepEqual([told[2]!.before, told[2]!.after], [{ liveSecrets: 1 }, { liveSecrets: 2 }])
  assert.equal(told[3]!.before!.suspendedAt, null)
  assert.deepEqual([told[4]!.before, typeof told[4]!.after!.frozenAt], [{ frozenAt: null }, 'string'])
  const text = JSON.stringify(body)
  for (const secret of [made.body.secret, rotated.body.secret, ...Object.values(TOKENS)])
    assert.ok(!text.includes(secret))

  const page = await operate(TOKENS.vera, 'GET', `/actions?limit=2&before=${told.at(-1)!.seq}`)
  assert.deepEqual(page.body.map(({ action }: { action: string }) => action), ['create-account', 'unfreeze']) // prettier-ignore
  assert.equal((await operate(TOKENS.vera, 'GET', '/actions?limit=0')).status, 400)
})

test('a viewer’s token reads and changes nothing', async () => {
  for (const path of ['/applications', '/networks', '/accounts/frozen', '/actions', '/actions/verify'])
    assert.equal((await operate(TOKENS.vera, 'GET', path)).status, 200, path)
  for (const [method, path] of [
    ['POST', '/applications/demo/suspend'],
    ['PATCH', '/applications/demo'],
    ['POST', '/accounts/DEV-alice/freeze'],
    ['DELETE', '/applications/demo/issuers/APP_X'],
    ['POST', '/accounts'],
  ] as const) {
    const { status, body } = await operate(TOKENS.vera, method, path)
    assert.deepEqual([status, body.code], [403, 'insufficient_scope'], path)
  }
})

test('neither the action nor its line is there without the other', async () => {
  const { db } = here.app
  const name = async () => (await operate(own, 'GET', '/applications/demo')).body.name as string
  const before = [await name(), (await listActions(db)).length]
  await sql`alter table operator_actions add constraint nobody_ill check (actor <> 'ill')`.execute(db)
  const rename = (by: Actor) =>
    recorded(db, by, { action: 'rename', target: 'demo' }, async (inside) => {
      await sql`update applications set name = 'Renamed' where client_id = 'demo'`.execute(inside)
      if (by.name === 'second thoughts') throw new Error('no')
    })
  await assert.rejects(rename({ name: 'ill', via: 'api' }))
  await assert.rejects(rename({ name: 'second thoughts', via: 'api' }), /no/)
  assert.deepEqual([await name(), (await listActions(db)).length], before)
  await sql`alter table operator_actions drop constraint nobody_ill`.execute(db)
})

test('actions at once get numbers of their own, and the chain is whole', async () => {
  const { db } = here.app
  const start = (await verifyActions(db)).actions
  await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      recorded(db, mira, { action: 'try', target: String(index) }, async () => {}),
    ),
  )
  const { actions, firstWrong, newest } = await verifyActions(db)
  assert.deepEqual([actions, firstWrong], [start + 20, null])
  assert.equal(newest, (await listActions(db, { limit: 1 }))[0]!.record)
})

test('a row that was changed, exchanged, put in or taken out is told by its number', async () => {
  const { db } = here.app
  for (let number = 0; number < 5; number++)
    await recorded(db, mira, { action: 'try', target: `damaged ${number}` }, async () => {})
  const damages: [string, number, (seq: number) => Promise<unknown>][] = [
    ['another actor', 3, (seq) => sql`update operator_actions set actor = 'nobody' where seq = ${seq}`.execute(db)],
    ['another actor, and its own record made to fit', 4, (seq) => forge(seq - 1)],
    ['another time', 3, (seq) => sql`update operator_actions set at = at + interval '1 second' where seq = ${seq}`.execute(db)], // prettier-ignore
    ['another result', 2, (seq) => sql`update operator_actions set after = '{}' where seq = ${seq}`.execute(db)],
    ['one is gone', 4, (seq) => sql`delete from operator_actions where seq = ${seq}`.execute(db)],
    ['the first is gone', 1, (seq) => sql`delete from operator_actions where seq = ${seq}`.execute(db)],
    ['two changed places', 2, (seq) => sql`update operator_actions set seq = case seq when ${seq} then -1 else ${seq} end where seq in (${seq}, ${seq + 1})`.execute(db).then(() => sql`update operator_actions set seq = ${seq + 1} where seq = -1`.execute(db))], // prettier-ignore
    ['one stands before the first', 0, (seq) => put(seq)],
    ['one stands far before the first', -7, (seq) => put(seq)],
  ]
  // Who knows how a record is made can make one: the next covers it.
  const forge = (seq: number): Promise<unknown> => {
    const { at, action, target, before, after, via } = all[seq - 1]!
    const text = JSON.stringify([seq, at.toISOString(), 'nobody', via, action, target, before, after])
    const record = createHash('sha256')
      .update(all[seq - 2]!.record)
      .update(text)
      .digest()
    return db.updateTable('operator_actions').set({ actor: 'nobody', record }).where('seq', '=', seq).execute()
  }
  const put = (seq: number): Promise<unknown> =>
    db
      .insertInto('operator_actions')
      .values({ ...all[0]!, seq })
      .execute()
  const all = await db.selectFrom('operator_actions').selectAll().orderBy('seq').execute()
  const last = all.length
  damages.push(['one stands behind the newest', last + 1, (seq) => put(seq)])
  damages.push(['the newest is gone', last, (seq) => sql`delete from operator_actions where seq = ${seq}`.execute(db)])
  for (const [what, seq, damage] of damages) {
    await damage(seq)
    assert.equal((await verifyActions(db)).firstWrong, seq, what)
    await sql`delete from operator_actions`.execute(db)
    for (const row of all) await db.insertInto('operator_actions').values(row).execute()
    assert.equal((await verifyActions(db)).firstWrong, null)
  }
  // Without the head nothing tells how many there were.
  const head = await db.deleteFrom('operator_head').returningAll().executeTakeFirstOrThrow()
  assert.equal((await verifyActions(db)).firstWrong, last + 1)
  await db.insertInto('operator_head').values(head).execute()
})
