// tier: all, because it opens a world for each of its tests
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { sql } from 'kysely'
import { until } from '../../test/kit/until.ts'
import { world, type Answer, type Person, type World } from '../../test/world.ts'
import { updateApplication } from '../applications/manage.ts'
import { allowedTo } from './bearer.ts'
import { withWall } from '../../test/kit/clock.ts'

test('what one person is refused for costs the other people of the application nothing', async (t) => {
  const here = await world({
    RATE_LIMITS: 'on',
    READS_PER_SECOND: '1',
    READS_BURST: '5',
    WRITES_PER_SECOND: '1',
    WRITES_BURST: '1',
    APPLICATION_PER_SECOND: '60',
  })
  t.after(() => here.close())
  const modest = await here.person('modest')
  // However many tokens they have.
  const greedy = [await here.person('greedy'), await here.person('greedy'), await here.person('greedy')]
  const at = Date.now()
  here.app.clock = withWall(() => at)
  const flood = await Promise.all(
    Array.from(
      { length: 300 },
      (_, n) =>
      n % 2 === 0
        ? greedy[n % 3]!.get('/v1/me')
        : greedy[n % 3]!.post('/v1/contracts/method/write', { address: here.facts.contracts.erc20, abi: 'burn() public' }), // prettier-ignore
    ),
  )
  const passed = flood.filter(({ status }) => status !== 429).length
  assert.ok(passed > 0 && passed <= 5 + 1, String(passed))
  for (let n = 0; n < 3; n++) assert.equal((await modest.get('/v1/me')).status, 200)
})

test('an application as a whole has a limit of its own, which says so', async (t) => {
  const here = await world({ RATE_LIMITS: 'on', APPLICATION_PER_SECOND: '4' })
  t.after(() => here.close())
  const people = await Promise.all(['a', 'b', 'c'].map(here.person))
  const at = Date.now()
  here.app.clock = withWall(() => at)
  const answers = await Promise.all(Array.from({ length: 150 }, (_, n) => people[n % 2]!.get('/v1/me')))
  const refused = answers.find(({ status }) => status === 429)
  assert.match(refused!.headers.get('ratelimit-policy')!, /^"application";q=4/)
  // What the application was refused for is not taken from its people: 60 reads at once are theirs, and four were let in.
  here.app.clock = withWall(() => at + 1_000)
  const after = await people[0]!.get('/v1/me')
  assert.equal(after.status, 200)
  assert.match(after.headers.get('ratelimit')!, /^"reads";r=59;/)
})

const operating =
  (here: World) =>
  async (method: string, path: string, body?: object): Promise<Answer> =>
    here.request(`/operator/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${(await readFile(join(here.dataDir, 'operator-token'), 'utf8')).trim()}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })

test('a quota counts what a limit of a token let through, and the status of writes, repeats and cancelling go on without it', async (t) => {
  const here = await world({ RATE_LIMITS: 'on', READS_PER_SECOND: '1', READS_BURST: '5' })
  t.after(() => here.close())
  const { alice, app, facts } = here
  const operate = operating(here)
  let late = 0
  app.clock = withWall(() => Date.now() + late)
  const allow = async (reads: number) => {
    const quotas = [
      { counts: 'reads', limit: reads, per: 'day' },
      { counts: 'writes', limit: 2, per: 'month' },
    ]
    assert.equal((await operate('PATCH', '/applications/demo', { quotas, weight: 2 })).status, 200)
    late += 10_000
  }
  await allow(100)

  const flood = await Promise.all(Array.from({ length: 60 }, () => alice.get('/v1/me')))
  const passed = flood.filter(({ status }) => status === 200).length
  assert.equal(flood.filter(({ body }) => body.code === 'rate_limited').length, 60 - passed)
  assert.ok(passed < 60)
  const usedOf = async () =>
    (await operate('GET', '/applications/demo/usage')).body.quotas.map(({ used }: { used: number }) => used)
  assert.deepEqual(await usedOf(), [passed, 0])

  // A batch of reads is as many as it holds, whoever of the application sends it.
  const read = { address: facts.contracts.erc20, abi: 'totalSupply() public view returns (uint256)' }
  const batch = (who: Person, count: number) =>
    who.post('/v1/contracts/method/read/batch', { calls: Array.from({ length: count }, () => read) })
  assert.equal((await batch(here.bob, 4)).status, 200)
  assert.deepEqual(await usedOf(), [passed + 4, 0])
  await allow(passed + 4 + 2)
  const refused = await batch(await here.person('carol'), 4)
  assert.deepEqual([refused.status, refused.body.code], [429, 'quota_exhausted'])
  assert.equal(refused.body.retryable, true)
  const left = Number(refused.headers.get('retry-after'))
  assert.ok(left > 0 && left <= 86_400, `${left} s`)

  const call = { address: facts.contracts.erc20, abi: 'mint(address,uint256) public', args: [alice.address, '1'] }
  const write = (key: string) => alice.post('/v1/contracts/method/write', call, { 'idempotency-key': key })
  const first = await write('one')
  assert.equal(first.status, 200)
  assert.equal((await write('two')).status, 200)
  const third = await write('three')
  assert.deepEqual([third.status, third.body.code], [429, 'quota_exhausted'])
  assert.match(third.body.detail, /has used its 2 writes for this month/)
  assert.deepEqual([(await write('one')).body.id], [first.body.id])
  assert.equal((await alice.get(`/v1/transactions/${first.body.id}`)).status, 200)
  assert.notEqual((await alice.post(`/v1/transactions/${first.body.id}/cancel`, {})).status, 429)
  assert.match(
    await app.telemetry.registry.metrics(),
    /quota_used_ratio\{client_id="demo",counts="writes",per="month"\} 1\n/,
  )

  await operate('PATCH', '/applications/demo', { quotas: [] })
  late += 10_000
  assert.equal((await write('three')).status, 200)
  assert.equal((await operate('GET', '/applications/nobody/usage')).status, 404)
})

test('a quota counts each write that is new: not what repeats an answered one on any server, a key that is free again, and dry runs as reads', async (t) => {
  let here = await world()
  t.after(() => here.close())
  const quotas = [
    { counts: 'reads', limit: 5, per: 'month' },
    { counts: 'writes', limit: 4, per: 'month' },
  ]
  assert.equal((await operating(here)('PATCH', '/applications/demo', { quotas })).status, 200)
  here = await here.startAgain()
  const { alice, facts } = here
  const usedOf = async () =>
    (await operating(here)('GET', '/applications/demo/usage')).body.quotas.map(({ used }: { used: number }) => used)
  // Each person of a world reads once who it is.
  assert.deepEqual(await usedOf(), [2, 0])
  const call = { address: facts.contracts.erc20, abi: 'mint(address,uint256) public', args: [alice.address, '1'] }
  const write = (key: string, more: object = {}, who = alice) =>
    who.post('/v1/contracts/method/write', { ...call, ...more }, { 'idempotency-key': key })

  const first = await write('one')
  assert.equal(first.status, 200, JSON.stringify(first.body))
  assert.equal((await write('one', { dryRun: true })).status, 200)
  assert.equal((await write('new', { dryRun: true })).status, 200)
  assert.deepEqual(await usedOf(), [4, 1])
  const begun = await Promise.all(Array.from({ length: 6 }, () => write('one')))
  assert.deepEqual(new Set(begun.map(({ body }) => body.id)), new Set([first.body.id]))
  assert.deepEqual(await usedOf(), [4, 1])
  assert.deepEqual([(await write('wrong', { args: 'no list' })).status, await usedOf()], [400, [4, 2]])

  // Another process knows of no answers but by the database.
  here = await here.startAgain()
  const elsewhere = (key: string, more: object = {}) => write(key, more, here.alice)
  // What it reads first is the last read and one too many.
  assert.deepEqual(await usedOf(), [5, 2])
  assert.equal((await elsewhere('one')).body.id, first.body.id)
  assert.equal((await elsewhere('two')).status, 200)
  assert.deepEqual(await usedOf(), [5, 3], 'what the repeat was counted for is there for the next')
  const third = await elsewhere('three')
  assert.equal(third.status, 200)
  assert.equal((await elsewhere('four')).body.code, 'quota_exhausted')
  assert.equal((await elsewhere('one', { dryRun: true })).body.code, 'quota_exhausted')
  const again = await elsewhere('one')
  assert.deepEqual(
    [again.status, again.body.id, again.headers.get('idempotent-replayed')],
    [200, first.body.id, 'true'],
  )

  // What follows the chain writes of each once more when it is mined, and would make it new again.
  for (const { id } of [first.body, third.body])
    await until('it is mined', async () =>
      ['MINED', 'FINALIZED'].includes((await here.alice.get(`/v1/transactions/${id}`)).body.state),
    )
  // A day after it is final a key is free.
  const beFinal = (hours: number, id: string = first.body.id) =>
    sql`update transactions set is_final = true, state = 'FINALIZED', updated_at = now() - ${hours} * interval '1 hour',
      transitions = '[{"state":"FINALIZED","at":"2020-01-01T00:00:00.000Z"}]' where id = ${id}`.execute(here.app.db) // prettier-ignore
  await beFinal(23.9)
  assert.equal((await elsewhere('one')).body.id, first.body.id)
  await beFinal(24 - 1 / 60)
  assert.equal((await elsewhere('one')).body.code, 'quota_exhausted', 'it may be free before it is looked at again')
  await beFinal(25)
  for (const more of [{}, { args: [alice.address, '99'] }])
    assert.equal((await elsewhere('one', more)).body.code, 'quota_exhausted')
  await beFinal(25, third.body.id)
  const other = { args: [alice.address, '99'] }
  assert.equal(
    (await elsewhere('three', other)).body.code,
    'quota_exhausted',
    'also where it was answered by this process',
  )
  assert.deepEqual(await usedOf(), [5, 4])
})

test('a write that was refused because it could not be begun in time is not counted', async (t) => {
  let here = await world()
  t.after(() => here.close())
  const quotas = [{ counts: 'writes', limit: 1, per: 'month' }]
  assert.equal((await operating(here)('PATCH', '/applications/demo', { quotas })).status, 200)
  here = await here.startAgain()
  const call = { address: here.facts.contracts.erc20, abi: 'mint(address,uint256) public', args: [here.alice.address, '1'] } // prettier-ignore
  const write = (prefer: string) => here.alice.post('/v1/contracts/method/write', call, { prefer })
  for (let late = 0; late < 2; late++) assert.equal((await write('wait=0')).body.code, 'overloaded')
  assert.equal((await write('wait=20')).status, 200)
  assert.equal((await write('wait=20')).body.code, 'quota_exhausted')
})

test('a permission that is taken from an application is gone from the tokens that are out, within 10 seconds', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const { alice, app, facts } = here
  let late = 0
  app.clock = withWall(() => Date.now() + late)
  const call = { address: facts.contracts.erc20, abi: 'mint(address,uint256) public', args: [alice.address, '1'] }
  const write = () => alice.post('/v1/contracts/method/write', call)
  assert.equal((await write()).status, 200)
  await updateApplication(app, facts.clientId, { permissions: ['wallet:read'] })
  late = 10_000
  const refused = await write()
  assert.deepEqual([refused.status, refused.body.code], [403, 'insufficient_scope'])
  assert.match(refused.body.detail, /has removed the permission contracts:write/)
  assert.equal((await alice.get(`/v1/users/${alice.userId}`)).status, 200)
  assert.deepEqual((await alice.get('/v1/me')).body.scopes, ['email', 'openid', 'wallet:read'])

  // Given back, it is in the same tokens again.
  await updateApplication(app, facts.clientId, { permissions: ['wallet:read', 'contracts:write'] })
  late = 20_000
  assert.equal((await write()).status, 200)
})

test('what sponsors may send for an application is known to a process that sees its tokens, and follows what the operator says within 10 seconds', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const { alice, app, facts } = here
  let late = 0
  app.clock = withWall(() => Date.now() + late)
  const budget = async () => {
    assert.equal((await alice.get('/v1/me')).status, 200)
    return allowedTo(app, facts.clientId).sponsor
  }
  assert.deepEqual(
    await budget(),
    { perUser: 10n ** 18n, perApplication: 1_000n * 10n ** 18n, contracts: null },
    'the demo has one',
  )
  await updateApplication(app, facts.clientId, { sponsor: { perUser: '5', perApplication: '70' } })
  late = 10_000
  assert.deepEqual(await budget(), { perUser: 5n, perApplication: 70n, contracts: null })
  await updateApplication(app, facts.clientId, { sponsor: null })
  late = 20_000
  assert.equal(await budget(), null)
})
