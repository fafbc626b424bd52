import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { writing, type Writer, type Writing } from '../../../test/writing.ts'
import { parseAbi } from '../../abi/parse.ts'
import { encodeCall } from '../../abi/args.ts'
import { checksumAddress } from '../../digits.ts'
import { until } from '../../../test/kit/until.ts'
import { RpcError } from '../../chain/rpc/rpc.ts'
import type { Hex } from '../../ids.ts'

let world: Writing
let alice: Writer
let bob: Writer
before(async () => {
  world = await writing()
  alice = await world.writer('alice')
  bob = await world.writer('bob')
})
after(() => world.close())

// oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
type Answer = { status: number; headers: Record<string, unknown>; body: any }

async function post(
  path: string,
  body: unknown,
  { as = alice, headers = {} }: { as?: Writer; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const answer = await world.first.server.inject({
    method: 'POST',
    url: path,
    headers: {
      authorization: `Bearer ${as.token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  return { status: answer.statusCode, headers: answer.headers, body: answer.json() }
}

async function get(path: string, as = alice): Promise<Answer> {
  const { token } = as
  const answer = await world.first.server.inject({ url: path, headers: { authorization: `Bearer ${token}` } })
  return { status: answer.statusCode, headers: answer.headers, body: answer.json() }
}

const SEND = '/v1/transactions'
const call = (abi: string, ...args: string[]): Hex => encodeCall(parseAbi(abi).function, args)
const add = (amount = '1', more: Record<string, unknown> = {}) => ({
  to: world.probe,
  data: call('add(uint256)', amount),
  ...more,
})
const written = async () => (await world.db.selectFrom('transactions').select('id').execute()).length
const balanceOf = async (address: string) => BigInt(await world.rpc<Hex>('eth_getBalance', address, 'latest'))

test('coins are sent to somebody who has no code, by the value alone', async () => {
  const before = await balanceOf(bob.address)
  const { status, body } = await post(SEND, { to: bob.address, value: '12345' })
  assert.equal(status, 200, JSON.stringify(body))
  assert.match(body.hash, /^0x[\da-f]{64}$/)
  const { tx } = body
  assert.deepEqual([tx.to, tx.data, tx.value.hex, tx.nonce], [checksumAddress(bob.address), '0x', '0x3039', 0])
  await world.mine()
  assert.equal((await balanceOf(bob.address)) - before, 12_345n)
})

test('data is sent as it is, listed like any other write, and its receipt is found', async () => {
  const { status, body } = await post(`${SEND}`, add('7'))
  assert.equal(status, 200, JSON.stringify(body))
  assert.equal(body.tx.data, call('add(uint256)', '7'))
  const onChain = await world.rpc<{ input: Hex }>('eth_getTransactionByHash', body.hash)
  assert.equal(onChain.input, body.tx.data)
  await world.mine()
  assert.equal(await world.countOf(alice), 7n)
  const list = await get('/v1/transactions?limit=1')
  assert.deepEqual([list.body[0].id, list.body[0].state], [body.id, 'MINED'])
  assert.equal((await get(`/v1/transactions/${body.id}`, bob)).body.code, 'transaction_not_found')
})

test('the gas limit of the caller is the one that is signed; without it there is a quarter more than the estimate', async () => {
  const estimated = await post(SEND, add('1'))
  const own = await post(SEND, add('1', { gas: '0100000' }))
  assert.equal(BigInt(own.body.tx.gasLimit.hex), 100_000n)
  assert.notEqual(BigInt(estimated.body.tx.gasLimit.hex), 100_000n)
  const onChain = await world.rpc<{ gas: Hex }>('eth_getTransactionByHash', own.body.hash)
  assert.equal(BigInt(onChain.gas), 100_000n)
  await world.mine()
})

test('nonce and prices are not for the client to say', async () => {
  const before = await written()
  for (const field of [
    'nonce',
    'gasPrice',
    'maxFeePerGas',
    'maxPriorityFeePerGas',
    'from',
    'chainId',
    'type',
    'gasLimit',
    'accessList',
    'authorizationList',
    'blobs',
  ]) {
    const { status, body } = await post(SEND, add('1', { [field]: '1' }))
    assert.deepEqual([status, body.code, body.errors[0].pointer], [400, 'unknown_parameter', `/${field}`])
  }
  assert.equal(await written(), before)
})

const abi = 'add(uint256 amount) public returns (uint256)'
const refusals: [string, () => unknown, number, string, string?][] = [
  ['no body', () => undefined, 400, 'invalid_request'],
  ['nothing in it', () => ({}), 400, 'invalid_request', '/to'],
  ['no recipient: contracts are not made here', () => ({ data: '0x6000' }), 400, 'invalid_request', '/to'],
  ['a recipient that is null', () => ({ to: null, value: '1' }), 400, 'invalid_request', '/to'],
  ['broken JSON', () => '{"to":', 400, 'invalid_json'],
  ['a body of 1 MB', () => add('1', { data: `0x${'00'.repeat(500_000)}` }), 413, 'body_too_large'],
  ['data of 32,001 bytes', () => add('1', { data: `0x${'00'.repeat(32_001)}` }), 400, 'invalid_request', '/data'],
  ['a recipient that is none', () => add('1', { to: '0x12' }), 400, 'invalid_address', '/to'],
  [
    'a recipient with a wrong checksum',
    () => add('1', { to: '0x70997970c51812dc3A010C7d01b50e0d17dc79C8' }),
    400,
    'invalid_address',
    '/to',
  ],
  ['data for an address without code', () => add('1', { to: `0x${'12'.repeat(20)}` }), 422, 'no_contract', '/to'],
  ['data without 0x', () => add('1', { data: '6000' }), 422, 'invalid_data', '/data'],
  ['empty data', () => add('1', { data: '' }), 422, 'invalid_data', '/data'],
  ['half a byte', () => add('1', { data: '0x1' }), 422, 'invalid_data', '/data'],
  ['data that is no hex', () => add('1', { data: '0xgg' }), 422, 'invalid_data', '/data'],
  ['data with a line behind it', () => add('1', { data: '0x12\n' }), 422, 'invalid_data', '/data'],
  ['data that is no string', () => add('1', { data: 18 }), 400, 'invalid_request', '/data'],
  ['a value in hex', () => add('1', { value: '0x10' }), 422, 'invalid_value', '/value'],
  ['a negative value', () => add('1', { value: '-1' }), 422, 'invalid_value', '/value'],
  ['a value of 2^256', () => add('1', { value: String(2n ** 256n) }), 422, 'invalid_value', '/value'],
  ['a value that is a number', () => add('1', { value: 1 }), 400, 'invalid_request', '/value'],
  ['a gas limit in hex', () => add('1', { gas: '0x5208' }), 422, 'invalid_gas', '/gas'],
  ['an empty gas limit', () => add('1', { gas: '' }), 422, 'invalid_gas', '/gas'],
  ['less gas than any transaction costs', () => add('1', { gas: '20999' }), 422, 'invalid_gas', '/gas'],
  ['more gas than a transaction may have', () => add('1', { gas: '16777217' }), 422, 'invalid_gas', '/gas'],
  ['less gas than it needs', () => add('1', { gas: '22000' }), 422, 'invalid_gas', '/gas'],
  ['a gas limit that is a number', () => add('1', { gas: 100_000 }), 400, 'invalid_request', '/gas'],
  ['an empty ABI', () => add('1', { abi: '' }), 422, 'invalid_abi', '/abi'],
  ['the ABI of another function', () => add('1', { abi: 'increment() public' }), 422, 'invalid_abi', '/abi'],
  ['an ABI for no data', () => ({ to: world.probe, abi }), 422, 'invalid_abi', '/abi'],
  ['a view function', () => add('1', { abi: 'add(uint256) public view' }), 400, 'abi_is_view', '/abi'],
  [
    'coins for a function marked nonpayable',
    () => add('1', { abi: 'add(uint256) nonpayable', value: '1' }),
    422,
    'invalid_value',
    '/value',
  ],
  ['dryRun that is no boolean', () => add('1', { dryRun: 'true' }), 400, 'invalid_request', '/dryRun'],
  ['a call that reverts', () => ({ to: world.probe, data: call('failPlain()') }), 422, 'execution_reverted'],
  ['a call that burns all gas', () => ({ to: world.probe, data: call('failInvalid()') }), 422, 'execution_reverted'],
  [
    'that with a gas limit too',
    () => ({ to: world.probe, data: call('failInvalid()'), gas: '90000' }),
    422,
    'execution_reverted',
  ],
  ['coins for a contract that takes none', () => ({ to: world.probe, value: '1' }), 422, 'execution_reverted'],
  ['more coins than there are', () => ({ to: bob.address, value: String(10n ** 30n) }), 422, 'insufficient_funds'],
]

for (const [what, body, status, code, pointer] of refusals) {
  test(`refused: ${what}; nothing is stored, nothing is sent, the key stays free`, async () => {
    const before = await written()
    const sent = () => world.first.calls.filter(({ method }) => method === 'eth_sendRawTransaction').length
    const sentBefore = sent()
    const answer = await post(SEND, body(), { headers: { 'idempotency-key': 'refused' } })
    assert.deepEqual([answer.status, answer.body.code], [status, code], JSON.stringify(answer.body))
    if (pointer !== undefined) assert.equal(answer.body.errors[0].pointer, pointer)
    assert.deepEqual([await written(), sent()], [before, sentBefore])
  })
}

test('32,000 bytes of data are sent', async () => {
  const { status, body } = await post(SEND, add('1', { data: `${call('add(uint256)', '1')}${'00'.repeat(31_964)}` }))
  assert.equal(status, 200, JSON.stringify(body).slice(0, 500))
  await world.mine()
})

test('too little gas is distinguished from a revert, on a node that estimates past its limit as well', async () => {
  const low = await post(SEND, add('1', { gas: '22000' }))
  assert.match(low.body.detail, /^The gas limit is too low: at least \d{5} is needed\.$/)
  world.first.misbehave((method, params, next) => {
    if (method !== 'eth_estimateGas') return next()
    delete (params[0] as { gas?: string }).gas
    return next()
  })
  const careless = await post(SEND, add('1', { gas: '22000' }))
  world.first.misbehave((method, _params, next) =>
    method === 'eth_estimateGas' ? Promise.reject(new RpcError(-32_000, 'the node is tired', undefined)) : next(),
  )
  const tired = await post(SEND, add('1', { gas: '90000' }))
  world.first.misbehave(null)
  assert.deepEqual([careless.body.code, careless.body.detail], ['invalid_gas', low.body.detail])
  assert.deepEqual([tired.status, tired.body.code], [502, 'chain_unavailable'])
})

test('an ABI beside the data explains a revert in the contract’s own words', async () => {
  const { body } = await post(SEND, {
    to: world.probe,
    data: call('failTooMuch(uint256,uint256)', '5', '3'),
    abi: 'failTooMuch(uint256,uint256) public\nerror TooMuch(address who, uint256 asked, uint256 held)',
  })
  assert.deepEqual([body.code, body.revert.name], ['execution_reverted', 'TooMuch'])
})

test('a dry run says what it would cost and, with an ABI, what it returns; nothing is stored', async () => {
  const before = await written()
  const dry = await post(SEND, add('5', { dryRun: true, abi, gas: '123456' }))
  assert.equal(dry.status, 200, JSON.stringify(dry.body))
  assert.deepEqual([dry.body.hash, dry.body.id, dry.body.tx.hash], [undefined, undefined, undefined])
  assert.equal(BigInt(dry.body.gas.hex), 123_456n)
  const count = BigInt(await world.rpc<Hex>('eth_call', { to: world.probe, data: '0x06661abd' }, 'latest'))
  assert.equal(BigInt(dry.body.response.hex), count + 5n)
  const bare = await post(SEND, add('5', { dryRun: true }))
  assert.deepEqual([bare.body.response, bare.body.outputs, bare.body.rule], [null, [], 'default-allow'])
  assert.equal((await post(SEND, add('5', { dryRun: true, to: `0x${'12'.repeat(20)}` }))).body.errors[0].pointer, '/to')
  assert.equal(await written(), before)
})

test('one key, one transaction; another body is refused, and the key of a contract write is another one', async () => {
  const headers = { 'idempotency-key': 'order 1' }
  const first = await post(SEND, add('3'), { headers })
  const again = await post(SEND, { ...add('3'), value: '0' }, { headers: { 'x-idempotency-key': 'order 1' } })
  assert.deepEqual([again.headers['idempotent-replayed'], again.body], ['true', first.body])
  for (const other of [add('4'), add('3', { gas: '100000' }), add('3', { value: '1' }), add('3', { abi })])
    assert.equal((await post(SEND, other, { headers })).body.code, 'idempotency_key_reused')
  const write = { address: world.probe, abi, args: ['3'] }
  const beside = await post('/v1/contracts/method/write', write, { headers })
  assert.equal(beside.headers['idempotent-replayed'], undefined)
  assert.notEqual(beside.body.id, first.body.id)
  assert.equal(
    (await post(SEND, add('3'), { headers: { 'idempotency-key': '' } })).body.code,
    'idempotency_key_invalid',
  )
  await world.mine()
})

test('ten at once with one key make one transaction', async () => {
  const before = await written()
  const headers = { 'idempotency-key': 'ten' }
  const answers = await Promise.all(Array.from({ length: 10 }, () => post(SEND, add('1'), { headers })))
  const told = new Set(answers.filter(({ status }) => status === 200).map(({ body }) => body.hash))
  assert.equal(told.size, 1)
  for (const { status, body } of answers) if (status !== 200) assert.equal(body.code, 'idempotency_in_flight')
  assert.equal(await written(), before + 1)
  await world.mine()
})

test('what is not begun by when its client stops waiting is refused, and nothing was done', async () => {
  const before = await get(SEND)
  const late = await post(SEND, { to: bob.address, value: '1' }, { headers: { prefer: 'wait=0' } })
  assert.deepEqual([late.status, late.body.code], [503, 'overloaded'])
  assert.equal(late.headers['preference-applied'], 'wait=0')
  assert.deepEqual((await get(SEND)).body, before.body)
  assert.equal((await post(SEND, { to: bob.address, value: '1' }, { headers: { prefer: 'wait=20' } })).status, 200)
  await world.mine()
})

test('a client that waits a second for a block is told then that it is on its way', async () => {
  const since = performance.now()
  const waited = await post(`${SEND}?wait=mined`, { to: bob.address, value: '1' }, { headers: { prefer: 'wait=1' } })
  assert.deepEqual([waited.status, waited.body.state], [202, 'SUBMITTED'])
  assert.ok(performance.now() - since < 25_000)
  await world.mine()
})

test('wait=mined answers when it is in a block; another query is refused', async () => {
  const waiting = post(`${SEND}?wait=mined`, { to: bob.address, value: '1' })
  await until('it is in the pool', async () => (await world.rpc<{ pending: Hex }>('txpool_status')).pending !== '0x0')
  await world.mine()
  const { status, body } = await waiting
  assert.deepEqual([status, body.state], [200, 'MINED'])
  assert.equal((await post(`${SEND}?wait=final`, add())).status, 400)
  assert.equal((await post(`${SEND}?later=1`, add())).body.code, 'unknown_parameter')
})

test('refused: tokens without the permission, of another audience, missing; bodies that are no JSON', async () => {
  const before = await written()
  const read = await world.place.token('DEV-alice', { scope: 'openid wallet:read', gid: 'g' })
  const scopeless = await post(SEND, add(), { as: { ...alice, token: read } })
  assert.deepEqual([scopeless.status, scopeless.body.code], [403, 'insufficient_scope'])
  assert.equal((await post(SEND, add(), { as: { ...alice, token: 'nonsense' } })).status, 401)
  const plain = await post(SEND, JSON.stringify(add()), { headers: { 'content-type': 'text/plain' } })
  assert.deepEqual([plain.status, plain.body.code], [415, 'unsupported_media_type'])
  assert.equal(await written(), before)
})

test('a pending one is cancelled like any other', async () => {
  const { body } = await post(SEND, add('1000'))
  const cancelled = await post(`/v1/transactions/${body.id}/cancel`, undefined)
  assert.deepEqual([cancelled.status, cancelled.body.isCancel], [200, true])
  await world.mine()
  assert.equal((await get(`/v1/transactions/${body.hash}`)).body.state, 'CANCELLED')
})
