import assert from 'node:assert/strict'
import test from 'node:test'
import { openAdmission, type AdmissionClass, type Ticket } from './admission.ts'

const CALM = { loopDelayMs: 0, poolWaitMs: 0 }
const LATE = { loopDelayMs: 120, poolWaitMs: 0 }

/** An admission with a clock that is stuck until it is moved. */
function opened(most = 4_096) {
  let at = 0
  const admission = openAdmission({ most, now: () => at })
  return {
    admission,
    wait: (ms: number) => void (at += ms),
    /** lets in as many as it can, of one person or of as many */
    fill(kind: AdmissionClass, { application = 'shop', people = 1, upTo = 100_000 } = {}): Ticket[] {
      const tickets: Ticket[] = []
      for (let n = 0; n < upTo; n++) {
        const ticket = admission.enter(kind, { application, person: `p${n % people}` })
        if (ticket === null) return tickets
        tickets.push(ticket)
      }
      return tickets
    },
  }
}

test('what is under way is bounded for every class, and less important ones stop earlier', () => {
  const held = (kind: AdmissionClass) => opened(1_000).fill(kind).length
  assert.deepEqual([held('read'), held('write'), held('status'), held('vital')], [512, 256, 1_000, 1_000])
})

test('whoever floods even the vital routes is refused, and another still takes access away', () => {
  const { admission, fill } = opened(1_000)
  fill('vital', { application: 'flood' })
  assert.equal(admission.enter('vital', { application: 'flood', person: 'p0' }), null)
  assert.notEqual(admission.enter('vital', { application: 'operator', person: '' }), null)
  fill('vital', { application: 'operator' })
  assert.equal(admission.state().all.inFlight, 1_501, 'half of what is the operator’s, for a second person')
})

test('reads that fill their part leave room for writes, and both for the status of a write', () => {
  const { admission, fill } = opened(300)
  fill('read')
  assert.equal(fill('write').length, 45)
  assert.notEqual(admission.enter('status', { application: 'shop', person: 'p0' }), null)
})

test('an application that takes everything leaves room for another, up to a fair share', () => {
  const { admission, fill } = opened(100)
  fill('read', { application: 'noisy', people: 50 })
  const other = fill('read', { application: 'quiet', people: 3 })
  assert.equal(other.length, 12, 'from the 93 that those of one application may fill to 105')
  const refused = admission.enter('read', { application: 'noisy', person: 'another' })
  assert.equal(refused, null)
  // As those of the noisy one end, the others come up to half.
  assert.equal(admission.enter('read', { application: 'quiet', person: 'p0' }), null)
})

test('whatever an application fills everything with, also with what comes before reads, another still reads', () => {
  for (const kind of ['vital', 'status', 'write', 'read'] as const) {
    const { admission, fill } = opened(100)
    for (const one of [kind, 'status', 'vital'] as const) fill(one, { application: 'noisy' })
    const other = fill('read', { application: 'quiet', people: 3 })
    assert.ok(other.length >= 5, `beside ${kind}: ${other.length}`)
    assert.equal(admission.enter('read', { application: 'noisy', person: 'p0' }), null)
  }
})

test('the places that a noisy application gives back go to those who hold less', () => {
  const { fill, admission } = opened(100)
  const noisy = fill('read', { application: 'noisy' })
  let quiet = fill('read', { application: 'quiet' }).length
  for (const ticket of noisy) {
    ticket.leave()
    if (admission.enter('read', { application: 'noisy', person: 'p0' }) !== null) break
    quiet += fill('read', { application: 'quiet' }).length
  }
  assert.equal(quiet, 52, 'half of all, and of what is kept above it, for each of two')
})

test('of two applications that want everything one of weight 3 comes to three times what the other one has', () => {
  for (const [weight, share] of [
    [1, 50],
    [3, 75],
    [9, 90],
  ] as const) {
    const { admission, fill } = opened(100)
    let heavy = 0
    const enter = () => {
      while (admission.enter('status', { application: 'heavy', person: `p${heavy % 40}`, weight }) !== null) heavy++
    }
    const noisy = fill('status', { application: 'noisy', people: 40 })
    for (const ticket of noisy) {
      enter()
      ticket.leave()
      if (admission.enter('status', { application: 'noisy', person: 'p0' }) !== null) break
    }
    // Up to a quarter above the limit is kept for who holds less than their part.
    assert.ok(Math.abs(heavy - share * 1.25) <= 3, `weight ${weight}: ${heavy}`)
  }
})

test('a weight that is changed while requests are in flight counts from the next one on, and leaves nothing behind', () => {
  const { admission } = opened(100)
  const enter = (application: string, weight: number, person = 'p') =>
    admission.enter('status', { application, person, weight })
  const tickets = [enter('a', 1), enter('a', 5), enter('b', 2)]
  for (const ticket of tickets) ticket!.leave()
  const filled = Array.from({ length: 100 }, () => enter('a', 1))
  assert.ok(filled.every((ticket) => ticket !== null))
  let others = 0
  while (enter('b', 1, `p${others}`) !== null) others++
  assert.equal(others, 25, 'as if neither had ever had another weight')
})

test('within an application one person does not keep the others out', () => {
  const { admission, fill } = opened(100)
  fill('read', { people: 1 })
  assert.equal(admission.state().all.inFlight, 80)
  for (const person of ['a', 'b', 'c']) assert.notEqual(admission.enter('read', { application: 'shop', person }), null)
  assert.equal(admission.enter('read', { application: 'shop', person: 'p0' }), null)
})

test('the limit falls while the event loop is late or the database’s connections are, never below its floor', () => {
  for (const strain of [LATE, { loopDelayMs: 0, poolWaitMs: 150 }]) {
    const { admission, fill } = opened()
    fill('status')
    const before = admission.state().all.limit
    admission.adapt(strain)
    assert.equal(admission.state().all.limit, Math.floor(before * 0.8))
    for (let n = 0; n < 50; n++) admission.adapt(strain)
    assert.equal(admission.state().all.limit, 256)
  }
})

test('a limit that nobody reaches does not rise, and one that is used does up to the most', () => {
  const { admission, fill } = opened(1_500)
  admission.adapt(CALM)
  assert.equal(admission.state().all.limit, 1_024)
  for (let n = 0; n < 50; n++) {
    fill('status')
    admission.adapt(CALM)
  }
  assert.equal(admission.state().all.limit, 1_500)
})

test('a limit of which half is used does not rise', () => {
  const { admission, fill } = opened()
  fill('status', { upTo: 512 })
  for (let n = 0; n < 10; n++) admission.adapt(CALM)
  assert.equal(admission.state().all.limit, 1_024)
})

test('the quickest is forgotten after ten minutes: a node that is slower now is no overload for ever', () => {
  const { admission, fill, wait } = opened()
  const serve = (ms: number) => {
    const tickets = fill('write')
    for (const ticket of tickets.splice(0, 100)) ticket.leave(ms)
    wait(2_000)
    admission.adapt(CALM)
    for (const ticket of tickets) ticket.leave()
    return admission.state().writes.limit
  }
  serve(20)
  const before = admission.state().writes.limit
  assert.ok(serve(900) < before)
  wait(300_000)
  serve(900)
  wait(300_000)
  const since = serve(900)
  assert.ok(serve(900) > since)
})

test('writes that take long let fewer in, once for as long as they take; quick ones more again', () => {
  const { admission, fill, wait } = opened()
  const first = fill('write')
  assert.equal(first.length, 256)
  first.pop()!.leave(20)
  admission.adapt(CALM)
  const limit = admission.state().writes.limit
  for (const ticket of first.slice(0, 100)) ticket.leave(900)
  wait(900)
  admission.adapt(CALM)
  const lower = admission.state().writes.limit
  assert.equal(lower, Math.floor(255 * 0.9))
  for (const ticket of first.slice(100, 150)) ticket.leave(900)
  wait(100)
  admission.adapt(CALM)
  assert.equal(admission.state().writes.limit, lower, 'those began under the limit of before')
  const second = fill('write')
  for (const ticket of second.slice(0, 50)) ticket.leave(100)
  wait(100)
  admission.adapt(CALM)
  assert.ok(admission.state().writes.limit > lower)
  assert.ok(lower < limit)
})

test('a person of a noisy application finds room also beside another application', () => {
  const { admission, fill } = opened(100)
  fill('read', { application: 'other', upTo: 1 })
  fill('read', { application: 'noisy' })
  assert.equal(admission.enter('read', { application: 'noisy', person: 'p0' }), null)
  assert.notEqual(admission.enter('read', { application: 'noisy', person: 'p1' }), null)
})

test('one slow request in an idle process changes no limit, and a fall takes no more than it says', () => {
  const { admission, wait } = opened()
  const before = admission.state()
  const whose = { application: 'shop', person: 'p0' }
  for (const kind of ['read', 'write'] as const) {
    admission.enter(kind, whose)!.leave(20)
    admission.adapt(CALM)
    admission.enter(kind, whose)!.leave(2_000)
    wait(2_000)
    admission.adapt(LATE)
  }
  assert.deepEqual(admission.state(), before)
  const some = Array.from({ length: 20 }, (_, n) => admission.enter('write', { application: 'shop', person: `p${n}` })!)
  for (const ticket of some) ticket.leave(2_000)
  wait(2_000)
  admission.adapt(CALM)
  assert.equal(admission.state().writes.limit, Math.floor((before.writes.limit / 2) * 0.9))
})

test('reads that take long let fewer in, without touching writes', () => {
  const { admission, fill, wait } = opened()
  const reads = fill('read')
  reads.pop()!.leave(5)
  for (const ticket of reads.splice(0, 100)) ticket.leave(150)
  wait(200)
  admission.adapt(CALM)
  const { reads: now, writes } = admission.state()
  assert.ok(now.limit < 512 && writes.limit >= 256, `${now.limit} ${writes.limit}`)
  for (let n = 0; n < 60; n++) {
    for (const ticket of fill('read').splice(0, 5)) ticket.leave(150)
    wait(200)
    admission.adapt(CALM)
  }
  assert.ok(admission.state().reads.limit >= 128)
})

test('where every write takes long, because the node is far away, that is no overload', () => {
  const { admission, fill, wait } = opened()
  const [alone, ...others] = fill('write')
  alone!.leave(800)
  for (const ticket of others) ticket.leave(1_500)
  wait(2_000)
  admission.adapt(CALM)
  assert.ok(admission.state().writes.limit >= 256)
})

test('writes that were refused say nothing of how busy it is, and a ticket is given back once', () => {
  const { admission, fill } = opened()
  const tickets = fill('write')
  for (const ticket of tickets) {
    ticket.leave()
    ticket.leave(10_000)
  }
  admission.adapt(CALM)
  assert.deepEqual([admission.state().all.inFlight, admission.state().writes.inFlight], [0, 0])
  assert.ok(admission.state().writes.limit >= 256)
})

test('a thousand random comings and goings leave nothing behind', () => {
  const { admission } = opened(300)
  const kinds = ['vital', 'status', 'write', 'read'] as const
  const under: Ticket[] = []
  let seed = 7
  const random = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below
  for (let n = 0; n < 20_000; n++) {
    if (random(2) === 0) under.splice(random(under.length || 1), 1)[0]?.leave(random(2_000))
    const whose = { application: `a${random(5)}`, person: `p${random(7)}` }
    const ticket = admission.enter(kinds[random(4)]!, whose)
    if (ticket !== null) under.push(ticket)
    assert.equal(admission.state().all.inFlight, under.length)
    assert.ok(under.length <= 600)
    if (n % 50 === 0) admission.adapt({ loopDelayMs: random(80), poolWaitMs: random(200) })
  }
  for (const ticket of under) ticket.leave()
  assert.deepEqual([admission.state().all.inFlight, admission.state().writes.inFlight], [0, 0])
})
