import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../../test/kit/until.ts'
import { world, type Answer, type World } from '../../test/world.ts'
import type { Chain } from '../chain/network.ts'
import { deploy } from '../devnet/deploy.ts'
import type { Hex } from '../ids.ts'
import { findFinished, keepFinished } from './response-cache.ts'
import { openedHead } from '../../test/opened.ts'
import { stoppedClock } from '../../test/kit/clock.ts'

let here: World
let probe: Hex
let chain: Chain
/** methods of the calls to the node */
const asked: string[] = []
before(async () => {
  here = await world()
  probe = (await deploy(here.facts.rpcUrl, ['Probe']))[0]!
  chain = [...here.app.chains.values()][0]!
  const { call } = chain.rpc
  chain.rpc.call = (method, params, options) => {
    asked.push(method)
    return call(method, params, options)
  }
  // The newest block may be 20 ms old, except on development chains.
  Object.assign(chain, { faucet: null, isDevelopment: false })
  await until('the block with the contract is read from', async () => (await read(COUNT)).status === 200)
})
after(() => here.close())

const READ = '/v1/contracts/method/read'
const read = (abi: string, args: string[] = [], more: object = {}, who = here.alice): Promise<Answer> =>
  who.post(READ, { address: probe, abi, args, ...more })
const COUNT = 'count() public view returns (uint256)'

/**
 * Makes reads while the newest block remains the same and is not requested again. Repeats `work` until that succeeds.
 */
async function withinOneLook<T>(work: () => Promise<T>): Promise<T> {
  let result: T
  await until('they are read within one look at the newest block', async () => {
    await read(COUNT)
    const before = chain.head.current()!.hash
    asked.length = 0
    result = await work()
    return !asked.includes('eth_getBlockByNumber') && chain.head.current()!.hash === before
  })
  return result!
}

test('equal reads within a block are asked, and answered, once: to the byte, whoever asks', async () => {
  const abi = 'list() public pure returns (uint256[] numbers)'
  const [first, ...others] = await withinOneLook(async () => {
    const answers = [await read(abi)]
    asked.length = 0
    for (const who of [here.alice, here.bob, here.alice]) answers.push(await read(abi, [], {}, who))
    return answers
  })
  assert.ok(!asked.includes('eth_call'))
  for (const again of others) {
    assert.deepEqual([again.status, again.body], [200, first!.body])
    for (const name of ['content-type', 'x-block-number', 'content-length', 'cache-control'])
      assert.equal(again.headers.get(name), first!.headers.get(name), name)
  }
  const kept = findFinished(chain, chain.head.current()!.hash, JSON.stringify([probe, abi, []]))
  assert.deepEqual(JSON.parse(kept!), first!.body)
})

test('a read that nobody repeats is not kept', async () => {
  const abi = 'echoUint256(uint256) public pure returns (uint256)'
  let number = 0
  const keptOf = (args: string[]) => findFinished(chain, chain.head.current()!.hash, JSON.stringify([probe, abi, args]))
  const [once, twice] = await withinOneLook(async () => {
    // Use other arguments in each try, because reads of an earlier try are repeated ones.
    const [first, second] = [[String(number++)], [String(number++)]]
    for (const args of [first, second, second]) assert.equal((await read(abi, args)).status, 200)
    return [keptOf(first), keptOf(second)]
  })
  assert.equal(once, undefined)
  assert.ok(twice !== undefined)
})

test('reads that differ in anything are answered each on its own', async () => {
  const who = 'whoami() public view returns (address)'
  for (const [abi, args] of [
    [who, []],
    ['echoString(string) public pure returns (string)', ['a","b']],
    ['echoString(string) public pure returns (string text)', ['a","b']],
    ['echoString(string memory x) public pure returns (string)', ['a\0b']],
  ] as [string, string[]][]) {
    const [once, again] = await withinOneLook(async () => [await read(abi, args), await read(abi, args)])
    assert.deepEqual([once!.status, once!.body], [200, again!.body])
    assert.equal(again!.body.response, args[0] ?? `0x${'0'.repeat(40)}`)
  }
  const echo = 'echoString(string) public pure returns (string)'
  const [good, wrongCount, noView] = await withinOneLook(async () => [
    await read(echo, ['a","b']),
    await read(echo, ['a', 'b']),
    await read('echoString(string) public returns (string)', ['a","b']),
  ])
  assert.equal(good!.status, 200)
  assert.deepEqual([wrongCount!.status, wrongCount!.body.code], [422, 'invalid_argument'])
  assert.equal(noView!.body.code, 'abi_not_view')
})

test('msg.sender is never another user’s', async () => {
  const abi = 'whoami() public view returns (address)'
  const senders = await withinOneLook(async () => [
    await read(abi),
    await read(abi, [], { sender: true }),
    await read(abi, [], { sender: true }, here.bob),
    await read(abi, [], { sender: false }, here.bob),
  ])
  assert.deepEqual(
    senders.map(({ body }) => body.response),
    [`0x${'0'.repeat(40)}`, here.alice.address, here.bob.address, `0x${'0'.repeat(40)}`],
  )
})

test('an answer is found at its own block only, and only while that is the newest', () => {
  const place = openedHead(stoppedClock()) as Chain
  const { head } = place
  const block = (hash: Hex) => ({ number: 1, hash, parentHash: '0x0' as Hex, timestamp: 1, baseFee: null })
  head.set(block('0xa'))
  keepFinished(place, '0xa', 'key', 'text')
  assert.equal(findFinished(place, '0xa', 'key'), 'text')
  assert.equal(findFinished(place, '0xb', 'key'), undefined)
  head.set(block('0xb'))
  keepFinished(place, '0xb', 'other', 'text')
  keepFinished(place, '0xa', 'late', 'text')
  assert.equal(findFinished(place, '0xa', 'late'), undefined)
  assert.equal(findFinished(place, '0xb', 'other'), 'text')
})

test('what is kept is bounded: in number, and in the length of each', () => {
  const place = openedHead(stoppedClock()) as Chain
  const { head } = place
  head.set({ number: 1, hash: '0xa', parentHash: '0x0', timestamp: 1, baseFee: null })
  for (let number = 0; number <= 2_000; number++) keepFinished(place, '0xa', `key ${number}`, 'text')
  assert.equal(findFinished(place, '0xa', 'key 0'), undefined)
  assert.equal(findFinished(place, '0xa', 'key 1'), 'text')
  keepFinished(place, '0xa', 'long', 'x'.repeat(5_000))
  keepFinished(place, '0xa', 'k'.repeat(2_000), 'text')
  assert.equal(findFinished(place, '0xa', 'long'), undefined)
  assert.equal(findFinished(place, '0xa', 'k'.repeat(2_000)), undefined)
})
