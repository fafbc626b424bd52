import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { underDeadline } from '../../deadline.ts'
import { AppError } from '../../errors.ts'
import { together, type GroupLimits } from './group-commit.ts'
import { stoppedClock } from '../../../test/kit/clock.ts'

const clock = stoppedClock()
const LIMITS: GroupLimits = { most: 100, mostBytes: 1_000, lanes: 1 }

/** Returns a commit that ends when the test releases it, and records its members. */
function gated(settle: (items: number[]) => number[] = (items) => items.map((item) => item * 10)) {
  const groups: number[][] = []
  const gates: (() => void)[] = []
  const commit = async (items: number[]) => {
    groups.push(items)
    await new Promise<void>((resolve) => gates.push(resolve))
    return settle(items)
  }
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  /** releases all commits until none is running */
  const release = async () => {
    for (await turn(); gates.length > 0; await turn()) for (const open of gates.splice(0)) open()
  }
  return { groups, commit, release, turn }
}

test('what arrives while a commit is under way shares the next one, in the order it came', async () => {
  const { groups, commit, release, turn } = gated()
  const add = together(clock, LIMITS, () => 1, commit)
  const first = [add(1), add(2)]
  await turn()
  const later = [add(3), add(4), add(5)]
  await turn()
  assert.deepEqual(groups, [[1, 2]])
  await release()
  assert.deepEqual(groups, [
    [1, 2],
    [3, 4, 5],
  ])
  assert.deepEqual(await Promise.all([...first, ...later]), [10, 20, 30, 40, 50])
})

test('a group holds no more members and bytes than allowed, and a member larger than that goes alone', async () => {
  const { groups, commit, release } = gated()
  const add = together(clock, { ...LIMITS, most: 3 }, (item) => item * 100, commit)
  const all = Promise.all([1, 1, 1, 1, 5, 6, 20, 1].map(add))
  await release()
  assert.deepEqual(groups, [[1, 1, 1], [1, 5], [6], [20], [1]])
  await all
})

test('a member that the database refuses fails alone, and its neighbours are committed', async () => {
  const { commit, release } = gated((items) => {
    if (items.includes(3)) throw new Error('invalid input syntax')
    return items
  })
  const add = together(clock, LIMITS, () => 1, commit)
  const all = Promise.allSettled([1, 2, 3, 4].map(add))
  await release()
  assert.deepEqual(
    (await all).map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'fulfilled'],
  )
})

test('a commit whose end is unknown is not tried again: every member is told', async () => {
  const { groups, commit, release } = gated(() => {
    throw new AppError('database_unavailable', 'The connection was lost.')
  })
  const add = together(clock, LIMITS, () => 1, commit)
  const all = Promise.allSettled([1, 2, 3].map(add))
  await release()
  assert.deepEqual(
    (await all).map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  )
  assert.deepEqual(groups, [[1, 2, 3]])
})

test('who waited too long is dropped before the commit where nothing was done yet, and nowhere else', async () => {
  for (const dropsLate of [true, false]) {
    const { groups, commit, release, turn } = gated()
    const add = together(clock, { ...LIMITS, dropsLate }, () => 1, commit)
    const first = add(1)
    await turn()
    const late = underDeadline(clock.ticks() - 1, () => add(2))
    const others = [underDeadline(clock.ticks() + 60_000, () => add(3)), add(4)]
    const outcomes = Promise.allSettled([late, first, ...others])
    await release()
    const [mine, ...rest] = await outcomes
    if (dropsLate) {
      assert.ok(mine.status === 'rejected' && (mine.reason as AppError).code === 'overloaded')
      assert.deepEqual(groups, [[1], [3, 4]])
    } else assert.deepEqual(groups, [[1], [2, 3, 4]])
    assert.ok(rest.every(({ status }) => status === 'fulfilled'))
  }
})

test('of a group that failed a member is not tried alone once nobody waits for it any more', async () => {
  const tried: number[][] = []
  const late = clock.ticks() + 50
  const add = together(
    clock,
    { ...LIMITS, dropsLate: true },
    () => 1,
    async (items: number[]) => {
      tried.push(items)
      // The commit of the first member alone takes until after the deadline of the last one.
      if (items.length === 1 && clock.ticks() <= late) await clock.advance(51)
      if (items.length > 1) throw new Error('one of them cannot be committed')
      return items
    },
  )
  const patient = [add(1), add(2)]
  const gone = underDeadline(late, () => add(3))
  const refused = assert.rejects(gone, (error) => error instanceof AppError && error.code === 'overloaded')
  assert.deepEqual(await Promise.all(patient), [1, 2])
  await refused
  assert.deepEqual(tried, [[1, 2, 3], [1], [2]])
})

test('what waits for a commit that hangs is bounded: one more is refused as overloaded', async () => {
  const { commit, release, turn } = gated()
  const add = together(clock, { ...LIMITS, most: 20_000, mostBytes: 100_000 }, () => 1, commit)
  const first = add(0)
  await turn()
  const waiting = Array.from({ length: 20_000 }, (_, n) => add(n + 1))
  assert.throws(() => void add(20_001), (error) => error instanceof AppError && error.code === 'overloaded') // prettier-ignore
  await release()
  assert.equal(await first, 0)
  assert.equal((await Promise.all(waiting)).at(-1), 200_000)
})
