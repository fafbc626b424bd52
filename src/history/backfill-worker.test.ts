import assert from 'node:assert/strict'
import { afterEach, beforeEach, suite, test } from 'node:test'
import { AppError } from '../errors.ts'
import { fromHex } from '../hex.ts'
import { ALICE, backfillStage, CHAIN, idOf } from '../../test/backfill-stage.ts'
import { addressOf, scriptedChain } from '../../test/nodes/scripted-chain.ts'
import { until } from '../../test/kit/until.ts'
import { fillNext, startBackfilling } from './automatic-backfill.ts'
import { takeWork } from './backfill-work.ts'
import { runningClock, stoppedClock, type TestClock } from '../../test/kit/clock.ts'

suite('the worker of a backfill', () => {
  const { app, add, followedChain, fill, blocksOf, work, leaseEnds } = backfillStage()
  let stopping = new AbortController()
  beforeEach(() => void (stopping = new AbortController()))
  // Stop what a failed test left running.
  afterEach(() => stopping.abort())

  test('keeps its lease for as long as it works, from a third of it on', async () => {
    const clock = runningClock()
    const script = await followedChain()
    await add(ALICE)
    const isHeld = async () => (await work())!.lease_until! > new Date(Date.now() + 20_000)
    let renewals = 0
    script.onAsk = async (method) => {
      if (method !== 'eth_getLogs' || renewals > 0) return
      for (renewals = 1; renewals <= 3; renewals++) {
        await leaseEnds()
        await clock.advance(10_000)
        await until('it is renewed', isHeld)
      }
    }
    const filling = fill(script, { context: { ...app, clock } })
    let isOver = false
    void filling.finally(() => (isOver = true))
    // After a slow response, the node is not asked for the same time.
    await until('it is over', async () => {
      if (renewals > 3) await clock.advance(10_000)
      return isOver
    })
    assert.deepEqual([await filling, renewals], ['filled', 4])
  })

  test('stops by itself when another process has taken over while it waited', async () => {
    const clock = runningClock()
    const script = await followedChain()
    await add(ALICE)
    const { head } = script.chain
    const busy = { ...script.chain, head: { ...head, node: { ...head.node, newest: () => 1_000 } } }
    let became: unknown = null
    const running = fillNext({ ...app, clock }, busy, { owner: 'one', stopping: stopping.signal }).then(
      (end) => (became = end),
    )
    await until('it waits', async () => (await work())?.blocked_by)
    await leaseEnds()
    assert.notEqual(await takeWork(app.db, CHAIN, 'two'), null)
    await clock.advance(10_000)
    await until('it stops', () => became)
    await running
    assert.deepEqual([became, await blocksOf(ALICE), (await work())!.lease_owner], ['stopped', [], 'two'])
  })

  test('asks a node for no more than 1,000 accounts at once', async () => {
    const script = await followedChain()
    const rows = Array.from({ length: 1_001 }, (_, index) => addressOf(0x1_000 + index)).map((address) => ({
      ...{ account_id: idOf(address), user_id: `DEV-${address}`, address: fromHex(address) },
    }))
    await app.db.insertInto('accounts').values(rows).execute()
    const asked: number[] = []
    script.onAsk = (method, params) => {
      const topics = method === 'eth_getLogs' ? (params[0] as { topics: unknown[] }).topics : []
      if (topics.length === 2) asked.push((topics[1] as unknown[]).length)
    }
    assert.deepEqual([await fill(script), await fill(script), await fill(script)], ['filled', 'filled', 'nothing'])
    assert.deepEqual(asked, [1_000, 1])
  })
})

/** Starts a worker whose searches return as the test defines, with a clock that does not advance by itself. */
function looking(look: (number: number, clock: TestClock) => Promise<void> | void) {
  const clock = stoppedClock()
  let looks = 0
  const waits: unknown[] = []
  // There is no row, as if another process held the lease.
  const db: object = new Proxy(() => db, {
    get: (_, name) => {
      if (name === 'execute') return async () => look(++looks, clock)
      return name === 'executeTakeFirst' ? async () => undefined : () => db
    },
  })
  const warn = (event: string, { waitMs }: { waitMs: number }) =>
    void waits.push(event === 'backfill_blocked' && waitMs)
  const telemetry = { log: { warn }, backfillLeft: { set: () => {} } }
  const worker = startBackfilling(
    { clock, db, config: { BACKFILL: 'on' }, telemetry } as never,
    scriptedChain().chain,
    0,
  )
  return { waits, looks: () => looks, worker, later: clock.advance }
}

test('a node that fails is left alone for longer each time, up to an hour, and a database that was away for a minute', async () => {
  const database = new AppError('database_unavailable', 'The database is away.')
  const { waits, worker, later } = looking((number) => {
    if (number === 10) return
    throw number === 9 ? database : new Error('away')
  })
  await later(0)
  for (let number = 2; number <= 11; number++) await later(waits.at(-1) as number)
  const minutes = (waits as number[]).map((ms) => ms / 60_000)
  assert.deepEqual(minutes, [1, 2, 4, 8, 16, 32, 60, 60, 1, 1])
  await worker.stop()
})

test('a look that took long is not repeated before a hundred times as long', async () => {
  const { looks, worker, later } = looking((_, clock) => clock.advance(2_000))
  await later(0)
  await later(199_999)
  assert.equal(looks(), 1)
  await later(1)
  assert.equal(looks(), 2)
  await worker.stop()
})
