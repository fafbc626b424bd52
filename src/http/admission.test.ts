import assert from 'node:assert/strict'
import test from 'node:test'
import { openAdmission, type AdmissionClass, type Leave } from './admission.ts'

function opened(most: number) {
  const admission = openAdmission(most)
  return {
    admission,
    /** lets in as many of an application as it can */
    fill(kind: AdmissionClass, application = 'shop', weight = 1): Leave[] {
      const held: Leave[] = []
      for (let leave; (leave = admission.enter(kind, { application, weight })) !== null;) held.push(leave)
      return held
    },
  }
}

test('what is under way is bounded for every class, and one that is full takes no room from the others', () => {
  const { fill } = opened(1_000)
  const held = (['read', 'write', 'status', 'vital'] as const).map((kind) => fill(kind).length)
  assert.deepEqual(held, [500, 250, 250, 0])
})

test('an application that takes everything leaves room for another, which comes up to a fair part', () => {
  const { admission, fill } = opened(200)
  const noisy = fill('read', 'noisy')
  let quiet = fill('read', 'quiet').length
  assert.equal(quiet, 25, 'the reserve above the limit')
  for (const leave of noisy) {
    leave()
    if (admission.enter('read', { application: 'noisy' }) !== null) break
    quiet += fill('read', 'quiet').length
  }
  assert.equal(quiet, 50)
})

test('of two applications that want everything one of weight 3 comes to three times what the other one has', () => {
  for (const [weight, part] of [
    [1, 50],
    [3, 75],
    [9, 90],
  ] as const) {
    const { admission, fill } = opened(200)
    let heavy = 0
    for (const leave of fill('read', 'light')) {
      heavy += fill('read', 'heavy', weight).length
      leave()
      if (admission.enter('read', { application: 'light' }) !== null) break
    }
    assert.equal(heavy, part, `weight ${weight}`)
  }
})

test('a weight that is changed while requests are in flight counts from the next one on, and leaves nothing behind', () => {
  const { admission, fill } = opened(200)
  const enter = (application: string, weight: number) => admission.enter('read', { application, weight })
  for (const leave of [enter('a', 1), enter('a', 5), enter('b', 2)]) leave!()
  fill('read', 'a')
  assert.equal(fill('read', 'b').length, 25)
})

test('what counts for many is let in where there is room for one, and is given back as a whole and once', () => {
  const { admission, fill } = opened(200)
  const leave = admission.enter('read', { application: 'shop' }, 120)!
  assert.equal(admission.inFlight().reads, 120)
  assert.deepEqual(fill('read'), [])
  leave()
  leave()
  assert.equal(admission.inFlight().reads, 0)
})

test('twenty thousand random comings and goings leave nothing behind, and are never more than the reserves allow', () => {
  const { admission } = opened(100)
  const kinds = ['vital', 'status', 'write', 'read'] as const
  const under: Leave[] = []
  let seed = 7
  const random = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below
  const sum = () => Object.values(admission.inFlight()).reduce((all, count) => all + count)
  for (let n = 0; n < 20_000; n++) {
    if (random(2) === 0) under.splice(random(under.length || 1), 1)[0]?.()
    const leave = admission.enter(kinds[random(4)]!, { application: `a${random(5)}`, weight: 1 + random(3) })
    if (leave !== null) under.push(leave)
    assert.equal(sum(), under.length)
    assert.ok(under.length <= 125 + 3)
  }
  for (const leave of under) leave()
  assert.equal(sum(), 0)
})

test('whoever floods an application, sign-in or the vital routes leaves room to another there, who comes up to a fair part', () => {
  for (const kind of ['read', 'status', 'vital'] as const) {
    const { admission } = opened(400)
    const fillAs = (person: string): Leave[] => {
      const held: Leave[] = []
      for (let leave; (leave = admission.enter(kind, { application: 'one', person })) !== null;) held.push(leave)
      return held
    }
    const flood = fillAs('flood')
    let other = fillAs('other').length
    assert.equal(other, flood.length / 4, `${kind}: the reserve above the limit`)
    for (const leave of flood) {
      leave()
      if (admission.enter(kind, { application: 'one', person: 'flood' }) !== null) break
      other += fillAs('other').length
    }
    assert.equal(other, flood.length / 2, kind)
  }
})

test('many persons of one application take no room that is left to another application', () => {
  const { admission, fill } = opened(200)
  let crowd = 0
  while (admission.enter('read', { application: 'crowd', person: `p${crowd}` }) !== null) crowd++
  assert.equal(crowd, 125, 'alone it has the reserve too')
  const beside = opened(200)
  beside.admission.enter('read', { application: 'quiet' })
  for (crowd = 0; beside.admission.enter('read', { application: 'crowd', person: `p${crowd}` }) !== null;) crowd++
  assert.equal(crowd, 99)
  assert.equal(beside.fill('read', 'quiet').length, 25, 'the whole reserve')
  assert.equal(fill('read', 'quiet').length, 0)
})
