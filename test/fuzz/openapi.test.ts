// tier: all, because it sends thousands of hostile requests
import assert from 'node:assert/strict'
import http from 'node:http'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { updateApplication } from '../../src/applications/manage.ts'
import { userPermissions } from '../../src/applications/permissions.ts'
import { forgetApplication, noteUser } from '../../src/applications/registry.ts'
import { accountIdOf } from '../../src/ids.ts'
import { parseAbi, selectorOf } from '../../src/abi/parse.ts'
import { deploy } from '../../src/devnet/deploy.ts'
import { addMachine } from '../machine.ts'
import { world, type World } from '../world.ts'
import { TIMES } from './junk.ts'
import { openJudge, type FuzzAnswer } from './judge.ts'
import { operationsOf, requestsFor, type Body, type FuzzRequest, type Pool } from './requests.ts'

/** Requests of the run; 200,000 in the long form (`npm run fuzz`). A failure names the seed that makes it again. */
const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? 5_000)
const SEED = Number(process.env.FUZZ_SEED ?? 1)
/** Only operations that this fits, as "POST /v1/tokens/transfers". */
const ONLY = new RegExp(process.env.FUZZ_ONLY ?? '')
const CHUNK = 500
const LANES = 8
/** One real write costs a signature and a place in a block; what is over this becomes a dry run. */
const REAL_WRITES = Math.ceil(REQUESTS / 25)
const TIMEOUT_MS = 120_000

let here: World
let agent: http.Agent
before(async () => {
  agent = new http.Agent({ keepAlive: true, maxSockets: LANES })
  here = await world({ LOG_LEVEL: 'silent' })
  // Every permission that a user's token can carry, so that every route can accept something.
  await updateApplication(here.app, here.facts.clientId, { permissions: [...userPermissions, 'events:read'] })
  forgetApplication(here.app, here.facts.clientId)
  here = { ...here, alice: await here.person('alice'), bob: await here.person('bob') }
})
after(async () => {
  agent.destroy()
  await here.close()
})

test(
  `${REQUESTS} requests made from the OpenAPI document, valid and broken, are answered as it says (seed ${SEED})`,
  { timeout: 3_600_000 },
  async () => {
    const { alice, bob, facts, request } = here
    const document = (await request('/openapi.json')).body
    const operations = operationsOf(document).filter(({ method, template }) => ONLY.test(`${method} ${template}`))
    assert.ok(operations.length > 0)
    const judge = openJudge(document, [alice.token, bob.token, facts.rpcUrl, new URL(facts.rpcUrl).host, here.dataDir])
    const { pool, learn } = await openPool()
    const outcomes = new Map<string, Map<number, number>>()
    const failures = new Map<string, string[]>()
    let realWrites = 0

    for (let start = 0; start < REQUESTS && failures.size < 20; start += CHUNK) {
      const seed = SEED * 1_000_003 + start
      // Made anew: ids and cursors that came back meanwhile are used.
      const arbitraries = operations.map((operation) => requestsFor(operation, pool))
      const requests = fc.sample(fc.oneof(...arbitraries), { numRuns: Math.min(CHUNK, REQUESTS - start), seed })
      const waiting = requests.entries()
      await Promise.all(
        Array.from({ length: LANES }, async () => {
          for (const [index, made] of waiting) {
            const one = isRealWrite(made) && ++realWrites > REAL_WRITES ? asDryRun(made) : made
            const answer = await send(one).catch((error: Error): string => `no answer: ${error.message}`)
            const wrong = typeof answer === 'string' ? answer : judge(one, answer)
            if (wrong !== null) {
              const kind = `${wrong}: ${one.method} ${one.template}`
              const what = describe({ seed, index, one, answer, wrong })
              if (!failures.has(kind)) console.log(what)
              group(failures, kind, what)
            }
            if (typeof answer === 'string') continue
            learn(answer)
            const of = `${one.method} ${one.template}`
            if (!outcomes.has(of)) outcomes.set(of, new Map())
            outcomes.get(of)!.set(answer.status, (outcomes.get(of)!.get(answer.status) ?? 0) + 1)
          }
        }),
      )
      // Of a run that takes a quarter of an hour one wants to know how far it is.
      const done = start + requests.length
      if (done % 20_000 === 0) console.log(`${done} requests, ${failures.size} kinds of failures`)
    }

    if (process.env.FUZZ_SHOW !== undefined) console.log(outcomes)
    const report = [...failures].map(([kind, all]) => [`${all.length} × ${kind}`, ...all.slice(0, 2)].join('\n'))
    assert.equal(failures.size, 0, report.join('\n\n'))
    if (REQUESTS < 2_000) return
    // A run in which nothing is ever accepted, or nothing ever refused, would prove nothing.
    for (const { method, template } of operations) {
      const seen = outcomes.get(`${method} ${template}`)
      const statuses = [...(seen?.keys() ?? [])]
      // Several writes in one transaction need a network whose gas is paid by sponsors.
      assert.ok(
        statuses.some((status) => status < 300) || /cancel|speed-up|write\/batch|redeliver/.test(template),
        `nothing was accepted: ${method} ${template}`,
      )
      assert.ok(
        statuses.some((status) => status >= 400),
        `nothing was refused: ${method} ${template}`,
      )
    }
  },
)

/** One defect fails many requests: told once. */
const group = (groups: Map<string, string[]>, key: string, one: string): void =>
  void groups.set(key, [...(groups.get(key) ?? []).slice(0, 500), one])

const permitOf = (owner: string, nonce: number) => ({
  types: { Permit: ['owner', 'spender', 'value', 'nonce', 'deadline'].map((name, index) => ({ name, type: index < 2 ? 'address' : 'uint256' })) }, // prettier-ignore
  primaryType: 'Permit',
  domain: { name: 'Sample', version: '1', chainId: here.facts.chainId, verifyingContract: here.facts.contracts.erc20! },
  message: { owner, spender: here.bob.address, value: '1', nonce: String(nonce), deadline: String(Math.floor(Date.now() / 1_000) + 600) }, // prettier-ignore
})

/** The token of an application by itself, which may have webhooks and has an event. */
async function machineToken(): Promise<string> {
  const { token } = await addMachine(here, 'fuzz', ['events:read', 'webhooks:manage'])
  await noteUser(here.app.db, { clientId: 'fuzz', accountId: accountIdOf('DEV', 'alice') })
  return token
}

/** What requests are made from: users, contracts and calls that exist, and ids and cursors as answers bring them. */
async function openPool(): Promise<{ pool: Pool; learn: (answer: FuzzAnswer) => void }> {
  const { alice, bob, facts } = here
  const [probe] = (await deploy(facts.rpcUrl, ['Probe'])) as [string]
  const { erc20, erc721, erc1155 } = facts.contracts as { erc20: string; erc721: string; erc1155: string }
  await alice.write({
    address: erc20,
    abi: 'mint(address to, uint256 amount) public',
    args: [alice.address, '1000000'],
  })
  /** by what they begin with, so that no kind crowds out another */
  const ids: Record<string, string[]> = {
    tx: ['tx_00000000-0000-4000-8000-000000000000'],
    '0x': [`0x${'ab'.repeat(32)}`],
  }
  // A text needs its user's approval.
  const asked = await here.request('/v1/signatures/message', {
    method: 'POST',
    headers: { authorization: `Bearer ${alice.token}`, 'content-type': 'application/json', 'idempotency-key': 'asked' },
    body: '{"message":"Hello"}',
  })
  ids.apr = [(asked.body as { approval: { id: string } }).approval.id]
  const machine = await machineToken()
  ids.whk = ['whk_00000000-0000-4000-8000-000000000000']
  const events: string[] = [`evt_${'0'.repeat(32)}`]
  const cursors: string[] = []
  const addresses = [
    erc20,
    erc721,
    erc1155,
    probe,
    erc20.toLowerCase(),
    alice.address,
    bob.address,
    `0x${'0'.repeat(39)}1`,
  ]
  const users = [alice.userId, alice.userId, alice.userId, alice.userId, bob.userId, 'DEV-nobody', 'DEV-%', 'X-1-2']
  const read = (address: string, abi: string, ...args: string[]): Body => ({ address, abi, args })
  const selector = (abi: string) => selectorOf(parseAbi(abi).function)
  const reads = [
    read(erc20, 'balanceOf(address) public view returns (uint256)', alice.address),
    read(erc20, 'name() view returns (string)'),
    read(erc721, 'ownerOf(uint256) view returns (address)', '99999'),
    read(probe, 'several() public view returns (address who, bool yes, string words, bytes raw, bytes4 four)'),
    read(probe, 'integers() public pure returns (uint8, uint64, uint256, int8, int24, int256, uint256)'),
    read(probe, 'matrix() public pure returns (uint16[2][] rows)'),
    read(probe, 'echoString(string) public pure returns (string)', 'Zo\u00eb \u{1f511}'),
    read(probe, 'echoBytes(bytes) public pure returns (bytes)', '0x00ff'),
    read(probe, 'echoList(uint256[]) public pure returns (uint256[])', '[1,"2"]'),
    read(probe, 'failError(string) public view', 'no \u0000 \u202e'),
    read(probe, 'failRaw(bytes) public view', '0x08c379a0ff'),
    read(probe, 'failAssert() public view'),
    read(probe, 'nothing() public pure'),
    read(alice.address, 'count() view returns (uint256)'),
  ]
  const writes = [
    read(erc20, 'mint(address to, uint256 amount) public', alice.address, '7'),
    read(erc20, 'transfer(address to, uint256 amount) public returns (bool)', bob.address, '1'),
    read(erc20, 'transfer(address to, uint256 amount) public returns (bool)', bob.address, '99999999999999'),
    read(erc721, 'mint(address to) public returns (uint256)', alice.address),
    read(erc1155, 'mint(address to, uint256 id, uint256 amount) public', alice.address, '1', '2'),
    read(probe, 'increment() public returns (uint256)'),
    read(bob.address, 'pay() public payable'),
  ]
  const sent: Body[] = [
    { to: bob.address, value: '1' },
    { to: bob.address },
    { to: probe, data: selector('increment()'), abi: 'increment() public returns (uint256)' },
    { to: probe, data: selector('increment()'), gas: '100000' },
    { to: probe, data: selector('pay()'), value: '7' },
    { to: probe, data: selector('failPlain()') },
    { to: bob.address, data: '0x00' },
  ]
  const transfers: Body[] = [
    { tokenType: 'NATIVE', amount: '.000001', toUserId: bob.userId },
    { tokenType: 'NATIVE', amount: '0.000000000000000001', toAddress: bob.address },
    { tokenType: 'ERC20', tokenAddress: erc20, amount: '0.000000000000000001', toUserId: 'DEV-bob' },
    { tokenType: 'ERC20', tokenAddress: erc20, amount: '1', toUserProviderType: 'DEV', toUserUsername: 'bob' },
    { tokenType: 'ERC20', tokenAddress: probe, amount: '1', toUserId: bob.userId },
    { tokenType: 'ERC721', tokenAddress: erc721, tokenId: '1', toUserId: 'DEV-nobody-yet', toAddress: '' },
    { tokenType: 'ERC1155', tokenAddress: erc1155, tokenId: '1', amount: '1', toUserId: 'DEV-somebody-else' },
    { tokenType: 'NATIVE', amount: '0.000001', toUserId: 'DEV-never-seen', dryRun: true },
  ]
  const texts: Body[] = [{ message: 'Hello' }, { message: '\u0000' }, { hex: '0x00ff' }, { hex: '0x0' }, { message: 'Hi', dryRun: true }, { message: 'Hi', reference: 'order-1' }, { message: 'Hi', reference: '\ud800' }] // prettier-ignore
  const typed: Body[] = [0, 1, 2].map((n) => ({ typedData: permitOf(alice.address, n), dryRun: n === 2 }))
  const calls: Body[] = [
    { jsonrpc: '2.0', id: 1, method: 'eth_call', params: [{ to: erc20, data: '0x18160ddd' }, 'latest'] },
    { jsonrpc: '2.0', id: 'a', method: 'eth_getLogs', params: [{ fromBlock: '0x0', toBlock: 'latest' }] },
    { jsonrpc: '2.0', id: 2, method: 'eth_getBlockByNumber', params: ['latest', true] },
  ]
  const verified: Body[] = [
    { address: alice.address, message: 'Hello', signature: `0x${'11'.repeat(65)}` },
    { address: probe, hex: '0x00', signature: '0x' },
    { address: bob.address, typedData: permitOf(bob.address, 7), signature: `0x${'6492'.repeat(16)}` },
  ]
  const remember = (list: string[], value: string) => {
    list.push(value)
    if (list.length > 300) list.splice(5, 100)
  }
  return {
    learn: ({ headers, text }) => {
      const cursor = headers['x-next-cursor']
      if (typeof cursor === 'string') remember(cursors, cursor)
      const event = /"(evt_[0-9a-f]{32})"/.exec(text)?.[1]
      if (event !== undefined) remember(events, event)
      const found =
        /"((?:tx|sig|apr|whk)_[0-9a-f-]{36})"/.exec(text)?.[1] ?? /"hash":"(0x[0-9a-f]{64})"/.exec(text)?.[1]
      if (found === undefined) return
      const some = (ids[/^(?:0x|[a-z]+)/.exec(found)![0]] ??= [])
      if (!some.includes(found)) remember(some, found)
    },
    pool: {
      tokens: { own: alice.token, other: bob.token, machine },
      values: {
        userId: () => users,
        id: () => Object.values(ids).flatMap((some) => some.slice(-10)),
        address: () => addresses,
        tokenAddress: () => addresses,
        token: () => addresses,
        counterparty: () => addresses,
        cursor: () => cursors,
        eventId: () => events,
        url: () => [
          'http://127.0.0.1:9/hook',
          'https://shop.example/hook',
          'http://10.0.0.1/',
          'https://user:word@shop.example/',
        ],
        until: () => TIMES,
        value: () => ['0', '1', '1000'],
        amount: () => ['1', '.5', '0.000001', '0', '00.10', '9'.repeat(80)],
        tokenId: () => ['1', '', '99999', '9'.repeat(78)],
        toAddress: () => [...addresses, ''],
        toUserId: () => [...users, '', 'DEV-new', 'APP_X-1', 'DISCORD-80351110224678912'],
        toUserUsername: () => ['alice', 'bob', 'nobody', ''],
        toUserProviderType: () => ['DEV', 'X', ''],
        gas: () => ['21000', '100000', '16777216', '16777217', '0'],
        data: () => ['0x', '0x00', selector('increment()'), '0x1'],
        from: () => ['2020-01-01', '2026-01-31T12:00:00Z', ...TIMES],
        to: () => ['2030-01-01T00:00:00.000+02:00', ...TIMES],
        'idempotency-key': () => ['a', 'b', 'c', 'one key'],
        // Half a minute of waiting is for few.
        wait: () => [],
      },
      bodies: {
        '/v1/contracts/method/read': reads,
        '/v1/contracts/method/read/batch': reads,
        '/v1/contracts/method/write': writes,
        '/v1/rpc': calls,
        '/v1/contracts/method/write/batch': writes,
        '/v1/transactions': sent,
        '/v1/tokens/transfers': transfers,
        '/v1/signatures/message': texts,
        '/v1/signatures/typed-data': typed,
        '/v1/signatures/verify': verified,
        '/v1/webhooks': [{ url: 'http://127.0.0.1:9/hook' }, { url: 'http://127.0.0.1:9/hook', types: ['user.*'] }],
        '/v1/webhooks/{id}': [{ types: ['*'] }, { url: 'http://127.0.0.1:9/other' }],
        '/v1/webhooks/{id}/replay': [{ from: '2020-01-31T12:00:00Z' }],
        '/v1/webhooks/{id}/redeliver': [{ eventId: events[0]! }],
      },
    },
  }
}

function send({ method, path, headers, body }: FuzzRequest): Promise<FuzzAnswer> {
  const { hostname, port } = new URL(here.facts.origin)
  const { promise, resolve, reject } = Promise.withResolvers<FuzzAnswer>()
  const waitsMs = /wait=/.test(path) ? 30_000 + TIMEOUT_MS : TIMEOUT_MS
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
  const request = http.request(
    { hostname, port, agent, method, path, headers: { ...headers, ...length }, signal: AbortSignal.timeout(waitsMs) },
    (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () =>
        resolve({
          status: response.statusCode!,
          headers: response.headers,
          text: Buffer.concat(chunks).toString('utf8'),
        }),
      )
    },
  )
  request.on('error', reject)
  request.end(body)
  return promise
}

/** Operations that sign. */
const SENDING = [
  '/v1/contracts/method/write',
  '/v1/contracts/method/write/batch',
  '/v1/transactions',
  '/v1/tokens/transfers',
]

function isRealWrite({ method, template, body }: FuzzRequest): boolean {
  return method === 'POST' && SENDING.includes(template) && typeof body === 'string' && !body.includes('"dryRun":true')
}

const asDryRun = (request: FuzzRequest): FuzzRequest => ({
  ...request,
  body: String(request.body)
    .replace(/^\{(?="dryRun")?/, '{"dryRun":true,')
    .replace(/,"dryRun":false|,(?=\})/g, ''),
})

function describe({
  seed,
  index,
  one,
  answer,
  wrong,
}: {
  seed: number
  index: number
  one: FuzzRequest
  answer: FuzzAnswer | string
  wrong: string
}): string {
  const { authorization, ...headers } = one.headers
  return [
    `${wrong} (chunk seed ${seed}, request ${index})`,
    `${one.method} ${one.path.slice(0, 600)}`,
    `headers ${JSON.stringify(headers).slice(0, 600)}, token ${authorization === `Bearer ${here.alice.token}` ? 'own' : 'another'}`,
    `body ${JSON.stringify(one.body?.toString('utf8').slice(0, 1_000))}`,
    `answer ${typeof answer === 'string' ? answer : `${answer.status} ${answer.text.slice(0, 600)}`}`,
  ].join('\n')
}
