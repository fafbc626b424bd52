// tier: default, because it moves money
import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { testDatabase, testPooler, type TestDatabase } from '../../../test/kit/database.ts'
import { randomOf } from '../../../test/random.ts'
import { accountIdOf, OWN_CLIENT, type Hex } from '../../ids.ts'
import { openPostgres, retrying, type Db, type RootDb } from '../../store/db.ts'
import { readStanding, reserve as reserveOperation } from './budget-counts.ts'
import { spentOfBudget, spentOfPages, spentOnNetwork, type SponsorBudget } from '../../store/sponsor-budget.ts'
import { restoreAccount } from '../../users/pregenerate.ts'
import {
  exhaustedBy,
  findExhausted,
  newestTopUp,
  readNetworkBudget,
  reserveTopUp,
  restoreTopUp,
  settleTopUp,
  sweepTopUps,
} from './gas-budget.ts'

/** Budget counts of several processes at once, in seeded orders, against a model of the payments. */
let database: TestDatabase
/** separate handles, like those of replicas */
let replicas: RootDb[]
const HOUR_MS = 3_600_000
const CHAIN = 5
const SPONSOR = accountIdOf('SPONSOR', 'HOUSE')
type Amounts = Omit<SponsorBudget, 'contracts'>

before(async () => {
  database = await testDatabase()
  const { db, url } = database
  const more = () => openPostgres({ url: url!, pooler: testPooler, pool: 4, onError: () => {} })
  replicas = url === null ? [db] : [db, await more(), await more()]
  await account('SPONSOR-HOUSE')
  await db
    .insertInto('networks')
    .values({ chain_id: CHAIN, name: 'five', genesis_hash: Buffer.alloc(32) })
    .execute()
})
/** null: as much as applications may */
const inOne = <T>(db: RootDb, work: (inside: Db) => Promise<T>): Promise<T> =>
  retrying(() => db.transaction().execute(work))
const settle = (db: RootDb, ...what: Parameters<typeof settleTopUp> extends [unknown, ...infer Rest] ? Rest : never) =>
  inOne(db, (work) => settleTopUp(work, ...what))
const capNetwork = (wei: bigint | null) =>
  database.db.updateTable('networks').set({ sponsor_per_day: wei === null ? null : String(wei) }).where('chain_id', '=', CHAIN).execute() // prettier-ignore
after(async () => {
  for (const replica of replicas.slice(1)) await replica.destroy()
  await database.close()
})

let accounts = 0
async function account(userId: string): Promise<string> {
  await restoreAccount(database.db, { userId, address: `0x${(++accounts).toString(16).padStart(40, '0')}` as Hex })
  const { account_id: id } = await database.db.selectFrom('accounts').select('account_id').where('user_id', '=', userId).executeTakeFirstOrThrow() // prettier-ignore
  return id
}

/** Lets time pass: makes everything counted older. */
async function later(hours: number): Promise<void> {
  await database.db.transaction().execute(async (db) => {
    const earlier = (hour: Date) => new Date(hour.getTime() - hours * HOUR_MS)
    const rows = await db.deleteFrom('gas_spent').returningAll().execute()
    if (rows.length > 0) await db.insertInto('gas_spent').values(rows.map((row) => ({ ...row, hour: earlier(row.hour) }))).execute() // prettier-ignore
    const onNetwork = await db.deleteFrom('gas_spent_on_network').returningAll().execute()
    if (onNetwork.length > 0) await db.insertInto('gas_spent_on_network').values(onNetwork.map((row) => ({ ...row, hour: earlier(row.hour) }))).execute() // prettier-ignore
    const topUps = await db.selectFrom('top_ups').selectAll().execute()
    for (const { chain_id: chainId, account_id: accountId, ordinal, hour } of topUps)
      await db.updateTable('top_ups').set({ hour: earlier(hour) }).where('chain_id', '=', chainId).where('account_id', '=', accountId).where('ordinal', '=', ordinal).execute() // prettier-ignore
  })
}

type Paid = { clientId: string; accountId: string; at: number; wei: bigint }

/** Plays one schedule of several users, applications and processes. All actions of a batch run at once. */
async function play(seed: number): Promise<{ paid: number; refused: Map<string, number> }> {
  const below = randomOf(seed)
  const people: string[] = []
  for (const name of ['a', 'b', 'c']) people.push(await account(`ONE-${seed}-${name}`))
  // If one application sent a top-up while another requested the same one, both budgets count it. Then more than a
  // budget may be counted, but no more is paid.
  const clients = [`x-${seed}`, `y-${seed}`].slice(seed % 2)
  const budget: Amounts = { perUser: BigInt(20 + below(30)), perApplication: BigInt(30 + below(60)) }
  // Every third network has no budget of its own.
  const perNetwork = seed % 3 === 0 ? null : BigInt(30 + below(90))
  await capNetwork(perNetwork)
  const paid: Paid[] = []
  /** by user and ordinal: whether it was sent, once, and how much is settled */
  const sent = new Map<string, Paid & { cost: bigint }>()
  const refused = new Map<string, number>()
  let now = 0
  const pick = <T>(all: T[]): T => all[below(all.length)]!

  async function ask(): Promise<void> {
    const [db, accountId, clientId] = [pick(replicas), pick(people), pick(clients)]
    const [charged, isSent, spent] = [BigInt(1 + below(18)), below(4) > 0, BigInt(below(18))]
    const newest = await newestTopUp(db, { chainId: CHAIN, accountId })
    const ordinal = newest === null ? 0 : newest.isSettled ? newest.ordinal + 1 : newest.ordinal
    const key = { chainId: CHAIN, accountId, ordinal }
    const name = `${accountId} ${ordinal}`
    const known = sent.get(name)
    if (known !== undefined) {
      await settle(db, key, { spent: known.cost, wei: known.cost, blockNumber: 1 })
      known.wei = known.cost
      return
    }
    const answer = await reserveTopUp(db, { ...key, sponsorId: SPONSOR, clientId, wei: charged, charged }, budget)
    if (typeof answer === 'object') refused.set(answer.of, (refused.get(answer.of) ?? 0) + 1)
    // The transaction's key lets only one be sent, whoever is first.
    if (answer !== 'reserved' || !isSent || sent.has(name)) return
    const one = { clientId, accountId, at: now, wei: charged, cost: spent < charged ? spent : charged }
    sent.set(name, one)
    paid.push(one)
  }

  async function hold(): Promise<void> {
    let ofAll = 0n
    for (const clientId of clients) {
      let [all, spent] = [0n, 0n]
      for (const accountId of people) {
        const own = paid.filter((one) => one.clientId === clientId && one.accountId === accountId && one.at > now - 24)
        const real = own.reduce((sum, { wei }) => sum + wei, 0n)
        const counted = await spentOfBudget(database.db, clientId, accountId)
        const told = `seed ${seed}: ${real}, counted ${counted} of ${budget.perUser}`
        assert.ok(real <= counted && real <= budget.perUser, told)
        if (clients.length === 1) assert.ok(counted <= budget.perUser, told)
        all += counted
        spent += real
      }
      const told = `seed ${seed}: ${spent}, counted ${all} of ${budget.perApplication}`
      ofAll += all
      assert.equal(await spentOfBudget(database.db, clientId), all, told)
      assert.ok(spent <= budget.perApplication, told)
      if (clients.length === 1) assert.ok(all <= budget.perApplication, told)
    }
    const onNetwork = await spentOnNetwork(database.db, CHAIN)
    const real = paid.filter(({ at }) => at > now - 24).reduce((sum, { wei }) => sum + wei, 0n)
    const told = `seed ${seed}: ${real}, counted ${onNetwork} of ${perNetwork} on the network`
    assert.equal(onNetwork, ofAll, told)
    assert.ok(real <= onNetwork && (perNetwork === null || real <= perNetwork), told)
    if (clients.length === 1) assert.ok(perNetwork === null || onNetwork <= perNetwork, told)
  }

  for (let batch = 0; batch < 6; batch++) {
    await Promise.all(Array.from({ length: 2 + below(8) }, ask))
    await hold()
    const hours = [0, 0, 1, 3, 12, 30][below(6)]!
    if (hours > 0) await later(hours)
    now += hours
    if (below(6) === 0) await sweepTopUps(database.db)
  }
  await database.db.deleteFrom('gas_spent').execute()
  await database.db.deleteFrom('gas_spent_on_network').execute()
  await database.db.deleteFrom('top_ups').execute()
  return { paid: paid.length, refused }
}

test('whatever processes, applications and people do at once, die of and repeat, no day holds more than the budgets', async () => {
  const seeds = database.url === null ? 40 : 200
  const all = { paid: 0, person: 0, application: 0, network: 0 }
  for (let seed = 1; seed <= seeds; seed++) {
    const { paid, refused } = await play(seed)
    all.paid += paid
    for (const whose of ['person', 'application', 'network'] as const) all[whose] += refused.get(whose) ?? 0
  }
  const { paid, person, application, network } = all
  const isTried = paid > seeds * 2 && person > seeds / 6 && application > seeds / 4 && network > seeds / 4
  assert.ok(isTried && person + application + network > seeds, JSON.stringify(all))
})

test('a budget of the network is over all applications, is read as it is now, and says when there is room', async () => {
  const [ann, ben] = [await account('ONE-network-a'), await account('ONE-network-b')]
  const rich = { perUser: 1_000n, perApplication: 1_000n }
  const topUp = (accountId: string, clientId: string, charged: bigint, ordinal = 0) =>
    reserveTopUp(database.db, { chainId: CHAIN, accountId, ordinal, sponsorId: SPONSOR, clientId, wei: 1n, charged }, rich) // prettier-ignore
  await database.db.deleteFrom('gas_spent_on_network').execute()
  await capNetwork(10n)
  assert.equal(await readNetworkBudget(database.db, CHAIN), 10n)
  assert.equal(await topUp(ann, 'net-a', 6n), 'reserved')
  const hour = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
  const refused = (await topUp(ben, 'net-b', 5n)) as { of: string; resetsAt: Date | null }
  assert.deepEqual([refused.of, refused.resetsAt], ['network', new Date(hour + 25 * HOUR_MS)])
  assert.deepEqual(await topUp(ben, 'net-b', 11n), { of: 'network', resetsAt: null })
  assert.equal(await topUp(ben, 'net-b', 4n), 'reserved')
  assert.equal(await spentOnNetwork(database.db, CHAIN), 10n)
  // Amounts above the actual cost are available again, and an increased budget is available at once.
  await settle(database.db, { chainId: CHAIN, accountId: ann, ordinal: 0 }, { spent: 5n, wei: 4n, blockNumber: 1 })
  assert.notEqual(await topUp(ann, 'net-a', 2n, 1), 'reserved')
  assert.equal(await topUp(ann, 'net-a', 1n, 1), 'reserved')
  await capNetwork(0n)
  assert.deepEqual(await topUp(ben, 'net-b', 5n), { of: 'network', resetsAt: null })
  await capNetwork(null)
  assert.equal(await topUp(ben, 'net-b', 5n), 'reserved')
})

test('when there is room is the hour from which it is given, neither before nor after', async () => {
  const accountId = await account('ONE-resets')
  const topUp = (ordinal: number, charged: bigint, budget: Amounts) =>
    reserveTopUp(database.db, { chainId: CHAIN, accountId, ordinal, sponsorId: SPONSOR, clientId: 'resets', wei: 1n, charged }, budget) // prettier-ignore
  const budget = { perUser: 10n, perApplication: 100n }
  await capNetwork(null)
  const settleAs = (ordinal: number) =>
    settle(database.db, { chainId: CHAIN, accountId, ordinal }, { spent: null, wei: 1n, blockNumber: 1 })
  assert.equal(await topUp(0, 4n, budget), 'reserved')
  await settleAs(0)
  await later(2)
  assert.equal(await topUp(1, 6n, budget), 'reserved')
  await settleAs(1)
  const hour = Math.floor(Date.now() / HOUR_MS) * HOUR_MS
  // 4 is available once the first is a day old, 5 not before the second is.
  assert.deepEqual(await topUp(2, 4n, budget), { of: 'person', resetsAt: new Date(hour + 23 * HOUR_MS) })
  assert.deepEqual(await topUp(2, 5n, budget), { of: 'person', resetsAt: new Date(hour + 25 * HOUR_MS) })
  assert.deepEqual(await topUp(2, 11n, budget), { of: 'person', resetsAt: null })
  assert.deepEqual(await topUp(2, 1n, { perUser: 100n, perApplication: 10n }), { of: 'application', resetsAt: new Date(hour + 23 * HOUR_MS) }) // prettier-ignore
  await later(22)
  assert.notEqual(await topUp(2, 4n, budget), 'reserved')
  await later(1)
  assert.equal(await topUp(2, 4n, budget), 'reserved')
  assert.equal(await spentOfBudget(database.db, 'resets', accountId), 10n)
  // An existing top-up reserves only the additional cost within its hour, and releases nothing before it is settled.
  assert.notEqual(await topUp(2, 5n, budget), 'reserved')
  assert.equal(await topUp(2, 2n, budget), 'reserved')
  assert.equal(await spentOfBudget(database.db, 'resets', accountId), 10n)
  assert.equal(
    await findExhausted(
      database.db,
      { chainId: CHAIN, clientId: 'resets', accountId, charged: 0n },
      { ...budget, perNetwork: null },
    ),
    null,
  )
})

test('while open writes hold a budget, the time told is by when enough of them have ended; the rest is room a day later', () => {
  const [hour, now] = [new Date('2026-03-01T10:00:00Z'), Date.parse('2026-03-01T10:20:00Z')]
  const held = [3n, 2n].map((wei, index) => ({ ...{ clientId: 'c', accountId: 'a', hour, wei }, until: new Date(now + (index + 1) * 60_000) })) // prettier-ignore
  const asked = (charged: bigint, of: typeof held) => exhaustedBy('person', { hours: [{ hour, wei: 9n }], limit: 10n, charged, held: of }) // prettier-ignore
  const tomorrow = { of: 'person', resetsAt: new Date(hour.getTime() + 25 * HOUR_MS) }
  assert.equal(asked(1n, held), null)
  for (const [charged, minutes] of [
    [4n, 1],
    [5n, 2],
    [6n, 2],
  ] as const)
    // prettier-ignore
    assert.deepEqual(asked(charged, held), { of: 'person', resetsAt: new Date(now + minutes * 60_000), isHeld: true })
  assert.deepEqual([asked(7n, held), asked(4n, [])], [tomorrow, tomorrow])
  assert.deepEqual(asked(11n, held), { of: 'person', resetsAt: null })
})

test('what is settled is settled once, and counted as what it cost', async () => {
  const accountId = await account('ONE-settled')
  const key = { chainId: CHAIN, accountId, ordinal: 0 }
  const topUp = { ...key, sponsorId: SPONSOR, clientId: 'settled', wei: 7n, charged: 9n }
  const budget = { perUser: 10n, perApplication: 10n }
  assert.equal(await reserveTopUp(database.db, topUp, budget), 'reserved')
  // After a fee bump, the cost may be higher than the reservation.
  await Promise.all(Array.from({ length: 4 }, () => settle(database.db, key, { spent: 12n, wei: 7n, blockNumber: 3 }))) // prettier-ignore
  await settle(database.db, key, { spent: 5n, wei: 1n, blockNumber: 9 })
  assert.deepEqual([await spentOfBudget(database.db, 'settled', accountId), await spentOfBudget(database.db, 'settled')], [12n, 12n]) // prettier-ignore
  assert.deepEqual(await newestTopUp(database.db, key), { ...key, isSettled: true, blockNumber: 3 })
  assert.equal(await reserveTopUp(database.db, topUp, budget), 'settled')
  // A cost equal to a day's budget fits when the day is over; a higher cost never fits.
  const whole = { chainId: CHAIN, clientId: 'settled', accountId, charged: 10n }
  const limits = { ...budget, perNetwork: null }
  assert.notEqual((await findExhausted(database.db, whole, limits))!.resetsAt, null)
  assert.equal((await findExhausted(database.db, { ...whole, charged: 11n }, limits))!.resetsAt, null)
  // Neither an existing top-up nor one of an unknown transaction is restored.
  await inOne(database.db, (work) => restoreTopUp(work, topUp, 'unknown'))
  await inOne(database.db, (work) => restoreTopUp(work, { ...topUp, ordinal: 1 }, 'unknown'))
  assert.equal(await spentOfBudget(database.db, 'settled'), 12n)
})

test('a client with a budget on several networks spends on each of them separately', async () => {
  const accountId = await account('ONE-networks')
  await database.db.insertInto('networks').values({ chain_id: 6, name: 'six', genesis_hash: Buffer.alloc(32) }).execute() // prettier-ignore
  const budget = { perUser: 10n, perApplication: 10n }
  await capNetwork(null)
  const reserve = (chainId: number, charged: bigint) =>
    reserveTopUp(database.db, { chainId, accountId, ordinal: 0, sponsorId: SPONSOR, clientId: OWN_CLIENT, wei: 7n, charged }, budget) // prettier-ignore
  assert.equal(await reserve(CHAIN, 9n), 'reserved')
  assert.equal(await reserve(6, 10n), 'reserved')
  assert.deepEqual([await spentOfPages(database.db, CHAIN), await spentOfPages(database.db, 6)], [9n, 10n])
  const limits = { ...budget, perNetwork: null }
  const more = { clientId: OWN_CLIENT, accountId, charged: 1n }
  assert.equal(await findExhausted(database.db, { ...more, chainId: CHAIN }, limits), null)
  assert.equal((await findExhausted(database.db, { ...more, chainId: 6 }, limits))?.of, 'person')
  const members = [{ id: 'tx', clientId: OWN_CLIENT, accountId }]
  for (const [chainId, isLeft] of [
    [CHAIN, true],
    [6, false],
  ] as const) {
    const { counted } = await readStanding(database.db, { chainId, perNetwork: null }, members)
    assert.equal(reserveOperation(counted, { clientId: OWN_CLIENT, accountId, charged: 1n }, budget) === null, isLeft)
  }
})

test('what one reserved and did not send counts once when the same is reserved in a later hour, and nothing where there is no room', async () => {
  const accountId = await account('ONE-hours')
  const topUp = { chainId: CHAIN, accountId, ordinal: 0, sponsorId: SPONSOR, clientId: 'hours', wei: 7n }
  const budget = { perUser: 10n, perApplication: 100n }
  const counted = async () => [await spentOfBudget(database.db, 'hours', accountId), await spentOfBudget(database.db, 'hours')] // prettier-ignore
  await capNetwork(null)
  assert.equal(await reserveTopUp(database.db, { ...topUp, charged: 9n }, budget), 'reserved')
  await later(1)
  // The cost is not counted twice; otherwise this reservation would not fit.
  assert.equal(await reserveTopUp(database.db, { ...topUp, charged: 8n }, budget), 'reserved')
  assert.deepEqual(await counted(), [8n, 8n])
  await later(1)
  for (let time = 0; time < 2; time++) {
    assert.notEqual(await reserveTopUp(database.db, { ...topUp, charged: 11n }, budget), 'reserved')
    assert.deepEqual(await counted(), [0n, 0n])
  }
  assert.equal(await reserveTopUp(database.db, { ...topUp, charged: 10n }, budget), 'reserved')
  // Another application may have sent it, so both count it.
  await later(1)
  assert.equal(await reserveTopUp(database.db, { ...topUp, clientId: 'hours-too', charged: 6n }, budget), 'reserved')
  assert.deepEqual([await counted(), await spentOfBudget(database.db, 'hours-too')], [[10n, 10n], 6n])
  await settle(database.db, topUp, { spent: 5n, wei: 4n, blockNumber: 3 })
  assert.deepEqual([await counted(), await spentOfBudget(database.db, 'hours-too')], [[10n, 10n], 5n])
})
