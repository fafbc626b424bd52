// tier: all, because it kills processes under load
// embedded, because there one process owns the database and every kill stops the delivery
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { suite, test } from 'node:test'
import { testCluster } from '../kit/database.ts'
import { openCouriers, openEmbeddedCourier, type Patch } from './webhooks-home.ts'
import { MAX_REPEATS, openJudge, type Emitted } from './webhooks-judge.ts'
import { runWebhooks } from './webhooks-run.ts'

const open = (patches: readonly Patch[] = []) =>
  testCluster === null ? openEmbeddedCourier(patches) : openCouriers(2, patches)

test('processes are killed while an endpoint fails half of the time: no event is lost, none overtakes one of its subject, a kill repeats at most 72, every signature is good', async () => {
  const seed = Number(process.env.WEBHOOK_SEED ?? Date.now() % 1e9)
  const { problems, kills, accepted } = await runWebhooks(await open(), { seed, events: 400, kills: 2 })
  assert.deepEqual([problems, kills, accepted], [[], 2, 400], `WEBHOOK_SEED=${seed}`)
})

/** Planted mistakes, and the promise that each breaks. `WEBHOOK_MUTANTS=all` tries every one. */
const MUTANTS: { what: string; patch: Patch; breaks: RegExp; isLong?: boolean }[] = [
  {
    what: 'the cursor passes events when they are read, before they are accepted',
    patch: ['webhooks/deliver.ts', 'const cursor = settled === -1 ?', 'const cursor = settled !== -2 ?'],
    breaks: /^(lost|order)/,
  },
  {
    what: 'events behind a failed one of their subject are sent',
    patch: ['webhooks/deliver.ts', 'if (waiting.has(subject)) {', 'if (waiting.has("")) {'],
    breaks: /^order/,
  },
  {
    what: 'the id is not signed',
    patch: ['webhooks/sign.ts', '`${id}.${at}.${body}`', '`${at}.${body}`'],
    breaks: /^signature/,
    isLong: true,
  },
  {
    what: 'a retry that fails is deleted',
    patch: ['webhooks/deliver.ts', 'return failRetry({ seq, subject, attempts: attempts + 1 }, event, answer)', 'void failRetry'], // prettier-ignore
    breaks: /^(lost|order)/,
    isLong: true,
  },
  {
    what: 'a webhook that waits for its probe leaves accepted events behind its cursor',
    patch: ['webhooks/deliver.ts', '  parkOvertaken()\n', ''],
    breaks: /^repeats/,
    isLong: true,
  },
]

test('every planted mistake fits its source', async () => {
  for (const { what, patch } of MUTANTS) {
    const text = await readFile(new URL(`../../src/${patch[0]}`, import.meta.url), 'utf8')
    assert.equal(text.split(patch[1]).length, 2, what)
  }
})

suite('the judge of that test catches', { concurrency: false }, () => {
  for (const { what, patch, breaks, isLong = false } of MUTANTS)
    test(what, { skip: isLong && process.env.WEBHOOK_MUTANTS !== 'all' }, async () => {
      const options = { seed: 7, events: 400, kills: 3, stallMs: 15_000, endsAtProblem: true }
      const { problems } = await runWebhooks(await open([patch]), options)
      assert.ok(problems.some((problem) => breaks.test(problem)), problems.join('\n')) // prettier-ignore
    })
})

/** A judge whose clock a test moves, and events of one subject. */
function stage(count: number) {
  let now = 0
  const judge = openJudge(() => now)
  const events = Array.from({ length: count }, (_, index): Emitted => ({ hook: 0, subject: 'a', seq: index + 1, id: `evt_${index}` })) // prettier-ignore
  for (const event of events) judge.emitted(event)
  const accept = (...places: number[]) => {
    for (const place of places) if (judge.arrived(events[place]!, true)) judge.accepted(place + 1)
  }
  return { judge, events, accept, pass: (ms: number) => void (now += ms) }
}

test('the judge counts what a kill explains, and no more', () => {
  const count = MAX_REPEATS + 1
  const places = Array.from({ length: count }, (_, index) => index)
  for (const [repeated, expected] of [
    [places.slice(1), 0],
    [places, 1],
  ] as const) {
    const { judge, accept, pass } = stage(count)
    accept(...places)
    pass(100)
    judge.killed()
    pass(5_000)
    accept(...repeated)
    assert.equal(judge.problems().length, expected)
    assert.equal(judge.count().mostRepeats, repeated.length)
    // Nobody was killed since then.
    pass(5_000)
    accept(1)
    assert.match(judge.problems()[0]!, /evt_1 comes again although no process was killed/)
    // The process that sent it has logged that no response came.
    assert.equal(judge.problems(new Set(['evt_1'])).length, expected)
  }
})

test('the judge notices what is missing, invented, too early or not signed', () => {
  const { judge, events, accept } = stage(3)
  assert.deepEqual(judge.problems(), ['lost: 3 of 3 events did not arrive'])
  accept(0)
  judge.arrived(events[2]!, true)
  assert.equal(judge.arrived({ ...events[1]!, id: 'evt_other' }, true), false)
  judge.arrived(events[1]!, false)
  accept(1, 2)
  assert.deepEqual(judge.problems(), [
    'order: an event overtakes an earlier one of its subject (1 times)',
    'invented: a request has an event that is not in the feed (1 times)',
    'signature: a request is not signed as documented (1 times)',
  ])
})
