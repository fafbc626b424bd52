import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { once } from 'node:events'
import { test } from 'node:test'
import { until } from '../test/world.ts'
import { launch, place, processesOf, start, type Program } from './start.ts'

// oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
type Reply = { status: number; body: any }

function client({ facts, printed }: Program) {
  const token = /Bearer ([^']+)'/.exec(printed())![1]!
  return async (path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Reply> => {
    const response = await fetch(`${facts.baseUrl}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: await response.json() }
  }
}

async function rpc<T>(url: string, method: string, ...params: unknown[]): Promise<T> {
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }) })
  return ((await response.json()) as { result: T }).result
}

test('SIGKILL of everything and a new start keep users, addresses, tokens and every accepted write', async (t) => {
  const here = await place()
  t.after(here.drop)
  const first = await start(here)
  const call = client(first)
  const me = (await call('/me')).body
  const token = first.facts.contracts.erc20!
  const mint = (amount: number) => ({ address: token, abi: 'mint(address,uint256) public', args: [me.address, String(amount)] })
  const accepted: string[] = []
  for (let round = 0; round < 3; round++) {
    // Amounts are powers of two: what was minted in the end tells which writes happened, and how often.
    const answers = await Promise.all([0, 1, 2, 3].map((at) => call('/contracts/method/write', mint(2 ** (round * 4 + at)), { 'idempotency-key': `write-${round * 4 + at}` })))
    for (const { status, body } of answers) {
      assert.equal(status, 200, JSON.stringify(body))
      accepted.push(body.hash)
    }
  }
  await first.kill()
  await until('nothing is left', async () => (await processesOf(here.dataDir)).length === 0, 30_000)

  const second = await start(here)
  t.after(() => second.interrupt())
  const oldToken = client(first)
  assert.deepEqual((await oldToken('/me')).body, me)
  assert.deepEqual(second.facts, first.facts)
  const replayed = await oldToken('/contracts/method/write', mint(1), { 'idempotency-key': 'write-0' })
  assert.equal(replayed.body.hash, accepted[0])
  for (const hash of accepted) {
    const mined = await until(`${hash} is mined`, async () => {
      const { body } = await oldToken(`/transactions/${hash}`)
      return ['MINED', 'FINALIZED'].includes(body.state) ? body : null
    }, 60_000)
    assert.ok((await rpc(second.facts.rpcUrl, 'eth_getTransactionReceipt', mined.hash)) !== null)
  }
  const { body: balance } = await oldToken(`/users/${me.id}/balance/${token}`)
  assert.equal(balance[token.toLowerCase()].balance, String(2 ** 12 - 1))
  const history = await until('the history is whole', async () => {
    const { body } = await oldToken(`/users/${me.id}/history?limit=200`)
    return body.length === accepted.length ? body : null
  }, 30_000)
  assert.deepEqual(new Set(history.map((entry: { hash: string }) => entry.hash)), new Set(accepted))
})

test('Ctrl-C ends every process, and the folder can be used again at once', async (t) => {
  const here = await place()
  t.after(here.drop)
  const program = await start(here)
  assert.ok((await processesOf(here.dataDir)).length >= 3)
  const code = await program.interrupt()
  assert.ok(code === 0 || code === 130, `exit code ${code}`)
  await until('nothing is left', async () => (await processesOf(here.dataDir)).length === 0, 20_000)
  await (await start(here)).interrupt()
})

test('a second program on the same folder says so and leaves; another folder and port is fine beside it', async (t) => {
  const [here, there] = [await place(), await place()]
  t.after(here.drop)
  t.after(there.drop)
  const program = await start(here)
  t.after(() => program.interrupt())
  const second = launch({ ...here, port: there.port })
  assert.equal(await second.ended, 1)
  assert.match(second.printed(), /Another Chatelaine runs on DATA_DIR/)
  const beside = await start(there)
  t.after(() => beside.interrupt())
  assert.notEqual(beside.facts.rpcUrl, program.facts.rpcUrl)
  assert.equal((await client(program)('/me')).status, 200)
  assert.equal((await client(beside)('/me')).status, 200)
  const foreign = client({ ...program, printed: beside.printed })
  assert.equal((await foreign('/me')).status, 401)
})

test('a port that is taken is told, with the way out', async (t) => {
  const here = await place()
  t.after(here.drop)
  const squatter = createServer().listen(here.port, '127.0.0.1')
  await once(squatter, 'listening')
  t.after(() => squatter.close())
  const { ended, printed } = launch(here)
  assert.equal(await ended, 1)
  assert.match(printed(), new RegExp(`PORT ${here.port} is in use`))
})

test('production without its settings refuses to start and names every missing one', async (t) => {
  const here = await place()
  t.after(here.drop)
  const { ended, printed } = launch({ ...here, env: { NODE_ENV: 'production', RATE_LIMITS: 'off', HOST: '0.0.0.0', DATABASE_POOL: 'hunter2secret' } })
  assert.equal(await ended, 1)
  for (const name of ['PUBLIC_ORIGIN', 'DATABASE_URL', 'RPC_URL', 'SIGNER_SOCKET', 'AUTH_KEYS_FILE', 'PROVIDERS_FILE', 'RATE_LIMITS', 'DATABASE_POOL']) assert.ok(printed().includes(name), `${name}: ${printed()}`)
  assert.doesNotMatch(printed(), /hunter2secret/)
})

test('development mode refuses an address that others can reach', async (t) => {
  const here = await place()
  t.after(here.drop)
  const { ended, printed } = launch({ ...here, env: { HOST: '0.0.0.0' } })
  assert.equal(await ended, 1)
  assert.match(printed(), /HOST must be a loopback address/)
})
