import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../../test/kit/until.ts'
import { startWatchingSponsors } from '../sponsors/watch.ts'
import { world, type Answer, type World } from '../../test/world.ts'

let here: World
before(async () => void (here = await world({ NETWORK_GAS: 'topup' })))
after(() => here.close())

async function operate(method: string, path: string, body?: object, token?: string): Promise<Answer> {
  const own = (await readFile(join(here.dataDir, 'operator-token'), 'utf8')).trim()
  return here.request(`/operator/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${token ?? own}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

test('the embedded chain with `topup` has its sponsor from the start, funded, once; people are given nothing when they sign in', async () => {
  const first = (await operate('GET', '/sponsors')).body
  const [house] = first
  assert.deepEqual(
    first.map(({ name, network, chainId, balance }: Record<string, string>) => [name, network, chainId, balance]),
    [['HOUSE', 'devnet', here.facts.chainId, `${10n ** 24n}`]],
  )
  assert.equal(await here.rpc('eth_getBalance', here.alice.address, 'latest'), '0x0')
  here = await here.startAgain()
  // What a hundred top-ups cost is another amount with each block.
  const lowBelow = ''
  const again = (await operate('GET', '/sponsors')).body
  assert.deepEqual(again.map((one: object) => ({ ...one, lowBelow })), [{ ...house, lowBelow }]) // prettier-ignore
  assert.equal(await here.rpc('eth_getBalance', here.bob.address, 'latest'), '0x0')
  const [network] = (await operate('GET', '/networks')).body
  assert.deepEqual([network.gas, network.sponsors], ['topup', 1])
})

test('a person of the application `demo` without a coin writes, and the operator sees what that took', async () => {
  const body = { to: here.bob.address, value: '0' }
  const { status, body: answer } = await here.alice.post('/v1/transactions?wait=mined', body)
  assert.deepEqual(
    [status, answer.state, answer.tx.from.toLowerCase()],
    [200, 'MINED', here.alice.address.toLowerCase()],
  )
  const { sponsored } = (await operate('GET', '/applications/demo/usage')).body
  assert.equal(sponsored.perApplication, String(10n ** 21n))
  assert.ok(BigInt(sponsored.used) > 0n && BigInt(sponsored.used) < 10n ** 16n)
  // Bob pays a value by his own funds alone, and has none.
  const refused = await here.bob.post('/v1/transactions', { to: here.alice.address, value: '1' })
  assert.deepEqual([refused.status, refused.body.code], [422, 'insufficient_funds'])
})

test('a sponsor is made by the operator API, twice the same, and it is written down who made it', async () => {
  const body = { name: 'SECOND', network: 'devnet' }
  const made = await operate('POST', '/sponsors', body)
  assert.equal(made.status, 201)
  assert.match(made.body.address, /^0x[0-9a-fA-F]{40}$/)
  assert.deepEqual({ ...made.body, address: '' }, { ...body, chainId: here.facts.chainId, address: '' })
  assert.deepEqual((await operate('POST', '/sponsors', body)).body, made.body)
  const listed = (await operate('GET', '/sponsors')).body.find(({ name }: { name: string }) => name === 'SECOND')
  assert.deepEqual([listed.address, listed.balance], [made.body.address, '0'])
  const [action] = (await operate('GET', '/actions?limit=1')).body
  assert.deepEqual([action.action, action.target], ['create-sponsor', 'SECOND on devnet'])
  // No person: neither to people nor to those who look for one.
  assert.equal((await here.alice.get('/v1/users/SPONSOR-SECOND')).body.code, 'forbidden_user')
  const to = { provider: 'SPONSOR', providerUserId: 'SECOND' }
  assert.equal((await operate('POST', '/accounts', to)).body.errors[0].pointer, '/provider')
})

test('a sponsor that holds too little is in the list, in the metrics and in /readyz, which stays ready', async () => {
  const listed = async () =>
    (await operate('GET', '/sponsors')).body.find(({ name }: { name: string }) => name === 'HOUSE')
  const before = await listed()
  assert.deepEqual([before.openTransactions, before.lowSince], [0, null])
  assert.ok(BigInt(before.lowBelow) > 0n)
  await here.app.db
    .updateTable('networks')
    .set({ sponsor_low: `${10n ** 30n}` })
    .execute()
  const watching = startWatchingSponsors(here.app)
  await watching.round()
  await watching.stop()
  const low = await listed()
  assert.equal(low.lowBelow, `${10n ** 30n}`)
  assert.ok(Date.parse(low.lowSince) > Date.now() - 60_000)
  // The same sponsor of another network is another in the list, and low there or not.
  const { account_id: account } = await here.app.db.selectFrom('sponsors').select('account_id').where('name', '=', 'HOUSE').executeTakeFirstOrThrow() // prettier-ignore
  await here.app.db.insertInto('sponsors').values({ account_id: account, chain_id: 5, name: 'HOUSE' }).execute()
  const both = (await operate('GET', '/sponsors')).body.filter(({ name }: { name: string }) => name === 'HOUSE')
  assert.deepEqual(both.map(({ chainId, lowSince }: Record<string, unknown>) => [chainId, lowSince]), [[5, null], [here.facts.chainId, low.lowSince]]) // prettier-ignore
  await here.app.db.deleteFrom('sponsors').where('chain_id', '=', 5).execute()
  const ready = await until('the check says so', async () => {
    const { status, body } = await here.request('/readyz')
    const { ok, detail = '' } = body.checks.find(({ name }: { name: string }) => name === 'chain devnet')
    return detail.includes('HOUSE') && { status, ok, detail }
  })
  assert.deepEqual([ready.status, ready.ok], [200, true])
  assert.match(ready.detail, /sponsors that hold too little: .*HOUSE/)
  const metrics = await (await fetch(`${here.app.origin}/metrics`)).text()
  assert.match(metrics, /^sponsor_balance_wei\{chain_id="\d+",sponsor="HOUSE"\} [\d.e+]+$/m)
  await here.app.db.updateTable('networks').set({ sponsor_low: null }).execute()
})

test('what no sponsor can be is refused with its place, and strangers learn nothing', async () => {
  for (const [body, pointer] of [
    [{ name: 'house', network: 'devnet' }, '/name'],
    [{ name: 'HOUSE', network: 'mars' }, '/network'],
    [{ network: 'devnet' }, '/name'],
  ] as const) {
    const { status, body: refused } = await operate('POST', '/sponsors', body)
    assert.deepEqual([status, refused.code, refused.errors[0].pointer], [400, 'invalid_request', pointer])
  }
  for (const method of ['GET', 'POST']) {
    const body = method === 'GET' ? undefined : { name: 'THIRD', network: 'devnet' }
    assert.equal((await operate(method, '/sponsors', body, 'guess')).status, 401)
    assert.equal((await operate(method, '/sponsors', body, here.alice.token)).status, 401)
  }
  assert.equal((await operate('DELETE', '/sponsors')).status, 405)
})

test('a network with `topup` is served without a sponsor too', async (t) => {
  const other = await world({ RPC_URL: here.facts.rpcUrl, NETWORK_GAS: 'topup' })
  t.after(() => other.close())
  assert.equal((await other.alice.get(`/v1/users/${other.alice.userId}/balance`)).status, 200)
  assert.equal(other.app.chains.get(other.facts.chainId)?.gas, 'topup')
})
