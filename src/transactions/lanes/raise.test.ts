import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { sql } from 'kysely'
import { fakeApp, signed, type FakeApp } from '../../../test/fake-app.ts'
import { until } from '../../../test/kit/until.ts'
import { RpcError, RpcUnavailable } from '../../chain/rpc/rpc.ts'
import { currentFees } from '../../chain/current-fees.ts'
import { highestPrice } from '../../chain/fees.ts'
import { AppError, type ErrorCode } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import type { SignRequest } from '../../signer-wire/wire.ts'
import { toHex } from '../../hex.ts'
import { toWord } from '../../store/bytes.ts'
import { startKeeper } from '../recovery/keeper.ts'
import { raiseLowest } from './raise.ts'
import { readTransaction } from '../read/read.ts'
import { recoverBound } from '../recovery/recover.ts'
import { chainLike } from '../../../test/opened.ts'

/** When a keeper checks a waiting write, how keepers share the checks, and what they sign. */
let world: FakeApp
before(async () => {
  world = await fakeApp()
})
afterEach(async () => {
  for (const table of ['attempts', 'transactions', 'waits'] as const) await world.db.deleteFrom(table).execute()
  for (const says of [world.node, world.signer])
    for (const name of Object.keys(says)) Reflect.deleteProperty(says, name)
  world.calls.length = 0
  forgetFloor()
})
after(() => world.close())

const forgetFloor = () => Object.assign(world.chain.memory, { floor: null, fees: null })
const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000)
const old = { created_at: ago(25), broadcast_at: ago(0) }
const raise = () => raiseLowest(world.app, world.chain)

/** Makes nodes and signer accept every request. @returns the requests to the signer */
function willing(): SignRequest[] {
  const asked: SignRequest[] = []
  world.mine(100)
  world.node.eth_getBalance = () => '0xffffffff'
  world.node.eth_maxPriorityFeePerGas = () => '0x1'
  world.node.eth_sendRawTransaction = ([raw]) => hashes.get(raw as Hex)
  world.signer.sign = async (request) => {
    asked.push(request)
    const bytes = signed(request.kind, request.nonce)
    hashes.set(bytes.raw, bytes.hash)
    return bytes
  }
  return asked
}
const hashes = new Map<Hex, Hex>()

/** Creates accounts whose lowest write is due. */
async function due(count: number, name: string) {
  const rows = []
  for (let number = 0; number < count; number++)
    rows.push(await world.row(await world.account(`${name} ${number}`), {}, old))
  return rows
}
const waits = () => world.db.selectFrom('waits').selectAll().orderBy('sender').execute()
const wait = async (id: string) => {
  const { sender } = await world.rowOf(id)
  return world.db.selectFrom('waits').selectAll().where('sender', '=', sender).executeTakeFirst()
}
/** Ends the pause of every check. */
const pauseOver = () => sql`update waits set due_at = now() where due_at is not null`.execute(world.db)

/** Makes all bytes old enough for a fee bump. */
const ageBytes = () =>
  world.db
    .updateTable('attempts')
    .set({ created_at: ago(25), created_block: null })
    .execute()

test('many are looked at side by side, and the market is asked for once', async () => {
  willing()
  let signing = 0
  let most = 0
  const sign = world.signer.sign!
  world.signer.sign = async (request) => {
    most = Math.max(most, ++signing)
    await new Promise((resolve) => setImmediate(resolve))
    if (most < 64) await until('64 are signed at a time', () => most >= 64)
    signing--
    return sign(request)
  }
  const rows = await due(130, 'many')
  // Repeat until no work is left for the next round.
  while (await raise());
  for (const { id } of rows) assert.equal((await world.attemptsOf(id)).length, 2)
  assert.equal(most, 64)
  assert.equal(world.asked('eth_maxPriorityFeePerGas').length, 1)
})

test('two replicas share the looks: each is one replica’s', async () => {
  const asked = willing()
  await due(40, 'shared')
  await Promise.all([raise(), raise(), raise()])
  assert.equal(asked.length, 40)
  assert.equal(new Set(asked.map(({ from }) => from)).size, 40)
})

test('a look that changes nothing is repeated after 10 s, and each time after twice as long, up to five minutes', async () => {
  const asked = willing()
  world.node.eth_getBalance = () => '0x0'
  const [row] = await due(1, 'dry')
  for (const seconds of [10, 20, 40, 80, 160, 300, 300]) {
    world.calls.length = 0
    const from = Date.now()
    await raise()
    const tookMs = Date.now() - from
    await raise()
    assert.equal(world.asked('eth_getBalance').length, 1)
    const [{ due_at, pause_seconds } = assert.fail()] = await waits()
    assert.equal(pause_seconds, seconds)
    const left = due_at!.getTime() - from
    assert.ok(left > (seconds - 5) * 1_000 && left <= (seconds + 5) * 1_000 + tookMs, `${seconds} s: ${left} ms`)
    await pauseOver()
  }
  assert.deepEqual(asked, [])
  // With funds, the fee is bumped. The new bytes are checked like others, not after five minutes.
  world.node.eth_getBalance = () => '0xffffffff'
  await raise()
  assert.equal(asked.length, 1)
  await ageBytes()
  await raise()
  assert.equal(asked.length, 2)
  assert.equal((await wait(row!.id))!.pause_seconds, 10)
})

test('what stands in the way is noted, written when it changes and not each time, and forgotten when nothing does', async () => {
  willing()
  world.node.eth_getBalance = () => '0x5'
  const [row] = await due(1, 'noted')
  const xminOf = async () =>
    (await sql<{ xmin: string; trouble: string; detail: string; since: Date }>`select xmin::text, * from waits`.execute(world.db)).rows[0] // prettier-ignore
  await raise()
  const first = (await xminOf())!
  assert.equal(first.trouble, 'insufficient_funds')
  assert.equal(first.detail, `The account needs ${21_000 * 113} wei for a fee that nodes accept, and has 5.`)
  await pauseOver()
  await raise()
  const second = (await xminOf())!
  assert.deepEqual([second.since, second.detail], [first.since, first.detail])
  await pauseOver()
  world.node.eth_getBalance = () => '0xffffffff'
  await raise()
  assert.deepEqual([(await wait(row!.id))!.trouble, (await wait(row!.id))!.detail], [null, null])
})

test('where the market is above the cap nobody is put off: all are raised when it falls', async () => {
  const asked = willing()
  await due(3, 'above')
  world.mine(101, world.chain.feeCapWei + 1n)
  await raise()
  assert.deepEqual([await waits(), world.told('fee_cap_reached').at(-1)!.fields], [[], { chainId: 31_337 }])
  world.mine(102)
  await raise()
  assert.equal(asked.length, 3)
})

test('at the cap, and above what the signer allows, the reason is noted and nothing is raised', async () => {
  const asked = willing()
  const row = await world.row(await world.account('capped'), {}, { ...old, max_fee: toWord(world.chain.feeCapWei) })
  const denied = await world.row(await world.account('denied'), { nonce: 1 }, old)
  const frozen = await world.row(await world.account('frozen person'), { nonce: 1 }, old)
  const suspended = await world.row(await world.account('suspended'), { nonce: 1 }, old)
  const refusals = new Map<string, ErrorCode>([
    [toHex((await world.rowOf(frozen.id)).sender), 'account_frozen'],
    [toHex((await world.rowOf(suspended.id)).sender), 'application_suspended'],
  ])
  world.signer.sign = ({ from }) => Promise.reject(new AppError(refusals.get(from) ?? 'policy_denied', 'no'))
  await raise()
  for (const [row, code] of [
    [frozen, 'account_frozen'],
    [suspended, 'application_suspended'],
  ] as const)
    // prettier-ignore
    assert.equal((await wait(row.id))!.trouble, code)
  assert.deepEqual([(await wait(row.id))!.trouble, (await wait(denied.id))!.trouble], ['fee_cap_reached', 'policy_denied']) // prettier-ignore
  assert.deepEqual(asked, [])
})

test('who cannot pay what the market wants offers what it has, if nodes take that', async () => {
  const asked = willing()
  world.mine(101, 400n)
  const value = 7n
  world.node.eth_getBalance = () => `0x${(21_000n * 200n + value).toString(16)}`
  await world.row(await world.account('nearly'), { value: toWord(value) }, old)
  await raise()
  assert.deepEqual([asked[0]!.maxFeePerGas, asked[0]!.maxPriorityFeePerGas], ['200', '12'])
})

test('a node that goes away puts off the one who met it, and gives back the looks of all others', async () => {
  const asked = willing()
  await due(40, 'given back')
  world.node.eth_getBalance = () => new RpcUnavailable('gone', { timedOut: false })
  await assert.rejects(raise(), RpcUnavailable)
  const put = (await waits()).filter(({ due_at }) => due_at !== null)
  assert.equal(put.length, 1)
  const noted = (await waits()).filter(({ trouble }) => trouble === 'node_unreachable')
  assert.equal(noted.length, 39)
  world.node.eth_getBalance = () => '0xffffffff'
  world.signer.sign = () => Promise.reject(new AppError('signer_unavailable', 'gone'))
  await assert.rejects(raise(), { code: 'signer_unavailable' })
  assert.ok((await waits()).some(({ trouble }) => trouble === 'signer_unavailable'))
  willing()
  await raise()
  assert.deepEqual(asked, [])
  await pauseOver()
  await raise()
  assert.equal((await waits()).filter(({ trouble }) => trouble !== null).length, 0)
  assert.equal((await world.db.selectFrom('attempts').selectAll().execute()).length, 80)
})

test('nothing is remembered of nonces that are settled', async () => {
  willing()
  world.node.eth_getBalance = () => '0x0'
  const [open, done] = await due(2, 'settled')
  await raise()
  assert.equal((await waits()).length, 2)
  await world.db.updateTable('transactions').set({ state: 'MINED' }).where('id', '=', done!.id).execute()
  // Another process sweeps when it starts.
  await raiseLowest(world.app, chainLike(world.chain))
  assert.deepEqual((await waits()).map(({ sender }) => toHex(sender)), [toHex(open!.sender)]) // prettier-ignore
})

test('a cancel is estimated anew each time that it is raised', async () => {
  const asked = willing()
  world.node.eth_estimateGas = () => '0xf000'
  const account = await world.account('cancelled')
  await world.row(account, { is_cancel: true }, { ...old, is_cancel: true })
  await raise()
  assert.deepEqual([asked[0]!.kind, asked[0]!.gas], ['cancel', String((0xf000 * 5) / 4)])
  assert.deepEqual(world.asked('eth_estimateGas'), [[{ from: account.address, to: account.address, value: '0x0' }, 'latest']]) // prettier-ignore
  // The signer is not asked for less gas than before.
  world.node.eth_estimateGas = () => '0x5209'
  await ageBytes()
  await raise()
  assert.equal(asked[1]!.gas, String((0xf000 * 5) / 4))
})

/** Creates a new write whose bytes no node has yet. */
const young = async (name: string) => {
  const account = await world.account(name)
  const row = await world.row(account, {}, { created_at: ago(0), broadcast_at: null })
  return { account, row, reason: async () => (await readTransaction(world.app, account as never, row.id)).reason }
}
const round = () => startKeeper(world.app, world.chain).stop()
const late = (id: string) =>
  world.db
    .updateTable('transactions')
    .set({ created_at: ago(65) })
    .where('id', '=', id)
    .execute()
const broadcastAt = async (id: string) => (await world.attemptsOf(id)).map(({ broadcast_at }) => broadcast_at !== null)

test('what a pool refuses as too cheap is not told as sent; what it names is offered at once for the same nonce, and by what comes after', async () => {
  const asked = willing()
  const take = world.node.eth_sendRawTransaction!
  const tooCheap = () => new RpcError(-32000, 'transaction underpriced: gas tip cap 10, minimum needed 25', undefined)
  const { row, reason } = await young('named')
  world.node.eth_sendRawTransaction = (params) => (hashes.has(params[0] as Hex) ? take(params) : tooCheap())
  const sign = world.signer.sign!
  let signed: { told: unknown; sent: boolean[] } | null = null
  world.signer.sign = async (request) => {
    await late(row.id)
    signed = { told: await reason(), sent: await broadcastAt(row.id) }
    return sign(request)
  }
  await round()
  assert.deepEqual(signed, {
    told: {
      code: 'fee_too_low_for_market',
      detail:
        'Nodes require a tip of at least 25 wei per gas, and the transaction offers 100 wei per gas in total. A fee bump is in progress.',
    },
    sent: [false],
  })
  assert.deepEqual(
    asked.map(({ kind, nonce, maxPriorityFeePerGas }) => [kind, nonce, maxPriorityFeePerGas]),
    [['replace', 0, '25']],
  )
  assert.deepEqual([(await wait(row.id))!.trouble, (await reason())!.code], [null, 'waiting_for_block'])
  assert.deepEqual(await currentFees(world.chain), { type: 'eip1559', maxFeePerGas: 45n, maxPriorityFeePerGas: 25n })
  // Bytes that were replaced since no longer count: nobody sends them.
  world.calls.length = 0
  await round()
  assert.equal(asked.length, 1)
})

test('a base fee that a pool names is offered at once, too; what it refuses without a number grows in its time', async () => {
  const asked = willing()
  const take = world.node.eth_sendRawTransaction!
  let says = 'max fee per gas less than block base fee: address 0xAb, maxFeePerGas: 100, baseFee: 300'
  world.node.eth_sendRawTransaction = (params) =>
    hashes.has(params[0] as Hex) ? take(params) : new RpcError(-32000, says, undefined)
  await young('base-fee')
  await round()
  assert.deepEqual(asked.map(({ maxFeePerGas }) => maxFeePerGas), ['601']) // prettier-ignore
  forgetFloor()
  for (const table of ['attempts', 'transactions', 'waits'] as const) await world.db.deleteFrom(table).execute()
  says = 'transaction underpriced'
  const { row, reason } = await young('no-number')
  await round()
  await late(row.id)
  assert.deepEqual([asked.length, (await reason())!.code, await broadcastAt(row.id)], [1, 'fee_too_low_for_market', [false]]) // prettier-ignore
  await ageBytes()
  await raise()
  assert.deepEqual(asked.map(({ maxFeePerGas }) => maxFeePerGas), ['601', '113']) // prettier-ignore
})

test('what a pool wants above the cap is not offered, and the reason names both', async () => {
  const asked = willing()
  world.node.eth_sendRawTransaction = () =>
    new RpcError(-32000, 'transaction underpriced: gas tip cap 10, minimum needed 5000', undefined)
  const { row, reason } = await young('above-cap')
  await round()
  await late(row.id)
  assert.deepEqual(asked, [])
  assert.deepEqual(await reason(), {
    code: 'fee_cap_reached',
    detail: 'Nodes require a tip of at least 5000 wei per gas, and the operator allows 1000 in total.',
  })
  assert.ok(highestPrice(await currentFees(world.chain)) < 1_000n, 'and stops nobody else')
})

test('a pool that names more with each answer has a fee raised at once a single time, and a tip above what tips may be never', async () => {
  const asked = willing()
  let needed = 25
  world.node.eth_sendRawTransaction = () =>
    new RpcError(-32000, `transaction underpriced: gas tip cap 10, minimum needed ${(needed += 5)}`, undefined)
  await young('ever-more')
  for (let count = 0; count < 4; count++) {
    await round()
    await sql`update waits set resend_at = null`.execute(world.db)
  }
  assert.deepEqual(asked.map(({ maxPriorityFeePerGas }) => maxPriorityFeePerGas), ['30']) // prettier-ignore
  forgetFloor()
  for (const table of ['attempts', 'transactions', 'waits'] as const) await world.db.deleteFrom(table).execute()
  Object.assign(world.chain, { tipCapWei: 20n })
  const { reason, row } = await young('above-tip-cap')
  await round()
  Object.assign(world.chain, { tipCapWei: undefined })
  await late(row.id)
  assert.deepEqual([asked.length, (await reason())!.code], [1, 'fee_too_low_for_market'])
})

test('a pool that names what is offered already is not believed', async () => {
  const asked = willing()
  world.node.eth_sendRawTransaction = () =>
    new RpcError(-32000, 'transaction underpriced: gas tip cap 10, minimum needed 10', undefined)
  await young('odd')
  await round()
  assert.deepEqual([asked, world.chain.memory.floor], [[], null])
})

test('what a node refuses in words that nobody knows is sent at growing intervals, and counts as rejected after five answers, with its words', async () => {
  const asked = willing()
  const take = world.node.eth_sendRawTransaction!
  const words =
    'no such thing here: https://rpc.example/v1/abcdef0123456789abcdef0123456789 key abcdef0123456789abcdef0123456789'
  world.node.eth_sendRawTransaction = () => new RpcError(-32000, words, undefined)
  const { row, reason } = await young('unlisted')
  await late(row.id)
  for (const refusals of [1, 2, 3, 4, 5]) {
    const from = Date.now()
    await round()
    const tookMs = Date.now() - from
    const { resend_at: resendAt, trouble } = (await wait(row.id))!
    const left = resendAt!.getTime() - from
    assert.ok(left > 2 ** (refusals - 1) * 1_000 - 1_000 && left <= 2 ** (refusals - 1) * 1_000 + tookMs, String(left))
    assert.equal(trouble, refusals < 5 ? null : 'rejected_by_nodes')
    // On a slow machine a pause of a second may be over before the next round.
    await sql`update waits set resend_at = resend_at + interval '20 seconds'`.execute(world.db)
    await round()
    assert.equal(world.asked('eth_sendRawTransaction').length, refusals, 'once until its pause is over')
    await sql`update waits set resend_at = now()`.execute(world.db)
  }
  assert.deepEqual(await reason(), {
    code: 'rejected_by_nodes',
    detail:
      'Nodes of the network reject this transaction: "no such thing here: … key …". The gas limit is being estimated again.',
  })
  await sql`update waits set since = now() - interval '61 seconds'`.execute(world.db)
  await round()
  assert.deepEqual(world.told('transaction_rejected').filter(({ fields }) => fields.id === row.id).map(({ level }) => level), ['error']) // prettier-ignore
  // An unavailable node is no evidence about the bytes, so it is asked in each round.
  await sql`update waits set resend_at = now(), refusals = 0, trouble = null`.execute(world.db)
  world.node.eth_sendRawTransaction = () => new RpcUnavailable('away', { timedOut: false })
  for (const _ of [1, 2, 3, 4, 5, 6]) await round()
  assert.deepEqual([(await wait(row.id))!.refusals, (await wait(row.id))!.trouble], [0, null])
  // A node that accepts them clears the record.
  world.node.eth_sendRawTransaction = () => new RpcError(-32000, words, undefined)
  await round()
  await sql`update waits set resend_at = now(), trouble = 'rejected_by_nodes'`.execute(world.db)
  const hash = toHex((await world.rowOf(row.id)).hash!)
  world.node.eth_sendRawTransaction = () => hash
  await round()
  assert.deepEqual([(await wait(row.id))!.refusals, (await wait(row.id))!.trouble], [0, null])
  assert.deepEqual(asked, [])
  world.node.eth_sendRawTransaction = take
})

test('what was noted by a clock that was ahead, and is set right, is sent again, looked at and raised at once', async () => {
  const asked = willing()
  const account = await world.account('ahead')
  const ahead = (hours: number) => new Date(Date.now() + hours * 3_600_000)
  const row = await world.row(account, { created_at: ahead(2), updated_at: ahead(2) }, { created_at: ahead(2), broadcast_at: ahead(2) }) // prettier-ignore
  const place = { chain_id: 31_337, sender: row.sender, nonce: 0, hash: row.hash }
  await world.db.insertInto('waits').values({ ...place, due_at: ahead(2), pause_seconds: 300, resend_at: ahead(2), refusals: 3 }).execute() // prettier-ignore
  const send = world.node.eth_sendRawTransaction!
  const hash = toHex(row.hash!)
  world.node.eth_sendRawTransaction = (params) => (hashes.has(params[0] as Hex) ? send(params) : hash)
  // The first round sends everything; later rounds are all alike.
  const keeper = startKeeper(world.app, world.chain)
  await keeper.round()
  await keeper.stop()
  assert.ok(world.asked('eth_sendRawTransaction').length > 0)
  assert.equal(asked.length, 1)
  await world.db
    .updateTable('attempts')
    .set({ broadcast_at: ahead(1), created_at: ahead(1), created_block: null })
    .execute()
  await world.db
    .updateTable('transactions')
    .set({ updated_at: ahead(1) })
    .execute()
  await world.db
    .updateTable('waits')
    .set({ due_at: ahead(1) })
    .execute()
  world.calls.length = 0
  const second = startKeeper(world.app, world.chain)
  await until('the first round is over', () => world.asked('eth_sendRawTransaction').length > 1)
  await second.stop()
  assert.equal(asked.length, 2)
  // An attempt may have been created by a transaction that began later, so it does not count as such.
  await world.db.updateTable('attempts').set({ created_at: ahead(5 / 3_600) }).execute() // prettier-ignore
  await sql`update waits set due_at = now(), hash = null`.execute(world.db)
  await raise()
  assert.equal(asked.length, 2)
})

test('what nodes reject is estimated again, the original as well, and sent with more gas', async () => {
  const asked = willing()
  const send = world.node.eth_sendRawTransaction!
  const tooLow = () => new RpcError(-32000, 'intrinsic gas too low', undefined)
  world.node.eth_sendRawTransaction = tooLow
  world.node.eth_estimateGas = () => '0x9c40'
  const account = await world.account('rejected')
  const told = () => world.told('transaction_rejected').filter(({ fields }) => fields.sender === account.address)
  const row = await world.row(account, { value: toWord(3n), updated_at: ago(25) }, { ...old, broadcast_at: null })
  // The round sends it, records the rejection, and bumps the fee.
  await startKeeper(world.app, world.chain).stop()
  assert.deepEqual(
    asked.map(({ kind, gas, value }) => [kind, gas, value]),
    [['replace', '60000', '3']],
  )
  assert.deepEqual(world.asked('eth_estimateGas'), [[{ from: account.address, to: toHex(row.target), data: '0x', value: '0x3' }, 'latest']]) // prettier-ignore
  // After another rejection the intervals of checks grow, although its bytes are new.
  await ageBytes()
  await raise()
  assert.equal(asked.length, 1)
  assert.deepEqual([(await wait(row.id))!.trouble, told().length], ['rejected_by_nodes', 0])
  // After a minute the operator is alerted, once.
  await sql`update waits set since = now() - interval '61 seconds', due_at = now()`.execute(world.db)
  world.node.eth_estimateGas = () => new RpcError(3, 'execution reverted', '0x')
  await raise()
  await pauseOver()
  await ageBytes()
  await raise()
  assert.deepEqual(asked.map(({ gas }) => gas), ['60000', '60000', '60000']) // prettier-ignore
  assert.equal((await wait(row.id))!.pause_seconds, 40)
  assert.deepEqual(told().map(({ fields }) => fields), [{ chainId: 31_337, id: row.id, sender: account.address, nonce: 0, said: 'intrinsic gas too low' }]) // prettier-ignore
  // A node accepts it in the end.
  world.node.eth_sendRawTransaction = send
  await pauseOver()
  await ageBytes()
  await raise()
  assert.equal((await wait(row.id))!.trouble, null)
})

test('that a node counts a nonce as used, and nothing proves it, is noted; the write stays as it is', async () => {
  willing()
  world.node.eth_sendRawTransaction = () => new RpcError(-32000, 'nonce too low', undefined)
  world.node.eth_getTransactionReceipt = () => null
  const row = await world.row(await world.account('used'), { updated_at: ago(25) }, { broadcast_at: null })
  await startKeeper(world.app, world.chain).stop()
  const noted = (await wait(row.id))!
  assert.equal(noted.trouble, 'nonce_used_elsewhere')
  // After a fee bump and another rejection, the next check is postponed, although the bytes are new.
  for (const pause of [10, 20]) {
    await ageBytes()
    await raise()
    await raise()
    const { trouble, since, pause_seconds } = (await wait(row.id))!
    assert.deepEqual([trouble, since, pause_seconds], ['nonce_used_elsewhere', noted.since, pause])
    await pauseOver()
  }
  assert.equal((await world.attemptsOf(row.id)).length, 3)
  assert.equal((await world.rowOf(row.id)).state, 'SUBMITTED')
})

test('a nonce is not filled at a guess: it waits until a node says what a cancel takes, unless that is known', async () => {
  const asked = willing()
  const recover = () => recoverBound(world.app, world.chain, { idleSeconds: 8 })
  world.signer.recall = async () => ({ attempts: [], hasMore: false })
  world.node.eth_getTransactionCount = () => '0x0'
  const bound = { created_at: ago(60), updated_at: ago(60), nonce: 0 }
  const row = await world.row(await world.account('open'), bound, null)
  const refusals = [
    () => new RpcUnavailable('gone', { timedOut: false }),
    () => new RpcError(-32000, 'busy', undefined),
    () => '0x1',
  ]
  world.chain = chainLike(world.chain)
  for (const refusal of refusals) {
    world.node.eth_estimateGas = refusal
    await recover().catch((error) => assert.ok(error instanceof RpcUnavailable))
    const { state, claims } = await world.rowOf(row.id)
    assert.deepEqual([state, claims, asked], ['BOUND', 1, []])
  }
  world.node.eth_estimateGas = () => '0xf000'
  await recover()
  assert.deepEqual([(await world.rowOf(row.id)).state, asked[0]!.gas], ['SUBMITTED', '76800'])
  // If the account's own code rejects funds, use the gas of an empty transfer to an unused address.
  world.node.eth_estimateGas = ([call]) =>
    (call as { to: Hex }).to.endsWith('dead') ? '0x5208' : new RpcError(3, 'execution reverted', '0x')
  await world.row(await world.account('refuses'), bound, null)
  await recover()
  assert.equal(asked[1]!.gas, '21000')
  // Now the network's gas is known.
  for (const [index, refusal] of refusals.entries()) {
    world.node.eth_estimateGas = refusal
    await world.row(await world.account(`known ${index}`), bound, null)
    await recover()
    assert.equal(asked[2 + index]!.gas, '21000')
  }
})

test('a nonce that the signer may not fill, as a frozen account’s, is asked for again in five minutes and not in each round', async () => {
  const asked = willing()
  const sign = world.signer.sign!
  world.node.eth_getTransactionCount = () => '0x0'
  world.node.eth_estimateGas = () => '0x5208'
  world.signer.recall = async () => ({ attempts: [], hasMore: false })
  const row = await world.row(await world.account('frozen'), { created_at: ago(90), updated_at: ago(40) }, null)
  const unattended = world.told('transaction_unattended').length
  let denials = 0
  world.signer.sign = () => {
    denials++
    return Promise.reject(new AppError('account_frozen', 'The operator has frozen this account.'))
  }
  const rounds = async () => {
    for (let round = 0; round < 3; round++) await recoverBound(world.app, world.chain, { idleSeconds: 8 })
  }
  await rounds()
  assert.deepEqual(
    [denials, world.told('gap_fill_denied').length, world.told('transaction_unattended').length],
    [1, 1, unattended],
  )
  world.signer.sign = sign
  await rounds()
  assert.deepEqual([asked.length, (await world.rowOf(row.id)).state], [0, 'BOUND'])
  await world.db
    .updateTable('transactions')
    .set({ updated_at: ago(9) })
    .where('id', '=', row.id)
    .execute()
  await rounds()
  assert.deepEqual([asked.length, (await world.rowOf(row.id)).state], [1, 'SUBMITTED'])
})

test('bound writes are finished side by side', async () => {
  willing()
  let asking = 0
  world.signer.recall = async () => {
    asking++
    await until('32 are asked for at a time', () => asking >= 32)
    return { attempts: [], hasMore: false }
  }
  for (let number = 0; number < 33; number++)
    await world.row(await world.account(`bound ${number}`), { updated_at: ago(20) }, null)
  await recoverBound(world.app, world.chain, { idleSeconds: 8 })
  assert.equal(asking, 33)
})
