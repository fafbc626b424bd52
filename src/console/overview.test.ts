import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { openBrowser, textOf } from '../../test/kit/browser.ts'
import { rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { accountIdOf } from '../ids.ts'
import { putOperator } from '../operator/operators.ts'
import type { Signer } from '../signer-wire/client.ts'
import { readActivity, storeActivity } from './activity.ts'
import { findProblems } from './problems.ts'
import { en } from '../texts/en.ts'

let world: Rehearsal
before(async () => {
  world = await rehearse()
  world.app.signer.health = (async () => healthy) as unknown as Signer['health']
})
after(() => world.close())

const healthy = {
  revocations: 'fresh',
  masterKey: { provider: 'file', fault: null },
  policy: null,
  get tokenKeys() {
    return world.app.tokenKeys.keys.map(({ kid }) => kid)
  },
}

const said = async (): Promise<string[]> => (await findProblems(world.app)).map(({ say }) => say(en.console.problems))

test('no problem is known of an installation without a network and with a healthy signer', async () => {
  assert.deepEqual(await said(), [])
})

test('each problem is named with its next step, as soon as a table or the signer shows it', async (t) => {
  const { db, signer } = world.app
  const browser = openBrowser(world.origin)
  await browser.signIn('/account', 'alma')
  const accountId = accountIdOf('DEV', 'alma')
  const { address } = await db.selectFrom('accounts').select('address').where('account_id', '=', accountId).executeTakeFirstOrThrow() // prettier-ignore
  await db
    .insertInto('networks')
    .values({ chain_id: 7, name: 'meadow', genesis_hash: Buffer.alloc(32) })
    .execute()
  const network = (columns: string) =>
    sql`insert into cursors (chain_id, block_number, block_hash, finalized_number, epoch, lease_until) values (7, 500, ${Buffer.alloc(32)}, 0, 1, now() + interval '1 minute')
      on conflict (chain_id) do update set lease_until = excluded.lease_until, ${sql.raw(columns)}`.execute(db)
  await t.test('nobody follows', async () => assert.match((await said()).join(), /No server follows meadow/))
  await network('epoch = 1')
  await t.test('followed', async () => assert.deepEqual(await said(), []))
  await network(`halted = 'The chain changed.'`)
  await t.test('halted', async () => assert.match((await said()).join(), /meadow is halted at block 500: The chain changed\. .*network rewind meadow/)) // prettier-ignore
  await network(`halted = null, blocked_by = 'invalid receipts'`)
  await t.test('blocked', async () => assert.match((await said()).join(), /cannot read the block after 500: invalid receipts/)) // prettier-ignore
  await network('blocked_by = null')
  await sql`insert into history_cursors (chain_id, block_number, block_hash, epoch) values (7, 10, ${Buffer.alloc(32)}, 1)`.execute(db) // prettier-ignore
  await t.test('history', async () => assert.match((await said()).join(), /history of meadow is at block 10, and transactions are at block 500/)) // prettier-ignore
  await db.deleteFrom('history_cursors').execute()
  await sql`insert into stopped_lanes (chain_id, sender, nonce, reason) values (7, ${address}, 3, 'x')`.execute(db)
  await t.test('stopped', async () => assert.match((await said()).join(), /DEV-alma is stopped on chain 7: .* nonce 3\./)) // prettier-ignore
  await db.deleteFrom('stopped_lanes').execute()
  await sql`insert into sponsors (account_id, chain_id, name) values (${accountId}, 7, 'HOUSE')`.execute(db)
  await sql`insert into low_sponsors (chain_id, account_id) values (7, ${accountId})`.execute(db)
  await t.test('low', async () => assert.match((await said()).join(), /Sponsor HOUSE on meadow has a low balance/))
  await db.deleteFrom('low_sponsors').execute()
  const before = signer.health
  const health = (more: object) => (signer.health = (async () => ({ ...healthy, tokenKeys: healthy.tokenKeys, ...more })) as unknown as Signer['health']) // prettier-ignore
  health({ revocations: 'stale', masterKey: { provider: 'file', fault: 'no answer' }, tokenKeys: [], policy: { version: 4, problem: 'no signature' } }) // prettier-ignore
  await t.test('signer', async () => {
    const all = (await said()).join('\n')
    for (const one of [
      /accepts no token/,
      /\(KEK\) cannot be used: no answer/,
      /does not trust the key/,
      /not in force: no signature\. Version 4/,
    ])
      // prettier-ignore
      assert.match(all, one)
  })
  signer.health = async () => Promise.reject(new Error('away'))
  await t.test('no signer', async () => assert.match((await said()).join(), /The signer does not respond/))
  signer.health = before
})

test('ten stopped accounts are named, the longest stopped first, and a thousand more are counted', async () => {
  const { db } = world.app
  const stop = async (from: number, to: number) => {
    const each = sql`generate_series(${from}::int, ${to}::int) as i`
    const address = sql`substr(sha256(i::text::bytea), 1, 20)`
    await sql`insert into accounts (account_id, user_id, address) select lpad(i::text, 32, '0')::uuid, 'DEV-stopped' || i, ${address} from ${each}`.execute(db) // prettier-ignore
    await sql`insert into stopped_lanes (chain_id, sender, nonce, reason, created_at)
      select 7, ${address}, i, 'x', timestamptz '2026-01-01' - i * interval '1 second' from ${each}`.execute(db)
  }
  const named = async () => (await said()).filter((one) => /stopped/.test(one))
  await stop(1, 10)
  const ten = await named()
  assert.deepEqual(
    ten.map((one) => /DEV-stopped\d+/.exec(one)?.[0]),
    Array.from({ length: 10 }, (_, index) => `DEV-stopped${10 - index}`),
  )
  await stop(11, 12)
  assert.match((await named()).at(-1)!, /^2 further accounts are stopped/)
  await stop(13, 1_010)
  assert.match((await named()).at(-1)!, /^1000 further accounts are stopped/)
  await stop(1_011, 1_011)
  const most = await named()
  assert.match(most.at(-1)!, /^1000\+ further accounts are stopped/)
  assert.match(most[0]!, /DEV-stopped1011 /)
  await db.deleteFrom('stopped_lanes').execute()
})

test('requests are counted once, by hour, and the page shows numbers as a drawing and as a table', async () => {
  const { app } = world
  await storeActivity(app)
  await app.db.deleteFrom('activity').execute()
  await openBrowser(world.origin).signIn('/account', 'bela')
  await storeActivity(app)
  await storeActivity(app)
  const { write, 'sign-in': signIns } = await readActivity(app)
  assert.deepEqual([signIns.lastHour, signIns.lastDay, signIns.hours.length, write.lastDay], [1, 1, 24, 0])
  assert.equal(
    signIns.hours.reduce((sum, { count }) => sum + count, 0),
    1,
  )
  const twoHoursAgo = new Date(app.clock.wall() - 7_200_000)
  await app.db
    .insertInto('activity')
    .values([
      { kind: 'write', at: twoHoursAgo, count: 1_234 },
      { kind: 'write', at: new Date(app.clock.wall() - 9 * 86_400_000), count: 5 },
    ])
    .execute()
  await storeActivity(app)
  const later = await readActivity(app)
  assert.deepEqual([later.write.lastHour, later.write.lastDay], [0, 1_234])
  const old = await app.db.selectFrom('activity').select('count').where('count', '=', 5).execute()
  assert.deepEqual(old, [], 'rows are deleted after eight days')
  await putOperator(app, { userId: 'DEV-vera', role: 'viewer' })
  const page = await openBrowser(world.origin).signIn('/console', 'vera')
  assert.match(textOf(page.text), /Writes 0 last hour 1,234 last 24 hours/)
  assert.match(page.text, /<svg\s+class="bars"[^>]*role="img"/)
  assert.ok(!/<script(?! defer src=)|style=| on\w+=/.test(page.text))
})

test('the page is read in the reader’s language', async () => {
  await putOperator(world.app, { userId: 'DEV-vera', role: 'viewer' })
  const page = await openBrowser(world.origin, 'ja').signIn('/console', 'vera')
  assert.match(textOf(page.text), /対応が必要/)
})
