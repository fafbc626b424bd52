import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { testDatabase, type TestDatabase } from '../../test/kit/database.ts'
import { AppError } from '../errors.ts'
import type { Quota } from '../store/column-values.ts'
import { openQuotas, type Quotas } from './quotas.ts'

let here: TestDatabase
before(async () => {
  here = await testDatabase()
})
after(() => here.close())
// The database's clock is the real one: no hour may end while a test counts in it.
beforeEach(async () => {
  const left = 3_600_000 - (Date.now() % 3_600_000)
  if (left < 30_000) await sleep(left + 1_000)
})

const writes = (limit: number, per: Quota['per'] = 'day'): Quota => ({ counts: 'writes', limit, per })

/** A process with a clock of its own, which stands until it is moved. */
function opened() {
  let at = 0
  const told: number[] = []
  const quotas = openQuotas({ db: here.db, now: () => at, onUsed: (_clientId, _quota, share) => void told.push(share) })
  return { quotas, told, wait: (ms: number) => void (at += ms) }
}

const usedOf = (clientId: string) =>
  here.db.selectFrom('application_usage').select(['per', 'used']).where('client_id', '=', clientId).orderBy('per').execute() // prettier-ignore

/** How many are let in one after the other until one is refused, and what it is told. */
async function letIn(quotas: Quotas, clientId: string, given: Quota[]): Promise<[count: number, refusal: AppError]> {
  for (let count = 0; ; count++) {
    const refusal = await quotas.take(clientId, given, 'writes').then(
      () => null,
      (error: unknown) => error as AppError,
    )
    if (refusal !== null) return [count, refusal]
  }
}

test('five processes that take of one quota at once let in what it says, and not one more', async () => {
  const processes = Array.from({ length: 5 }, () => opened().quotas)
  const asked = processes.flatMap((quotas) => Array.from({ length: 80 }, () => quotas.take('shop', [writes(250)], 'writes'))) // prettier-ignore
  const settled = await Promise.allSettled(asked)
  assert.equal(settled.filter(({ status }) => status === 'fulfilled').length, 250)
  assert.deepEqual(await usedOf('shop'), [{ per: 'day', used: 250 }])
})

test('processes that are killed let in less than a quota says, never more; one that is closed gives back what it has not used', async () => {
  let count = 0
  for (let n = 0; n < 10; n++) {
    const { quotas } = opened()
    for (let taken = 0; taken < 7; taken++) await quotas.take('dying', [writes(1_000)], 'writes').then(() => count++)
    if (n % 2 === 1) await quotas.close()
  }
  const last = opened().quotas
  count += (await letIn(last, 'dying', [writes(1_000)]))[0]
  assert.equal(count, 1_000 - 5 * 3, 'each of five leased ten, used seven and took three along')
})

test('who is refused is told how long the day has left, and the database is asked once a second by anyone who comes meanwhile', async () => {
  const { quotas, wait } = opened()
  const [count, refusal] = await letIn(quotas, 'busy', [writes(3)])
  assert.deepEqual([count, refusal.code], [3, 'quota_exhausted'])
  assert.equal(
    refusal.message,
    'The application has used its 3 writes for this day (UTC). Nothing was done. Retry when the next period begins.',
  )
  const midnight = Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth(), new Date().getUTCDate() + 1)
  assert.ok(Math.abs(refusal.retryAfter! - (midnight - Date.now()) / 1_000) < 30, `${refusal.retryAfter} s`)
  // Somebody gives some of it back: only who asks can know.
  await here.db.updateTable('application_usage').set({ used: 0 }).where('client_id', '=', 'busy').execute()
  assert.equal((await letIn(quotas, 'busy', [writes(3)]))[0], 0)
  wait(1_000)
  assert.equal((await letIn(quotas, 'busy', [writes(3)]))[0], 3)
  assert.equal((await letIn(quotas, 'busy', [writes(5)]))[0], 2, 'a quota that is raised is asked for at once')
})

test('with the next hour a quota begins anew, also what was leased in the last one', async () => {
  const { quotas, wait } = opened()
  const hour = [writes(300, 'hour')]
  for (let n = 0; n < 295; n++) await quotas.take('hourly', hour, 'writes')
  // The hour is over, by the clock of the database and by ours.
  await sql`update application_usage set starts_at = starts_at - interval '1 hour' where client_id = 'hourly'`.execute(here.db) // prettier-ignore
  wait(3_600_001)
  assert.equal((await letIn(quotas, 'hourly', hour))[0], 300, 'and not the two of before as well')
})

test('a clock that is put back begins no hour again', async () => {
  const first = opened().quotas
  for (let n = 0; n < 4; n++) await first.take('backwards', [writes(4, 'hour')], 'writes')
  await sql`update application_usage set starts_at = starts_at + interval '1 hour' where client_id = 'backwards'`.execute(here.db) // prettier-ignore
  const beginOf = () => here.db.selectFrom('application_usage').select('starts_at').where('client_id', '=', 'backwards').executeTakeFirstOrThrow() // prettier-ignore
  const begin = await beginOf()
  const [count, refusal] = await letIn(opened().quotas, 'backwards', [writes(4, 'hour')])
  assert.deepEqual([count, refusal.code], [0, 'quota_exhausted'])
  assert.deepEqual(await beginOf(), begin, 'else that hour begins once more when the clock is there again')
})

/** A lease of three of 300 an hour, of which one is taken; then another hour is it by the clock of the database, not by ours. */
async function overAnHoursEnd(clientId: string) {
  const { quotas } = opened()
  const hour = [writes(300, 'hour')]
  const moveBy = (hours: number) => sql`update application_usage set starts_at = starts_at + ${hours} * interval '1 hour', used = 0 where client_id = ${clientId}`.execute(here.db) // prettier-ignore
  await opened().quotas.take(clientId, hour, 'writes')
  // The database is in the hour that it says; so what is leased here is of the next one, and then of this one.
  await moveBy(1)
  const charge = await quotas.take(clientId, hour, 'writes')
  await moveBy(-2)
  return { quotas, hour, charge }
}

test('what is left of an hour is nothing to the next, also where only the clock of the database knows that it has begun', async () => {
  const { quotas, hour } = await overAnHoursEnd('early')
  await quotas.take('early', hour, 'writes', 3)
  assert.equal((await letIn(quotas, 'early', hour))[0], 297)
})

test('what is given back goes to the hour it was taken from, and to no later one', async () => {
  const { quotas, hour, charge } = await overAnHoursEnd('returned')
  const another = await quotas.take('returned', hour, 'writes', 3)
  charge.giveBack()
  another.giveBack()
  assert.equal((await letIn(quotas, 'returned', hour))[0], 300)
})

test('what one quota refuses costs the others nothing, and reads cost writes nothing', async () => {
  const { quotas } = opened()
  const both = [writes(9, 'day'), writes(5, 'hour'), { counts: 'reads', limit: 1, per: 'day' } as const]
  assert.equal((await letIn(quotas, 'both', both))[0], 5)
  assert.deepEqual(await usedOf('both'), [{ per: 'day', used: 6 }, { per: 'hour', used: 5 }]) // prettier-ignore
  await quotas.close()
  assert.deepEqual((await usedOf('both'))[0], { per: 'day', used: 5 })
  await quotas.take('both', both, 'reads')
})

test('a request that stands for many is let in whole or not at all', async () => {
  const { quotas } = opened()
  const reads = [{ counts: 'reads', limit: 25, per: 'day' } as const]
  await quotas.take('batches', reads, 'reads', 20)
  await assert.rejects(quotas.take('batches', reads, 'reads', 6), { code: 'quota_exhausted' })
  await quotas.take('batches', reads, 'reads', 5)
})

test('a lower quota counts what was used before, and what a process had leased of the higher one lets nobody in', async () => {
  const { quotas } = opened()
  for (let n = 0; n < 3; n++) await quotas.take('lowered', [writes(10_000)], 'writes')
  assert.equal((await letIn(quotas, 'lowered', [writes(50)]))[0], 0)
})

test('how much of a quota is leased is told with each lease', async () => {
  const { quotas, told } = opened()
  await letIn(quotas, 'told', [writes(4)])
  assert.deepEqual(told, [0.25, 0.5, 0.75, 1, 1])
})
