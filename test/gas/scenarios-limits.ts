import assert from 'node:assert/strict'
import { dispatchData } from './dispatch.ts'
import { executeData } from '../../src/gas/operation.ts'
import type { Hex } from '../../src/ids.ts'
import { said, artefact, ETHER, hexOf, type Account, type Sent, type Stage } from './stage.ts'
import { errorOf, failed, textError, words, type Scenario } from './scenario.ts'
import { decodeEventLog, decodeFunctionResult } from 'viem'

/** What the target noted of a call that it passed on. */
function forwarded({ logs }: Sent): { succeeded: boolean; answer: Hex }[] {
  const { abi } = artefact('GasTarget')
  return logs.flatMap(({ topics, data }) => {
    try {
      const { eventName, args } = decodeEventLog({ abi, topics: topics as [Hex], data })
      return eventName === 'Forwarded' ? [args as unknown as { succeeded: boolean; answer: Hex }] : []
    } catch {
      return []
    }
  })
}

async function cancel(stage: Stage, sequences: bigint[], from: Account = stage.sponsor): Promise<Sent> {
  return stage.send(from, stage.dispatcher, stage.encode('Dispatcher', 'cancel', [stage.admin.hex, sequences]))
}

/** Gas, what is returned, re-entry, money. */
export const limits: readonly Scenario[] = [
  [
    'who sends it cannot have an operation fail for want of gas: it gets what it signed, or nothing is used up',
    async (stage) => {
      const alice = await stage.user('alice')
      // It needs almost all of what it signed: with a little less it fails.
      const data = stage.encode('GasTarget', 'ping')
      const call = stage.call(stage.target, data)
      await stage.dispatch([await stage.operation(alice, [call])])
      const needed = await leastGas(stage, alice)
      const tooLittle = await stage.operation(alice, [call], { gasLimit: needed - 1 })
      assert.match(words(await stage.dispatch([tooLittle])).join(), /^Failed/)
      const met = new Set<string>()
      for (let gas = needed + 20_000; gas < needed + 90_000; gas += 1_500) {
        await stage.apart(async () => {
          const operation = await stage.operation(alice, [call], { gasLimit: needed })
          const sent = await stage.dispatch([operation], { gas })
          assert.equal(await stage.isUsed(operation), sent.status === '0x1')
          for (const outcome of sent.outcomes) assert.equal(said(outcome), 'Done', `with ${gas} gas`)
          met.add(sent.status)
        })
      }
      assert.deepEqual([...met].toSorted(), ['0x0', '0x1'], 'both sides of the limit are met')
    },
  ],
  [
    'an operation with a large limit gets all of it, where the rule of 63/64 would hand on less',
    async (stage) => {
      const alice = await stage.user('alice')
      const operation = await stage.operation(alice, [stage.on('burn')], { gasLimit: 6_000_000 })
      // 6,000,000 are there, and 64/63 of it are not.
      const sent = await stage.dispatch([operation], { gas: 6_080_000 })
      assert.equal(sent.status, '0x0')
      assert.equal(await stage.isUsed(operation), false)
      assert.deepEqual(words(await stage.dispatch([operation], { gas: 6_250_000 })), [failed(0, '0x')])
    },
  ],
  [
    'an operation that burns gas burns what it signed and no more',
    async (stage) => {
      const [alice, bob] = await stage.users('pair', 2)
      const burning = await stage.operation(alice!, [stage.on('burn')], { gasLimit: 500_000 })
      const sent = await stage.dispatch([burning, await stage.operation(bob!, [stage.on('ping')])])
      assert.deepEqual(words(sent), [failed(0, '0x'), 'Done'])
      assert.ok(sent.gasUsed > 500_000n && sent.gasUsed < 700_000n, String(sent.gasUsed))
    },
  ],
  [
    'of what is returned 256 bytes are kept, and nobody pays for more but who signed it',
    async (stage) => {
      const [alice, bob] = await stage.users('pair', 2)
      const bomb = (fails: boolean) => stage.on('bomb', [300_000n, fails])
      const sent = await stage.dispatch([
        await stage.operation(alice!, [bomb(false)], { gasLimit: 500_000 }),
        await stage.operation(bob!, [bomb(true)], { gasLimit: 500_000 }),
      ])
      assert.deepEqual(words(sent), ['Done', failed(0, `0x${'00'.repeat(256)}`)])
      // Memory for 300,000 bytes costs 200,000 gas, each time it is copied.
      assert.ok(sent.gasUsed < 600_000n, String(sent.gasUsed))
      const whole = await stage.dispatch([
        await stage.operation(alice!, [stage.on('failWith', [`0x${'ab'.repeat(256)}`])]),
      ])
      assert.deepEqual(words(whole), [failed(0, `0x${'ab'.repeat(256)}`)])
    },
  ],
  [
    'a target that is a sponsor itself and sends the operation again from within has nothing done twice',
    async (stage) => {
      const alice = await stage.user('alice')
      const { admin, dispatcher, target } = stage
      await stage.send(admin, dispatcher, stage.encode('Dispatcher', 'setSponsor', [hexOf(target), true]))
      // The operation that is sent again is the one that does it, by its id: any signature will do to use an id up.
      const inner = await stage.operation(alice, [stage.on('ping')], { sequence: 77n })
      const again = stage.on('forward', [hexOf(dispatcher), hexOf(dispatchData([inner]))])
      const outer = await stage.operation(alice, [again, stage.on('ping')], { sequence: 77n })
      const sent = await stage.dispatch([outer])
      assert.deepEqual(words(sent), ['Skipped', 'Done'])
      assert.deepEqual(forwarded(sent).map(({ succeeded }) => succeeded), [true]) // prettier-ignore
      assert.equal(await stage.pings(), 1n)
      // One that is new is done, once.
      const fresh = await stage.operation(alice, [stage.on('ping')])
      const carried = stage.on('forward', [hexOf(dispatcher), hexOf(dispatchData([fresh]))])
      const carrier = await stage.operation(alice, [carried], { gasLimit: 900_000 })
      assert.deepEqual(words(await stage.dispatch([carrier, fresh])), ['Done', 'Done', 'Skipped'])
      assert.equal(await stage.pings(), 2n)
    },
  ],
  [
    'an outcome that was told stands: an operation that fails takes those along that it carried',
    async (stage) => {
      const alice = await stage.user('alice')
      const { admin, dispatcher, target } = stage
      await stage.send(admin, dispatcher, stage.encode('Dispatcher', 'setSponsor', [hexOf(target), true]))
      const fresh = await stage.operation(alice, [stage.on('ping')])
      const carried = stage.on('forward', [hexOf(dispatcher), hexOf(dispatchData([fresh]))])
      const carrier = await stage.operation(alice, [carried, stage.on('failWith', ['0x'])], { gasLimit: 900_000 })
      // Its own event went with it: nothing was told, nothing done, the id is free.
      assert.deepEqual(words(await stage.dispatch([carrier])), [failed(1, '0x')])
      assert.equal(await stage.isUsed(fresh), false)
      assert.deepEqual(words(await stage.dispatch([fresh])), ['Done'])
    },
  ],
  [
    'neither a target nor the account itself calls the delegate or the dispatcher from within',
    async (stage) => {
      const [alice, bob] = await stage.users('pair', 2)
      const { operation, signature } = await stage.operation(bob!, [stage.on('ping')])
      const data = executeData(operation, signature)
      const byTarget = await stage.dispatch([
        await stage.operation(alice!, [stage.on('forward', [bob!.hex, hexOf(data)])]),
      ])
      const notDispatcher = { succeeded: false, answer: errorOf('Delegate', 'NotDispatcher') }
      assert.deepEqual([words(byTarget), forwarded(byTarget)], [['Done'], [notDispatcher]])
      const own = executeData({ ...operation, account: alice!.address }, signature)
      for (const to of [alice!, bob!]) {
        const sent = await stage.dispatch([await stage.operation(alice!, [stage.call(to.address, own)])])
        assert.deepEqual(words(sent), [failed(0, errorOf('Delegate', 'NotDispatcher'))])
      }
      const nested = dispatchData([await stage.operation(bob!, [stage.on('ping')])])
      const sent = await stage.dispatch([await stage.operation(alice!, [stage.call(stage.dispatcher, nested)])])
      assert.deepEqual(words(sent), [failed(0, errorOf('Dispatcher', 'NotSponsor'))])
      assert.equal(await stage.pings(), 0n)
    },
  ],
  [
    'value comes from the account’s own coins only, and a sponsor pays the fee and nothing else',
    async (stage) => {
      const { dispatcher, sponsor } = stage
      const [alice, bob] = await stage.users('pair', 2)
      await stage.give(alice!, 5n)
      const before = await stage.balanceOf(sponsor)
      const sent = await stage.dispatch([
        await stage.operation(alice!, [stage.on('ping', [], 3n)]),
        await stage.operation(alice!, [stage.on('ping', [], 3n)]),
        await stage.operation(bob!, [stage.on('ping', [], 1n)]),
      ])
      assert.deepEqual(words(sent), ['Done', failed(0, '0x'), failed(0, '0x')])
      assert.equal(await stage.balanceOf(alice!), 2n)
      assert.equal(await stage.balanceOf({ hex: hexOf(stage.target) }), 3n)
      assert.equal(await stage.balanceOf(sponsor), before - sent.fee)
      // It holds nothing that it could pay with, and takes nothing.
      const paid = await stage.dispatch([await stage.operation(alice!, [stage.on('ping')])], { value: 1n })
      assert.equal(paid.status, '0x0')
      assert.equal((await stage.send(sponsor, dispatcher, Buffer.alloc(0), { value: 1n, gas: 100_000 })).status, '0x0')
      assert.equal(await stage.balanceOf({ hex: hexOf(dispatcher) }), 0n)
    },
  ],
  [
    'value of any size is passed on as it was signed',
    async (stage) => {
      const alice = await stage.user('alice')
      for (const value of [1n, 255n, 256n, ETHER, 2n ** 88n]) {
        await stage.give(alice, value)
        const held = await stage.balanceOf({ hex: hexOf(stage.target) })
        assert.deepEqual(words(await stage.dispatch([await stage.operation(alice, [stage.on('ping', [], value)])])), ['Done']) // prettier-ignore
        assert.equal(await stage.balanceOf({ hex: hexOf(stage.target) }), held + value)
      }
      const tooMuch = await stage.operation(alice, [stage.on('ping', [], 2n ** 256n - 1n)])
      assert.deepEqual(words(await stage.dispatch([tooMuch])), [failed(0, '0x')])
    },
  ],
  [
    'of several calls all are done or none, and the one that failed is named',
    async (stage) => {
      const [alice, bob] = await stage.users('pair', 2)
      await stage.mint(alice!, 10n)
      const [give, ping] = [stage.transfer(bob!, 4n), stage.on('ping')]
      const whole = await stage.dispatch([await stage.operation(alice!, [give, ping, give])])
      assert.deepEqual(words(whole), ['Done'])
      const third = await stage.dispatch([await stage.operation(alice!, [ping, stage.transfer(bob!, 1n), stage.transfer(bob!, 9n)])]) // prettier-ignore
      assert.match(words(third)[0]!, /^Failed CallFailed 2 0xe450d38c/)
      assert.deepEqual([await stage.held(alice!), await stage.held(bob!), await stage.pings()], [2n, 8n, 1n])
    },
  ],
  [
    'a target that looks at tx.origin refuses, and its reason is told',
    async (stage) => {
      const alice = await stage.user('alice')
      const sent = await stage.dispatch([await stage.operation(alice, [stage.on('onlyOrigin')])])
      assert.deepEqual(words(sent), [failed(0, textError('no contracts'))])
    },
  ],
  [
    'what a sponsor cancels is never done, and what was done is not cancelled; nobody else cancels',
    async (stage) => {
      const alice = await stage.user('alice')
      const [first, second, third] = [
        await stage.operation(alice, [stage.on('ping')]),
        await stage.operation(alice, [stage.on('ping')]),
        await stage.operation(alice, [stage.on('ping')]),
      ]
      for (const from of [stage.stranger, stage.admin])
        assert.equal((await cancel(stage, [first.operation.sequence], from)).status, '0x0')
      assert.deepEqual(words(await cancel(stage, [first.operation.sequence])), ['Cancelled'])
      assert.deepEqual(words(await stage.dispatch([first, second])), ['Skipped', 'Done'])
      const sequences = [first, second, third].map(({ operation: { sequence } }) => sequence)
      assert.deepEqual(words(await cancel(stage, sequences)), ['Skipped', 'Skipped', 'Cancelled'])
      assert.equal(await stage.pings(), 1n)
    },
  ],
  [
    'ids side by side, and in other spaces, do not touch each other',
    async (stage) => {
      const alice = await stage.user('alice')
      for (const sequence of [0n, 1n, 255n, 256n, 257n, 2n ** 96n - 1n]) {
        const operation = await stage.operation(alice, [stage.on('ping')], { sequence })
        assert.equal(await stage.isUsed(operation), false)
        assert.deepEqual(words(await stage.dispatch([operation])), ['Done'])
        assert.equal(await stage.isUsed(operation), true)
      }
      const { stranger, dispatcher } = stage
      await stage.send(stranger, dispatcher, stage.encode('Dispatcher', 'setSponsor', [stranger.hex, true]))
      const theirs = await stage.operation(alice, [stage.on('ping')], { sequence: 255n, space: stranger.address })
      assert.deepEqual(words(await stage.dispatch([theirs], { from: stranger })), ['Done'])
    },
  ],
  [
    'calldata that is cut off, or says more than it has, does nothing at all',
    async (stage) => {
      const [alice, bob] = await stage.users('pair', 2)
      const operations = [
        await stage.operation(alice!, [stage.on('ping')]),
        await stage.operation(bob!, [stage.on('ping')]),
      ]
      const whole = dispatchData(operations)
      const length = 2 * 108 + 2 * 29
      assert.equal(whole.readUInt32BE(96), length, 'the two of them')
      for (const cut of [1, 20, 100, 107, 108, 120, length / 2 + 1, length - 1]) {
        const less = Buffer.from(whole)
        less.writeUInt32BE(cut, 96)
        assert.equal((await stage.send(stage.sponsor, stage.dispatcher, less)).status, '0x0', `${cut} bytes`)
      }
      assert.equal(await stage.pings(), 0n)
      assert.deepEqual(words(await stage.dispatch(operations)), ['Done', 'Done'])
    },
  ],
  [
    'how many were done is what a simulation is told',
    async (stage) => {
      const [alice, bob] = await stage.users('pair', 2)
      const operations = [await stage.operation(alice!, [stage.on('ping')]), await stage.operation(bob!, [stage.on('failWith', ['0x'])])] // prettier-ignore
      const call = { from: stage.sponsor.hex, to: hexOf(stage.dispatcher), data: hexOf(dispatchData(operations)) }
      const data = await stage.rpc<Hex>('eth_call', call, 'latest')
      assert.equal(decodeFunctionResult({ abi: artefact('Dispatcher').abi, functionName: 'dispatch', data }), 1n)
    },
  ],
]

/** The least limit with which a ping of the account is done. */
async function leastGas(stage: Stage, account: Account): Promise<number> {
  let [low, high] = [10_000, 200_000]
  while (high - low > 1) {
    const gasLimit = Math.floor((low + high) / 2)
    const operation = await stage.operation(account, [stage.on('ping')], { gasLimit })
    const call = { from: stage.sponsor.hex, to: hexOf(stage.dispatcher), data: hexOf(dispatchData([operation])) }
    const isDone = BigInt(await stage.rpc<Hex>('eth_call', call, 'latest')) === 1n
    if (isDone) high = gasLimit
    else low = gasLimit
  }
  return high
}
