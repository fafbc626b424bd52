// tier: default, because it compares every method with the node and sends thousands of broken bodies
import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import { after, before, test, type TestContext } from 'node:test'
import fc from 'fast-check'
import { fakeChain } from '../../test/fake-chain.ts'
import { world, type Answer, type World } from '../../test/world.ts'
import { encodeCall } from '../abi/args.ts'
import { parseAbi } from '../abi/parse.ts'
import { RpcError, RpcTooLarge, RpcUnavailable } from '../chain/rpc/failures.ts'
import { deploy } from '../devnet/deploy.ts'
import type { Hex } from '../ids.ts'
import { CallRefused } from './errors.ts'
import { methodOf } from './methods.ts'
import { METHODS } from './wire.ts'

let here: World
let probe: Hex
let sent: { hash: Hex; blockNumber: number }
before(async () => {
  here = await world()
  probe = (await deploy(here.facts.rpcUrl, ['Probe']))[0]!
  const { body } = await here.alice.write({ address: probe, abi: 'add(uint256) public', args: ['3'] })
  const { blockNumber } = await here.rpc<{ blockNumber: Hex }>('eth_getTransactionReceipt', body.hash)
  sent = { hash: body.hash, blockNumber: Number(blockNumber) }
})
after(() => here.close())

const post = (body: unknown, headers = {}): Promise<Answer> => here.alice.post('/v1/rpc', body, headers)
const envelope = (method: string, params: unknown[], id: string | number = 1) => ({ jsonrpc: '2.0', id, method, params }) // prettier-ignore
async function ask(method: string, ...params: unknown[]) {
  const { status, body } = await post(envelope(method, params))
  assert.equal(status, 200, JSON.stringify(body))
  return body
}
const calldata = (abi: string, ...args: string[]): Hex => encodeCall(parseAbi(abi).function, args)

/** Records the calls that reach the node during a test; `say` can answer instead of the node. */
function watched(t: TestContext, say: (method: string) => unknown = () => undefined) {
  const { rpc } = here.app.chains.get(here.facts.chainId)!
  const methods: string[] = []
  const { call } = rpc
  rpc.call = (async (method: string, ...rest: [unknown[]]) => {
    methods.push(method)
    const said = say(method)
    if (said instanceof Error) throw said
    return said === undefined ? call(method, ...rest) : said
  }) as typeof call
  t.after(() => void (rpc.call = call))
  return methods
}

test('every method answers what the node answers', async (t) => {
  const block = `0x${sent.blockNumber.toString(16)}`
  const { address } = here.alice
  const { hash } = await here.rpc<{ hash: Hex }>('eth_getBlockByNumber', block, false)
  const create = `${'60'.repeat(1)}2a60005260206000f3`
  const cases: [method: string, ...params: unknown[]][] = [
    ['eth_chainId'],
    ['net_version'],
    ['eth_blockNumber'],
    ['eth_gasPrice'],
    ['eth_maxPriorityFeePerGas'],
    ['eth_getBalance', address, 'latest'],
    ['eth_getBalance', address.toLowerCase(), block],
    ['eth_getCode', probe, 'latest'],
    ['eth_getCode', address, block],
    ['eth_getTransactionCount', address, 'latest'],
    ['eth_getStorageAt', probe, '0x0', 'latest'],
    ['eth_getStorageAt', probe, `0x${'0'.repeat(64)}`, block],
    ['eth_call', { to: probe, data: calldata('count() view returns (uint256)') }, 'latest'],
    [
      'eth_call',
      { to: probe, input: calldata('count() view returns (uint256)'), from: address, gas: '0xffffff' },
      block,
    ],
    ['eth_call', { data: `0x${create}` }, 'latest'],
    ['eth_estimateGas', { to: probe, from: address, data: calldata('add(uint256)', '1') }],
    ['eth_getTransactionByHash', sent.hash],
    ['eth_getTransactionByHash', `0x${'11'.repeat(32)}`],
    ['eth_getTransactionReceipt', sent.hash],
    ['eth_getTransactionReceipt', `0x${'11'.repeat(32)}`],
    ['eth_getBlockByNumber', block, true],
    ['eth_getBlockByNumber', 'latest', false],
    ['eth_getBlockByNumber', 'earliest', false],
    ['eth_getBlockByNumber', '0xffffffff', false],
    ['eth_getBlockByHash', hash, false],
    ['eth_getBlockByHash', `0x${'11'.repeat(32)}`, false],
    ['eth_getLogs', { fromBlock: block, toBlock: block, address: probe }],
    ['eth_getLogs', { blockHash: hash, topics: [[`0x${'22'.repeat(32)}`], null] }],
    ['eth_feeHistory', '0x2', block, [10, 50.5]],
  ]
  assert.deepEqual(new Set(cases.map(([method]) => method)), new Set(METHODS))
  for (const [method, ...params] of cases)
    await t.test(`${method} ${JSON.stringify(params).slice(0, 60)}`, async () => {
      // Accept either block: the chain may mine one between two requests.
      const ofNode = await here.rpc(method, ...params)
      const { result } = await ask(method, ...params)
      if (!isDeepStrictEqual(result, ofNode)) assert.deepEqual(result, await here.rpc(method, ...params))
    })
})

test('parameters that are not exactly those of a method are -32602 and reach no node', async (t) => {
  const wrong = here.facts.contracts.erc20!.replace(/[a-f]/, (letter) => letter.toUpperCase())
  const methods = watched(t)
  const cases: [method: string, ...params: unknown[]][] = [
    ['eth_chainId', 1],
    ['eth_getBalance'],
    ['eth_getBalance', '0x12', 'latest'],
    ['eth_getBalance', wrong, 'latest'],
    ['eth_getBalance', probe, 'newest'],
    ['eth_getBalance', probe, 12],
    ['eth_getBalance', probe, `0x${'f'.repeat(40)}`],
    ['eth_getStorageAt', probe, `0x${'1'.repeat(65)}`],
    ['eth_call', 'x'],
    ['eth_call', {}],
    ['eth_call', { to: probe, data: '0x1' }],
    ['eth_call', { to: probe, data: '0x', input: '0x00' }],
    ['eth_call', { to: probe, value: '1' }],
    ['eth_call', { to: probe, chainId: '0x1' }],
    ['eth_call', { to: probe, accessList: [] }],
    ['eth_call', { to: probe }, 'latest', {}],
    ['eth_estimateGas', { to: probe }, 'finalized'],
    ['eth_getTransactionReceipt', '0x1'],
    ['eth_getBlockByHash', `0x${'11'.repeat(32)}`, 'yes'],
    ['eth_getLogs', { fromBlock: '0x2', toBlock: '0x1' }],
    ['eth_getLogs', { blockHash: `0x${'11'.repeat(32)}`, fromBlock: '0x1' }],
    ['eth_getLogs', { topics: Array(5).fill(null) }],
    ['eth_getLogs', { address: [] }],
    ['eth_feeHistory', '0x0', 'latest', []],
    ['eth_feeHistory', '0x81', 'latest', []],
    ['eth_feeHistory', 1, 'latest', [50, 10]],
    ['eth_feeHistory', 1, 'latest', [101]],
  ]
  for (const [method, ...params] of cases) {
    const { error } = await ask(method, ...params)
    assert.equal(error?.code, -32602, `${method} ${JSON.stringify(params)}`)
  }
  assert.deepEqual(methods.filter((method) => method !== 'eth_getBlockByNumber'), []) // prettier-ignore
})

test('a filter of more than 2,000 blocks is refused, or of 10 without an address and a topic, and one above the newest block reaches no node', async () => {
  const newest = { number: '0x1388', hash: `0x${'1'.repeat(64)}`, parentHash: `0x${'2'.repeat(64)}`, timestamp: '0x1' }
  const { chain, asked } = fakeChain({ eth_getLogs: () => [], eth_getBlockByNumber: () => newest })
  const hex = (number: number) => `0x${number.toString(16)}`
  const logs = (from: number, to: number, address: Hex | null = probe): Promise<unknown> =>
    methodOf('eth_getLogs')!.answer({ app: here.app, chain }, [{ fromBlock: hex(from), toBlock: hex(to), address }]) as never // prettier-ignore
  assert.deepEqual(await logs(5_001, 9_000), [])
  assert.deepEqual(asked('eth_getLogs'), [])
  await assert.rejects(logs(1, 2_001), CallRefused)
  await logs(1, 2_000)
  await logs(5_000, 9_000)
  await assert.rejects(logs(1, 11, null), CallRefused)
  await logs(1, 10, null)
  const address = [probe.toLowerCase()]
  assert.deepEqual(asked('eth_getLogs'), [
    [{ fromBlock: '0x1', toBlock: hex(2_000), address }],
    [{ fromBlock: '0x1388', toBlock: '0x1388', address }],
    [{ fromBlock: '0x1', toBlock: '0xa' }],
  ])
})

test('methods that are not offered are -32601 and reach no node', async (t) => {
  const methods = watched(t)
  const refused = ['eth_sendRawTransaction', 'eth_sendTransaction', 'eth_sign', 'eth_accounts', 'personal_sign', 'debug_traceCall', 'anvil_setBalance', 'evm_mine', 'hardhat_reset', 'txpool_content', 'eth_newFilter', 'eth_subscribe', 'web3_clientVersion', '__proto__', 'constructor', 'toString', 'ETH_CHAINID', ' eth_chainId', ''] // prettier-ignore
  const { status, body } = await post(refused.map((method, id) => envelope(method, [], id)))
  assert.equal(status, 200)
  assert.deepEqual(body.map(({ id, error }: { id: number; error: { code: number } }) => [id, error.code]), refused.map((_, id) => [id, -32601])) // prettier-ignore
  assert.deepEqual(methods, [])
})

test('each call of a batch has its own answer, in order, with its own id', async () => {
  const { status, body } = await post([
    envelope('eth_chainId', [], 'a'),
    1,
    envelope('nothing', [], 'a'),
    { jsonrpc: '2.0', method: 'eth_chainId', params: [] },
    { id: 4, method: 'eth_chainId' },
    { jsonrpc: '2.0', id: 5, method: 'eth_chainId', params: {} },
    { jsonrpc: '2.0', id: 6, method: 7 },
    { jsonrpc: '2.0', id: 1.5, method: 'eth_chainId' },
    { jsonrpc: '2.0', id: 8, method: 'eth_chainId' },
  ])
  assert.equal(status, 200)
  const told = body.map((one: { id: unknown; result?: unknown; error?: { code: number } }) => [one.id, one.result ?? one.error!.code]) // prettier-ignore
  assert.deepEqual(told, [
    ['a', '0x7a69'],
    [null, -32600],
    ['a', -32601],
    [null, -32600],
    [4, -32600],
    [5, -32602],
    [6, -32600],
    [null, -32600],
    [8, '0x7a69'],
  ])
})

test('a request that is wrong as a whole is a problem document', async () => {
  const call = envelope('eth_chainId', [])
  for (const [body, code] of [
    ['{', 'invalid_json'],
    ['', 'invalid_json'],
    ['"eth_chainId"', 'invalid_request'],
    ['null', 'invalid_request'],
    [[], 'invalid_request'],
    [Array(51).fill(call), 'invalid_request'],
  ] as const) {
    const answer = await post(body)
    assert.deepEqual([answer.status, answer.body.code], [400, code], JSON.stringify(body).slice(0, 60))
  }
  assert.equal((await post(Array(50).fill(call))).body.length, 50)
})

test('a revert is code 3 with its data, and its reason', async () => {
  const reverts: [abi: string, args: string[], message: string, data: RegExp][] = [
    ['failError(string) pure', ['Not yet'], 'execution reverted: Not yet', /^0x08c379a0/],
    ['failPlain() pure', [], 'execution reverted', /^0x[0-9a-f]{8}$/],
    ['failAssert() pure', [], 'execution reverted', /^0x4e487b71/],
  ]
  for (const [abi, args, message, data] of reverts)
    for (const method of ['eth_call', 'eth_estimateGas']) {
      const { error } = await ask(method, { to: probe, data: calldata(abi, ...args) })
      assert.deepEqual([error.code, error.message], [3, message], method)
      assert.match(error.data, data)
    }
  const poor = { from: `0x${'77'.repeat(20)}`, to: probe, value: '0xffffffffffffffffffff' }
  for (const method of ['eth_call', 'eth_estimateGas'])
    assert.match((await ask(method, poor)).error.message, /^insufficient funds/, method)
})

test('failures of nodes have codes that clients know, and no text of a node', async (t) => {
  const secret = 'https://node.example/key-123'
  let failure: Error = new Error()
  watched(t, (method) => (method === 'eth_getBlockByNumber' ? undefined : failure))
  for (const [thrown, code, problem] of [
    [new RpcUnavailable(secret, { timedOut: false }), -32603, 'chain_unavailable'],
    [new RpcUnavailable(secret, { timedOut: true }), -32603, 'chain_timeout'],
    [new RpcError(-32000, secret, secret), -32603, 'chain_unavailable'],
    [new RpcError(-32601, secret, secret), -32601, undefined],
    [new RpcTooLarge(), -32602, undefined],
  ] as const) {
    failure = thrown
    const { error } = await ask('eth_gasPrice')
    assert.deepEqual([error.code, error.data?.code], [code, problem])
    assert.doesNotMatch(JSON.stringify(error), /node\.example/)
  }
  failure = new RpcError(-32005, `${secret} query returned more than 10000 results`, undefined)
  const { error } = await ask('eth_getLogs', { fromBlock: 'latest' })
  assert.equal(error.code, -32602)
  assert.doesNotMatch(JSON.stringify(error), /node\.example/)
})

test('the results of a request have at most 4 MiB, and long ones are read one by one', async (t) => {
  let running = 0
  const chain = here.app.chains.get(here.facts.chainId)!
  const { call } = chain.rpc
  chain.rpc.call = (async (method: string, ...rest: [unknown[]]) => {
    if (method !== 'eth_getLogs') return call(method, ...rest)
    assert.equal(++running, 1)
    await new Promise(setImmediate)
    running--
    return ['x'.repeat(1_500_000)]
  }) as typeof call
  t.after(() => void (chain.rpc.call = call))
  const { status, body } = await post([1, 2, 3, 4].map((id) => envelope('eth_getLogs', [{}], id)))
  assert.equal(status, 200)
  assert.deepEqual(body.map(({ error }: { error?: { code: number } }) => error?.code), [undefined, undefined, -32602, -32602]) // prettier-ignore
})

test('a receipt is shown once reads see its block', async (t) => {
  const chain = here.app.chains.get(here.facts.chainId)!
  const ahead = { blockNumber: '0xfffffff', blockHash: `0x${'1'.repeat(64)}`, transactionIndex: '0x0' }
  watched(t, (method) => (/^eth_getTransaction(ByHash|Receipt)$/.test(method) ? ahead : undefined))
  assert.equal((await ask('eth_getTransactionReceipt', sent.hash)).result, null)
  const pending = { blockNumber: null, blockHash: null, transactionIndex: null }
  assert.deepEqual((await ask('eth_getTransactionByHash', sent.hash)).result, pending)

  // Simulate another server that follows and has not stored our newest block.
  const newest = chain.head.current()!.number
  t.mock.method(chain.head, 'isFollowed', () => false)
  t.mock.method(chain.clock, 'sleep', async () => {})
  watched(t, (method) => (method === 'eth_getTransactionReceipt' ? { ...ahead, blockNumber: `0x${newest.toString(16)}` } : undefined)) // prettier-ignore
  const setTo = (number: number) => here.app.db.updateTable('cursors').set({ block_number: number, lease_until: new Date(Date.now() + 60_000) }).execute() // prettier-ignore
  t.after(() => setTo(newest))
  await setTo(newest - 1)
  assert.equal((await ask('eth_getTransactionReceipt', sent.hash)).result, null)
  await setTo(newest)
  assert.notEqual((await ask('eth_getTransactionReceipt', sent.hash)).result, null)
})

test('each call of a batch counts as a read', async (t) => {
  const limited = await world({ RATE_LIMITS: 'on', READS_PER_SECOND: '1', READS_BURST: '6' })
  t.after(() => limited.close())
  const dave = await limited.person('dave')
  const calls = (count: number) => Array.from({ length: count }, (_, id) => envelope('eth_sign', [], id))
  const first = await dave.post('/v1/rpc', calls(4))
  assert.equal(first.status, 200)
  const second = await dave.post('/v1/rpc', calls(4))
  assert.deepEqual([second.status, second.body.code], [429, 'rate_limited'])
})

test('pages of registered origins may call it', async () => {
  const origin = 'http://localhost:3999'
  const { headers } = await here.request('/v1/rpc', {
    method: 'OPTIONS',
    headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,content-type' }, // prettier-ignore
  })
  assert.equal(headers.get('access-control-allow-origin'), origin)
  assert.equal((await post(envelope('eth_chainId', []), { origin })).headers.get('access-control-allow-origin'), origin)
})

const BODIES = Number(process.env.FUZZ_BODIES ?? 2_000)
test(
  `of ${BODIES} bodies of any kind none is answered with a 5xx, and nodes are asked only offered methods`,
  { timeout: 3_600_000 },
  async (t) => {
    const methods = watched(t)
    const address = fc.constantFrom(probe, here.alice.address, here.facts.contracts.erc20!, '0x12', '')
    const tag = fc.constantFrom('latest', 'pending', 'safe', 'finalized', 'earliest', '0x1', '0x0', '0xffffff', '0x', 1, null, `0x${'f'.repeat(64)}`) // prettier-ignore
    const hash = fc.constantFrom(sent.hash, `0x${'11'.repeat(32)}`, '0x1')
    const hex = fc
      .string({ unit: fc.constantFrom('0', '1', '7', '9', 'a', 'f'), maxLength: 40 })
      .map((digits) => `0x${digits}`)
    const junk = fc.oneof(fc.json({ maxDepth: 2 }).map((text) => JSON.parse(text) as unknown), hex, fc.constantFrom('__proto__', 1e300, -1, true)) // prettier-ignore
    const object = fc.record({ to: address, from: address, data: hex, value: hex, gas: hex, fromBlock: tag, toBlock: tag, blockHash: hash, address, topics: fc.array(fc.oneof(hash, junk), { maxLength: 5 }) }, { requiredKeys: [] }) // prettier-ignore
    const param = fc.oneof(address, tag, hash, object, junk)
    const method = fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...METHODS) }, fc.constantFrom('eth_sendRawTransaction', 'evm_mine', 'anvil_reset', 'constructor'), fc.string()) // prettier-ignore
    const call = fc.oneof(
      { weight: 9, arbitrary: fc.record({ jsonrpc: fc.constant('2.0'), id: fc.oneof(fc.integer(), fc.string()), method, params: fc.array(param, { maxLength: 4 }) }) }, // prettier-ignore
      junk,
    )
    const body = fc.oneof(call, fc.array(call, { maxLength: 8 }), junk)
    const bodies = fc.sample(body, { numRuns: BODIES, seed: Number(process.env.FUZZ_SEED ?? 1) }).values()
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        for (const one of bodies) {
          const text = JSON.stringify(one)
          const { status, body: said } = await post(text)
          assert.ok(status === 200 || status === 400, `${status} to ${text}`)
          if (status === 200) assert.ok(Array.isArray(said) === Array.isArray(one), text)
        }
      }),
    )
    const own = [...METHODS, 'eth_getBlockReceipts']
    assert.deepEqual(
      [...new Set(methods)].filter((asked) => !own.includes(asked)),
      [],
    )
  },
)
