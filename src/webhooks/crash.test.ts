// tier: all, because it kills processes at random moments, thousands of events long
import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { sql } from 'kysely'
import { until } from '../../test/kit/until.ts'
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

test('of twenty webhooks one hangs, one refuses connections, one answers 500, one is huge and slow and one redirects: the others deliver as much at a time as without them', async () => {
  const stage = await webhookStage()
  try {
    const [HOOKS, BAD, EVENTS, AT_A_TIME] = [20, 5, 300, 8]
    for (let n = 0; n < HOOKS; n++) await stage.hook(String(n))
    /** what each of the others has not answered yet */
    const unanswered = Array.from({ length: HOOKS }, () => [] as (() => void)[])
    const answered = Array.from({ length: HOOKS }, () => 0)
    const numberOf = ({ url }: Letter): number => Number(url.split('/').at(-1))
    const post = endpoint((letter) => {
      const n = numberOf(letter)
      if (n === 1) return { status: null, error: 'ECONNREFUSED' }
      if (n === 2) return 500
      if (n === 3) return { status: 200, answer: 'x'.repeat(1_024), durationMs: 14_000 }
      if (n === 4) return 302
      return new Promise((done) => unanswered[n]!.push(() => done(200)))
    })
    const courier = stage.courier(post)
    await stage.emit(Array.from({ length: EVENTS }, (_, n) => `transaction:${n % 60}`))
    const others = Array.from({ length: HOOKS - BAD }, (_, n) => n + BAD)
    let rounds = 0
    for (; others.some((n) => answered[n]! < EVENTS); rounds++) {
      await until(`round ${rounds}: the others have as much in flight as they may`, async () => {
        await courier.look()
        return others.every((n) => unanswered[n]!.length === Math.min(AT_A_TIME, EVENTS - answered[n]!))
      })
      // All answer at once: the next round begins with none in flight.
      for (const n of others) {
        const all = unanswered[n]!.splice(0)
        answered[n]! += all.length
        for (const answer of all) answer()
      }
    }
    assert.equal(rounds, Math.ceil(EVENTS / AT_A_TIME))
    const sent = Map.groupBy(post.letters, numberOf)
    assert.deepEqual([sent.get(0)!.length, unanswered[0]!.length], [AT_A_TIME, AT_A_TIME])
    // Ten failures in a row, and those that were in flight.
    for (const n of [1, 2, 4]) assert.ok(sent.get(n)!.length <= 10 + AT_A_TIME, `webhook ${n}: ${sent.get(n)!.length}`)
  } finally {
    await stage.close()
  }
})
