// tier: default, because it moves money
import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { sql } from 'kysely'
import { whileMining } from '../../test/interrupted.ts'
import { remember, replay } from '../../test/lost-tail.ts'
import { until } from '../../test/until.ts'
import { writing, type Replica, type Writer, type Writing } from '../../test/writing.ts'
import { saveApplication } from '../applications/registry.ts'
import { readUsage } from '../applications/usage.ts'
import { AppError, type ErrorCode } from '../errors.ts'
import { assertUser, verifyAccessToken } from '../http/bearer.ts'
import { startFollower } from '../follower/follow.ts'
import { transactionIdOf, type Hex } from '../ids.ts'
import { SignerRefused } from '../signer/client.ts'
import { sponsorsOf, type Sponsor } from '../sponsors/sponsors.ts'
import { fromHex, toHex } from '../store/bytes.ts'
import { freezeAccount, unfreezeAccount } from '../users/freeze.ts'
import { restoreAccount } from '../users/pregenerate.ts'
import { underDeadline } from '../deadline.ts'
import { cancelTransaction, speedUpTransaction } from './change.ts'
import { interruptSteps } from './crash-points.ts'
import { followTransactions } from './follow.ts'
import { spentOfBudget } from '../store/sponsor-budget.ts'
import { startByteSweep } from './sweep.ts'
import { rehearseTransaction, submitTransaction } from './submit.ts'
import { hurried, hurriedUntil } from '../../test/kit/hurried.ts'

/** People without a coin write, and a sponsor pays: once, within budgets, whatever dies in between. The chain is asked what was paid. */
let world: Writing
let house: Sponsor
const COIN = 10n ** 18n
const AWAY: Hex = `0x${'b2'.repeat(20)}`
/** of an application; wei */
const RICH = { perUser: COIN, perApplication: 1_000n * COIN }

before(async () => {
  world = await writing()
  world.first.chain.gas = 'topup'
  await world.db.insertInto('networks').values({ chain_id: 31_337, name: 'devnet', genesis_hash: Buffer.alloc(32) }).execute() // prettier-ignore
  house = await sponsor('HOUSE')
  await application('demo', RICH)
})
afterEach(async () => {
  interruptSteps(world.first.app, null)
  world.first.misbehave(null)
  await world.mine()
})
after(() => world.close())

async function sponsor(name: string, wei = 100n * COIN): Promise<Sponsor> {
  const userId = `SPONSOR-${name}`
  const { address } = await world.signer.createAccount({ userId })
  await restoreAccount(world.db, { userId, address })
  const { account_id: accountId } = await world.db.selectFrom('accounts').select('account_id').where('user_id', '=', userId).executeTakeFirstOrThrow() // prettier-ignore
  await world.db.insertInto('sponsors').values({ account_id: accountId, chain_id: 31_337, name }).execute()
  await give(address, wei)
  return { accountId, chainId: 31_337, name, address: address.toLowerCase() as Hex }
}
const application = (clientId: string, sponsored: (typeof RICH & { contracts?: Hex[] }) | null) =>
  saveApplication(
    { db: world.db, rowKeys: null },
    {
      ...{ clientId, name: clientId, chainId: 31_337, kind: 'public', redirectUris: ['http://127.0.0.1/*'] },
      ...{ permissions: ['wallet:read', 'contracts:read', 'contracts:write'], allowedOrigins: [], secretHashes: [] },
      ...{ logoUri: null, isSuspended: false, sponsor: sponsored && { contracts: null, ...sponsored } },
    },
  )
const give = (address: Hex, wei: bigint) => world.rpc('anvil_setBalance', address, `0x${wei.toString(16)}`)

/** A person with nothing. */
async function poor(name: string, clientId = 'demo', wei = 0n): Promise<Writer> {
  const writer = await world.writer(name)
  await give(writer.address, wei)
  bornAt.set(writer.address, await newestBlock())
  // So that what is known of the block's balances is known anew.
  await world.mine()
  return clientId === 'demo' ? writer : sameFor(writer, clientId)
}

/** The same person at another application. */
async function sameFor(writer: Writer, clientId: string): Promise<Writer> {
  const token = await world.place.token(writer.userId, { client_id: clientId, scope: 'openid wallet:read contracts:write', gid: 'grant' }) // prettier-ignore
  const caller = await verifyAccessToken(world.first.app, token)
  assertUser(caller)
  return { ...caller, name: writer.name }
}

const mining = <T>(work: Promise<T>): Promise<T> => whileMining(world, work)
const add = (writer: Writer, key?: string, replica: Replica = world.first) => world.add(replica, writer, 1, key)
const refusedWith = (code: ErrorCode) => (error: unknown) => error instanceof AppError && error.code === code

/** the block before the first that can have sent them something */
const bornAt = new Map<Hex, number>()
const newestBlock = async () => Number(await world.rpc<Hex>('eth_blockNumber'))

/** What sponsors sent a person, by the chain: the value of each transaction to them in any block. */
async function sentTo({ address }: Writer): Promise<bigint[]> {
  const newest = await newestBlock()
  const found: bigint[] = []
  for (let number = bornAt.get(address)! + 1; number <= newest; number++) {
    const { transactions } = await world.rpc<{ transactions: { from: Hex; to: Hex | null; value: Hex }[] }>('eth_getBlockByNumber', `0x${number.toString(16)}`, true) // prettier-ignore
    // A cancel goes from an account to itself.
    for (const { from, to, value } of transactions)
      if (to?.toLowerCase() === address && from.toLowerCase() !== address) found.push(BigInt(value))
  }
  return found
}
const rowsOf = ({ accountId }: Writer) =>
  world.db.selectFrom('top_ups').selectAll().where('account_id', '=', accountId).orderBy('ordinal').execute()

test('a person without a coin writes: one transfer of what its gas costs and a quarter more is mined first', async () => {
  const writer = await poor('first')
  const { answer } = await mining(add(writer))
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  const [row, ...others] = await rowsOf(writer)
  assert.equal(others.length, 0)
  const [paid, ...more] = await sentTo(writer)
  assert.equal(more.length, 0)
  assert.equal(String(paid), row!.wei)
  const { tx } = answer
  const cost = BigInt(tx.gasLimit.hex) * BigInt(tx.maxFeePerGas!.hex)
  const gas = BigInt(tx.gasLimit.hex)
  // Gas at the price of then, and a quarter of that, rounded down.
  const price = (paid! * 4n + 4n) / (5n * gas)
  assert.equal(gas * price + (gas * price) / 4n, paid)
  // The fees may have moved by the block between.
  assert.ok(paid! >= cost && paid! <= cost * 3n, `${paid} for ${cost}`)
  assert.equal(tx.from.toLowerCase(), writer.address)
  assert.ok(row!.settled_at !== null && row!.block_number !== null)
})

test('who has enough is sent nothing, and who has some only the rest', async () => {
  const rich = await poor('rich', 'demo', COIN)
  await mining(add(rich))
  assert.deepEqual(await sentTo(rich), [])
  const { answer } = await mining(add(await poor('measure')))
  const cost = BigInt(answer.tx.gasLimit.hex) * BigInt(answer.tx.maxFeePerGas!.hex)
  const some = await poor('some', 'demo', cost / 2n)
  await mining(add(some))
  const [paid] = await sentTo(some)
  assert.ok(paid! < cost, `${paid} of ${cost}`)
})

test('values are paid by the person: what is lacking beyond gas is refused, and nothing is sent', async () => {
  const writer = await poor('value', 'demo', COIN)
  const send = (value: bigint) => mining(submitTransaction(world.first.app, writer, { to: AWAY, value: String(value) }, {})) // prettier-ignore
  await assert.rejects(send(COIN + 1n), refusedWith('insufficient_funds'))
  assert.deepEqual(await sentTo(writer), [])
  await send(COIN)
  await world.mine()
  assert.equal((await sentTo(writer)).length, 1)
  // Nor does an open write lend its coins to another.
  const other = await poor('lender', 'demo', COIN)
  const first = await mining(submitTransaction(world.first.app, other, { to: AWAY, value: String(COIN) }, {}))
  assert.equal(first.answer.state, 'SUBMITTED')
})

test('two writes of one person at once are both sent, and what was open is not paid for twice', async () => {
  const writer = await poor('both')
  await mining(Promise.all([add(writer, 'one'), add(writer, 'two'), add(writer, 'three')]))
  await world.mine()
  assert.equal(await world.countOf(writer), 3n)
  const rows = await rowsOf(writer)
  const paid = await sentTo(writer)
  assert.deepEqual(paid.map(String), rows.map(({ wei }) => wei)) // prettier-ignore
  assert.ok(paid.length <= 3 && rows.every(({ settled_at: settledAt }) => settledAt !== null))
})

for (const [step, times] of [
  ['before-bind', 1],
  ['after-bind', 1],
  ['after-sign', 1],
  ['after-store', 1],
  ['after-broadcast', 1],
  ['before-answer', 1],
  ['before-bind', 2],
  ['after-bind', 2],
  ['after-sign', 2],
  ['after-broadcast', 2],
] as const)
  // prettier-ignore
  test(`killed at ${step} for the ${times}. time, a repeat of the request pays once and writes once`, async () => {
    const writer = await poor(`${step}-${times}`)
    let left: number = times
    interruptSteps(world.first.app, (at) => {
      if (at === step && --left === 0) throw new Error('killed')
    })
    await assert.rejects(mining(add(writer, 'key')), /killed/)
    interruptSteps(world.first.app, null)
    // Nobody knows which requests died: until nobody can be at work on it, a repeat is told to come back.
    const repeat = () =>
      until(
        'the repeat is taken',
        () =>
          add(writer, 'key').catch((error: unknown) => {
            if (!refusedWith('idempotency_in_flight')(error)) throw error
            return null
          }),
        60_000,
      )
    await mining(repeat())
    await world.mine()
    await add(writer, 'key')
    assert.equal(await world.countOf(writer), 1n)
    // A nonce that nobody came back for in time is filled, which costs gas, too; the write that comes after it is paid for again.
    const filled = await world.db.selectFrom('transactions').select('id').where('account_id', '=', writer.accountId).where('is_cancel', '=', true).execute() // prettier-ignore
    const paid = (await sentTo(writer)).length
    assert.ok(paid >= 1 && paid <= 1 + filled.length, `${paid} with ${filled.length} filled`)
    // Whoever is short the next time settles what nobody came back for.
    await give(writer.address, 0n)
    await mining(add(writer))
    const rows = await rowsOf(writer)
    assert.deepEqual((await sentTo(writer)).map(String), rows.map(({ wei }) => wei)) // prettier-ignore
    assert.ok(rows.length === paid + 1 && rows.every(({ settled_at: settledAt }) => settledAt !== null))
  })

for (const isReplayed of [true, false])
  test(`a database that lost what a top-up wrote does not pay it again, ${isReplayed ? 'once' : 'before'} it knows the ledger anew`, async () => {
    const writer = await poor(`lost-${isReplayed}`)
    const goBack = await remember(world.first.app)
    interruptSteps(world.first.app, (at) => {
      if (at === 'after-broadcast') throw new Error('killed')
    })
    await assert.rejects(add(writer, 'key'), /killed/)
    interruptSteps(world.first.app, null)
    await goBack()
    assert.deepEqual(await rowsOf(writer), [])
    if (isReplayed) await replay(world.first)
    await mining(add(writer, 'key'))
    await world.mine()
    assert.equal(await world.countOf(writer), 1n)
    assert.equal((await sentTo(writer)).length, 1)
  })

test('a top-up that is not mined in time is told; the repeat goes on with it', async () => {
  const writer = await poor('slow')
  const inHaste = () => hurried(world.clock, () => add(writer, 'key'))
  await assert.rejects(inHaste(), refusedWith('top_up_pending'))
  const [open, ...others] = await rowsOf(writer)
  assert.deepEqual([others.length, open!.settled_at], [0, null])
  // Until it is mined its highest fee is counted with it; and the id of its transaction is of the network, the person and the ordinal.
  const id = transactionIdOf({ accountId: writer.accountId, clientId: 'top-up', route: 'top-up', key: '31337 0' }, 0)
  const sent = await world.db.selectFrom('transactions').select('reserved').where('id', '=', id).executeTakeFirstOrThrow() // prettier-ignore
  assert.deepEqual([open!.charged, BigInt(open!.charged) > BigInt(open!.wei)], [sent.reserved, true])
  await world.mine()
  await add(writer, 'key')
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  assert.equal((await sentTo(writer)).length, 1)
})

test('who may not wait for blocks any more is told so at once', async () => {
  const writer = await poor('crowded')
  await assert.rejects(
    underDeadline(world.clock.ticks() + 30_000, () => add(writer, 'key'), () => false), // prettier-ignore
    refusedWith('top_up_pending'),
  )
})

test('the budget of a person and of an application is never exceeded, and says when there is room', async () => {
  const { answer } = await mining(add(await poor('price')))
  const cost = BigInt(answer.tx.gasLimit.hex) * BigInt(answer.tx.maxFeePerGas!.hex)
  await application('thrifty', { perUser: cost * 4n, perApplication: cost * 9n })
  const people: Writer[] = []
  for (let number = 1; number <= 5; number++) people.push(await poor(`thrifty-${number}`, 'thrifty'))
  let refused = 0
  for (let round = 0; round < 4; round++) {
    // With what is open mined first, each spends what it has elsewhere.
    await world.mine()
    for (const { address } of people) await give(address, 0n)
    await world.mine()
    const write = (writer: Writer) =>
      add(writer).catch((error: unknown) => {
        assert.ok(refusedWith('gas_budget_exhausted')(error), String(error))
        const { resetsAt, retryAfter } = error as AppError
        const left = (Date.parse(resetsAt!) - Date.now()) / 3_600_000
        assert.ok(left > 23 && left <= 25 && retryAfter! > 23 * 3_600)
        refused++
      })
    await mining(Promise.all(people.map(write)))
  }
  assert.ok(refused > 0)
  const { values } = await world.first.app.telemetry.topUps.get()
  const toldOf = values.find(({ labels }) => labels.outcome === 'gas_budget_exhausted')?.value ?? 0
  assert.ok(toldOf >= refused, `${toldOf} in the metric, ${refused} told`)
  let all = 0n
  for (const writer of people) {
    const own = await spentOfBudget(world.db, 'thrifty', writer.accountId)
    const onChain = (await sentTo(writer)).reduce((sum, wei) => sum + wei, 0n)
    assert.ok(own <= cost * 4n && onChain <= own, `${onChain} of ${own}`)
    all += own
  }
  assert.equal(await spentOfBudget(world.db, 'thrifty'), all)
  assert.ok(all <= cost * 9n)
  const { sponsored } = await readUsage(world.db, 'thrifty')
  assert.deepEqual(sponsored, { perApplication: String(cost * 9n), used: String(all) })
  // Of a day ago it counts nothing.
  await world.db.updateTable('gas_spent').set({ hour: sql<Date>`hour - interval '26 hours'` }).where('client_id', '=', 'thrifty').execute() // prettier-ignore
  await give(people[0]!.address, 0n)
  await world.mine()
  await mining(add(people[0]!))
})

test('a write that costs more than a day is told that it never will be paid; without a budget an application’s people pay themselves', async () => {
  await application('tiny', { perUser: 5n, perApplication: 5n })
  await assert.rejects(mining(add(await poor('tiny', 'tiny'))), (error: unknown) => {
    assert.ok(refusedWith('gas_budget_exhausted')(error))
    assert.equal((error as AppError).resetsAt, null)
    return true
  })
  await application('none', null)
  assert.equal((await readUsage(world.db, 'none')).sponsored, null)
  await assert.rejects(mining(add(await poor('none', 'none'))), refusedWith('insufficient_funds'))
})

test('a dry run says what would happen, and pays nothing', async () => {
  const writer = await poor('dry')
  const rehearse = (who: Writer) => rehearseTransaction(world.first.app, who, { to: AWAY, value: '0' })
  assert.equal((await rehearse(writer)).status, 'SUCCESS')
  await assert.rejects(rehearse(await poor('dry-tiny', 'tiny')), refusedWith('gas_budget_exhausted'))
  await assert.rejects(rehearse(await poor('dry-none', 'none')), refusedWith('insufficient_funds'))
  // What the transfer itself costs is in the budgets, as well.
  const like = await poor('dry-like')
  await mining(submitTransaction(world.first.app, like, { to: AWAY, value: '0' }, {}))
  const [row] = await rowsOf(like)
  const { reserved } = await world.db.selectFrom('transactions').select('reserved').where('target', '=', fromHex(like.address)).executeTakeFirstOrThrow() // prettier-ignore
  const room = (BigInt(row!.wei) + BigInt(reserved!)) / 2n
  await application('without-fee', { perUser: room, perApplication: room * 9n })
  await assert.rejects(rehearse(await poor('dry-without-fee', 'without-fee')), refusedWith('gas_budget_exhausted'))
  assert.deepEqual([await rowsOf(writer), await sentTo(writer)], [[], []])
  const rows = await world.db.deleteFrom('sponsors').returningAll().execute()
  try {
    await assert.rejects(rehearse(writer), refusedWith('sponsor_empty'))
  } finally {
    await world.db.insertInto('sponsors').values(rows).execute()
  }
})

test('sponsors take turns', async () => {
  const other = await sponsor('TURNS')
  const payers = new Set<string>()
  for (let number = 0; number < 8; number++) {
    const writer = await poor(`turns-${number}`)
    await mining(add(writer))
    payers.add((await rowsOf(writer))[0]!.sponsor_id)
  }
  await dropSponsor(other)
  assert.ok(payers.size >= 2)
})

test('what the contract or the signer refuses is refused before anything is paid', async () => {
  const writer = await poor('refused')
  await assert.rejects(mining(submitTransaction(world.first.app, writer, { to: world.probe, data: '0xdeadbeef' }, {})), refusedWith('execution_reverted')) // prettier-ignore
  const { signer } = world.first.app
  world.first.app.signer = {
    ...signer,
    check: () => Promise.reject(new AppError('policy_denied', 'The rule of a test.')),
  }
  try {
    await assert.rejects(mining(add(writer)), refusedWith('policy_denied'))
  } finally {
    world.first.app.signer = signer
  }
  assert.deepEqual([await rowsOf(writer), await sentTo(writer)], [[], []])
})

test('what one application left open, another finishes at its own budget; it is counted where it was last asked for', async () => {
  const writer = await poor('two-applications', 'tiny')
  await application('left', RICH)
  const leaving = await sameFor(writer, 'left')
  interruptSteps(world.first.app, (at) => {
    if (at === 'before-bind') throw new Error('killed')
  })
  await assert.rejects(mining(add(leaving)), /killed/)
  interruptSteps(world.first.app, null)
  await assert.rejects(mining(add(writer)), refusedWith('gas_budget_exhausted'))
  const demo = await sameFor(writer, 'demo')
  await mining(add(demo))
  assert.equal((await sentTo(writer)).length, 1)
  assert.deepEqual((await rowsOf(writer)).map(({ client_id: clientId }) => clientId), ['demo']) // prettier-ignore
  assert.ok((await spentOfBudget(world.db, 'demo', writer.accountId)) > 0n)
})

test('limits of the signer hold whatever the server says', async () => {
  const writer = await poor('signer-limits')
  const { signer } = world.first.app
  const denied = (rule: string, told: string) => {
    world.first.app.signer = { ...signer, sign: () => Promise.reject(new AppError('policy_denied', `The rule ${rule} rejects this transaction: ${told}.`)) } // prettier-ignore
  }
  try {
    denied('top-up-per-user', 'it is used up until 2031-01-01T00:00:00.000Z')
    await assert.rejects(mining(add(writer)), (error: unknown) => {
      assert.ok(refusedWith('gas_budget_exhausted')(error))
      assert.equal((error as AppError).resetsAt, '2031-01-01T00:00:00.000Z')
      return true
    })
    denied('top-up-off', 'this signer signs no top-ups')
    await assert.rejects(mining(add(writer)), refusedWith('sponsor_empty'))
  } finally {
    world.first.app.signer = signer
  }
  const before = await spentOfBudget(world.db, 'demo', writer.accountId)
  await mining(add(writer))
  await mining(Promise.resolve())
  // Tried again, it was counted once.
  assert.ok((await spentOfBudget(world.db, 'demo', writer.accountId)) <= (before * 3n) / 2n)
  assert.equal((await rowsOf(writer)).length, 1)
})

test('sponsors without coins are passed over; when none is left, that is said', async () => {
  await give(house.address, 0n)
  const writer = await poor('none-left')
  await assert.rejects(mining(add(writer, 'key')), refusedWith('sponsor_empty'))
  assert.deepEqual(await rowsOf(writer), [])
  await sponsor('SECOND')
  for (const name of ['a', 'b', 'c', 'd']) await mining(add(await poor(`second-${name}`)))
  await give(house.address, 100n * COIN)
  await mining(add(writer, 'key'))
  assert.equal((await sentTo(writer)).length, 1)
})

test('a node that lags does not have a person paid twice', async () => {
  const writer = await poor('lag')
  await mining(add(writer, 'one'))
  const paid = (await sentTo(writer)).length
  await give(writer.address, COIN)
  await world.mine()
  // It answers of the newest block as it was long ago.
  world.first.misbehave(async (method, params, next) =>
    method === 'eth_getBalance' && params[0] === writer.address && params[1] === 'latest' ? '0x0' : next(),
  )
  await mining(add(writer, 'two'))
  assert.equal((await sentTo(writer)).length, paid)
})

test('what a sponsor sends is a transaction of its own account, not of the person or the application', async () => {
  const writer = await poor('whose')
  await mining(add(writer))
  const rows = await world.db.selectFrom('transactions').selectAll().where('target', '=', fromHex(writer.address)).execute() // prettier-ignore
  assert.equal(rows.length, 1)
  assert.notEqual(rows[0]!.account_id, writer.accountId)
})

test('what no budget counts any more is dropped; the newest top-up of a person stays', async () => {
  const writer = await poor('swept')
  for (let times = 0; times < 2; times++) {
    await mining(add(writer))
    await world.mine()
    await give(writer.address, 0n)
    await world.mine()
  }
  assert.equal((await rowsOf(writer)).length, 2)
  const old = new Date(Date.now() - 31 * 86_400_000)
  await world.db.updateTable('top_ups').set({ settled_at: old }).where('account_id', '=', writer.accountId).execute()
  await world.db
    .updateTable('gas_spent')
    .set({ hour: sql<Date>`hour - interval '31 days'` })
    .where('account_id', '=', writer.accountId)
    .execute()
  const sweep = startByteSweep(world.first.app)
  await sweep.round()
  await sweep.stop()
  assert.deepEqual((await rowsOf(writer)).map(({ ordinal }) => ordinal), [1]) // prettier-ignore
  const left = await world.db.selectFrom('gas_spent').selectAll().where('account_id', '=', writer.accountId).execute()
  assert.deepEqual(left, [])
})

/** The signer refuses what this account is to send. */
async function whileRefused<T>(from: Hex, error: () => Error, work: () => Promise<T>): Promise<T> {
  const { signer } = world.first.app
  world.first.app.signer = {
    ...signer,
    sign: (request) => (request.from === from ? Promise.reject(error()) : signer.sign(request)),
  }
  return work().finally(() => {
    world.first.app.signer = signer
  })
}
const dropSponsor = ({ accountId }: Sponsor) => world.db.deleteFrom('sponsors').where('account_id', '=', accountId).execute() // prettier-ignore

test('a sponsor that may not or cannot send is passed over, and what is wrong with it is not told as the person’s', async () => {
  const other = await sponsor('OTHER')
  const rule =
    'The rule top-up-per-sponsor rejects this transaction: the limit is used up until 2031-01-01T00:00:00.000Z.'
  let number = 0
  const errors = (['account_frozen', 'too_many_pending', 'account_stopped', 'policy_denied'] as const).map((code) => new AppError(code, rule)) // prettier-ignore
  for (const error of [...errors, new SignerRefused('unknown_account', 'none')])
    await whileRefused(house.address, () => error, async () => {
      for (let times = 0; times < 3; times++) {
        const writer = await poor(`passed-${number++}`)
        await mining(add(writer, 'key'))
        assert.equal((await sentTo(writer)).length, 1)
      }
    }) // prettier-ignore
  await freezeAccount(world.db, 'SPONSOR-HOUSE')
  try {
    assert.deepEqual((await sponsorsOf(world.db, 31_337)).map(({ name }) => name).includes('HOUSE'), false)
  } finally {
    await unfreezeAccount(world.db, 'SPONSOR-HOUSE')
  }
  await dropSponsor(other)
  for (const one of await sponsorsOf(world.db, 31_337)) if (one.name !== 'HOUSE') await dropSponsor(one)
  for (const [code, told] of [['account_frozen', 'sponsor_empty'], ['too_many_pending', 'overloaded'], ['policy_denied', 'gas_budget_exhausted']] as const) // prettier-ignore
    await whileRefused(house.address, () => new AppError(code, rule), async () => {
      await assert.rejects(mining(add(await poor(`only-${code}`))), refusedWith(told))
    }) // prettier-ignore
})

test('a sponsor whose coins are on their way to others is empty, and its funds are told to nobody', async () => {
  const { answer } = await mining(add(await poor('what-it-costs')))
  const cost = BigInt(answer.tx.gasLimit.hex) * BigInt(answer.tx.maxFeePerGas!.hex)
  await give(house.address, cost * 3n)
  await world.mine()
  const people: Writer[] = []
  for (const name of ['a', 'b', 'c', 'd', 'e']) people.push(await poor(`beside-${name}`))
  try {
    const refused: AppError[] = []
    const waiting = new Set<Writer>()
    const { clock } = world
    const asked = people.map((writer) =>
      underDeadline(clock.ticks() + 30_000, () => add(writer), () => waiting.add(writer) !== null) // prettier-ignore
        .catch((error: unknown) => refused.push(error as AppError)),
    )
    await until('each waits for a block or is refused', () => waiting.size + refused.length >= people.length)
    await clock.advance(30_000)
    await Promise.all(asked)
    assert.ok(refused.some(({ code }) => code === 'sponsor_empty'))
    for (const { code, funds } of refused) assert.ok(['sponsor_empty', 'top_up_pending'].includes(code) && funds === undefined, code) // prettier-ignore
  } finally {
    await give(house.address, 100n * COIN)
    await world.mine()
  }
})

/** Has gas, and died before its write. */
async function toppedUp(writer: Writer): Promise<void> {
  let left = 2
  interruptSteps(world.first.app, (at) => {
    if (at === 'before-bind' && --left === 0) throw new Error('killed')
  })
  await assert.rejects(mining(add(writer, 'key')), /killed/)
  interruptSteps(world.first.app, null)
  assert.notEqual((await rowsOf(writer))[0]!.settled_at, null)
}

for (const isFollowed of [false, true])
  test(`a node whose chain is without the last top-up has no second one sent ${isFollowed ? 'while' : 'before'} that is followed`, async () => {
    const writer = await poor(`not-there-${isFollowed}`)
    await toppedUp(writer)
    await world.mine()
    const { block_number: block } = (await rowsOf(writer))[0]!
    const transfer = await world.db.selectFrom('transactions').select(['id', 'state', 'block_number', 'block_hash']).where('target', '=', fromHex(writer.address)).executeTakeFirstOrThrow() // prettier-ignore
    const { id, ...mined } = transfer
    const setRow = (row: Partial<typeof mined>) => world.db.updateTable('transactions').set(row).where('id', '=', id).execute() // prettier-ignore
    world.first.misbehave(async (method, params, next) => {
      if (method === 'eth_getBalance' && params[0] === writer.address) {
        // After it was looked at which top-up is the last, and before what the funds lack is sent.
        if (isFollowed && typeof params[1] === 'object')
          await setRow({ state: 'SUBMITTED', block_number: null, block_hash: null })
        return '0x0'
      }
      const answer = await next()
      const isOther = method === 'eth_getBlockByNumber' && params[0] === `0x${block!.toString(16)}`
      return isOther ? { ...(answer as object), hash: `0x${'0f'.repeat(32)}` } : answer
    })
    const inHaste = () => hurried(world.clock, () => add(writer, 'key'))
    await assert.rejects(inHaste(), refusedWith('top_up_pending'))
    world.first.misbehave(null)
    await setRow(mined)
    assert.equal((await rowsOf(writer)).length, 1)
    await mining(add(writer, 'key'))
    await world.mine()
    assert.deepEqual([await world.countOf(writer), (await sentTo(writer)).length], [1n, 1])
  })

test('a top-up that a reorganisation took out again is waited for, and not paid a second time', async () => {
  const writer = await poor('reorganised')
  await toppedUp(writer)
  const { block_number: block } = (await rowsOf(writer))[0]!
  await world.rpc('anvil_reorg', Number(await world.rpc<Hex>('eth_blockNumber')) - block! + 1, [])
  await world.followed()
  const inHaste = () => hurried(world.clock, () => add(writer, 'key'))
  await assert.rejects(inHaste(), refusedWith('top_up_pending'))
  await mining(add(writer, 'key'))
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  assert.equal((await sentTo(writer)).length, 1)
  assert.equal((await rowsOf(writer)).length, 1)
})

test('a top-up that a reorganisation moved to a dearer block counts what it cost there', async () => {
  const writer = await poor('dearer-block')
  await toppedUp(writer)
  const [before] = await rowsOf(writer)
  const newest = async () => Number(await world.rpc<Hex>('eth_blockNumber'))
  const { baseFeePerGas } = await world.rpc<{ baseFeePerGas: Hex }>('eth_getBlockByNumber', `0x${before!.block_number!.toString(16)}`, false) // prettier-ignore
  await world.rpc('anvil_reorg', (await newest()) - before!.block_number! + 1, [])
  await world.followed()
  // Out of the chain it counts as before: nobody may spend it a second time.
  const [open] = await rowsOf(writer)
  assert.deepEqual([open!.settled_at, open!.charged], [null, before!.charged])
  // It falls by an eighth with each empty block, and what was sent again is in none of the first.
  await world.rpc('anvil_setNextBlockBaseFeePerGas', `0x${((BigInt(baseFeePerGas) * 19n) / 10n).toString(16)}`)
  await mining(add(writer, 'key'))
  await world.mine()
  const id = transactionIdOf({ accountId: writer.accountId, clientId: 'top-up', route: 'top-up', key: '31337 0' }, 0)
  const { hash } = await world.db.selectFrom('transactions').select('hash').where('id', '=', id).executeTakeFirstOrThrow() // prettier-ignore
  const receipt = await world.rpc<Record<'gasUsed' | 'effectiveGasPrice', Hex>>('eth_getTransactionReceipt', toHex(hash!)) // prettier-ignore
  const cost = BigInt(before!.wei) + BigInt(receipt.gasUsed) * BigInt(receipt.effectiveGasPrice)
  const [moved, ...others] = await rowsOf(writer)
  assert.deepEqual([others.length, BigInt(moved!.charged)], [0, cost])
  assert.ok(cost > BigInt(before!.charged), `${cost} after ${before!.charged}`)
  assert.equal(await spentOfBudget(world.db, 'demo', writer.accountId), cost)
})

test('top-ups that the database has lost and the ledger knows are counted again, and the next is paid', async () => {
  const writer = await poor('lost-and-spent')
  const goBack = await remember(world.first.app)
  await mining(add(writer, 'one'))
  await world.mine()
  await give(writer.address, 0n)
  await world.mine()
  await mining(add(writer, 'two'))
  await world.mine()
  assert.equal((await rowsOf(writer)).length, 2)
  const spent = await spentOfBudget(world.db, 'demo', writer.accountId)
  await goBack()
  await replay(world.first)
  await world.mine()
  await give(writer.address, 0n)
  await world.mine()
  await mining(add(writer, 'three'))
  await world.mine()
  assert.equal(await world.countOf(writer), 3n)
  const rows = await rowsOf(writer)
  assert.deepEqual((await sentTo(writer)).map(String), rows.map(({ wei }) => wei)) // prettier-ignore
  assert.equal(rows.length, 3)
  assert.ok((await spentOfBudget(world.db, 'demo', writer.accountId)) > spent)
})

test('a write that the ledger knows and the database has lost is paid for once', async () => {
  const writer = await poor('lost-whole')
  await poor('before-it')
  const goBack = await remember(world.first.app)
  await mining(add(writer, 'key'))
  await world.mine()
  await give(writer.address, 0n)
  await world.mine()
  await goBack()
  await mining(add(writer, 'key'))
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  assert.equal((await sentTo(writer)).length, 1)
})

test('a top-up that failed is no lack of funds: the repeat begins another', async () => {
  const writer = await poor('in-vain')
  const inHaste = () => hurried(world.clock, () => add(writer, 'key'))
  await assert.rejects(inHaste(), refusedWith('top_up_pending'))
  const [sent] = await world.db.selectFrom('transactions').select(['id', 'nonce']).where('target', '=', fromHex(writer.address)).execute() // prettier-ignore
  await world.db.updateTable('transactions').set({ state: 'FAILED' }).where('id', '=', sent!.id).execute()
  await assert.rejects(inHaste(), refusedWith('top_up_pending'))
  const [failed] = await rowsOf(writer)
  assert.deepEqual([failed!.settled_at === null, failed!.wei, failed!.charged], [false, '0', '0'])
  assert.equal(await spentOfBudget(world.db, 'demo', writer.accountId), 0n)
  await world.db.updateTable('transactions').set({ state: 'SUBMITTED' }).where('id', '=', sent!.id).execute()
  await mining(add(writer, 'key'))
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
})

test('a client that hardly waits has its top-up sent all the same', async () => {
  const writer = await poor('hurried')
  const { clock } = world
  const brief = () => clock.still(() => underDeadline(clock.ticks() + 900, () => add(writer, 'key')))
  await assert.rejects(brief(), refusedWith('top_up_pending'))
  assert.equal((await rowsOf(writer)).length, 1)
  await world.mine()
  await brief().catch(() => add(writer, 'key'))
  await world.mine()
  assert.equal(await world.countOf(writer), 1n)
  assert.equal((await sentTo(writer)).length, 1)
})

test('what a raise or a reorganisation took from a write that was told is sent when its person speeds it up, or writes again', async () => {
  for (const how of ['speed-up', 'write'] as const) {
    const writer = await poor(`relieved-by-${how}`, 'demo', COIN)
    const { answer } = await add(writer)
    await give(writer.address, 0n)
    await world.mine()
    assert.equal(await stateOf(answer.id), 'SUBMITTED')
    // Once it is paid for, a block may have it before the raise is signed.
    const orMined = (error: unknown) => assert.equal((error as AppError).code, 'not_cancellable')
    if (how === 'speed-up') await mining(speedUpTransaction(world.first.app, writer, answer.id)).catch(orMined)
    else await mining(add(writer))
    await mining(until('it is mined', async () => (await stateOf(answer.id)) !== 'SUBMITTED'))
    await world.mine()
    assert.equal((await sentTo(writer)).length, 1)
    assert.equal(await world.countOf(writer), how === 'write' ? 2n : 1n)
  }
})

test('a value in an open write is not paid by a sponsor either', async () => {
  const writer = await poor('value-open', 'demo', 2n * COIN)
  await submitTransaction(world.first.app, writer, { to: AWAY, value: String(COIN) }, {})
  await give(writer.address, COIN / 2n)
  await world.mine()
  await assert.rejects(mining(add(writer)), refusedWith('insufficient_funds'))
  assert.deepEqual(await sentTo(writer), [])
  await give(writer.address, 2n * COIN)
})

test('the value of a write that its person cancels is theirs again: gas alone is lacking, and that is sent', async () => {
  const writer = await poor('value-cancelled', 'demo', 2n * COIN)
  const { answer } = await submitTransaction(world.first.app, writer, { to: AWAY, value: String(COIN) }, {})
  await cancelTransaction(world.first.app, writer, answer.id)
  await world.rpc('anvil_dropAllTransactions')
  await give(writer.address, 1n)
  await world.mine()
  await mining(add(writer))
  await world.mine()
  assert.equal((await sentTo(writer)).length, 1)
})

const stateOf = async (id: string) =>
  (await world.db.selectFrom('transactions').select('state').where('id', '=', id).executeTakeFirstOrThrow()).state

/** A transfer to them is sent, and not mined. */
const isOnItsWay = async ({ address }: Writer): Promise<boolean> =>
  (await world.db.selectFrom('transactions').select('id').where('target', '=', fromHex(address)).where('state', '=', 'SUBMITTED').execute()).length > 0 // prettier-ignore

test('gas of a write under way that became dearer is paid, too: it is no value', async () => {
  const writer = await poor('dearer')
  const first = () => hurried(world.clock, () => add(writer, 'one'))
  const second = () =>
    hurriedUntil(world.clock, () => add(writer, 'two'), 'its funds are sent', () => isOnItsWay(writer)) // prettier-ignore
  await assert.rejects(first(), refusedWith('top_up_pending'))
  await world.mine()
  await add(writer, 'one')
  const raised = { reserved: sql<string>`reserved * 3` }
  const open = await world.db.updateTable('transactions').set(raised).where('account_id', '=', writer.accountId).where('state', '=', 'SUBMITTED').returning('id').execute() // prettier-ignore
  assert.equal(open.length, 1)
  await assert.rejects(second(), refusedWith('top_up_pending'))
  await mining(add(writer, 'two'))
  await world.mine()
  assert.equal(await world.countOf(writer), 2n)
})

test('beside a write that has a nonce and no bytes yet, the next is given its own gas', async () => {
  const writer = await poor('bound')
  const first = () => hurried(world.clock, () => add(writer, 'one'))
  const second = () =>
    hurriedUntil(world.clock, () => add(writer, 'two'), 'its funds are sent', () => isOnItsWay(writer)) // prettier-ignore
  await assert.rejects(first(), refusedWith('top_up_pending'))
  await world.mine()
  interruptSteps(world.first.app, (at) => {
    if (at === 'after-bind') throw new Error('killed')
  })
  await assert.rejects(add(writer, 'one'), /killed/)
  interruptSteps(world.first.app, null)
  await assert.rejects(second(), refusedWith('top_up_pending'))
  assert.equal((await rowsOf(writer)).length, 2)
})

test('who waits for a block that this process has not seen, or for another request, takes no place from others', async () => {
  const writer = await poor('behind')
  await mining(add(writer))
  await give(writer.address, 0n)
  await world.mine()
  const isNow = { block_number: 1_000_000_000 }
  await world.db.updateTable('top_ups').set(isNow).where('account_id', '=', writer.accountId).execute()
  let aside = 0
  const { clock } = world
  const wait = (mayWait: boolean) =>
    underDeadline(clock.ticks() + 30_000, () => add(writer, 'key'), () => {
      aside++
      if (mayWait) setImmediate(() => void clock.advance(30_000))
      return mayWait
    }) // prettier-ignore
  // Its deadline never comes.
  await clock.still(() => assert.rejects(wait(false), refusedWith('top_up_pending')))
  await assert.rejects(wait(true), refusedWith('top_up_pending'))
  assert.ok(aside >= 2)
  // A chain that began anew does not come to that block for long: what was settled long ago is followed, or never will be.
  const isOld = { settled_at: new Date(Date.now() - 180_000) }
  await world.db.updateTable('top_ups').set(isOld).where('account_id', '=', writer.accountId).execute()
  interruptSteps(world.first.app, (at) => {
    if (at === 'after-bind') throw new Error('killed')
  })
  await assert.rejects(add(writer, 'key'), /killed/)
  interruptSteps(world.first.app, null)
  await assert.rejects(wait(false), refusedWith('top_up_pending'))
})

test('two replicas pay once for what they are asked at once, also the one that does not follow the chain', async () => {
  const second = await world.replica()
  second.chain.gas = 'topup'
  const follower = startFollower(second.app, second.chain, [followTransactions])
  try {
    const writer = await poor('elsewhere')
    const caller = await verifyAccessToken(second.app, writer.token)
    assertUser(caller)
    const there = { ...caller, name: writer.name }
    const both = (key: string) => [add(writer, key), add(there, key, second)]
    const settled = await mining(Promise.allSettled([...both('one'), ...both('two')]))
    for (const one of settled) if (one.status === 'rejected') assert.ok(refusedWith('idempotency_in_flight')(one.reason), String(one.reason)) // prettier-ignore
    await world.mine()
    assert.equal(await world.countOf(writer), 2n)
    const rows = await rowsOf(writer)
    assert.deepEqual((await sentTo(writer)).map(String), rows.map(({ wei }) => wei)) // prettier-ignore
    assert.ok(rows.length <= 2)
    await give(writer.address, 0n)
    await world.mine()
    await mining(add(there, 'three', second))
    await world.mine()
    assert.equal(await world.countOf(writer), 3n)
  } finally {
    await follower.stop()
  }
})
