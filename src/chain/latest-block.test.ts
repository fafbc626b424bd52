import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Hex } from '../ids.ts'
import { freshBlock, newestBlock } from './latest-block.ts'
import type { Chain } from './network.ts'
import { openedHead } from '../../test/opened.ts'
import { systemClock } from '../clock.ts'

const hashOf = (number: number): Hex => `0x${number.toString(16).padStart(64, '0')}`

/** A network with a clock and a newest block that the test sets. */
function place() {
  const world = { now: 0, newest: 1, asked: 0 }
  const call = async () => {
    world.asked++
    const { newest } = world
    return {
      number: `0x${newest.toString(16)}`,
      hash: hashOf(newest),
      parentHash: hashOf(newest - 1),
      timestamp: '0x1',
    }
  }
  const chain = {
    ...openedHead({ ...systemClock, ticks: () => world.now }),
    faucet: null,
    rpc: { call },
  } as unknown as Chain
  return { world, chain }
}
const turn = () => new Promise((resolve) => setImmediate(resolve))

test('a known head is used for 20 ms, and looked for again shortly before, by one look that nobody waits for', async () => {
  const { world, chain } = place()
  assert.equal((await newestBlock(chain)).number, 1)
  world.newest = 2
  world.now += 15
  assert.equal(freshBlock(chain)?.number, 1)
  assert.equal(world.asked, 1)
  world.now += 2
  for (let reader = 0; reader < 5; reader++) assert.equal(freshBlock(chain)?.number, 1)
  assert.equal(world.asked, 2)
  await turn()
  assert.equal(freshBlock(chain)?.number, 2)
  world.now += 21
  assert.equal(freshBlock(chain), null)
  assert.equal(world.asked, 2)
  assert.equal((await newestBlock(chain)).number, 2)
  assert.equal(world.asked, 3)
})

test('a look that fails costs those who did not wait for it nothing', async () => {
  const { world, chain } = place()
  await newestBlock(chain)
  chain.rpc.call = () => Promise.reject(new Error('away'))
  world.now += 18
  assert.equal(freshBlock(chain)?.number, 1)
  await turn()
  assert.equal((await newestBlock(chain)).number, 1)
  world.now += 21
  await assert.rejects(newestBlock(chain), /away/)
})

/** Like `place`, in the process of the follower, with blocks every twelve seconds. */
function steadyPlace() {
  const { world, chain } = place()
  for (let number = 1; number <= 20; number++) chain.head.pace.note({ number, timestamp: number * 12 })
  chain.head.setFollowed(60_000)
  world.newest = 100
  return { world, chain }
}

test('where blocks come regularly the head is believed for a second, and shortly before the next one for less', async () => {
  const { world, chain } = steadyPlace()
  await newestBlock(chain)
  world.now += 700
  assert.equal(freshBlock(chain)?.number, 100)
  world.now += 301
  assert.equal(freshBlock(chain), null)
  await newestBlock(chain)
  world.now += 8_650
  await newestBlock(chain)
  assert.equal(world.asked, 3)
  world.now += 170
  assert.equal(freshBlock(chain)?.number, 100)
  world.now += 71
  assert.equal(freshBlock(chain), null)
  // A replica that does not follow may be asked about a write that another replica has seen mined.
  chain.head.setFollowed(0)
  await newestBlock(chain)
  world.now += 21
  assert.equal(freshBlock(chain), null)
})

test('in development every read asks, however regular the blocks are', async () => {
  const { chain } = steadyPlace()
  chain.isDevelopment = true
  await newestBlock(chain)
  assert.equal(freshBlock(chain), null)
})

test('a subscription that announces nothing lets the head stand for two seconds, and not at all when it announces or ends', async () => {
  const { world, chain } = place()
  const heads = { isLive: true, above: 0 }
  chain.newHeads = {
    isLive: () => heads.isLive,
    hasAbove: (number) => heads.above > number,
    onHint: () => () => {},
    close: () => {},
  }
  chain.head.setFollowed(60_000)
  await newestBlock(chain)
  world.now += 1_400
  assert.equal(freshBlock(chain)?.number, 1)
  heads.above = 2
  assert.equal(freshBlock(chain), null)
  heads.above = 1
  heads.isLive = false
  assert.equal(freshBlock(chain), null)
  heads.isLive = true
  world.now += 590
  assert.equal(freshBlock(chain)?.number, 1)
  await turn()
  chain.head.ageMs = () => 2_001
  assert.equal(freshBlock(chain), null)
})
