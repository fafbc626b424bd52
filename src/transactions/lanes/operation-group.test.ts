import { strict as assert } from 'node:assert'
import { after, afterEach, before, test } from 'node:test'
import { CompiledQuery, sql } from 'kysely'
import { keep } from '../../../test/lost-tail.ts'
import { sponsored, type Sponsored } from '../../../test/sponsored.ts'
import { until } from '../../../test/kit/until.ts'
import { watchStatements } from '../../../test/watch-statements.ts'
import type { Writer } from '../../../test/writing.ts'
import { AppError, type ErrorCode } from '../../errors.ts'
import { newTransactionId, transactionIdOf } from '../../ids.ts'
import { fromHex, toHex } from '../../hex.ts'
import { EVERYONE, spentOfBudget, spentOnNetwork, type SponsorBudget } from '../../store/sponsor-budget.ts'
import { BINDER, bindOperation, claimOperation, giveBack, unbind, type OperationBinding } from './bind-operation.ts'
import { interruptSteps } from '../crash-points.ts'

/** Concurrent operations share a commit and a transaction, and nothing else. */
let world: Sponsored
/** accounts for which the signer's policy rejects everything */
const denied = new Set<string>()
const watch = watchStatements()
before(async () => {
  world = await sponsored()
  const { app } = world.first
  const { signer } = app
  app.db = watch.over(app.db)
  app.signer = {
    ...signer,
    signOperation: (request) =>
      denied.has(request.from)
        ? Promise.reject(new AppError('policy_denied', 'Denied: no-writes.'))
        : signer.signOperation(request),
  }
})
afterEach(async () => {
  watch.rest()
  interruptSteps(world.first.app, null)
  world.first.misbehave(null)
  await world.mine()
})
after(() => world?.close())

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index)
const codes = (ends: PromiseSettledResult<unknown>[]): (ErrorCode | 'ok' | 'error')[] =>
  ends.map((end) => (end.status === 'fulfilled' ? 'ok' : end.reason instanceof AppError ? end.reason.code : 'error'))
const PLENTY: SponsorBudget = { perUser: 10n ** 18n, perApplication: 10n ** 18n, contracts: null }
let sequence = 1_000_000
const bindingOf = (writer: Writer, more: Partial<OperationBinding> = {}): OperationBinding => ({
  ...{ id: newTransactionId(), accountId: writer.accountId, clientId: writer.clientId, chainId: 31_337 },
  ...{
    from: writer.address,
    delegate: 'chatelaine',
    space: world.first.chain.gasSpace!,
    sequence: sequence++,
    gas: 50_000n,
    deadline: 1,
  },
  calls: [{ to: fromHex(world.probe), value: 7n, data: Buffer.of(1, 2, 3) }],
  ...{
    authorizationNonce: 3,
    requestHash: Buffer.alloc(32, 5),
    reference: 'order-5',
    abi: 'add(uint256)',
    charged: 10n,
    budget: PLENTY,
  },
  ...more,
})
const bind = (binding: OperationBinding) => bindOperation(world.first.app, world.first.chain, binding)
const rowOf = (id: string) => world.db.selectFrom('operations').selectAll().where('id', '=', id).executeTakeFirst()

test('operations that arrive together are bound in as many statements as one', async () => {
  const people = [await world.poor('together-a'), await world.poor('together-b')]
  let statements = 0
  watch.onStatement = () => statements++
  await bind(bindingOf(people[0]!))
  const alone = statements
  statements = 0
  const [before, onNetwork] = [await spentOfBudget(world.db, 'demo'), await spentOnNetwork(world.db, 31_337)]
  const members = upTo(60).map((index) => bindingOf(people[index % 2]!, { charged: BigInt(1 + index) }))
  assert.deepEqual(new Set(await Promise.all(members.map(bind))), new Set(['bound']))
  assert.equal(statements, alone)
  const sum = members.reduce((all, { charged }) => all + charged, 0n)
  assert.equal(await spentOfBudget(world.db, 'demo'), before + sum)
  assert.equal(await spentOnNetwork(world.db, 31_337), onNetwork + sum)
  const own = members.filter((_, index) => index % 2 === 1).reduce((all, { charged }) => all + charged, 0n)
  assert.equal(await spentOfBudget(world.db, 'demo', people[1]!.accountId), own)
})

test('what links and what settles operations finds them by their numbers, also where no table was ever analyzed', async () => {
  const { app } = world.first
  const { db } = app
  const found = new Map<string, { sql: string; parameters: readonly unknown[] }>()
  app.db = db.withPlugin({
    transformQuery: ({ node, queryId }) => {
      const { sql: text, parameters } = db.getExecutor().compileQuery(node, queryId)
      if (text.includes('locked as materialized')) found.set('link', { sql: text, parameters })
      if (text.includes('as rows (hash text, state text')) found.set('settle', { sql: text, parameters })
      return node
    },
    transformResult: async ({ result }) => result,
  })
  try {
    await world.add(world.first, await world.poor('planned'))
    await world.mine()
    await until('it is settled', async () => found.size === 2)
  } finally {
    app.db = db
  }
  for (const [name, { sql: text, parameters }] of found) {
    const plan = await world.db.transaction().execute(async (work) => {
      await sql`set local enable_seqscan = off`.execute(work)
      const { rows } = await work.executeQuery(CompiledQuery.raw(`explain ${text}`, [...parameters]))
      return rows.map((row) => (row as Record<string, string>)['QUERY PLAN']).join('\n')
    })
    assert.match(plan, /Index Cond: .*sequence >= .*sequence <= /, `${name}: ${plan}`)
  }
})

test('a row has all that was bound, however many share the statement', async () => {
  const writer = await world.poor('columns')
  const [one, plain] = [bindingOf(writer), bindingOf(writer, { authorizationNonce: null, requestHash: null })]
  await Promise.all([one, plain].map(bind))
  const row = (await rowOf(one.id))!
  assert.deepEqual(
    [row.account_id, row.client_id, row.chain_id, toHex(row.sender), toHex(row.space), row.sequence, row.gas_limit],
    [writer.accountId, 'demo', 31_337, writer.address, one.space, one.sequence, 50_000],
  )
  assert.deepEqual(
    [row.deadline, row.authorization_nonce, row.abi, row.charged, row.state, row.claims, row.transitions],
    [1, 3, 'add(uint256)', '10', 'BOUND', 1, []],
  )
  assert.deepEqual(Buffer.from(row.request_hash!), Buffer.alloc(32, 5))
  assert.match(Buffer.from(row.calls).toString('hex'), /010203$/)
  assert.equal(row.hour.getTime() % 3_600_000, 0)
  const without = (await rowOf(plain.id))!
  assert.deepEqual([without.authorization_nonce, without.request_hash], [null, null])
})

test('of a group each is refused for itself: a key that is there, one that is twice in it, a budget that ends within it', async () => {
  const [writer, other] = [await world.poor('refused'), await world.poor('beside')]
  const there = bindingOf(writer)
  await bind(there)
  const before = await spentOfBudget(world.db, 'demo', writer.accountId)
  const tight = { ...PLENTY, perUser: before + 25n }
  const twice = newTransactionId()
  const ends = await Promise.all(
    [
      bindingOf(writer, { id: there.id }),
      bindingOf(other, { id: twice }),
      bindingOf(other, { id: twice }),
      bindingOf(writer, { budget: tight }),
      bindingOf(writer, { budget: tight }),
      bindingOf(writer, { budget: tight }),
      bindingOf(writer, { budget: tight, charged: 5n }),
      bindingOf(other, { budget: { ...PLENTY, perApplication: 9n } }),
      bindingOf(other),
    ].map(bind),
  )
  const said = ends.map((end) => (typeof end === 'string' ? end : end.of))
  assert.deepEqual(said, ['key is taken', 'bound', 'key is taken', 'bound', 'bound', 'person', 'bound', 'application', 'bound']) // prettier-ignore
  const [refused, never] = [ends[5]!, ends[7]!]
  assert.ok(typeof refused === 'object' && refused.isHeld === true)
  assert.ok(typeof never === 'object' && never.resetsAt === null)
  assert.equal(await spentOfBudget(world.db, 'demo', writer.accountId), before + 25n)
  assert.equal(await spentOfBudget(world.db, 'demo', other.accountId), 20n)
})

test('an id under which the account itself sends a write is no operation’s, and reserves nothing', async () => {
  const { chain } = world.first
  const writer = await world.poor('own-id')
  await world.rpc('anvil_setBalance', writer.address, '0xde0b6b3a7640000')
  await world.mine()
  chain.gas = 'self'
  const { answer } = await world.add(world.first, writer, 1, 'own').finally(() => (chain.gas = 'sponsor'))
  assert.equal(await bind(bindingOf(writer, { id: answer.id })), 'key is taken')
  assert.deepEqual([await rowOf(answer.id), await spentOfBudget(world.db, 'demo', writer.accountId)], [undefined, 0n])
})

test('the budget of a network ends within a group, too', async () => {
  const [writer, other] = [await world.poor('network-a'), await world.poor('network-b')]
  const cap = (await spentOnNetwork(world.db, 31_337)) + 20n
  const setCap = (wei: string | null) => world.db.updateTable('networks').set({ sponsor_per_day: wei }).execute()
  await setCap(String(cap))
  try {
    const ends = await Promise.all([writer, other, writer].map((one) => bind(bindingOf(one))))
    assert.deepEqual(ends.map((end) => (typeof end === 'string' ? end : end.of)), ['bound', 'bound', 'network']) // prettier-ignore
  } finally {
    await setCap(null)
  }
  assert.equal(await spentOnNetwork(world.db, 31_337), cap)
})

test('a number that another has keeps nobody else from being bound, and reserves nothing', async () => {
  const writer = await world.poor('numbers')
  const first = bindingOf(writer)
  await bind(first)
  const tight = { ...PLENTY, perUser: 20n }
  const ends = await Promise.all([
    bind(bindingOf(writer, { sequence: first.sequence })),
    // An amount that the previous member did not reserve is available to this one.
    bind(bindingOf(writer, { budget: tight })),
  ])
  assert.deepEqual(ends, ['sequence is taken', 'bound'])
  assert.equal(await spentOfBudget(world.db, 'demo', writer.accountId), 20n)
})

test('an hour counts until its last minute is a day old: 25 hours, of the person and of the network', async () => {
  const writer = await world.poor('day-old')
  const older = (hours: number) =>
    Promise.all(
      (['gas_spent', 'gas_spent_on_network'] as const).map((table) =>
        sql`update ${sql.table(table)} set hour = date_trunc('hour', now()) - ${`${hours} hours`}::interval`.execute(
          world.db,
        ),
      ),
    )
  for (const whose of ['person', 'application', 'network'] as const) {
    for (const table of ['gas_spent', 'gas_spent_on_network'] as const) await world.db.deleteFrom(table).execute()
    const setCap = (wei: string | null) => world.db.updateTable('networks').set({ sponsor_per_day: wei }).execute()
    const budget = { ...PLENTY, ...(whose === 'person' ? { perUser: 15n } : whose === 'application' ? { perApplication: 15n } : {}) } // prettier-ignore
    if (whose === 'network') await setCap('15')
    try {
      assert.equal(await bind(bindingOf(writer, { budget })), 'bound')
      await older(24)
      const refused = await bind(bindingOf(writer, { budget }))
      assert.equal(typeof refused === 'string' ? refused : refused.of, whose)
      await older(25)
      assert.equal(await bind(bindingOf(writer, { budget })), 'bound')
    } finally {
      await setCap(null)
    }
  }
})

test('what another request took up is not unbound by the one that bound it; else it gives back what it reserved', async () => {
  const { app } = world.first
  const writer = await world.poor('taken-up')
  const [taken, own] = [bindingOf(writer), bindingOf(writer)]
  for (const binding of [taken, own]) assert.equal(await bind(binding), 'bound')
  assert.deepEqual(await claimOperation(app, taken, PLENTY), { claims: 2, hasReserved: false })
  for (const binding of [taken, own]) await unbind(app, binding)
  assert.deepEqual([(await rowOf(taken.id))?.claims, await rowOf(own.id)], [2, undefined])
  assert.equal(await spentOfBudget(world.db, 'demo', writer.accountId), 10n)
  assert.equal(await claimOperation(app, own, PLENTY), 'gone')
})

test('what was reserved is given back once, by who reserved it and while nobody else asks; who takes it up then reserves what it costs now', async () => {
  const { app } = world.first
  const writer = await world.poor('given-back')
  const spent = async () => [await spentOfBudget(world.db, 'demo', writer.accountId), await spentOfBudget(world.db, 'demo'), await spentOnNetwork(world.db, 31_337)] // prettier-ignore
  const before = await spent()
  const more = (wei: bigint) => before.map((one) => one + wei)
  const binding = bindingOf(writer)
  await bind(binding)
  // Another request may send the operation.
  const second = await claimOperation(app, binding, PLENTY)
  assert.deepEqual(second, { claims: 2, hasReserved: false })
  await giveBack(app, binding, BINDER)
  await giveBack(app, binding, second as typeof BINDER)
  assert.deepEqual(await spent(), more(10n))
  await unbind(app, binding)
  const other = bindingOf(writer)
  await bind(other)
  for (let time = 0; time < 2; time++) await giveBack(app, other, BINDER)
  assert.deepEqual([await spent(), (await rowOf(other.id))!.state], [more(10n), 'BOUND'])
  const dearer = { ...other, charged: 25n }
  assert.equal(await claimOperation(app, dearer, null), 'unpaid')
  assert.deepEqual(await claimOperation(app, dearer, { ...PLENTY, perUser: 24n }), { of: 'person', resetsAt: null })
  assert.deepEqual([await spent(), (await rowOf(other.id))!.claims], [more(10n), 1])
  const third = await claimOperation(app, dearer, PLENTY)
  assert.deepEqual([third, await spent(), (await rowOf(other.id))!.charged], [{ claims: 2, hasReserved: true }, more(35n), '25']) // prettier-ignore
  // Neither the previous claimant may release, nor anyone once a transaction includes the operation.
  await giveBack(app, other, BINDER)
  await world.db.updateTable('operations').set({ outer_id: 'tx_other', state: 'SUBMITTED' }).where('id', '=', other.id).execute() // prettier-ignore
  await giveBack(app, other, third as typeof BINDER)
  assert.deepEqual(await spent(), more(35n))
  await world.db.deleteFrom('operations').where('account_id', '=', writer.accountId).execute()
})

test('a group that dies in its commit has bound nobody, and reserved nothing', async () => {
  const writer = await world.poor('dies')
  const members = upTo(5).map(() => bindingOf(writer))
  interruptSteps(world.first.app, (step) => {
    if (step === 'in-bind-operation') throw new Error('killed')
  })
  const ends = await Promise.allSettled(members.map(bind))
  assert.ok(ends.every(({ status }) => status === 'rejected'))
  for (const { id } of members) assert.equal(await rowOf(id), undefined)
  assert.equal(await spentOfBudget(world.db, 'demo', writer.accountId), 0n)
  assert.deepEqual(await world.db.selectFrom('gas_spent').select('wei').where('account_id', '=', writer.accountId).where('account_id', '<>', EVERYONE).execute(), []) // prettier-ignore
})

test('writes that arrive together: who is refused, repeats, or has another’s key changes nothing for the others', async () => {
  const people: Writer[] = []
  for (const index of upTo(6)) people.push(await world.poor(`mixed-${index}`))
  const small = await world.poor('mixed-small', 'small')
  const barred = await world.poor('mixed-barred')
  denied.add(barred.address)
  const { answer: told } = await world.add(world.first, people[0]!, 1, 'told')
  const add = (writer: Writer, amount: number, key?: string) => world.add(world.first, writer, amount, key)
  const ends = await Promise.allSettled([
    ...people.map((writer) => add(writer, 2)),
    add(small, 2),
    add(barred, 2, 'barred'),
    add(people[0]!, 1, 'told'),
    add(people[0]!, 5, 'told'),
    add(people[1]!, 4, 'same'),
    add(people[1]!, 4, 'same'),
    add(people[2]!, 8, 'other'),
    add(people[2]!, 16, 'other'),
  ])
  const said = codes(ends)
  assert.deepEqual(said.slice(0, 8), [...upTo(6).map(() => 'ok'), 'gas_not_sponsored', 'policy_denied'])
  assert.deepEqual(said.slice(8, 10), ['ok', 'idempotency_key_reused'])
  const repeated = ends[8] as PromiseFulfilledResult<Awaited<ReturnType<typeof add>>>
  assert.deepEqual([repeated.value.isReplay, repeated.value.answer.hash], [true, told.hash])
  // Of two concurrent requests, one is done. The other gets its response, or the error that it is in progress or has
  // another body.
  assert.match(said.slice(10, 12).toSorted().join(), /^(idempotency_in_flight|ok),ok$/)
  assert.match(said.slice(12).toSorted().join(), /^idempotency_(in_flight|key_reused),ok$/)
  const id = transactionIdOf({ accountId: barred.accountId, clientId: 'demo', route: '/v1/contracts/method/write', key: 'barred' }, 0) // prettier-ignore
  assert.equal(await rowOf(id), undefined)
  await world.mine()
  assert.deepEqual(await Promise.all([...people.slice(3), small, barred].map(world.countOf)), [2n, 2n, 2n, 0n, 0n])
  assert.equal(await world.countOf(people[0]!), 3n)
  assert.equal(await world.countOf(people[1]!), 6n)
  const third = await world.countOf(people[2]!)
  assert.ok(third === 10n || third === 18n, String(third))
  // Operations that the signer refused no longer reserve anything.
  assert.equal(await spentOfBudget(world.db, 'demo', barred.accountId), 0n)
})

test('what was in a transaction that did not do it is run once before it goes into another; what was not is not', async () => {
  const writer = await world.poor('again')
  await world.add(world.first, writer)
  await world.mine()
  // The first operation asks the network for its gas.
  await world.add(world.first, writer)
  const run: string[] = []
  world.first.misbehave(async (method, params, next) => {
    if ((params[0] as { to?: string } | null)?.to === world.dispatcher && params.length === 3) run.push(method)
    return next()
  })
  const { answer } = await world.add(world.first, writer)
  assert.deepEqual(run, [])
  const { outer_id: first } = (await rowOf(answer.id))!
  await world.cancelOuter(first!)
  await until('it is packed again', async () => {
    await keep(world)
    return (await rowOf(answer.id))!.outer_id !== first
  })
  assert.deepEqual(run, ['eth_call'])
  await world.mine()
  assert.equal(await world.countOf(writer), 3n)
})
