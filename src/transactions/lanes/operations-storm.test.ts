// tier: all, because it plays random schedules
import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { age, rememberWithBlocks, replay } from '../../../test/lost-tail.ts'
import { assertOutcome, feedConsumer, type FeedConsumer } from '../../../test/feed-consumer.ts'
import { randomOf } from '../../../test/random.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import type { Replica, Writer } from '../../../test/writing.ts'
import { underDeadline } from '../../deadline.ts'
import { toHex } from '../../hex.ts'
import { fromWord } from '../../store/bytes.ts'
import { spentOfBudget } from '../../store/sponsor-budget.ts'
import { cancelTransaction } from './change.ts'
import { interruptSteps, type Step } from '../crash-points.ts'
import { readTransaction } from '../read/read.ts'

/**
 * Random schedules: people write through two replicas that die at any step, the node loses what it was given, blocks are
 * reorganised as deep as they may be, the database goes back, with what it knows of blocks. Every write adds a bit of its own to the person's number on the chain: one that is done twice, or
 * that is said to be done and is not, is seen in the sum. A server of the application reads the feed of events meanwhile: what it knows of each write is
 * the state of the write.
 *
 * `STORM_SCHEDULES=20` plays twenty of each kind; `STORM_SEEDS` and `MIXED_STORM_SEEDS` name them.
 *
 * In mixed schedules people have coins, and what they write to is named now and then as a contract to which accounts send themselves, by one replica
 * earlier than by the other.
 */
let world: Sponsored
let replicas: Replica[]
let consumer: FeedConsumer
before(async () => {
  world = await sponsored()
  await world.sponsor('OTHER')
  const second = await world.replica()
  Object.assign(second.chain, { gas: 'sponsor', gasSpace: world.first.chain.gasSpace, delegate: world.name })
  replicas = [world.first, second]
  consumer = await feedConsumer(world.first.app)
})
after(() => world?.close())

const STEPS: Step[] = ['in-bind-operation', 'after-bind-operation', 'after-sign-operation', 'after-bind-outer', 'after-sign-outer', 'in-store-outer', 'after-store-outer', 'after-broadcast', 'before-answer-operation', 'before-repack', 'before-expire', 'in-block', 'in-retract'] // prettier-ignore
/** steps of writes that accounts send themselves, in addition */
const MIXED_STEPS: Step[] = [...STEPS, 'in-bind', 'after-bind', 'after-sign', 'after-store', 'before-answer']
const SCHEDULES_OF_A_KIND = Number(process.env.STORM_SCHEDULES ?? 1)
const seedsOf = (named: string | undefined, first: number): number[] =>
  named?.split(' ').filter(Boolean).map(Number) ??
  Array.from({ length: SCHEDULES_OF_A_KIND }, (_, index) => first + index)
const SEEDS = seedsOf(process.env.STORM_SEEDS, 13)
const MIXED_SEEDS = seedsOf(process.env.MIXED_STORM_SEEDS, 22)
const ROUNDS = Number(process.env.STORM_ROUNDS ?? 60)
/** seconds that pass per round at the end, and in a round in which time passes */
const ROUND_SECONDS = 20
/** consecutive rounds in which nothing settles: together longer than the longest wait, 300 s */
const IDLE_ROUNDS = 30
/** round of these after which users write again */
const RETURN_ROUND = 10
const PEOPLE = 5
/** milliseconds: only the schedule mines blocks, so no request waits long for one */
const WAITS_MS = 5_100

type Written = { writer: Writer; bit: bigint; key: string; id: string | null; wantsCancel: boolean }

const SCHEDULES = [
  ...SEEDS.map((seed) => ({ seed, isMixed: false })),
  ...MIXED_SEEDS.map((seed) => ({ seed, isMixed: true })),
]

for (const [turn, { seed, isMixed }] of SCHEDULES.entries())
  test(`people write once, whatever dies and whatever is lost; ${isMixed ? 'mixed ' : ''}schedule ${seed}`, async (t) => {
    const below = randomOf(seed)
    // The number of requests to a node depends on time, so use a separate random source for the losses.
    const loses = randomOf(seed + 1)
    const one = <T>(of: readonly T[]): T => of[below(of.length)]!
    const people: Writer[] = []
    for (let index = 0; index < PEOPLE; index++) people.push(await world.poor(`storm-${turn}-${seed}-${index}`))
    if (isMixed) for (const { address } of people) await world.rpc('anvil_setBalance', address, '0xde0b6b3a7640000')
    // Mine more blocks than a reorganisation removes.
    for (let block = 0; block < 4; block++) await world.mine()
    const writes: Written[] = []
    const bits = new Map<Writer, bigint>()
    let goBack: (() => Promise<void>) | null = null
    let isLossy = false
    let lost = 0
    const lossy = async (method: string, _params: unknown[], next: () => Promise<unknown>) => {
      if (!isLossy || method !== 'eth_sendRawTransaction' || loses(2) === 0) return next()
      throw new Error('the node is away')
    }
    for (const replica of replicas) replica.misbehave(lossy)

    async function ask(write: Written): Promise<void> {
      try {
        const replica = one(replicas)
        const send = () => world.add(replica, write.writer, Number(write.bit), write.key)
        const { answer } = await (isMixed ? underDeadline(performance.now() + WAITS_MS, send) : send())
        assert.ok(write.id === null || write.id === answer.id, 'a key answers one id')
        write.id = answer.id
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error
      }
    }
    async function keepAll(): Promise<void> {
      for (const replica of replicas) {
        // Run the first round, which resumes everything.
        await replica.keeper().stop()
      }
    }
    function fresh(writer: Writer): Written {
      const bit = bits.get(writer) ?? 1n
      bits.set(writer, bit * 2n)
      return { writer, bit, key: `${seed}-${writes.length}-${bit}`, id: null, wantsCancel: false }
    }

    for (let round = 0; round < ROUNDS; round++) {
      const what = below(22)
      if (round % 3 === 0) await consumer.read()
      if (what < 8) {
        // Send some at once, so that they share transactions. One of them may die, with the transaction.
        if (below(3) === 0) {
          const [step, replica] = [one(isMixed ? MIXED_STEPS : STEPS), one(replicas)]
          let left = 1
          interruptSteps(replica.app, (reached) => {
            if (reached === step && left-- > 0) throw new Error('killed')
          })
        }
        const some = Array.from({ length: 1 + below(4) }, () => fresh(one(people)))
        writes.push(...some)
        if (isMixed)
          for (const { chain } of replicas) chain.topUpContracts = new Set(below(2) === 0 ? [] : [world.probe])
        await Promise.all(some.map(ask))
        for (const replica of replicas) interruptSteps(replica.app, null)
      } else if (what < 13) {
        await world.mine()
      } else if (what === 13) {
        await reorganise(1 + below(2))
      } else if (what === 14) await keepAll()
      else if (what === 15) isLossy = !isLossy
      else if (what === 16) await pass(ROUND_SECONDS)
      else if (what === 17 && writes.length > 0) {
        const write = one(writes)
        if (write.id !== null) await cancelTransaction(world.first.app, write.writer, write.id).catch(() => {})
      } else if (what >= 20 && goBack === null) goBack = await rememberWithBlocks(world)
      else if (what >= 18 && goBack !== null) {
        // Restore the database of a moment ago, as after a failover to a replica that lagged.
        await goBack()
        lost++
        goBack = null
        for (const replica of replicas) await replay(replica)
      } else if (writes.length > 0) await ask(one(writes))
    }

    isLossy = false
    for (const { chain } of replicas) chain.topUpContracts = new Set()
    for (const replica of replicas) replica.misbehave(null)
    for (const replica of replicas) await replay(replica)
    const states = new Map<Written, string>()
    const isOpen = (write: Written) => ['SUBMITTED', undefined].includes(states.get(write))
    const read = async (write: Written) => {
      if (write.id !== null) states.set(write, (await readTransaction(world.first.app, write.writer, write.id)).state)
    }
    let open = writes
    for (let idle = 0; open.length > 0 && idle < IDLE_ROUNDS; idle++) {
      await pass(ROUND_SECONDS)
      await keepAll()
      await world.mine()
      // A write that an account sends itself may wait behind a delegation that a reorganisation undid, until its user
      // writes again.
      if (isMixed && idle === RETURN_ROUND)
        for (const writer of new Set(open.map((write) => write.writer))) writes.push(fresh(writer))
      for (const write of writes.filter(isOpen)) {
        if (write.id === null) await ask(write)
        await read(write)
      }
      const left = writes.filter(isOpen)
      if (left.length < open.length) idle = 0
      open = left
    }
    for (const write of writes) await read(write)
    await consumer.read()
    for (const write of writes) assertOutcome(consumer, write.id!, states.get(write)!)
    const said = { MINED: 0, FINALIZED: 0, CANCELLED: 0, FAILED: 0, REVERTED: 0 } as Record<string, number>
    for (const writer of people) {
      const own = writes.filter((write) => write.writer === writer)
      let sum = 0n
      for (const write of own) {
        const state = states.get(write) ?? 'unanswered'
        said[state] = (said[state] ?? 0) + 1
        if (state === 'MINED' || state === 'FINALIZED') sum += write.bit
      }
      assert.equal(await world.countOf(writer), sum, `${writer.name}: ${own.map((write) => `${write.bit} ${states.get(write)}`).join(', ')}`) // prettier-ignore
    }
    assert.deepEqual(open, [], `${JSON.stringify(said)}; open: ${JSON.stringify(await openSlots())}`)
    // Nothing here fails by itself, and an account has delegated before what needs it, whatever the order of blocks: but that an authorization is
    // passed over where a reorganisation puts it before what the account itself had sent below.
    for (const write of writes.filter((one) => states.get(one) === 'FAILED')) {
      const { revert } = await readTransaction(world.first.app, write.writer, write.id!)
      assert.ok(isMixed && revert?.name === 'NotDelegated', `${JSON.stringify(said)}: ${JSON.stringify(revert)}`)
    }
    assert.equal(said.REVERTED, 0, JSON.stringify(said))
    await judgeCosts()
    const own = await world.db.selectFrom('transactions').select('id').where('id', 'in', writes.map(({ id }) => id!)).execute() // prettier-ignore
    if (isMixed)
      assert.ok(own.length > 0 && own.length < writes.length, `${own.length} of ${writes.length} by accounts`)
    t.diagnostic(
      `${writes.length} writes, ${own.length} by accounts themselves: ${JSON.stringify(said)}; the database went back ${lost} times`,
    )
  })

/** Checks that budgets count the cost of sponsors' transactions: never less, and only rounding more. */
async function judgeCosts(): Promise<void> {
  for (const replica of replicas) {
    const keeper = replica.keeper()
    await keeper.round()
    await keeper.stop()
  }
  const outers = await world.db
    .selectFrom('transactions as t')
    .select(['t.gas_used', 't.effective_gas_price'])
    .where('t.authorizations', 'is not', null)
    .where('t.gas_used', 'is not', null)
    .where(({ exists, selectFrom }) =>
      exists(selectFrom('carried as c').select('c.operation_id').whereRef('c.transaction_id', '=', 't.id')),
    ) // prettier-ignore
    .execute()
  const paid = outers.reduce((sum, one) => sum + BigInt(one.gas_used!) * fromWord(one.effective_gas_price!), 0n)
  const operations = await world.db.selectFrom('operations').select(['charged', 'is_counted']).execute()
  const charged = operations.reduce((sum, one) => sum + BigInt(one.charged), 0n)
  assert.ok(operations.every((one) => one.is_counted))
  assert.ok(charged >= paid && charged <= paid + BigInt(operations.length * 4), `${charged} for ${paid}`)
  assert.ok((await spentOfBudget(world.db, 'demo')) >= paid)
}

/** Lets this number of seconds pass by the database's clock. */
async function pass(seconds: number): Promise<void> {
  await age(world.first.app, seconds)
  const span = sql`${`${seconds} seconds`}::interval`
  await sql`update attempts set created_at = created_at - ${span}, broadcast_at = broadcast_at - ${span}`.execute(
    world.db,
  )
  await sql`update waits set since = since - ${span}, due_at = due_at - ${span}`.execute(world.db)
}

/** Returns the open writes of each account, and its transaction count on the chain. */
async function openSlots(): Promise<unknown[]> {
  const rows = await world.db
    .selectFrom('transactions')
    .select(['sender', 'nonce', 'state', 'is_cancel'])
    .where('state', 'in', ['BOUND', 'SUBMITTED', 'VACANT'])
    .orderBy('nonce')
    .execute()
  const bySender = Map.groupBy(rows, ({ sender }) => toHex(sender))
  return Promise.all(
    [...bySender].map(async ([sender, slots]) => ({
      ...{ sender, mined: Number(await world.rpc('eth_getTransactionCount', sender, 'latest')) },
      open: slots.map(({ nonce, state, is_cancel }) => `${nonce} ${state}${is_cancel ? ' cancel' : ''}`),
    })),
  )
}

/** Removes the newest blocks that are not final, and mines as many others. */
async function reorganise(depth: number): Promise<void> {
  const height = async () => Number(await world.rpc<string>('eth_blockNumber'))
  const { number } = await world.rpc<{ number: string }>('eth_getBlockByNumber', 'finalized', false)
  const before = await height()
  if (before - depth < Number(number)) return
  await world.rpc('anvil_reorg', depth, []).catch(() => {})
  // An interrupted reorganisation has removed blocks without mining others.
  while ((await height()) < before) await world.rpc('evm_mine')
  await world.mine()
}
