// tier: all, because it kills processes at random moments, thousands of events long
import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { sql } from 'kysely'
import { endpoint, webhookStage, type Courier } from '../../test/webhook-stage.ts'
import { readWebhook } from './manage.ts'
import type { Answer, Letter } from './post.ts'

const EVENTS = Number(process.env.WEBHOOK_EVENTS ?? 1_200)
const KILLS = Number(process.env.WEBHOOK_KILLS ?? 12)
/** what a crash may repeat: 64 answers that were not stored, and 8 in flight */
const MAX_REPEATS = 72

/** A random order of numbers that a seed repeats. */
function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

test('an endpoint that fails half of the time, processes that die and two replicas: no event is lost, none overtakes one of its subject, and a crash repeats at most 72', async () => {
  const seed = Number(process.env.WEBHOOK_SEED ?? Date.now() % 1e9)
  const next = numbers(seed)
  const stage = await webhookStage()
  try {
    const { id } = await stage.hook()
    const known = new Set<number>()
    const failures = new Map<number, number>()
    const order = new Map<string, number>()
    let [repeats, answersLeft] = [0, 0]
    let [first, second]: Courier[] = []
    const post = endpoint(async ({ event }: Letter): Promise<number | Partial<Answer>> => {
      if (next() < 0.3) await new Promise(setImmediate)
      const { sequence: seq, subject } = event
      // After thirteen failures it would be dead.
      const failed = failures.get(seq) ?? 0
      if (failed < 8 && next() < 0.5) {
        failures.set(seq, failed + 1)
        return { status: null, error: 'ECONNRESET' }
      }
      if (known.has(seq)) repeats++
      else {
        assert.ok(seq > (order.get(subject) ?? 0), `seed ${seed}: ${seq} after ${order.get(subject)}`)
        order.set(subject, seq)
        known.add(seq)
      }
      // Dies between an answer and what it stores of it.
      if (--answersLeft === 0) [first, second].forEach((one) => one!.kill())
      return 200
    })
    const sent: number[] = []
    for (let [kills, turns] = [0, 0]; known.size < EVENTS; turns++) {
      assert.ok(turns < 500 + EVENTS / 10, `seed ${seed}: ${known.size} of ${EVENTS} after ${turns} turns, ${JSON.stringify(await readWebhook(stage.db, { id, clientId: null }))}`) // prettier-ignore
      if (sent.length < EVENTS)
        sent.push(...(await stage.emit(Array.from({ length: 150 }, () => `transaction:${Math.floor(next() * 40)}`))))
      ;[first, second] = [stage.courier(post), stage.courier(post)]
      const isKilled = kills < KILLS
      answersLeft = isKilled ? 1 + Math.floor(next() * 200) : 0
      const before = repeats
      await Promise.all([first.work().catch(() => {}), second.work().catch(() => {})])
      if (isKilled) kills++
      assert.ok(repeats - before <= MAX_REPEATS * 2, `seed ${seed}: ${repeats - before} repeats`)
      // Longer than the delay after eight failures.
      await stage.age(36_000_000)
    }
    assert.ok(repeats <= KILLS * MAX_REPEATS, `seed ${seed}: ${repeats} repeats after ${KILLS} kills`)
    assert.deepEqual(
      [...known].toSorted((a, b) => a - b),
      sent,
      `seed ${seed}`,
    )
    await sql`update webhooks set lease_ends_at = null`.execute(stage.db)
    await stage.courier(endpoint()).work()
    const webhook = await readWebhook(stage.db, { id, clientId: null })
    assert.deepEqual([webhook.waiting, webhook.dead, webhook.state], [0, 0, 'enabled'])
  } finally {
    await stage.close()
  }
})

test('of twenty webhooks one hangs, one refuses and one answers 500: the others have everything while the first still hangs', async () => {
  const stage = await webhookStage()
  try {
    const hooks = await Promise.all(Array.from({ length: 20 }, (_, n) => stage.hook(String(n))))
    const hanging: (() => void)[] = []
    const post = endpoint(({ url }) => {
      if (url.endsWith('/0')) return new Promise((done) => hanging.push(() => done(200)))
      if (url.endsWith('/1')) return { status: null, error: 'ECONNREFUSED' }
      return url.endsWith('/2') ? 500 : 200
    })
    const courier = stage.courier(post)
    await stage.emit(Array.from({ length: 300 }, (_, n) => `transaction:${n % 60}`))
    await courier.look()
    const counts = () => Map.groupBy(post.letters, ({ url }) => Number(url.split('/').at(-1)))
    for (let turns = 0; turns < 200; turns++) {
      await courier.look()
      await new Promise(setImmediate)
      const by = counts()
      if (hooks.every((_, n) => n < 3 || (by.get(n)?.length ?? 0) >= 300)) break
    }
    const by = counts()
    for (let n = 3; n < 20; n++) assert.equal(by.get(n)!.length, 300, `webhook ${n}`)
    assert.ok(by.get(0)!.length <= 8 && hanging.length === by.get(0)!.length, 'eight in flight, none answered')
    // Ten failures in a row, and those that were in flight.
    for (const n of [1, 2]) assert.ok(by.get(n)!.length <= 18, `webhook ${n}: ${by.get(n)!.length}`)
  } finally {
    await stage.close()
  }
})
