// tier: all, because it starts the program as its operator does
// embedded, because one process at a time may open it
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { after, before, test } from 'node:test'
import { until } from '../test/kit/until.ts'
import { launch, place, processesOf, start, type Place, type Program } from './start.ts'

// oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
type Reply = { status: number; body: any; next: string | null }
type Call = (path: string, body?: unknown, headers?: Record<string, string>) => Promise<Reply>

function client({ facts, printed }: Pick<Program, 'facts' | 'printed'>): Call {
  const token = /Bearer ([^']+)'/.exec(printed())![1]!
  return async (path, body, headers = {}) => {
    const response = await fetch(`${facts.baseUrl}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: await response.json(), next: response.headers.get('x-next-cursor') }
  }
}

async function rpc<T>(url: string, method: string, ...params: unknown[]): Promise<T> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  return ((await response.json()) as { result: T }).result
}

/** One installation, that each test leaves running for the next. */
let here: Place
let program: Program
before(async () => {
  here = await place()
  // At a pace at which writes wait for their block when everything is killed.
  here.env.CHAIN_BLOCK_SECONDS = '1'
  program = await start(here)
})
after(async () => {
  await program?.interrupt()
  await here?.drop()
})

test('Ctrl-C ends every process, and the folder can be used again at once', async () => {
  assert.ok((await processesOf(here.dataDir)).length >= 3)
  const code = await program.interrupt()
  assert.ok(code === 0 || code === 130, `exit code ${code}`)
  await until('nothing is left', async () => (await processesOf(here.dataDir)).length === 0)
  program = await start(here)
})

test('a second program on the same folder says so and leaves; another folder and port is fine beside it', async (t) => {
  const there = await place()
  t.after(there.drop)
  const second = launch({ ...here, port: there.port })
  assert.equal(await second.ended, 1)
  assert.match(second.printed(), /Another Chatelaine is using DATA_DIR/)
  const beside = await start(there)
  t.after(() => beside.interrupt())
  assert.notEqual(beside.facts.rpcUrl, program.facts.rpcUrl)
  assert.equal((await client(program)('/me')).status, 200)
  assert.equal((await client(beside)('/me')).status, 200)
  const foreign = client({ ...program, printed: beside.printed })
  assert.equal((await foreign('/me')).status, 401)
})

test('SIGKILL of everything under load and a new start keep users, addresses, tokens and every accepted write, exactly once', async () => {
  const first = program
  const call = client(first)
  const me = (await call('/me')).body
  const token = first.facts.contracts.erc20!
  // No two writes mint the same amount: the chain's own calldata tells which were mined, and how often.
  const mint = (amount: number) => ({
    address: token,
    abi: 'mint(address,uint256) public',
    args: [me.address, String(amount)],
  })
  const write = (call: Call, amount: number) =>
    call('/contracts/method/write', mint(amount), { 'idempotency-key': `write-${amount}` })

  const accepted = new Map<number, string>()
  let asked = 0
  let isDead = false
  const load = [1, 2, 3].map(async () => {
    while (!isDead && asked < 500) {
      const amount = ++asked
      const answer = await write(call, amount).catch(() => null)
      if (answer?.status === 200) accepted.set(amount, answer.body.hash)
      else if (answer !== null && answer.status !== 429 && answer.status < 500)
        throw new Error(JSON.stringify(answer.body))
    }
  })
  await until('some writes are accepted', async () => accepted.size >= 12)
  await first.kill()
  isDead = true
  await Promise.all(load)
  await until('nothing is left', async () => (await processesOf(here.dataDir)).length === 0)

  const second = await start(here)
  program = second
  assert.deepEqual(second.facts, first.facts)
  // The token of before.
  assert.deepEqual((await call('/me')).body, me)
  // What the crash left without an answer, and what was refused for a full queue, is asked again with its key.
  for (let amount = 1; amount <= asked; amount++) {
    const answer = await until(`write ${amount} is accepted`, async () => {
      const said = await write(call, amount)
      if (said.status === 200) return said
      assert.ok([409, 429, 502, 503, 504].includes(said.status), JSON.stringify(said.body))
      return null
    })
    if (accepted.has(amount)) assert.equal(answer.body.hash, accepted.get(amount))
    accepted.set(amount, answer.body.hash)
  }

  const sent = await until('every write is mined', async () => {
    const mined = await sentBy(second.facts.rpcUrl, me.address)
    return mined.length >= asked ? mined : null
  })
  assert.deepEqual(
    sent.map(({ nonce }) => Number(nonce)),
    Array.from({ length: asked }, (_, nonce) => nonce),
  )
  const minted = sent.map(({ input }) => Number(BigInt(`0x${input.slice(-64)}`)))
  assert.deepEqual(
    minted.toSorted((a, b) => a - b),
    Array.from({ length: asked }, (_, index) => index + 1),
  )

  const history = await until('the history is whole', async () => {
    const entries = await wholeHistory(call, me.id)
    return entries.length >= asked ? entries : null
  })
  assert.deepEqual(
    history.map(({ hash, amount }) => [hash, Number(amount.value)]),
    sent.toReversed().map(({ hash }, index) => [hash, minted.at(-1 - index)]),
  )
  const { body: balance } = await call(`/users/${me.id}/balance/${token}`)
  assert.equal(balance[token.toLowerCase()].balance, String((asked * (asked + 1)) / 2))
})

type Sent = { hash: string; nonce: string; input: string; from: string }

/** Every transaction of an account, in the order of the chain. */
async function sentBy(rpcUrl: string, address: string): Promise<Sent[]> {
  const head = Number(await rpc<string>(rpcUrl, 'eth_blockNumber'))
  const blocks = await Promise.all(
    Array.from({ length: head + 1 }, (_, number) =>
      rpc<{ transactions: Sent[] }>(rpcUrl, 'eth_getBlockByNumber', `0x${number.toString(16)}`, true),
    ),
  )
  return blocks
    .flatMap(({ transactions }) => transactions)
    .filter(({ from }) => from.toLowerCase() === address.toLowerCase())
}

/** All pages of the history. */
async function wholeHistory(call: Call, userId: string): Promise<{ hash: string; amount: { value: string } }[]> {
  const entries = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const { body, next }: Reply = await call(
      `/users/${userId}/history?limit=200${cursor === '' ? '' : `&cursor=${cursor}`}`,
    )
    entries.push(...body)
    cursor = next
  }
  return entries
}

test('a start that fails names the setting, the reason, and no secret', async (t) => {
  const here = await place()
  t.after(here.drop)
  const squatter = createServer().listen(Number(here.env.CHAIN_PORT), '127.0.0.1')
  await once(squatter, 'listening')
  t.after(() => squatter.close())
  const { port } = squatter.address() as AddressInfo
  const nowhere = 'http://127.0.0.1:1'
  const starts: [Record<string, string>, RegExp][] = [
    [{}, /^Cannot start: CHAIN_PORT \d+ is in use/m],
    [{ PORT: String(port), CHAIN_PORT: String(here.port) }, new RegExp(`(?<!CHAIN_)PORT ${port} is in use`)],
    [{ RPC_URL: nowhere }, /^Cannot start: no EVM node responds at RPC_URL/m],
    [
      { RPC_URL: nowhere, DATABASE_URL: 'postgres://someone:hunter2secret@127.0.0.1:1/none' },
      /^Cannot start: the database at DATABASE_URL cannot be used: .*ECONNREFUSED/m,
    ],
  ]
  for (const [settings, reason] of starts) {
    const { ended, printed } = launch({ ...here, env: { ...here.env, ...settings } })
    assert.equal(await ended, 1, printed())
    assert.match(printed(), reason)
    assert.doesNotMatch(printed(), /hunter2secret/)
  }
  await until('nothing is left', async () => (await processesOf(here.dataDir)).length === 0)
})
