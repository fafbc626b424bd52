import { strict as assert } from 'node:assert'
import { randomBytes } from 'node:crypto'
import { after, afterEach, before, test } from 'node:test'
import { sql } from 'kysely'
import { fakeApp, signed, type FakeApp } from '../../../test/fake-app.ts'
import { until } from '../../../test/kit/until.ts'
import { RpcError } from '../../chain/rpc/rpc.ts'
import { AppError } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import type { SignRequest } from '../../signer-wire/wire.ts'
import { fromHex, toHex } from '../../hex.ts'
import { toWord } from '../../store/bytes.ts'
import { startKeeper, type Keeper } from './keeper.ts'
import { pokeKeeper } from './poke.ts'

/** Which rows the keeper handles, in which order, and when it runs a round. */
let world: FakeApp
before(async () => {
  world = await fakeApp()
})
afterEach(async () => {
  for (const table of ['attempts', 'transactions', 'stopped_lanes', 'waits'] as const)
    await world.db.deleteFrom(table).execute()
  for (const says of [world.node, world.signer])
    for (const name of Object.keys(says)) Reflect.deleteProperty(says, name)
  world.calls.length = 0
  world.chain.faucet = null
})
after(() => world.close())

const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000)
const sent = () => world.asked('eth_sendRawTransaction').map(([raw]) => raw as Hex)
/** Makes the node accept all bytes. */
function takesEverything(): void {
  world.node.eth_sendRawTransaction = () => `0x${'00'.repeat(32)}`
}
/** Runs the first round, which starts by itself. */
const round = (): Promise<void> => startKeeper(world.app, world.chain).stop()

test('at the start everything that is under way on the network is sent, by account and nonce, and nothing else', async () => {
  takesEverything()
  const [one, two] = [await world.account('start-one'), await world.account('start-two')]
  const raws = [1, 2, 3, 4, 5, 6].map((byte) => Buffer.alloc(4, byte))
  const long = { broadcast_at: ago(1) }
  // Insert in no order: nonces 9 and 10 of one account, two attempts of one nonce, another account.
  const high = await world.row(one, { nonce: 10 }, { raw: raws[4]!, ...long })
  await world.row(one, { nonce: 9, hash: Buffer.alloc(32, 7) }, { raw: raws[2]!, ...long })
  const [row] = await world.db.selectFrom('transactions').select('id').where('nonce', '=', 9).execute()
  const attempt = {
    chain_id: 31_337,
    transaction_id: row!.id,
    gas_limit: 1,
    max_fee: toWord(1n),
    max_priority_fee: null,
  }
  await world.db.insertInto('attempts').values([
    { ...attempt, hash: Buffer.alloc(32, 9), raw: raws[3]!, broadcast_at: null },
    // Older bytes of the row, which were sent.
    { ...attempt, hash: Buffer.alloc(32, 8), raw: raws[0]!, ...long },
  ]).execute() // prettier-ignore
  await world.row(two, { nonce: 0 }, { raw: raws[5]!, broadcast_at: null })
  for (const [index, state] of (['MINED', 'FAILED', 'BOUND'] as const).entries()) {
    await world.row(two, { nonce: 10 + index, state }, { broadcast_at: null })
    await world.row(two, { nonce: 15 + index, state }, long)
  }
  await world.row(two, { nonce: 20, chain_id: 1 }, { broadcast_at: null })
  await world.row(two, { nonce: 21, chain_id: 1 }, long)
  await sql`update transactions set updated_at = now() - interval '1 second'`.execute(world.db)
  world.signer.recall = async () => ({ attempts: [], hasMore: false })
  await round()
  const own = raws.slice(2, 5).map(toHex)
  const expected = one.address < two.address ? [...own, toHex(raws[5]!)] : [toHex(raws[5]!), ...own]
  assert.deepEqual(sent(), expected)
  const { broadcast_at } = (await world.attemptsOf(high.id))[0]!
  // The node returned a hash other than that of the bytes, so it may not have them.
  assert.equal(broadcast_at, null)
})

test('what a node has taken is sent again as soon as it is back, once', async () => {
  takesEverything()
  const writer = await world.account('node-back')
  await world.row(writer, { updated_at: ago(5), hash: Buffer.alloc(32) }, { broadcast_at: ago(5), created_at: ago(5) })
  const keeper = startKeeper(world.app, world.chain)
  await keeper.round()
  const before = sent().length
  await sql`update attempts set broadcast_at = now() - interval '5 seconds'`.execute(world.db)
  await sql`update transactions set updated_at = now() - interval '5 seconds'`.execute(world.db)
  await keeper.round()
  assert.equal(sent().length, before)
  keeper.nodeIsBack()
  await keeper.round()
  assert.equal(sent().length, before + 1)
  await sql`update attempts set broadcast_at = now() - interval '5 seconds'`.execute(world.db)
  await keeper.round()
  assert.equal(sent().length, before + 1)
  await keeper.stop()
})

test('after the start bytes are sent again after 15 s without a word of them, or at once where nobody is sure', async () => {
  const writer = await world.account('later')
  const cases = [
    { updated: 20, broadcast: 20, isSent: true },
    { updated: 20, broadcast: 10, isSent: false },
    { updated: 10, broadcast: 20, isSent: false },
    { updated: 10, broadcast: null, isSent: true },
    // Seconds since the row was created or returned by a reorganisation, and since its last broadcast. The row waits
    // for half of the difference, and five minutes at most.
    { updated: 120, broadcast: 30, isSent: false },
    { updated: 120, broadcast: 45, isSent: true },
    { updated: 900, created: 60, broadcast: 45, isSent: true },
    { updated: 60, created: 900, broadcast: 45, isSent: true },
    { updated: 900, broadcast: 290, isSent: false },
    { updated: 900, broadcast: 310, isSent: true },
    // A problem is recorded, which may have ended by now.
    { updated: 900, broadcast: 20, trouble: 'insufficient_funds', isSent: true },
    { updated: 900, broadcast: 20, trouble: null, isSent: false },
    { updated: 900, broadcast: 10, trouble: 'insufficient_funds', isSent: false },
  ]
  const rows = []
  for (const [nonce, { updated, broadcast, created = updated }] of cases.entries()) {
    const at = broadcast === null ? null : ago(broadcast)
    rows.push(
      await world.row(writer, { nonce, updated_at: ago(updated) }, { broadcast_at: at, created_at: ago(created) }),
    )
  }
  const hashOf = new Map<Hex, Hex>()
  for (const { id } of rows)
    for (const { raw, hash } of await world.attemptsOf(id)) hashOf.set(toHex(raw!), toHex(hash))
  // The first round sends everything and changes nothing else; the second one decides by the rows.
  world.node.eth_sendRawTransaction = ([raw]) => hashOf.get(raw as Hex)
  const keeper = startKeeper(world.app, world.chain)
  await keeper.round()
  assert.equal(new Set(sent()).size, cases.length)
  for (const [index, { updated, broadcast }] of cases.entries()) {
    const { id } = rows[index]!
    await world.db
      .updateTable('transactions')
      .set({ updated_at: ago(updated) })
      .where('id', '=', id)
      .execute()
    await world.db.updateTable('attempts').set({ broadcast_at: broadcast === null ? null : ago(broadcast) }).where('transaction_id', '=', id).execute() // prettier-ignore
  }
  await world.db.deleteFrom('waits').execute()
  for (const [nonce, { trouble }] of cases.entries())
    if (trouble !== undefined)
      await world.db
        .insertInto('waits')
        .values({ chain_id: 31_337, sender: fromHex(writer.address), nonce, trouble })
        .execute()
  world.calls.length = 0
  await keeper.round()
  const due = []
  for (const [index, { isSent }] of cases.entries())
    if (isSent) due.push(toHex((await world.attemptsOf(rows[index]!.id))[0]!.raw!))
  assert.deepEqual(sent(), due)
  for (const { id } of rows) {
    const { raw, broadcast_at } = (await world.attemptsOf(id))[0]!
    if (due.includes(toHex(raw!))) assert.ok(broadcast_at! > ago(5))
  }
  // After a loss of the database, everything is sent again.
  world.calls.length = 0
  keeper.suspect()
  await keeper.round()
  await keeper.stop()
  assert.equal(new Set(sent()).size, cases.length)
})

test('however many are under way, each is sent once in a round', async () => {
  const writer = await world.account('many')
  const first = await world.row(
    writer,
    { nonce: 0, updated_at: ago(1) },
    { broadcast_at: ago(1), raw: Buffer.alloc(3) },
  )
  await sql`insert into transactions (id, account_id, client_id, chain_id, sender, nonce, target, value, data, gas_limit, max_fee, abi, state, hash, transitions, updated_at)
    select 'many_' || n, account_id, client_id, chain_id, decode(lpad(to_hex(n / 10), 40, '0'), 'hex'), n % 10, target, value, data, gas_limit, max_fee, abi, state, decode(lpad(to_hex(n), 64, '0'), 'hex'), '[]', updated_at
    from transactions, generate_series(1, 1000) as n where id = ${first.id}`.execute(world.db)
  await sql`insert into attempts (chain_id, hash, transaction_id, raw, gas_limit, max_fee, broadcast_at)
    select chain_id, hash, id, decode(right(encode(hash, 'hex'), 6), 'hex'), gas_limit, max_fee, now() - interval '1 second'
    from transactions where id like 'many_%'`.execute(world.db)
  world.node.eth_sendRawTransaction = ([raw]) => `0x${(raw as Hex).slice(2).padStart(64, '0')}`
  await Promise.race([round(), until('more was sent than there is', () => world.calls.length > 1_500)])
  assert.equal(sent().length, 1_001)
  assert.equal(new Set(sent()).size, 1_001)
})

/** Returns a keeper whose rounds end when the test releases them. Each round asks the signer for one bound row. */
async function gated(name: string): Promise<{ keeper: Keeper; asked: () => number; open: () => void }> {
  await world.row(await world.account(name), { updated_at: ago(20) }, null)
  const gates: (() => void)[] = []
  let asked = 0
  world.signer.recall = async () => {
    asked++
    await new Promise<void>((resolve) => gates.push(resolve))
    return { attempts: [], hasMore: false }
  }
  const keeper = startKeeper(world.app, world.chain)
  await until('the first round asks', () => asked === 1)
  return { keeper, asked: () => asked, open: () => gates.shift()!() }
}
const turns = async (count = 20) => {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}

test('what is mined and not passed by the follower yet is left to it: its block is not asked for', async () => {
  const writer = await world.account('ahead')
  const rows = [await world.row(writer, { nonce: 0 }), await world.row(writer, { nonce: 1 })]
  world.node.eth_sendRawTransaction = () => new RpcError(-32000, 'nonce too low', undefined)
  world.node.eth_getTransactionReceipt = ([hash]) => ({
    ...{ transactionHash: hash, blockNumber: '0x5', blockHash: `0x${'0b'.repeat(32)}` },
  })
  await round()
  assert.equal(world.asked('eth_getTransactionReceipt').length, rows.length)
  assert.equal(world.asked('eth_getBlockByHash').length, 0)
  for (const { id } of rows) assert.equal((await world.rowOf(id)).state, 'SUBMITTED')
})

test('rounds never overlap: asked for during one, one more follows, however often it was asked for', async () => {
  const { keeper, asked, open } = await gated('one-at-a-time')
  const ends: string[] = []
  const next = [keeper.round(), keeper.round()].map((end) => end.then(() => ends.push('next')))
  pokeKeeper(world.app, world.chain)
  await turns()
  assert.deepEqual([asked(), ends], [1, []])
  open()
  await until('the next round asks', () => asked() === 2)
  await turns()
  assert.deepEqual([asked(), ends], [2, []])
  // A request now starts a third round.
  const third = keeper.round()
  open()
  await Promise.all(next)
  await until('the third round asks', () => asked() === 3)
  open()
  await third
  assert.equal(asked(), 3)
  pokeKeeper(world.app, world.chain)
  await until('a poke is a round', () => asked() === 4)
  open()
  await keeper.stop()
  assert.equal(asked(), 4)
})

test('a loss that is noticed is a round at once, before any that is asked for later', async () => {
  const { keeper, asked, open } = await gated('noticed')
  const second = keeper.round()
  open()
  await until('the second round asks', () => asked() === 2)
  open()
  await second
  keeper.suspect()
  const askedFor = keeper.round().then(() => asked())
  await until('the round of the loss asks', () => asked() === 3)
  open()
  await until('another round asks', () => asked() === 4)
  open()
  assert.equal(await askedFor, 4)
  await keeper.stop()
})

test('stopping waits for the round under way, and none follows: not the one that was asked for, nor by time or poke', async () => {
  const { keeper, asked, open } = await gated('stopped')
  const next = keeper.round()
  let isStopped = false
  const stopped = keeper.stop().then(() => (isStopped = true))
  await turns()
  assert.equal(isStopped, false)
  open()
  await Promise.all([next, stopped])
  pokeKeeper(world.app, world.chain)
  keeper.suspect()
  await turns()
  assert.equal(asked(), 1)
})

test('without anybody asking a round comes every second, also after one that failed', async () => {
  const { keeper, asked, open } = await gated('by-itself')
  await turns()
  open()
  await turns()
  assert.equal(asked(), 1)
  await until('the second round', () => asked() === 2)
  world.signer.recall = () => Promise.reject(new AppError('signer_unavailable', 'away'))
  open()
  await until('a round failed', () => world.told('keeper_round_failed').length > 0)
  let isBack = false
  world.signer.recall = async () => ((isBack = true), { attempts: [], hasMore: false })
  await until('the round after it', () => isBack)
  await keeper.stop()
})

test('short of coins an account is given some where the network does so, and the operator is told', async () => {
  const writer = await world.account('short')
  const given: Hex[] = []
  world.chain.faucet = async (address) => void given.push(address)
  world.node.eth_sendRawTransaction = () => new RpcError(-32000, 'insufficient funds for transfer', undefined)
  const row = await world.row(writer, { updated_at: ago(1) }, { broadcast_at: null })
  await round()
  assert.deepEqual(given, [writer.address])
  assert.deepEqual(world.told('account_low_balance').at(-1)!.fields, { chainId: 31_337, id: row.id, sender: writer.address }) // prettier-ignore
  // The transaction settled while it was being sent, so it needs no funds.
  world.node.eth_sendRawTransaction = async () => {
    await world.db.updateTable('transactions').set({ state: 'MINED' }).where('id', '=', row.id).execute()
    return new RpcError(-32000, 'insufficient funds for transfer', undefined)
  }
  await world.db.updateTable('attempts').set({ broadcast_at: null }).execute()
  await round()
  assert.deepEqual(given, [writer.address])
})

/** Makes the signer sign every replacement. @returns the requests to the signer */
function raising(): SignRequest[] {
  const asked: SignRequest[] = []
  world.node.eth_getBalance = () => '0xffffffff'
  world.node.eth_maxPriorityFeePerGas = () => '0x1'
  world.node.eth_sendRawTransaction = ([raw]) => raw
  world.signer.sign = async (request) => {
    asked.push(request)
    return signed(request.kind, request.nonce)
  }
  return asked
}
const noncesOf = (asked: SignRequest[]) => asked.map(({ nonce }) => nonce).toSorted((a, b) => a - b)
const fresh = { broadcast_at: ago(0) }

test('a fee is raised after 20 s and 3 blocks, or where the block of its signature says nothing', async () => {
  world.mine(100)
  const asked = raising()
  const cases: [seconds: number, block: number | null, isRaised: boolean][] = [
    [25, 97, true],
    [25, 98, false],
    [25, 103, false],
    [25, 104, true],
    [25, null, true],
    [15, 97, false],
    [15, null, false],
    [15, 104, false],
  ]
  for (const [nonce, [seconds, created_block]] of cases.entries())
    await world.row(await world.account(`case-${nonce}`), { nonce }, { created_at: ago(seconds), created_block, ...fresh }) // prettier-ignore
  await world.row(await world.account('elsewhere'), { nonce: 50, chain_id: 1 }, { created_at: ago(25), ...fresh })
  for (const [index, state] of (['MINED', 'BOUND', 'FAILED'] as const).entries())
    await world.row(await world.account(state), { nonce: 60 + index, state }, { created_at: ago(25), ...fresh })
  world.signer.recall = async () => ({ attempts: [], hasMore: false })
  await round()
  assert.deepEqual(noncesOf(asked), [0, 3, 4])
  assert.ok(asked.every(({ kind }) => kind === 'replace'))
})

test('only the lowest nonce of an account that is not settled is raised, whatever other accounts and networks have', async () => {
  world.mine(100)
  const asked = raising()
  const old = { created_at: ago(25), ...fresh }
  for (const [nonce, state] of [
    [1, 'VACANT'],
    [3, 'BOUND'],
    [5, 'SUBMITTED'],
  ] as const) {
    // prettier-ignore
    const writer = await world.account(`below-${state}`)
    await world.row(writer, { nonce, state, updated_at: new Date() }, state === 'SUBMITTED' ? fresh : null)
    await world.row(writer, { nonce: nonce + 1 }, old)
  }
  for (const [nonce, state] of [
    [11, 'MINED'],
    [13, 'CANCELLED'],
  ] as const) {
    // prettier-ignore
    const writer = await world.account(`settled-${state}`)
    await world.row(writer, { nonce, state }, fresh)
    await world.row(writer, { nonce: nonce + 1 }, old)
  }
  const abroad = await world.account('abroad')
  await world.row(abroad, { nonce: 20, chain_id: 1 }, fresh)
  await world.row(abroad, { nonce: 21 }, old)
  await world.row(abroad, { nonce: 22 }, fresh)
  world.signer.recall = async () => ({ attempts: [], hasMore: false })
  await round()
  assert.deepEqual(noncesOf(asked), [12, 14, 21])
})

test('before the first block was seen no fee is raised', async () => {
  const asked = raising()
  const { current } = world.chain.head
  world.chain.head.current = () => null
  await world.row(await world.account('headless'), {}, { created_at: ago(25), ...fresh })
  await round()
  world.chain.head.current = current
  assert.deepEqual(asked, [])
})

test('a raise needs coins for its value and an eighth more of its fee, a cancel for the fee alone', async () => {
  world.mine(100)
  // 12.5 % more than 100 wei, rounded up.
  const fee = 21_000n * 113n
  const value = 50n
  for (const [is_cancel, least] of [
    [false, fee + value],
    [true, fee],
  ] as const) {
    for (const balance of [least, least - 1n]) {
      const asked = raising()
      world.node.eth_estimateGas = () => '0x5208'
      world.node.eth_getBalance = ([address, at]) => (at === 'latest' ? `0x${balance.toString(16)}` : String(address))
      const writer = await world.account(`raise-${is_cancel}-${balance === least}`)
      const given: Hex[] = []
      world.chain.faucet = async (address) => void given.push(address)
      await world.row(writer, { value: toWord(value) }, { created_at: ago(25), is_cancel, ...fresh })
      await round()
      assert.deepEqual(
        [asked.map(({ kind }) => kind), given],
        balance === least ? [[is_cancel ? 'cancel' : 'replace'], []] : [[], [writer.address]],
      )
      await world.db.deleteFrom('attempts').execute()
      await world.db.deleteFrom('transactions').execute()
    }
  }
})

test('what is raised offers more than the dearest of its attempts, field by field, at the gas of its newest', async () => {
  world.mine(100)
  const asked = raising()
  const row = await world.row(await world.account('dearest'), {}, { created_at: ago(25), max_fee: toWord(800n), max_priority_fee: toWord(8n), ...fresh }) // prettier-ignore
  const other = { chain_id: 31_337, transaction_id: row.id, raw: Buffer.of(1), created_at: ago(40), ...fresh }
  await world.db
    .insertInto('attempts')
    .values([
      { ...other, hash: randomBytes(32), gas_limit: 1, max_fee: toWord(80n), max_priority_fee: toWord(80n) },
      { ...other, hash: randomBytes(32), gas_limit: 2, max_fee: toWord(40n), max_priority_fee: toWord(40n) },
    ])
    .execute()
  await round()
  const [{ gas, maxFeePerGas, maxPriorityFeePerGas, kind }] = asked as [SignRequest]
  assert.deepEqual([gas, maxFeePerGas, maxPriorityFeePerGas, kind], ['21000', '900', '90', 'replace'])
})

test('at the cap of a network nothing is raised and the next account is looked after; a node that is away ends the round', async () => {
  world.mine(100)
  const asked = raising()
  const capped = await world.account('at-the-cap')
  const row = await world.row(capped, {}, { created_at: ago(25), max_fee: toWord(world.chain.feeCapWei), ...fresh })
  await world.row(await world.account('beside'), { nonce: 7 }, { created_at: ago(25), ...fresh })
  await round()
  assert.deepEqual(noncesOf(asked), [7])
  assert.deepEqual(world.told('fee_cap_reached').at(-1)!.fields, { chainId: 31_337, id: row.id, sender: capped.address }) // prettier-ignore
  world.signer.sign = () => Promise.reject(new AppError('signer_unavailable', 'away'))
  await world.db
    .updateTable('attempts')
    .set({ created_at: ago(25), created_block: null })
    .execute()
  const before = world.told('keeper_round_failed').length
  await round()
  assert.equal(world.told('keeper_round_failed').length, before + 1)
})
