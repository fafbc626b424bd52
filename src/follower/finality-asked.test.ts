import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Block } from '../chain/rpc/block.ts'
import { askFinality } from './finality.ts'
import type { Follower } from './follower.ts'

/** A follower of a node whose final block lies this number of blocks below its newest. */
function place(below: number) {
  const world = { asked: 0, below, newest: 0 }
  const hash = `0x${'ab'.repeat(32)}` as const
  const rpc = {
    call: async () => {
      world.asked++
      return { number: `0x${(world.newest - world.below).toString(16)}`, hash, parentHash: hash, timestamp: '0x1' }
    },
  }
  const follower = { chain: { finality: 'finalized', rpc }, final: null, stopping: new AbortController().signal }
  const at = async (number: number) => {
    world.newest = number
    return (await askFinality(follower as unknown as Follower, { number } as Block)).number
  }
  return { world, at }
}

test('what is final is asked again when the newest block has moved by a sixteenth of the way to it, or by eight', async () => {
  for (const [below, blocks] of [
    [0, 1],
    [12, 1],
    [64, 4],
    [7_200, 8],
  ] as const) {
    const { world, at } = place(below)
    const first = await at(10_000)
    for (let ahead = 1; ahead < blocks; ahead++) assert.equal(await at(10_000 + ahead), first)
    assert.equal(world.asked, 1, `${below}`)
    assert.equal(await at(10_000 + blocks), first + blocks)
    assert.equal(world.asked, 2, `${below}`)
  }
})

test('where the newest block is a lower one it is asked again', async () => {
  const { world, at } = place(64)
  await at(10_000)
  assert.equal(await at(9_999), 9_935)
  assert.equal(world.asked, 2)
})
