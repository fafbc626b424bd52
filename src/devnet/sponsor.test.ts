// tier: all, because it starts the whole service several times
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { encodeFunctionData, parseAbi, toEventSelector, type Hex } from 'viem'
import { world, type World } from '../../test/world.ts'
import { readGasContracts } from '../gas/contracts.ts'

/** `NETWORK_GAS=sponsor npm start`: the whole program, with what it has from its first block. */
let here: World
before(async () => void (here = await world({ NETWORK_GAS: 'sponsor' })))
after(() => here?.close())

const SPONSOR_SET = toEventSelector('SponsorSet(address,address,bool)')
const ADD = { abi: 'mint(address to, uint256 amount) public', args: ['', '5'] }

test('the first write of a person who has nothing works, and costs them nothing', async () => {
  const { alice, facts, rpc } = here
  const token = facts.contracts.erc20!
  assert.equal(BigInt(await rpc<string>('eth_getBalance', alice.address, 'latest')), 0n)
  const body = { address: token, ...ADD, args: [alice.address, '5'] }
  const rehearsed = await alice.post('/v1/contracts/method/write', { ...body, dryRun: true })
  assert.equal(rehearsed.status, 200, JSON.stringify(rehearsed.body))
  assert.equal(rehearsed.body.operation.from, alice.address)
  assert.equal(rehearsed.body.gas.type, 'BigNumber')
  const { body: answer } = await alice.write(body)
  assert.equal(answer.state, 'MINED')
  assert.deepEqual(answer.gas, { strategy: 'sponsor', payer: answer.tx.from })
  assert.equal(answer.operation.from, alice.address)
  assert.equal(BigInt(await rpc<string>('eth_getBalance', alice.address, 'latest')), 0n)
  const held = await rpc<string>('eth_call', { to: token, data: `0x70a08231${alice.address.slice(2).padStart(64, '0')}` }, 'latest') // prettier-ignore
  assert.equal(BigInt(held), 5n)
  const { body: read } = await alice.get(`/v1/transactions/${answer.hash}`)
  assert.deepEqual([read.id, read.operation.id, read.receipt.status], [answer.id, answer.operation.id, 'SUCCESS'])
  const { body: list } = await alice.get('/v1/transactions')
  assert.deepEqual(
    list.map((one: { id: string }) => one.id),
    [answer.id],
  )
})

test('several calls are done all or none, over HTTP', async () => {
  const { bob, facts } = here
  const call = { address: facts.contracts.erc20!, ...ADD, args: [bob.address, '7'] }
  const done = await bob.post('/v1/contracts/method/write/batch?wait=mined', { calls: [call, call] })
  assert.deepEqual([done.status, done.body.state, done.body.operation.calls.length], [200, 'MINED', 2])
  const encoded = { to: call.address, data: encodeFunctionData({ abi: parseAbi(['function mint(address to, uint256 amount)']), args: [bob.address as Hex, 7n] }) } // prettier-ignore
  const again = { calls: [call, encoded] }
  const mixed = await bob.post('/v1/contracts/method/write/batch?wait=mined', again, { 'idempotency-key': 'mixed' })
  const [one, other] = mixed.body.operation.calls
  assert.deepEqual([mixed.status, one.data, other.data], [200, encoded.data, encoded.data])
  const reused = await bob.post('/v1/contracts/method/write/batch', { calls: [call, { ...encoded, value: '1' }] }, { 'idempotency-key': 'mixed' }) // prettier-ignore
  assert.equal(reused.body.code, 'idempotency_key_reused')
  for (const calls of [[call], Array.from({ length: 21 }, () => call)])
    assert.equal((await bob.post('/v1/contracts/method/write/batch', { calls })).status, 400)
})

test('it starts again with what it had', async () => {
  here = await here.startAgain()
  const { body } = await here.alice.write({
    address: here.facts.contracts.erc20!,
    ...ADD,
    args: [here.alice.address, '1'],
  })
  assert.equal(body.state, 'MINED')
  // Its right among it, which is not given once more.
  const { dispatcher } = readGasContracts()
  const logs = await here.rpc<unknown[]>('eth_getLogs', {
    address: dispatcher,
    topics: [SPONSOR_SET],
    fromBlock: '0x0',
  })
  assert.equal(logs.length, 1)
})

test('a contract of NETWORK_TOPUP_CONTRACTS is written to by the account itself, which a sponsor tops up', async () => {
  await here.close()
  await assert.rejects(
    world({ NETWORK_GAS: 'sponsor', NETWORK_TOPUP_CONTRACTS: '0x12' }),
    /NETWORK_TOPUP_CONTRACTS: 0x12 must be/,
  )
  const other = await world({ NETWORK_GAS: 'sponsor' })
  const token = other.facts.contracts.erc20!
  await other.close()
  // The same addresses on every installation.
  here = await world({
    NETWORK_GAS: 'sponsor',
    NETWORK_TOPUP_CONTRACTS: `${token.toLowerCase()}, 0x${'ab'.repeat(20)}`,
  })
  const { alice } = here
  const { body: answer } = await alice.write({ address: token, ...ADD, args: [alice.address, '5'] })
  assert.deepEqual([answer.state, answer.operation, answer.tx.from], ['MINED', undefined, alice.address])
  assert.ok(BigInt(await here.rpc<string>('eth_getBalance', alice.address, 'latest')) > 0n)
  // The transfer of such a token, too: what moves and to whom is told as ever.
  const body = { tokenType: 'ERC20', tokenAddress: token, amount: '0.000000000000000001', toAddress: here.bob.address }
  const sent = await alice.post('/v1/tokens/transfers?wait=mined', body)
  assert.deepEqual([sent.status, sent.body.amount?.value, sent.body.recipient?.address], [200, '1', here.bob.address])
  const [newest] = (await alice.get('/v1/transactions?limit=1')).body
  assert.deepEqual([newest.id, newest.from, newest.operation], [sent.body.id, alice.address, undefined])
})
