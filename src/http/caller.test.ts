import assert from 'node:assert/strict'
import { test } from 'node:test'
import { world } from '../../test/world.ts'
import { updateApplication } from '../applications/manage.ts'

test('what one person is refused for costs the other people of the application nothing', async (t) => {
  const here = await world({
    RATE_LIMITS: 'on',
    READS_PER_SECOND: '1',
    READS_BURST: '5',
    WRITES_PER_SECOND: '1',
    APPLICATION_PER_SECOND: '60',
  })
  t.after(() => here.close())
  const [greedy, modest] = [await here.person('greedy'), await here.person('modest')]
  const flood = await Promise.all(
    Array.from({ length: 300 }, (_, n) =>
      n % 2 === 0
        ? greedy.get('/v1/me')
        : greedy.post('/v1/contracts/method/write', { address: here.facts.contracts.erc20, abi: 'burn() public' }),
    ),
  )
  assert.ok(flood.filter(({ status }) => status === 429).length > 250)
  for (let n = 0; n < 3; n++) assert.equal((await modest.get('/v1/me')).status, 200)
})

test('an application as a whole has a limit of its own, which says so', async (t) => {
  const here = await world({ RATE_LIMITS: 'on', APPLICATION_PER_SECOND: '4' })
  t.after(() => here.close())
  const people = await Promise.all(['a', 'b', 'c'].map(here.person))
  const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => people[n % 3]!.get('/v1/me')))
  const refused = answers.find(({ status }) => status === 429)
  assert.match(refused!.headers.get('ratelimit-policy')!, /^"application";q=4/)
})

test('a permission that is taken from an application is gone from the tokens that are out, within 10 seconds', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const { alice, app, facts } = here
  let late = 0
  app.now = () => Date.now() + late
  const call = { address: facts.contracts.erc20, abi: 'mint(address,uint256) public', args: [alice.address, '1'] }
  const write = () => alice.post('/v1/contracts/method/write', call)
  assert.equal((await write()).status, 200)
  await updateApplication(app.db, facts.clientId, { permissions: ['wallet:read'] })
  late = 10_000
  const refused = await write()
  assert.deepEqual([refused.status, refused.body.code], [403, 'insufficient_scope'])
  assert.match(refused.body.detail, /has removed the permission contracts:write/)
  assert.equal((await alice.get(`/v1/users/${alice.userId}`)).status, 200)
  assert.deepEqual((await alice.get('/v1/me')).body.scopes, ['email', 'openid', 'wallet:read'])

  // Given back, it is in the same tokens again.
  await updateApplication(app.db, facts.clientId, { permissions: ['wallet:read', 'contracts:write'] })
  late = 20_000
  assert.equal((await write()).status, 200)
})
