import { setTimeout as pause } from 'node:timers/promises'
import type { Hex } from '../../src/ids.ts'
import { toHex } from '../../src/hex.ts'
import { changes } from './transactions-changes.ts'
import { PATIENCE_MS, until } from '../kit/until.ts'
import { lookUp, note, tryOnce } from './transactions-client.ts'
import { first, isMined, offeredOf, second, type Scenario } from './transactions-stage.ts'

export const scenarios = {
  'killed-after-broadcast': {
    name: 'killed after the broadcast and before the answer, and its block is mined at once',
    play: async (stage) => {
      const { world } = stage
      await stage.restart(first(world), 'after-broadcast')
      const write = stage.write()
      await tryOnce(world, first(world), write)
      const stored = await world.db!.selectFrom('attempts').select('hash').execute()
      const hashes = new Set(stored.map(({ hash }) => toHex(hash)))
      stage.expect(
        offeredOf(stage).every(({ hash }) => hashes.has(hash)),
        'bytes were given to the node before they were stored',
      )
      await world.node.mine(2)
      await pause(1_500)
      await stage.told(write)
    },
  },
  'answer-lost': {
    name: 'the node takes the bytes and its answer is lost, or says that it failed',
    play: async (stage) => {
      const { world } = stage
      for (const fault of ['dropped-after', 'error-after'] as const) {
        const write = stage.write()
        world.node.script('eth_sendRawTransaction', fault)
        const told = await tryOnce(world, first(world), write)
        world.node.script('eth_sendRawTransaction', null)
        note(write, told)
        await stage.told(write)
      }
    },
  },
  'reorganised-away': {
    name: 'its block is reorganised away, and the node does not put it back',
    play: async (stage) => {
      const { world } = stage
      const write = stage.write()
      await stage.told(write)
      await world.node.mine()
      await until('the write is mined', () => isMined(stage, write))
      const { blockNumber } = await world.node.anvil.rpc<{ blockNumber: Hex }>('eth_getTransactionReceipt', write.hash)
      const head = Number(await world.node.anvil.rpc<Hex>('eth_blockNumber'))
      await world.node.reorganise(head - Number(blockNumber) + 1, { putBack: false })
    },
  },
  'many-put-back': {
    name: 'a deep reorganisation puts back more of an account than a node lets wait',
    play: async (stage) => {
      const { world } = stage
      const head = Number(await world.node.anvil.rpc<Hex>('eth_blockNumber'))
      for (let count = 0; count < 20; count++) {
        const write = stage.write()
        await stage.told(write)
        await world.node.mine()
      }
      await until('the last write is mined', () => isMined(stage, stage.writes.at(-1)!))
      const now = Number(await world.node.anvil.rpc<Hex>('eth_blockNumber'))
      await world.node.reorganise(now - head, { putBack: false })
    },
  },
  'killed-in-retract': {
    name: 'every replica is killed inside the rollback of a reorganisation',
    play: async (stage) => {
      const { world } = stage
      for (const server of world.servers) server.arm('in-retract')
      const write = stage.write()
      await stage.told(write)
      await world.node.mine(3)
      await until('the write is mined', () => isMined(stage, write))
      const fired = () =>
        world.servers.reduce((sum, server) => sum + server.fired.filter((one) => one === 'in-retract').length, 0)
      const before = fired()
      await world.node.reorganise(6, { putBack: false })
      await until('a replica died in the rollback', () => fired() > before)
      for (const server of world.servers) server.arm()
    },
  },
  'dear-blocks': {
    name: 'blocks become dearer than what was offered',
    settings: { LANE_BUMP_AFTER_SECONDS: '1' },
    play: async (stage) => {
      const { world } = stage
      const write = stage.write()
      await stage.told(write)
      // Until the end: only a raised fee gets in.
      world.node.spike(40_000_000_000n)
    },
  },
  'lagging-receipts': {
    name: 'a node knows the count of an account before blocks and receipts',
    play: async (stage) => {
      const { world } = stage
      const write = stage.write()
      for (const method of ['eth_getBlockByNumber', 'eth_getTransactionReceipt']) world.node.script(method, 'lagging')
      await stage.told(write)
      await world.node.mine()
      await world.age(20)
      await pause(2_500)
      for (const method of ['eth_getBlockByNumber', 'eth_getTransactionReceipt']) world.node.script(method, null)
      await world.node.mine(3)
      await stage.told(stage.write())
    },
  },
  'wiped-pool': {
    name: 'the node forgets its pool',
    settings: { LANE_BUMP_AFTER_SECONDS: '600' },
    play: async (stage) => {
      const { world } = stage
      await stage.told(stage.write())
      await stage.told(stage.write())
      await world.node.wipe()
      await world.age(20)
    },
  },
  'queued-behind': {
    name: 'writes wait behind those that a node has, and the replica that queued them dies',
    settings: { MAX_PENDING_WRITES: '2', LANE_BUMP_AFTER_SECONDS: '600' },
    play: async (stage) => {
      const { world } = stage
      const offered = () => new Set(offeredOf(stage).map(({ nonce }) => nonce)).size
      for (let count = 0; count < 6; count++) await stage.told(stage.write())
      await world.age(20)
      await pause(2_500)
      stage.expect(offered() === 2, `${offered()} were given to the node before the first was mined`)
      await stage.restart(first(world))
      for (const count of [4, 6]) {
        await world.node.mine()
        await until(`${count} were given to the node`, () => offered() >= count).catch((error: Error) =>
          stage.expect(false, error.message),
        )
        await pause(1_500)
        stage.expect(offered() <= count, `${offered()} were given to the node where it was the turn of ${count}`)
      }
    },
  },
  'signer-killed': {
    name: 'the signer is killed before and after it has committed a signature',
    play: async (stage) => {
      const { world } = stage
      for (const point of ['signer.after-commit', 'signer.before-commit', 'signer.after-witness']) {
        await stage.restart(world.signer, point)
        const write = stage.write()
        await tryOnce(world, first(world), write)
        await world.signer.ready()
        await stage.told(write)
      }
    },
  },
  'paused-replica': {
    name: 'a replica is paused between bind and signature until another gave its nonce up',
    play: async (stage) => {
      const { world, account } = stage
      await stage.restart(first(world), 'after-bind:1:SIGSTOP')
      const write = stage.write()
      const asked = tryOnce(world, first(world), write, 2 * PATIENCE_MS)
      await until('the replica is paused', () => first(world).isStopped())
      await world.age(40)
      await until('the nonce is filled', () => offeredOf(stage).some(({ to }) => to === account.address))
      first(world).signal('SIGCONT')
      const told = await asked
      note(write, told)
      await stage.told(write)
    },
  },
  'paused-filler': {
    name: 'a replica is paused before it fills a nonce, and meanwhile its intent is signed and told',
    play: async (stage) => {
      const { world } = stage
      await stage.restart(second(world), 'before-fill:1:SIGSTOP')
      await stage.restart(first(world), 'after-bind:1:SIGSTOP')
      const write = stage.write()
      const asked = tryOnce(world, first(world), write, 2 * PATIENCE_MS)
      await until('the replica is paused', () => first(world).isStopped())
      await world.age(40)
      await until('the other is about to fill', () => second(world).isStopped())
      first(world).signal('SIGCONT')
      const told = await asked
      note(write, told)
      second(world).signal('SIGCONT')
      await pause(500)
      await stage.told(write)
    },
  },
  'told-is-known': {
    name: 'a hash that was told is known to every replica at once, and after a SIGKILL',
    play: async (stage) => {
      const { world } = stage
      const write = stage.write()
      await stage.told(write)
      await lookUp(world, write)
      await stage.restart(first(world))
    },
  },
  'older-attempt': {
    name: 'the fee was raised, the raised bytes are lost, and the older ones are mined',
    settings: { LANE_BUMP_AFTER_SECONDS: '1' },
    play: async (stage) => {
      const { world } = stage
      const { node } = world
      const write = stage.write()
      await stage.told(write)
      const [before] = offeredOf(stage)
      node.script('eth_sendRawTransaction', 'swallowed')
      // Dearer than what was offered, whatever blocks cost in the scenario before.
      node.spike(before!.maxFee * 2n)
      await node.mine(4)
      await world.age(20)
      await until('the fee was raised', () =>
        offeredOf(stage).some(({ nonce, hash }) => nonce === before!.nonce && hash !== before!.hash),
      )
      node.spike(7n)
      await node.mine()
      // The node may have thrown them out when blocks became dear; another one has not.
      await node.anvil.ask([{ jsonrpc: '2.0', id: 1, method: 'eth_sendRawTransaction', params: [before!.raw] }])
      await until('the older bytes are mined', async () => {
        await node.mine()
        const receipt = await node.anvil.rpc<unknown>('eth_getTransactionReceipt', before!.hash)
        return receipt !== null
      })
      await node.mine(2)
      node.script('eth_sendRawTransaction', null)
      node.spike(null)
      await stage.told(stage.write())
    },
  },
  'nonce-too-low': {
    name: 'the node says `nonce too low` for bytes that it has mined itself',
    play: async (stage) => {
      const { world } = stage
      const write = stage.write()
      world.node.script('eth_sendRawTransaction', 'mined-too-low')
      const told = await tryOnce(world, first(world), write)
      world.node.script('eth_sendRawTransaction', null)
      note(write, told)
      await stage.told(write)
      await stage.told(stage.write())
    },
  },
  'caller-gone': {
    name: 'killed after signing, and its caller never comes back',
    play: async (stage) => {
      const { world } = stage
      await stage.restart(first(world), 'after-sign')
      const write = stage.write()
      write.isAbandoned = true
      await tryOnce(world, first(world), write)
      await first(world).ready()
      await world.age(20)
      await stage.told(stage.write())
    },
  },
  'killed-while-filling': {
    name: 'killed before and after the signature of the cancel that fills a nonce',
    play: async (stage) => {
      const { world } = stage
      // One replica: the other would fill it meanwhile.
      second(world).hold()
      second(world).signal('SIGKILL')
      await second(world).gone()
      await stage.restart(first(world), 'after-bind', 'before-fill', 'after-fill-sign')
      const write = stage.write()
      await tryOnce(world, first(world), write)
      await first(world).gone()
      await world.age(40)
      await until('it died at both', () => first(world).fired.slice(-2).join() === 'before-fill,after-fill-sign')
      second(world).goOn()
      await Promise.all(world.servers.map((server) => server.ready()))
      await stage.told(write)
    },
  },
  ...changes,
} satisfies Record<string, Scenario>

export type ScenarioName = keyof typeof scenarios
