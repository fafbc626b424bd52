// tier: all, because it plays random schedules
import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import { keccak256 } from 'viem/utils'
import { fractionsOf } from '../../../test/random.ts'
import { until } from '../../../test/kit/until.ts'
import { writing, type Fault, type Replica, type Writer, type Writing } from '../../../test/writing.ts'
import { RpcError, RpcUnavailable } from '../../chain/rpc/rpc.ts'
import type { Hex } from '../../ids.ts'
import { interruptSteps } from '../crash-points.ts'
import { readTransaction } from '../read/read.ts'

const SEED = Number(process.env.CHAOS_SEED ?? 1)
const WRITERS = 4
const WRITES_EACH = Number(process.env.CHAOS_WRITES ?? 30)

/** Returns a node that fails before or after a call, and loses broadcasts that it has accepted. */
const badNode =
  (roll: () => number): Fault =>
  async (method, params, next) => {
    const chance = roll()
    if (chance < 0.04) throw new RpcUnavailable('refused', { timedOut: false })
    if (chance < 0.06) throw new RpcError(-32603, 'Internal error', undefined)
    if (method === 'eth_sendRawTransaction' && chance < 0.14) return keccak256(params[0] as Hex)
    const answer = await next()
    if (chance > 0.94) throw new RpcUnavailable('timed out after the work was done', { timedOut: true })
    return answer
  }

test('through a bad node, killed writes, reorganisations and two replicas, every answered write is on the chain once, under its hash', async () => {
  const world = await writing()
  try {
    await run(world)
  } finally {
    await world.close()
  }
})

async function run(world: Writing): Promise<void> {
  const roll = fractionsOf(SEED)
  const replicas = [world.first, await world.replica()]
  // anvil reports a block as final two blocks later. The reorganisations here are deeper, and the follower halts below
  // finality.
  for (const { chain } of replicas) chain.finality = 12
  const keepers = replicas.map((replica) => replica.keeper())
  const writers = await Promise.all(Array.from({ length: WRITERS }, (_, index) => world.writer(`chaos-${index}`)))
  // Mine more blocks than any reorganisation here removes: anvil does not repeat a change of balances.
  for (let block = 0; block < 4; block++) await world.mine()
  for (const replica of replicas) {
    interruptSteps(replica.app, (step) => {
      if (step !== 'in-block' && step !== 'in-retract' && roll() < 0.03) throw new Error(`killed ${step}`)
    })
  }
  world.first.misbehave(badNode(roll))
  replicas[1]!.misbehave(badNode(roll))

  let isOver = false
  const weather = Promise.all([
    miner(world, roll, () => isOver),
    clock(world, () => isOver),
    heads(replicas, () => isOver),
  ])
  const answered: { writer: Writer; hash: Hex; amount: number }[] = []
  try {
    await Promise.all(
      writers.map(async (writer, which) => {
        for (let count = 0; count < WRITES_EACH; count++) {
          const amount = 1_000_000 + which * 1_000 + count
          answered.push({ writer, amount, hash: await insist(world, replicas, writer, amount, roll) })
        }
      }),
    )

    // End the faults: all accepted writes must settle within a bound.
    for (const replica of replicas) {
      replica.misbehave(null)
      interruptSteps(replica.app, null)
    }
    await until('every nonce is settled', async () => {
      const open = await world.db
        .selectFrom('transactions')
        .select(['state'])
        .where('state', 'in', ['BOUND', 'SUBMITTED'])
        .execute()
      return open.length === 0
    })
  } finally {
    isOver = true
    await weather
  }
  await Promise.all(keepers.map((keeper) => keeper.stop()))
  await world.mine()
  await compare(world, writers, answered)
}

/** Retries a request with its key until it gets an answer. */
async function insist(
  { add }: Writing,
  replicas: Replica[],
  writer: Writer,
  amount: number,
  roll: () => number,
): Promise<Hex> {
  for (;;) {
    const replica = replicas[roll() < 0.5 ? 0 : 1]!
    try {
      const { answer } = await add(replica, writer, amount, `write ${amount}`)
      return answer.hash
    } catch {
      await pause(5)
    }
  }
}

async function miner({ rpc }: Writing, roll: () => number, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    await pause(25)
    await rpc('evm_mine')
    if (roll() < 0.06) await rpc('anvil_reorg', 1 + Math.floor(roll() * 3), []).catch(() => {})
  }
}

/**
 * Advances the database's clock faster: intents without bytes are finished or abandoned, and lost bytes are sent again.
 */
async function clock({ db }: Writing, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    await pause(100)
    await sql`update transactions set created_at = created_at - interval '4 seconds', updated_at = updated_at - interval '4 seconds' where state in ('BOUND', 'VACANT')`.execute(
      db,
    )
    await sql`update attempts set broadcast_at = broadcast_at - interval '4 seconds', created_at = created_at - interval '4 seconds'`.execute(
      db,
    )
  }
}

/** Updates the head of the second replica, because only the first one follows. */
async function heads([first, second]: Replica[], isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    await pause(20)
    const head = first!.chain.head.current()
    if (head !== null) second!.chain.head.set(head)
  }
}

/**
 * REVERTED too: after a reorganisation a first write to a slot costs more than was estimated when it was the second.
 * Once is once; that it may run out of gas is the chain's.
 */
const ON_CHAIN = new Set(['MINED', 'FINALIZED', 'REVERTED'])

type Block = { transactions: { hash: Hex; from: Hex; nonce: Hex; input: Hex }[] }

/** Compares the results with the chain's calldata, never with our tables. */
async function compare(
  world: Writing,
  writers: Writer[],
  answered: { writer: Writer; hash: Hex; amount: number }[],
): Promise<void> {
  const last = Number(await world.rpc<Hex>('eth_blockNumber'))
  const seen = new Map<string, Hex[]>()
  const nonces = new Map<string, number[]>()
  for (let number = 0; number <= last; number++) {
    const { transactions } = await world.rpc<Block>('eth_getBlockByNumber', `0x${number.toString(16)}`, true)
    for (const { hash, from, nonce, input } of transactions) {
      nonces.set(from, [...(nonces.get(from) ?? []), Number(nonce)])
      if (input.length > 10)
        seen.set(`${from} ${BigInt(`0x${input.slice(10)}`)}`, [
          ...(seen.get(`${from} ${BigInt(`0x${input.slice(10)}`)}`) ?? []),
          hash,
        ])
    }
  }
  const wrong: string[] = []
  for (const { writer, hash, amount } of answered) {
    const mined = seen.get(`${writer.address} ${amount}`) ?? []
    if (mined.length !== 1) wrong.push(`${writer.name} ${amount}: ${mined.length} times on the chain`)
    const told = await readTransaction(world.first.app, writer, hash)
    if (told.hash !== mined[0] || !ON_CHAIN.has(told.state))
      wrong.push(`${writer.name} ${amount}: told ${told.state} under ${told.hash}`)
  }
  for (const writer of writers) {
    const used = (nonces.get(writer.address) ?? []).toSorted((a, b) => a - b)
    if (used.some((nonce, index) => nonce !== index)) wrong.push(`${writer.name}: nonces ${used.join(' ')}`)
  }
  assert.deepEqual(wrong, [], `seed ${SEED}`)
  assert.deepEqual(await world.db.selectFrom('stopped_lanes').selectAll().execute(), [])
}
