import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { newMember, type Member } from './node-health.ts'
import { startProbes } from './probe.ts'
import { stoppedClock } from '../../../test/kit/clock.ts'

/** A pool whose nodes count their requests, and a clock that the test advances. */
function probed(t: TestContext, intervalMs: number | null) {
  const clock = stoppedClock()
  const asked = [0, 0]
  const failing = new Set<number>()
  const members = asked.map((_, index): Member => {
    const ask = async () => {
      asked[index]!++
      if (failing.has(index)) throw new Error('away')
      return ['0x10']
    }
    return { ...newMember(index + 1, { ask, close: () => {} }), identityState: 'verified', head: 15 }
  })
  const identity = { chainId: 1, genesisHash: '0x00' } as const
  const stop = startProbes(members, { clock, identity, onNode: () => {}, onReadsByNumber: () => {}, intervalMs: () => intervalMs }) // prettier-ignore
  t.after(stop)
  return {
    members,
    failing,
    async seconds(count: number): Promise<number[]> {
      const before = [...asked]
      for (let second = 0; second < count; second++) await clock.advance(1_000)
      return asked.map((now, index) => now - before[index]!)
    },
  }
}

for (const [intervalMs, expected, name] of [
  [12_000, 12, 'every five seconds where blocks come every twelve'],
  [5_000, 30, 'every other second where they come every five'],
  [1_000, 60, 'every second where they come each second'],
  [null, 60, 'every second where nobody knows'],
] as const)
  test(`healthy nodes are probed ${name}, all at the same time`, async (t) => {
    const { seconds, members } = probed(t, intervalMs)
    assert.deepEqual(await seconds(60), [expected, expected])
    assert.deepEqual(members.map(({ head }) => head), [16, 16]) // prettier-ignore
  })

test('a node that failed once is probed every second until it answers, whatever the pace of the others', async (t) => {
  const { seconds, failing, members } = probed(t, 12_000)
  await seconds(1)
  // A request of another caller failed at this node.
  members[1]!.failuresInARow = 1
  failing.add(1)
  assert.deepEqual(await seconds(1), [0, 1])
  failing.delete(1)
  assert.deepEqual(await seconds(1), [0, 1])
  assert.deepEqual(await seconds(1), [0, 0])
  assert.deepEqual(await seconds(20), [4, 4])
})
