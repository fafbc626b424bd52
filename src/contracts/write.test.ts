import { strict as assert } from 'node:assert'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { BigNumber } from 'ethers5'
import { until } from '../../test/kit/until.ts'
import { writing, type Writer, type Writing } from '../../test/writing.ts'
import { RpcUnavailable } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'
import { startSigner, type Running } from '../../test/kit/signer.ts'

let world: Writing
let alice: Writer
before(async () => {
  world = await writing()
  alice = await world.writer('alice')
})
after(async () => {
  for (const signer of signers) await signer.end('SIGKILL')
  await world.close()
})
/** signers that replaced the test world's own */
const signers: Running[] = []

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
  const answer = await world.first.server.inject({
    method: 'GET',
    url: path,
    headers: { authorization: `Bearer ${as.token}` },
  })
  return { status: answer.statusCode, headers: answer.headers, body: answer.json() }
}

const WRITE = '/v1/contracts/method/write'
const add = (amount = '1', more: Record<string, unknown> = {}) => ({
  address: world.probe,
  abi: 'add(uint256 amount) public returns (uint256)',
  args: [amount],
  ...more,
})
const written = async () => (await world.db.selectFrom('transactions').select('id').execute()).length
const keys = async () =>
  (await world.db.selectFrom('transactions').select('id').where('request_hash', 'is not', null).execute()).length

test('a write answers as the specification says, and its numbers are ethers 5’s', async () => {
  const { status, body } = await post(WRITE, add('7'))
  assert.equal(status, 200)
  assert.equal(body.status, 'SUCCESS')
  assert.match(body.hash, /^0x[0-9a-f]{64}$/)
  assert.equal(body.explorerUrl, `http://explorer/tx/${body.hash}`)
  assert.equal(body.state, 'SUBMITTED')
  const { tx } = body
  assert.deepEqual(Object.keys(tx).toSorted(), [
    'accessList',
    'chainId',
    'data',
    'from',
    'gasLimit',
    'hash',
    'maxFeePerGas',
    'maxPriorityFeePerGas',
    'nonce',
    'to',
    'type',
    'value',
  ])
  assert.deepEqual([tx.type, tx.chainId, tx.nonce, tx.accessList], [2, 31337, 0, []])
  const onChain = await world.rpc<Record<string, Hex>>('eth_getTransactionByHash', body.hash)
  for (const [ours, theirs] of [
    ['value', 'value'],
    ['gasLimit', 'gas'],
    ['maxFeePerGas', 'maxFeePerGas'],
    ['maxPriorityFeePerGas', 'maxPriorityFeePerGas'],
  ] as const) {
    assert.deepEqual(tx[ours], JSON.parse(JSON.stringify(BigNumber.from(onChain[theirs]))), ours)
  }
  assert.equal(tx.from.toLowerCase(), onChain.from)
  assert.equal(tx.data, onChain.input)
  await world.mine()
  assert.equal(await world.countOf(alice), 7n)
})

test('a gas limit of the caller’s own is the transaction’s; one that is too low, or none, is refused, and it is part of what a key stands for', async () => {
  const as = await world.writer('gas')
  const { body } = await post(WRITE, add('2', { gas: '123456' }), { as, headers: { 'idempotency-key': 'with gas' } })
  assert.equal(BigInt(body.tx.gasLimit.hex), 123_456n)
  const other = await post(WRITE, add('2', { gas: '123457' }), { as, headers: { 'idempotency-key': 'with gas' } })
  assert.deepEqual([other.status, other.body.code], [422, 'idempotency_key_reused'])
  for (const gas of ['21001', '20999', '16777217', '1e6', '']) {
    const refused = await post(WRITE, add('2', { gas }), { as })
    assert.deepEqual([refused.status, refused.body.code, refused.body.errors[0].pointer], [422, 'invalid_gas', '/gas'], gas) // prettier-ignore
  }
  assert.equal((await post(WRITE, add('2', { gas: 60_000 }), { as })).status, 400)
  const dry = await post(WRITE, add('2', { gas: '123456', dryRun: true }), { as })
  assert.equal(BigInt(dry.body.gas.hex), 123_456n)
  await world.mine()
})

test('coins go along when the function may take them', async () => {
  const { status, body } = await post(WRITE, { address: world.probe, abi: 'pay() public', value: '0012' })
  assert.equal(status, 200)
  assert.deepEqual(body.tx.value, { type: 'BigNumber', hex: '0x0c' })
  await world.mine()
  assert.equal(BigInt(await world.rpc<Hex>('eth_getBalance', world.probe, 'latest')), 12n)
})

const refusals: [string, () => unknown, number, string, string?][] = [
  ['no body', () => undefined, 400, 'invalid_request'],
  ['an address that is none', () => ({ ...add(), address: '0x12' }), 400, 'invalid_address', '/address'],
  ['an address without code', () => ({ ...add(), address: `0x${'12'.repeat(20)}` }), 422, 'no_contract', '/address'],
  ['a view function', () => ({ ...add(), abi: 'add(uint256) public view' }), 400, 'abi_is_view', '/abi'],
  ['too few arguments', () => ({ ...add(), args: [] }), 422, 'invalid_argument', '/args'],
  ['an argument out of range', () => ({ ...add(), args: [String(2n ** 256n)] }), 422, 'invalid_argument', '/args/0'],
  ['an argument that is no string', () => ({ ...add(), args: [1] }), 400, 'invalid_request', '/args/0'],
  ['a fractional value', () => add('1', { value: '1.5' }), 422, 'invalid_value', '/value'],
  ['a value with an exponent', () => add('1', { value: '1e18' }), 422, 'invalid_value', '/value'],
  ['an empty value', () => add('1', { value: '' }), 422, 'invalid_value', '/value'],
  ['an unknown field', () => add('1', { from: alice.address }), 400, 'unknown_parameter', '/from'],
  [
    'a function that reverts',
    () => ({ address: world.probe, abi: 'failError(string) public', args: ['no'] }),
    422,
    'execution_reverted',
  ],
]

for (const [what, body, status, code, pointer] of refusals) {
  test(`refused: ${what}; nothing is stored, nothing is sent, the key stays free`, async () => {
    const before = [await written(), await keys()]
    const sent = world.first.calls.filter(({ method }) => method === 'eth_sendRawTransaction').length
    const answer = await post(WRITE, body(), { headers: { 'idempotency-key': 'refused' } })
    assert.deepEqual([answer.status, answer.body.code], [status, code], JSON.stringify(answer.body))
    if (pointer !== undefined) assert.equal(answer.body.errors[0].pointer, pointer)
    assert.deepEqual([await written(), await keys()], before)
    assert.equal(world.first.calls.filter(({ method }) => method === 'eth_sendRawTransaction').length, sent)
  })
}

test('a call of a batch is given by its ABI or encoded: a mixture, or half of either, is refused with its place', async () => {
  const to = world.probe
  const whole = { address: to, abi: 'count() public' }
  const cases: [call: object, status: number, code: string, pointer: string][] = [
    [{ ...whole, to }, 400, 'invalid_request', '/calls/1/to'],
    [{ to, args: [] }, 400, 'invalid_request', '/calls/1/to'],
    [{ data: '0x' }, 400, 'invalid_request', '/calls/1/to'],
    [{ abi: whole.abi }, 400, 'invalid_request', '/calls/1/address'],
    [{ address: to }, 400, 'invalid_request', '/calls/1/abi'],
    [{ to, data: '0x1' }, 422, 'invalid_data', '/calls/1/data'],
    [{ to, value: 'one' }, 422, 'invalid_value', '/calls/1/value'],
    [{ to: '0x12' }, 400, 'invalid_address', '/calls/1/to'],
  ]
  for (const [call, status, code, pointer] of cases) {
    const answer = await post('/v1/contracts/method/write/batch', { calls: [whole, call] })
    assert.deepEqual([answer.status, answer.body.code, answer.body.errors?.[0]?.pointer], [status, code, pointer], JSON.stringify(call)) // prettier-ignore
  }
  const fields = await post('/v1/contracts/method/write/batch', { calls: [whole, { to, gas: '1' }] })
  assert.equal(fields.body.code, 'unknown_parameter')
})

test('a function that the contract has not is named by its selector', async () => {
  const { body } = await post(WRITE, { address: world.probe, abi: 'transfer(address,uint256) public', args: [world.probe, '1'] }) // prettier-ignore
  assert.equal(body.code, 'execution_reverted')
  assert.match(body.detail, /The contract may not have a function with the selector 0xa9059cbb/)
})

test('value sent to a function that takes none is named as that, in a dry run as well', async () => {
  for (const dryRun of [false, true]) {
    const { body } = await post(WRITE, add('1', { value: '1', dryRun }))
    assert.equal(body.code, 'execution_reverted')
    assert.match(body.detail, /sent 1 wei, and a function that is not payable accepts no value/)
  }
})

test('a custom error of the contract is decoded by the caller’s ABI', async () => {
  const { body } = await post(WRITE, {
    address: world.probe,
    abi: 'failTooMuch(uint256,uint256) public\nerror TooMuch(address who, uint256 asked, uint256 held)',
    args: ['5', '3'],
  })
  assert.equal(body.code, 'execution_reverted')
  assert.equal(body.revert.name, 'TooMuch')
  assert.deepEqual(body.revert.args.slice(1), [
    { type: 'BigNumber', hex: '0x05' },
    { type: 'BigNumber', hex: '0x03' },
  ])
})

test('refused: tokens without the permission, of another audience, expired or missing; unknown queries; a node that is away', async () => {
  const before = await written()
  const read = await world.place.token(alice.userId, { scope: 'openid wallet:read', gid: 'g' })
  assert.equal((await post(WRITE, add(), { as: { ...alice, token: read } })).body.code, 'insufficient_scope')
  assert.equal((await post(WRITE, add(), { as: { ...alice, token: 'nonsense' } })).status, 401)
  assert.equal(
    (await post(WRITE, JSON.stringify(add()), { headers: { 'content-type': 'text/plain' } })).body.code,
    'unsupported_media_type',
  )
  assert.equal((await post(`${WRITE}?wait=final`, add())).status, 400)
  assert.equal((await post(`${WRITE}?later=1`, add())).body.code, 'unknown_parameter')
  world.first.misbehave(() => Promise.reject(new RpcUnavailable('slow', { timedOut: true })))
  const slow = await post(WRITE, add())
  world.first.misbehave(null)
  assert.deepEqual([slow.status, slow.body.retryable], [504, true])
  assert.equal(await written(), before)
})

test('what is longer than nodes take, encoded, is refused before anything is asked or signed, however short its body is', async () => {
  const stop = `0x${'e7'.repeat(20)}`
  await world.rpc('anvil_setCode', stop, '0x00')
  const write = (words: number, more: object = {}) =>
    post(WRITE, { address: stop, abi: 'f(uint256[])', args: [`[${Array.from({ length: words }, () => '0').join()}]`], ...more }) // prettier-ignore
  const before = [await written(), await keys()]
  for (const words of [3_070, 4_200, 8_180, 9_500])
    for (const dryRun of [true, false]) {
      const { status, body } = await write(words, { dryRun })
      assert.deepEqual([status, body.code, body.errors[0].pointer], [422, 'invalid_data', '/args'], String(words))
    }
  assert.deepEqual([await written(), await keys()], before)
  assert.equal((await write(3_069)).status, 200)
  await world.mine()
})

test('a repeat with its key gets the stored answer and says so; in either header', async () => {
  const headers = { 'idempotency-key': 'order 17' }
  const first = await post(WRITE, add('3'), { headers })
  assert.equal(first.status, 200)
  assert.equal(first.headers['idempotent-replayed'], undefined)
  const again = await post(WRITE, add('3'), { headers: { 'x-idempotency-key': 'order 17' } })
  assert.equal(again.headers['idempotent-replayed'], 'true')
  assert.deepEqual(again.body, first.body)
  assert.equal((await post(WRITE, add('4'), { headers })).body.code, 'idempotency_key_reused')
  assert.equal(
    (await post(WRITE, add('3'), { headers: { 'idempotency-key': 'a', 'x-idempotency-key': 'b' } })).body.code,
    'idempotency_key_invalid',
  )
  await world.mine()
})

test('a dry run says what would happen and changes nothing', async () => {
  const before = [await written(), await keys()]
  const { status, body } = await post(WRITE, add('5', { dryRun: true }), { headers: { 'idempotency-key': 'dry' } })
  assert.equal(status, 200)
  assert.equal(body.hash, undefined)
  assert.equal(body.tx.hash, undefined)
  const count = BigInt(await world.rpc<Hex>('eth_call', { to: world.probe, data: '0x06661abd' }, 'latest'))
  assert.equal(BigInt(body.response.hex), count + 5n)
  assert.ok(BigInt(body.fee.hex) >= BigInt(body.gas.hex))
  assert.equal(body.rule, 'default-allow')
  const real = await post(WRITE, add('5'))
  assert.equal(real.body.tx.nonce, body.tx.nonce)
  assert.equal(before[1], await keys())
  assert.equal(
    (await post(WRITE, { address: world.probe, abi: 'failPlain() public', dryRun: true })).body.code,
    'execution_reverted',
  )
  await world.mine()
})

/** Code that reverts with `Error("no")`, whatever is called. */
const REVERTS = `0x6064600c60003960646000fd08c379a0${'20'.padStart(64, '0')}${'2'.padStart(64, '0')}${'6e6f'.padEnd(64, '0')}`

test('a write that was mined and failed is no success, and says why: who waits is told, and who repeats it', async () => {
  const request = () => post(`${WRITE}?wait=mined`, add('1'), { headers: { 'idempotency-key': 'fails' } })
  const waiting = request()
  await until(
    'the write is in the pool',
    async () => (await world.rpc<{ pending: Hex }>('txpool_status')).pending !== '0x0',
  )
  const code = await world.rpc<Hex>('eth_getCode', world.probe, 'latest')
  await world.rpc('anvil_setCode', world.probe, REVERTS)
  await world.mine()
  const told = await waiting
  await world.rpc('anvil_setCode', world.probe, code)
  for (const { status, body } of [
    told,
    await request(),
    await post(WRITE, add('1'), { headers: { 'idempotency-key': 'fails' } }),
  ])
    // prettier-ignore
    assert.deepEqual([status, body.status, body.state, body.revert.reason], [200, 'REVERTED', 'REVERTED', 'no'])
})

test('a repeat has the state that the write has by then, and whether that is a success', async () => {
  const writer = await world.writer('repeater')
  const request = () => post(WRITE, add('1'), { as: writer, headers: { 'idempotency-key': 'present' } })
  const { body } = await request()
  await world.mine()
  for (const [state, status] of [
    ['MINED', 'SUCCESS'],
    ['FAILED', 'FAILED'],
    ['CANCELLED', 'FAILED'],
    ['REPLACED', 'FAILED'],
  ] as const) {
    // prettier-ignore
    await world.db.updateTable('transactions').set({ state }).where('id', '=', body.id).execute()
    const again = await request()
    assert.deepEqual([again.headers['idempotent-replayed'], again.body.id, again.body.state, again.body.status], ['true', body.id, state, status]) // prettier-ignore
  }
})

test('a key is of one application, user and route: on another route it is another write', async () => {
  const writer = await world.writer('router')
  const headers = { 'idempotency-key': 'routed' }
  const first = await post(WRITE, add('1'), { as: writer, headers })
  const body = { to: world.probe, data: first.body.tx.data }
  const [other, again] = [await post('/v1/transactions', body, { as: writer, headers }), await post('/v1/transactions', body, { as: writer, headers })] // prettier-ignore
  assert.notEqual(other.body.id, first.body.id)
  assert.deepEqual([other.headers['idempotent-replayed'], again.body.id], [undefined, other.body.id])
  await world.mine()
})

test('a list of transactions is asked for as it may be', async () => {
  for (const query of ['limit=0', 'limit=201', 'limit=x', 'state=BOUND', 'page=2'])
    assert.equal((await get(`/v1/transactions?${query}`)).status, 400, query)
  assert.equal((await get('/v1/transactions?cursor=abc')).body.code, 'invalid_cursor')
})

test('a pending transaction is sped up and cancelled over HTTP; a mined one is neither', async () => {
  const { body } = await post(WRITE, add('1000'))
  const faster = await post(`/v1/transactions/${body.id}/speed-up`, undefined)
  assert.deepEqual([faster.status, faster.body.hashes.length], [200, 2], JSON.stringify(faster.body))
  const cancelled = await post(`/v1/transactions/${body.hash}/cancel`, undefined)
  assert.deepEqual([cancelled.status, cancelled.body.isCancel], [200, true])
  await world.mine()
  const seen = await get(`/v1/transactions/${faster.body.hash}`)
  assert.equal(seen.body.state, 'CANCELLED')
  for (const act of ['cancel', 'speed-up'])
    assert.deepEqual((await post(`/v1/transactions/${body.id}/${act}`, undefined)).body.code, 'not_cancellable')
  assert.equal((await post('/v1/transactions/tx_00000000-0000-4000-8000-000000000000/cancel', undefined)).status, 404)
})

test('a dry run passes by a nonce that the ledger knows and the database has lost, as a write does', async () => {
  const writer = await world.writer('restored')
  await post(WRITE, add('1'), { as: writer })
  const row = await world.db.selectFrom('transactions').selectAll().where('account_id', '=', writer.accountId).executeTakeFirstOrThrow() // prettier-ignore
  await world.db.deleteFrom('attempts').where('transaction_id', '=', row.id).execute()
  await world.db.deleteFrom('transactions').where('id', '=', row.id).execute()
  const { body } = await post(WRITE, add('2', { dryRun: true }), { as: writer })
  assert.equal(body.tx.nonce, 1)
  await world.mine()
})

test('a dry run says what is left of a limit, and what is above it is refused with the rule and when there is more', async () => {
  const writer = await world.writer('limited')
  const running = signers.at(-1) ?? world.signer
  process.kill(running.pid, 'SIGKILL')
  await running.ended
  const file = join(world.place.folder, 'policy.json')
  const count = { periodAmount: '1', periodDuration: 86_400 }
  const rules = [{ name: 'once', effect: 'limit', per: ['user'], count }, { name: 'rest', effect: 'allow' }] // prettier-ignore
  writeFileSync(file, JSON.stringify({ version: 1, rules }))
  signers.push(await startSigner(world.place, { more: { LOG_LEVEL: 'silent', SIGNER_POLICY_FILE: file } }))
  const dry = () => post(WRITE, add('1', { dryRun: true }), { as: writer })
  const { status, body } = await dry()
  assert.deepEqual([status, body.rule], [200, 'rest'])
  assert.deepEqual(body.limits, [{ rule: 'once', limit: 'count.periodAmount', amount: '1', used: '0', left: '1', resetsAt: null }]) // prettier-ignore
  assert.equal((await post(WRITE, add('1'), { as: writer })).status, 200)
  const [dryRefused, refused] = [await dry(), await post(WRITE, add('1'), { as: writer })]
  assert.deepEqual([refused.status, refused.body.code], [403, 'policy_denied'])
  assert.match(refused.body.detail, /The rule once rejects .* used 1, needed 1, more is available from 20\d\d-/)
  assert.deepEqual([dryRefused.status, dryRefused.body.code, dryRefused.body.detail], [403, 'policy_denied', refused.body.detail]) // prettier-ignore
  await world.mine()
})
