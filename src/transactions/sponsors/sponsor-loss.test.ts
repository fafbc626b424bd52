import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { age } from '../../../test/lost-tail.ts'
import { randomOf } from '../../../test/random.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import type { Replica, Writer } from '../../../test/writing.ts'
import { saveApplication } from '../../applications/registry.ts'
import { writeBatch } from '../../contracts/write-batch.ts'
import { writeContract } from '../../contracts/write.ts'
import { AppError } from '../../errors.ts'
import { verifyAccessToken } from '../../http/bearer.ts'
import type { Hex } from '../../ids.ts'
import { spentOfBudget } from '../../store/sponsor-budget.ts'
import { cancelTransaction } from '../lanes/change.ts'
import { interruptSteps, type Step } from '../crash-points.ts'

/**
 * Random schedules of people who want a sponsor's coins gone: they write to what reverts when it is mined, to what burns all the gas that it
 * gets, to what looks at the origin, alone, at once and in batches, through two replicas that die; they cancel, and blocks get dearer. What
 * the sponsors have lost by the chain is no more than any of the budgets. `LOSS_SCHEDULES=1000` plays so many, from `LOSS_FROM` on.
 */
const SCHEDULES = Number(process.env.LOSS_SCHEDULES ?? 6)
const FROM = Number(process.env.LOSS_FROM ?? 1)
const ACTIONS = 12
const PEOPLE = 3
/** STOP during the simulation; afterwards an endless loop, a revert, or INVALID */
const [CALM, ...ANGRY] = ['0x00', '0x5b5f56', '0x5f5ffd', '0xfe'] as const
const STEPS: Step[] = ['after-bind-operation', 'after-sign-operation', 'after-bind-outer', 'after-sign-outer', 'in-store-outer', 'after-store-outer'] // prettier-ignore
const TRAP: Hex = `0x${'7a'.repeat(20)}`

let world: Sponsored
let replicas: Replica[]
let sponsors: Hex[]
before(async () => {
  world = await sponsored()
  const other = await world.sponsor('OTHER')
  sponsors = [world.house.address, other.address]
  const second = await world.replica()
  Object.assign(second.chain, { gas: 'sponsor', gasSpace: world.first.chain.gasSpace, delegate: world.name })
  replicas = [world.first, second]
})
after(() => world?.close())

const held = async (): Promise<bigint> => {
  const all = await Promise.all(sponsors.map((address) => world.balanceOf(address)))
  return all.reduce((sum, one) => sum + one, 0n)
}

type Budgets = { perUser: bigint; perApplication: bigint; perNetwork: bigint | null }

/**
 * Creates an application with these budgets, and users without funds. Sets the network's budget; null: none in
 * addition.
 */
async function begin(clientId: string, { perUser, perApplication, perNetwork }: Budgets): Promise<Writer[]> {
  await saveApplication(world.first.app, {
    ...{ clientId, name: clientId, chainId: 31_337, kind: 'public', redirectUris: ['http://127.0.0.1/*'] },
    ...{ permissions: ['wallet:read', 'contracts:read', 'contracts:write'], allowedOrigins: [], secretHashes: [] },
    ...{ logoUri: null, isSuspended: false, sponsor: { contracts: null, perUser, perApplication } },
  })
  // Delete reservations of earlier schedules, which would otherwise be released during this one.
  await world.db.deleteFrom('operations').where('state', '=', 'BOUND').execute()
  await world.db.deleteFrom('gas_spent_on_network').execute()
  await world.db.updateTable('networks').set({ sponsor_per_day: perNetwork === null ? null : String(perNetwork) }).execute() // prettier-ignore
  const people: Writer[] = []
  for (let index = 0; index < PEOPLE; index++) people.push(await world.poor(`${clientId}-${index}`, clientId))
  // A process knows an application's budget once it has seen a token of it.
  for (const { app } of replicas) for (const { token } of people) await verifyAccessToken(app, token)
  return people
}

async function keepAll(): Promise<void> {
  for (const replica of replicas) {
    const keeper = replica.keeper()
    await keeper.round()
    await keeper.stop()
  }
}

/** Waits until nothing is open, and everything is counted. */
async function settle(): Promise<void> {
  for (let wait = 0; wait < 60; wait++) {
    await age(world.first.app, 20, { isOpenOnly: true })
    await keepAll()
    await world.mine()
    const open = await world.db
      .selectFrom('operations')
      .select('id')
      .where((eb) =>
        eb.or([eb('state', '=', 'SUBMITTED'), eb.and([eb('is_counted', '=', false), eb('state', '<>', 'BOUND')])]),
      )
      .execute()
    const waiting = await world.db
      .selectFrom('transactions')
      .select('id')
      .where('state', 'in', ['BOUND', 'SUBMITTED'])
      .execute()
    if (open.length === 0 && waiting.length === 0) return
  }
  assert.fail('something stayed open')
}

type Played = { loss: bigint; refused: number; sent: number }

async function play(seed: number): Promise<Played> {
  const below = randomOf(seed)
  const one = <T>(of: readonly T[]): T => of[below(of.length)]!
  const { baseFeePerGas } = await world.rpc<{ baseFeePerGas: Hex }>('eth_getBlockByNumber', 'latest', false)
  // The maximum cost of a write is about 300,000 gas at twice the base fee plus a tip.
  const write = 300_000n * (2n * BigInt(baseFeePerGas) + 1_000_000_000n)
  const some = (most: number) => (write * BigInt(1 + below(most * 2))) / 2n
  const budgets = { perUser: some(6), perApplication: some(12), perNetwork: below(3) === 0 ? some(9) : null }
  const clientId = `loss-${seed}`
  const people = await begin(clientId, budgets)
  const before = await held()
  const played: Played = { loss: 0n, refused: 0, sent: 0 }
  const told: { writer: Writer; id: string }[] = []

  async function attack(index: number): Promise<void> {
    const [{ app }, writer] = [one(replicas), one(people)]
    const idempotencyKey = `loss ${seed} ${index}`
    const trap = { address: TRAP, abi: 'trap()', args: [] }
    const add = { address: world.probe, abi: 'add(uint256)', args: ['1'] }
    const origin = { address: world.target, abi: 'onlyOrigin()', args: [] }
    const count = String(BigInt(await world.rpc<Hex>('eth_call', { to: world.probe, data: '0x06661abd' }, 'latest')))
    const racing = { address: world.probe, abi: 'incrementFrom(uint256)', args: [count] }
    const what = below(8)
    try {
      const { answer } =
        what === 0
          ? await writeContract(app, writer, origin, { idempotencyKey })
          : what === 1
            ? await writeBatch(app, writer, { calls: [add, trap] }, { idempotencyKey })
            : await writeContract(app, writer, what < 5 ? trap : what < 7 ? racing : add, { idempotencyKey })
      told.push({ writer, id: answer.id })
      played.sent++
    } catch (error) {
      if (error instanceof AppError && error.code === 'gas_budget_exhausted') played.refused++
      // A contract that checks the origin is refused before it costs anything.
      if (what === 0) assert.ok(error instanceof AppError, String(error))
    }
  }

  let index = 0
  for (let action = 0; action < ACTIONS; action++) {
    const what = below(10)
    if (what < 6) {
      await world.rpc('anvil_setCode', TRAP, CALM)
      if (below(4) === 0) {
        const [step, { app }] = [one(STEPS), one(replicas)]
        let left = 1
        interruptSteps(app, (reached) => {
          if (reached === step && left-- > 0) throw new Error('killed')
        })
      }
      await Promise.all(Array.from({ length: 1 + below(5) }, () => attack(index++)))
      for (const { app } of replicas) interruptSteps(app, null)
      await world.rpc('anvil_setCode', TRAP, one(ANGRY))
    } else if (what < 8) await world.mine()
    else if (what === 8 && told.length > 0) {
      const { writer, id } = one(told)
      await cancelTransaction(world.first.app, writer, id).catch(() => {})
    } else await keepAll()
  }
  await world.rpc('anvil_setCode', TRAP, one(ANGRY))
  await settle()
  played.loss = before - (await held())
  const said = `schedule ${seed}: ${played.loss} lost of ${JSON.stringify(budgets, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value))}` // prettier-ignore
  assert.ok(played.loss <= budgets.perApplication, said)
  if (budgets.perNetwork !== null) assert.ok(played.loss <= budgets.perNetwork, said)
  assert.ok((await spentOfBudget(world.db, clientId)) >= played.loss, `less is counted than was lost: ${said}`)
  let ofAll = 0n
  for (const writer of people) {
    const own = await spentOfBudget(world.db, clientId, writer.accountId)
    assert.ok(own <= budgets.perUser, `${writer.name} is counted ${own}: ${said}`)
    ofAll += own
  }
  assert.ok(ofAll >= played.loss, `people are counted ${ofAll}: ${said}`)
  return played
}

test(
  `sponsors that are attacked lose no more than the budgets, in ${SCHEDULES} schedules`,
  { timeout: 900_000 + SCHEDULES * 10_000 },
  async (t) => {
    const all = { refused: 0, sent: 0, loss: 0n }
    for (let seed = FROM; seed < FROM + SCHEDULES; seed++) {
      const { refused, sent, loss } = await play(seed)
      all.refused += refused
      all.sent += sent
      all.loss += loss
      if ((seed - FROM + 1) % 100 === 0)
        t.diagnostic(`${seed - FROM + 1} schedules: ${all.sent} sent, ${all.loss} wei lost`)
    }
    t.diagnostic(`${all.sent} sent, ${all.refused} refused for a budget, ${all.loss} wei lost`)
    assert.ok(
      all.sent > SCHEDULES && all.loss > 0n && all.refused > SCHEDULES / 2,
      JSON.stringify({ ...all, loss: String(all.loss) }),
    )
  },
)
