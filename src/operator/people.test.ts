import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { openListener } from '../http/listener.ts'
import { sha256 } from '../sha256.ts'
import { fromHex } from '../hex.ts'
import { listPeople, startCountingPeople } from '../users/people.ts'
import { insertAccount } from '../users/sign-in.ts'
import { fakeApp, type FakeApp } from '../../test/fake-app.ts'
import { doorOf } from './auth.ts'
import { operatorApi } from './routes.ts'

let here: FakeApp
let server: ReturnType<typeof openListener>
let ann: Awaited<ReturnType<FakeApp['account']>>
before(async () => {
  here = await fakeApp()
  const { db } = here
  await db
    .insertInto('networks')
    .values({
      chain_id: here.chain.chainId,
      name: 'devnet',
      symbol: 'ETH',
      coin: 'Ether',
      genesis_hash: Buffer.alloc(32),
    })
    .execute()
  ann = await here.account('ann')
  const ben = await here.account('ben')
  await here.account('100%_sure')
  await insertAccount(db, { userId: 'SPONSOR-HOUSE', address: `0x${'5a'.repeat(20)}` })
  const named = (subject: string, username: string, email: string | null) =>
    db
      .updateTable('identities')
      .set({ username, email, signed_in_at: new Date('2026-01-31T12:00:00Z') })
      .where('subject', '=', subject)
      .execute()
  await named('ann', 'Ann Über', 'Ann@Example.org')
  await named('ben', 'ann', null)
  await db
    .insertInto('identities')
    .values({
      provider: 'GITHUB',
      subject: '7-x',
      account_id: ben.accountId,
      username: 'benno',
      email: 'ben@x.example',
    })
    .execute()
  await db.updateTable('accounts').set({ frozen_at: new Date() }).where('user_id', '=', 'DEV-ben').execute()
  server = openListener(here.app)
  await operatorApi(server, here.app, doorOf([{ hash: sha256('reads'), name: 'eve', role: 'viewer' }]))
})
after(async () => {
  await server.close()
  await here.close()
})

const get = async (path: string, token = 'reads') => {
  const answer = await server.inject({
    url: `/operator/v1/accounts${path}`,
    headers: { authorization: `Bearer ${token}` },
  })
  return { status: answer.statusCode, headers: answer.headers, body: answer.json() }
}
const found = async (search: string) =>
  ((await get(`?search=${encodeURIComponent(search)}`)).body as { userId: string }[]).map(({ userId }) => userId).toSorted() // prettier-ignore

test('an operator finds people by user id, address, or how a name or an e-mail address begins, and nobody by a pattern', async () => {
  for (const [search, ...expected] of [
    ['ann', 'DEV-ann', 'DEV-ben'],
    ['ANN Ü', 'DEV-ann'],
    ['ann@example', 'DEV-ann'],
    ['ben@x.example', 'DEV-ben'],
    ['DEV-ben', 'DEV-ben'],
    ['GITHUB-7-x', 'DEV-ben'],
    ['GITHUB-7', ...[]],
    ['100%_', 'DEV-100%_sure'],
    ['%', ...[]],
    ['_', ...[]],
    ['\\', ...[]],
    ['nn', ...[]],
    ['SPONSOR-HOUSE', ...[]],
    ['a\0', ...[]],
    ["' or 1=1 --", ...[]],
  ])
    assert.deepEqual(await found(search!), expected, search)
  assert.deepEqual(await found(ann.address), ['DEV-ann'])
  assert.equal((await get('/DEV-ann')).body.address, null, 'nobody has asked the signer yet')
  const { attested } = await here.signer.attest!({ userIds: ['DEV-ann'] })
  const attestation = fromHex(attested[0]!.attestation)
  await here.db.updateTable('accounts').set({ attestation }).where('user_id', '=', 'DEV-ann').execute()
  const { body } = await get('?search=ann%40')
  assert.equal(body[0].address.toLowerCase(), ann.address)
  assert.deepEqual(body[0].identities, [
    { userId: 'DEV-ann', username: 'Ann Über', email: 'Ann@Example.org', signedInAt: '2026-01-31T12:00:00.000Z' },
  ])
})

test('people are listed newest first, each once, page by page, and counted; sponsors are none', async () => {
  const seen: string[] = []
  let path = '?limit=1'
  for (;;) {
    const { status, headers, body } = await get(path)
    assert.equal(status, 200)
    seen.push(...body.map(({ userId }: { userId: string }) => userId))
    const cursor = headers['x-next-cursor'] as string | undefined
    if (cursor === undefined) break
    assert.match(String(headers.link), /^<http:\/\/localhost:4000\/operator\/v1\/accounts\?limit=1&cursor=/)
    path = `?limit=1&cursor=${cursor}`
  }
  assert.deepEqual(seen, ['DEV-100%_sure', 'DEV-ben', 'DEV-ann'])
  assert.equal((await get(`${path}&search=a`)).body.code, 'invalid_cursor')
  for (const query of ['cursor=x', 'limit=0', 'limit=201', 'search=', `search=${'a'.repeat(321)}`, 'name=ann'])
    assert.equal((await get(`?${query}`)).status, 400, query)
  assert.deepEqual((await get('/count')).body, {
    ...{ accounts: 3, signedIn: 2, frozen: 1 },
    providers: [
      { provider: 'DEV', identities: 3, signedIn: 2 },
      { provider: 'GITHUB', identities: 1, signedIn: 0 },
    ],
  })
  const { stop } = startCountingPeople(here.app)
  await stop()
  const metrics = await here.app.telemetry.registry.metrics()
  for (const line of ['people{state="signed_in"} 2', 'people{state="expected"} 1', 'people{state="frozen"} 1'])
    assert.ok(metrics.split('\n').includes(line), line)
})

test('a person is read by any identity, with what they sent by every application; nothing of it is a token or a key', async () => {
  const { body: ben } = await get('/GITHUB-7-x')
  assert.deepEqual([ben.userId, typeof ben.frozenAt, ben.identities.length], ['DEV-ben', 'string', 2])
  assert.equal((await get('/DEV-nobody')).status, 404)
  const sent = []
  for (const nonce of [0, 1]) sent.push(await here.row(ann, { nonce, data: Buffer.from('secret') }))
  const first = await get('/DEV-ann/transactions?limit=1')
  const second = await get(`/DEV-ann/transactions?limit=1&cursor=${String(first.headers['x-next-cursor'])}`)
  assert.deepEqual(
    [first, second].flatMap(({ body }) => body.map(({ id }: { id: string }) => id)),
    sent.map(({ id }) => id).toReversed(),
  )
  assert.deepEqual(Object.keys(first.body[0]), [
    ...['id', 'clientId', 'state', 'hash', 'explorerUrl', 'to', 'value', 'abi', 'fee', 'blockNumber', 'sentAt'],
  ])
  assert.equal(second.headers['x-next-cursor'], undefined)
  for (const [path, status] of [
    ['/DEV-ann/transactions?network=devnet', 200],
    ['/DEV-ann/transactions?network=mars', 400],
    ['/DEV-ann/transactions?cursor=x', 400],
    ['/DEV-nobody/transactions', 404],
  ] as const)
    assert.equal((await get(path)).status, status, path)
})

test('nobody but the operator reads them: without a token, and with another one, it is 401', async () => {
  for (const path of ['', '/count', '/DEV-ann', '/DEV-ann/transactions'])
    for (const token of ['', 'wrong']) assert.equal((await get(path, token)).status, 401, path)
})

test('an address that the signer does not attest is not shown to the operator as someone’s', async () => {
  await here.db
    .updateTable('accounts')
    .set({ attestation: Buffer.alloc(64) })
    .where('user_id', '=', 'DEV-ann')
    .execute()
  assert.equal((await get('/DEV-ann')).body.address, null)
})

test('a search of which millions match finds the first thousand names, on pages without a gap or a repetition', async () => {
  await sql`insert into accounts (account_id, user_id, address, created_at)
    select lpad(to_hex(i), 32, '0')::uuid, 'DEV-crowd' || i, decode(lpad(i::text, 40, 'f'), 'hex'), now() - i * interval '1 second'
    from generate_series(1, 1100) as i`.execute(here.db)
  await sql`insert into identities (provider, subject, account_id, username)
    select 'DEV', 'crowd' || i, lpad(to_hex(i), 32, '0')::uuid, 'Crowd' || lpad(i::text, 5, '0') from generate_series(1, 1100) as i`.execute(here.db) // prettier-ignore
  const seen: string[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const { people, nextCursor }: Awaited<ReturnType<typeof listPeople>> = await listPeople(
      { ...here, signer: here.signer } as never,
      { search: 'crowd', limit: 200, cursor: cursor === '' ? undefined : cursor },
    )
    seen.push(...people.map(({ userId }) => userId))
    cursor = nextCursor
  }
  assert.deepEqual(
    seen,
    Array.from({ length: 1_000 }, (_, index) => `DEV-crowd${index + 1}`),
  )
  await sql`delete from identities where username like 'Crowd%'`.execute(here.db)
  await sql`delete from accounts where user_id like 'DEV-crowd%'`.execute(here.db)
})
