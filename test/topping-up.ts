import { refusedWith } from './kit/refused.ts'
import { strict as assert } from 'node:assert'
import { transactionIdOf, type Hex } from '../src/ids.ts'
import type { Signer } from '../src/signer-wire/client.ts'
import type { Sponsor } from '../src/sponsors/sponsors.ts'
import type { Step } from '../src/transactions/crash-points.ts'
import { scopeOf } from '../src/transactions/settle/settle-top-ups.ts'
import { rehearseTransaction, submitTransaction } from '../src/transactions/lanes/submit.ts'
import type { WriteAnswer } from '../src/transactions/write-wire.ts'
import { diesAt, whileMining } from './interrupted.ts'
import { hurried } from './kit/hurried.ts'
import { remember, replay } from './lost-tail.ts'
import { sponsored } from './sponsored.ts'
import { until } from './kit/until.ts'
import type { Writer } from './writing.ts'

export const COIN = 10n ** 18n
/** where payments go */
export const AWAY: Hex = `0x${'b2'.repeat(20)}`

/** The most that the gas of a write can cost, wei. */
export const mostOf = ({ tx }: WriteAnswer): bigint => BigInt(tx.gasLimit.hex) * BigInt(tx.maxFeePerGas!.hex)

export type ToppingUp = Awaited<ReturnType<typeof toppingUp>>

/** The world of `sponsored.ts` on a network whose gas is `topup`: a sponsor sends users the coins for their gas. */
export async function toppingUp() {
  const world = await sponsored({}, 'chatelaine')
  const { first, db, rpc } = world
  const { app } = first
  first.chain.gas = 'topup'

  /** Accounts hold so much from the newest block on. */
  async function give(accounts: { address: Hex } | { address: Hex }[], wei: bigint): Promise<void> {
    for (const { address } of [accounts].flat()) await rpc('anvil_setBalance', address, `0x${wei.toString(16)}`)
    // What is known of the balances of a block is not known of the next.
    await world.mine()
  }

  /** the block before the first that can hold a transfer to them */
  const bornAt = new Map<Hex, number>()
  const newestBlock = async () => Number(await rpc<Hex>('eth_blockNumber'))

  /** A user who has nothing, or so much. */
  async function poor(name: string, clientId = 'demo', wei = 0n): Promise<Writer> {
    const writer = await world.writer(name)
    bornAt.set(writer.address, await newestBlock())
    await give(writer, wei)
    return clientId === 'demo' ? writer : world.at(writer, clientId)
  }

  const dropSponsor = ({ accountId }: Sponsor) =>
    db.deleteFrom('sponsors').where('account_id', '=', accountId).execute()

  /** Calls the probe. Returns once that is sent; nobody mines. */
  const send = (writer: Writer, key?: string, replica = first) => world.add(replica, writer, 1, key)

  /** Pays somebody else. */
  const pay = (writer: Writer, value = 0n) =>
    submitTransaction(app, writer, { to: AWAY, value: String(value) }, {}).then(({ answer }) => answer)

  const rehearse = (writer: Writer) => rehearseTransaction(app, writer, { to: AWAY, value: '0' })

  /** Blocks come while it works; nobody has died. */
  const mining = <T>(work: Promise<T>): Promise<T> => whileMining(world, work, 0)

  /** Blocks come while it works, time passes, and the keeper does what dead processes left. */
  const recovering = <T>(work: Promise<T>): Promise<T> => whileMining(world, work)

  /** Calls the probe; the call is in a block. */
  async function write(writer: Writer, key?: string) {
    const { answer } = await mining(send(writer, key))
    await world.mine()
    return answer
  }

  /** The same after something died. */
  async function recover(writer: Writer, key: string): Promise<void> {
    await recovering(send(writer, key))
    await world.mine()
  }

  /** A client that does not wait for blocks: its top-up is sent, and its write is not. */
  const begun = (writer: Writer, key = 'key') =>
    assert.rejects(
      hurried(world.clock, () => send(writer, key)),
      refusedWith('top_up_pending'),
    )

  /** Has gas, and died before the write. */
  async function toppedUp(writer: Writer): Promise<void> {
    await diesAt(app, 'before-bind', () => mining(send(writer, 'key')), 2)
    assert.notEqual((await rowsOf(writer))[0]!.settled_at, null)
  }

  /** What sponsors sent a user, by the chain: the value of each transaction to them in any block. */
  async function sentTo({ address }: Writer): Promise<bigint[]> {
    const newest = await newestBlock()
    const found: bigint[] = []
    for (let number = bornAt.get(address)! + 1; number <= newest; number++) {
      const { transactions } = await rpc<{ transactions: { from: Hex; to: Hex | null; value: Hex }[] }>('eth_getBlockByNumber', `0x${number.toString(16)}`, true) // prettier-ignore
      // A cancel goes from an account to itself.
      for (const { from, to, value } of transactions)
        if (to?.toLowerCase() === address && from.toLowerCase() !== address) found.push(BigInt(value))
    }
    return found
  }

  /** The top-ups of a user, by the database. */
  const rowsOf = ({ accountId }: Writer) =>
    db.selectFrom('top_ups').selectAll().where('account_id', '=', accountId).orderBy('ordinal').execute()

  /** The same, once the chain says that each was sent once, and nothing else was. */
  async function paidTo(writer: Writer) {
    const rows = await rowsOf(writer)
    assert.deepEqual(await sentTo(writer), rows.map(({ wei }) => BigInt(wei))) // prettier-ignore
    return rows
  }

  async function assertNothingSent(writer: Writer): Promise<void> {
    await world.mine()
    assert.deepEqual([await rowsOf(writer), await sentTo(writer)], [[], []])
  }

  /** The transaction of a user's first top-up, or of a later one. */
  const transferOf = ({ accountId }: Writer, ordinal = 0) => {
    const id = transactionIdOf(scopeOf({ chainId: 31_337, accountId, ordinal }), 0)
    return db.selectFrom('transactions').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  }

  /** The server's signer answers otherwise while something is done. */
  async function withSigner<T>(otherwise: (real: Signer) => Partial<Signer>, work: () => Promise<T>): Promise<T> {
    const real = app.signer
    app.signer = { ...real, ...otherwise(real) }
    return work().finally(() => {
      app.signer = real
    })
  }

  /** A request dies at a step, the n-th time that it comes there: a repeat pays once and writes once. */
  async function paysOnceThoughKilled(step: Step, time: number): Promise<void> {
    const writer = await poor(`${step}-${time}`)
    await diesAt(app, step, () => recovering(send(writer, 'key')), time)
    // Nobody knows which requests died: until nobody can be at work on it, a repeat is told to come back.
    const orInFlight = (error: unknown) => assert.ok(refusedWith('idempotency_in_flight')(error), String(error))
    await recovering(until('the repeat is taken', () => send(writer, 'key').catch(orInFlight)))
    await world.mine()
    await send(writer, 'key')
    assert.equal(await world.countOf(writer), 1n)
    // A nonce that nobody came back for in time is filled, which costs gas, too; the write that comes after it is paid for again.
    const filled = await db.selectFrom('transactions').select('id').where('account_id', '=', writer.accountId).where('is_cancel', '=', true).execute() // prettier-ignore
    const paid = (await sentTo(writer)).length
    assert.ok(paid >= 1 && paid <= 1 + filled.length, `${paid} with ${filled.length} filled`)
    // Whoever is short the next time settles what nobody came back for.
    await give(writer, 0n)
    await recover(writer, 'next')
    const rows = await paidTo(writer)
    assert.ok(rows.length === paid + 1 && rows.every(({ settled_at: settledAt }) => settledAt !== null))
  }

  /** The database loses what a top-up wrote; before the repeat, it is told by the ledger or not. */
  async function paysOnceThoughLost({ isReplayed }: { isReplayed: boolean }): Promise<void> {
    const writer = await poor(`lost-${isReplayed}`)
    const goBack = await remember(app)
    await diesAt(app, 'after-broadcast', () => send(writer, 'key'))
    await goBack()
    assert.deepEqual(await rowsOf(writer), [])
    if (isReplayed) await replay(first)
    await recover(writer, 'key')
    assert.equal(await world.countOf(writer), 1n)
    assert.equal((await sentTo(writer)).length, 1)
  }

  return {
    ...world,
    ...{ give, poor, dropSponsor, send, pay, rehearse, mining, recovering, write, recover, begun, toppedUp },
    ...{
      sentTo,
      rowsOf,
      paidTo,
      assertNothingSent,
      transferOf,
      newestBlock,
      withSigner,
      paysOnceThoughKilled,
      paysOnceThoughLost,
    },
  }
}
