import { sql } from 'kysely'
import type { Hex } from '../../src/ids.ts'
import { fromHex } from '../../src/hex.ts'
import { until } from '../kit/until.ts'
import { bodyOf, change, nextAmount, note, readBack, repeat, tryOnce, type Write } from './transactions-client.ts'
import { first, isMined, offeredOf, second, type Scenario, type Stage } from './transactions-stage.ts'

const GWEI = 10n ** 9n
const stateOf = async ({ world }: Stage, write: Write): Promise<string | undefined> =>
  (await readBack(second(world), write))?.body.state
const headOf = async ({ world: { node } }: Stage): Promise<number> =>
  Number(await node.anvil.rpc<Hex>('eth_blockNumber'))

/** Resolves when the service knows what became of a write; that it never does is for the judge to see. */
const settled = async (stage: Stage, write: Write): Promise<void> => {
  const isSo = async () => !['SUBMITTED', undefined].includes(await stateOf(stage, write))
  await until('it is known what became of a write', isSo).catch((error: Error) => stage.expect(false, error.message))
}

/** Resolves when the service has followed the chain to its newest block. */
const followed = async (stage: Stage): Promise<void> => {
  const head = await headOf(stage)
  await until('the newest block is followed', async () => {
    const cursor = await stage.world.db!.selectFrom('cursors').select('block_number').executeTakeFirst()
    return cursor?.block_number === head
  })
}

/** Gives an account coins, or takes them, past the chain's transactions. */
const give = async ({ world: { node, given }, account: { address } }: Stage, wei: bigint): Promise<void> => {
  await node.still(async () => {
    const held = BigInt(await node.anvil.rpc<Hex>('eth_getBalance', address, 'latest'))
    await node.anvil.rpc('anvil_setBalance', address, `0x${(held + wei).toString(16)}`)
    given.set(address, (given.get(address) ?? 0n) + wei)
  })
  await node.mine()
}

const heldBy = async ({ world: { node }, account: { address } }: Stage): Promise<bigint> =>
  BigInt(await node.anvil.rpc<Hex>('eth_getBalance', address, 'latest'))

/** Somebody else who has the account's key sends with it, and it is mined. */
const intrude = async (
  { world: { node, probe, foreign }, account: { address } }: Stage,
  nonce: number,
): Promise<Hex> => {
  await node.anvil.rpc('anvil_impersonateAccount', address)
  const hash = await node.anvil.rpc<Hex>('eth_sendTransaction', {
    ...{ from: address, to: probe, value: '0x0', data: '0xd09de08a', gas: '0x30d40', nonce: `0x${nonce.toString(16)}` },
    ...{ maxFeePerGas: '0x2540be400', maxPriorityFeePerGas: '0x3b9aca00' },
  })
  foreign.add(hash)
  await node.mine()
  await node.anvil.rpc('anvil_stopImpersonatingAccount', address)
  return hash
}

/** What clients change their minds about, what coins do, what others do with a key, and what is asked for later. */
export const changes = {
  'final-block': {
    name: 'a block becomes final after exactly so many others',
    play: async (stage) => {
      const { node, finality } = stage.world
      const write = stage.write()
      await stage.told(write)
      await node.mine()
      await settled(stage, write)
      await node.mine(finality - 1)
      await followed(stage)
      stage.expect((await stateOf(stage, write)) === 'MINED', `final after ${finality - 1} blocks`)
      await node.mine()
      await followed(stage)
      stage.expect((await stateOf(stage, write)) === 'FINALIZED', `not final after ${finality} blocks`)
    },
  },
  cancelled: {
    name: 'a client cancels what it was told, and comes back with its key',
    play: async (stage) => {
      const { world } = stage
      const write = stage.write()
      await stage.told(write)
      const told = await change(second(world), write, 'cancel')
      stage.expect(told?.status === 200 && told.body.hashes?.length === 2, `the cancel was told ${told?.status}`)
      await world.node.mine()
      await settled(stage, write)
      const late = await change(first(world), write, 'cancel')
      stage.expect(late?.body.code === 'not_cancellable', `a cancel of a cancelled one was told ${late?.status}`)
      await world.node.mine(world.finality)
      await followed(stage)
    },
  },
  'cancel-races': {
    name: 'cancels race with the blocks of what they cancel',
    play: async (stage) => {
      const { world } = stage
      for (let count = 0; count < 6; count++) {
        const write = stage.write()
        await stage.told(write)
        await Promise.all([change(count % 2 === 0 ? first(world) : second(world), write, 'cancel'), world.node.mine()])
      }
    },
  },
  'cancel-lost': {
    name: 'a cancel is sent and lost, and the original is mined',
    play: async (stage) => {
      const { world } = stage
      const write = stage.write()
      await stage.told(write)
      world.node.script('eth_sendRawTransaction', 'swallowed')
      await change(first(world), write, 'cancel')
      await world.node.mine()
      world.node.script('eth_sendRawTransaction', null)
      await settled(stage, write)
    },
  },
  'sped-up': {
    name: 'a client asks for a higher fee, and is told a hash that it can use',
    play: async (stage) => {
      const { world } = stage
      const write = stage.write()
      await stage.told(write)
      for (const server of world.servers) {
        const told = await change(server, write, 'speed-up')
        stage.expect(told?.status === 200, `the speed-up was told ${told?.status}`)
      }
      stage.expect(write.hashes.size === 3, `it has ${write.hashes.size} hashes after two raises`)
      await world.node.mine()
    },
  },
  'speed-up-races': {
    name: 'raises race with blocks and with each other',
    play: async (stage) => {
      const { world } = stage
      for (let count = 0; count < 6; count++) {
        const write = stage.write()
        await stage.told(write)
        await Promise.all([...world.servers.map((server) => change(server, write, 'speed-up')), world.node.mine()])
      }
    },
  },
  'late-store': {
    name: 'a replica sleeps with a raised fee that it has not stored, and meanwhile the older bytes are mined',
    play: async (stage) => {
      const { world } = stage
      await stage.restart(first(world), 'after-replace-sign:1:SIGSTOP')
      const write = stage.write()
      await stage.told(write)
      const asked = change(first(world), write, 'speed-up')
      await until('the replica sleeps', () => first(world).isStopped())
      await world.node.mine()
      await until('the older bytes are mined', () => isMined(stage, write))
      first(world).signal('SIGCONT')
      await asked
      stage.expect(await isMined(stage, write), 'it was mined, and is no longer')
    },
  },
  'fee-cap': {
    name: 'the fee that blocks want is above what the operator allows',
    settings: { LANE_BUMP_AFTER_SECONDS: '1', FEE_CAP_GWEI: '10' },
    play: async (stage) => {
      const { world } = stage
      const { node } = world
      node.spike(GWEI)
      await node.mine(2)
      node.script('eth_sendRawTransaction', 'swallowed')
      const write = stage.write()
      await stage.told(write)
      node.spike(6n * GWEI)
      const dearest = () => offeredOf(stage).reduce((most, { maxFee }) => (maxFee > most ? maxFee : most), 0n)
      await node.mine(4)
      await world.age(20)
      await until('the fee was raised to the cap', () => dearest() >= 10n * GWEI)
      await node.mine(4)
      await world.age(20)
      await until('it is not raised again, or is', () => {
        const isAbove = dearest() > 10n * GWEI
        return isAbove || isSaid(stage, 'fee_cap_reached', stage.account.address)
      })
      node.script('eth_sendRawTransaction', null)
      node.spike(null)
      await world.age(20)
    },
  },
  coins: {
    name: 'coins and tokens are sent along, to others and to oneself',
    play: async (stage) => {
      const { world, account } = stage
      for (let count = 0; count < 3; count++) {
        await stage.told(stage.write({ kind: 'pay', wei: nextAmount() }))
        await stage.told(stage.write({ kind: 'move', amount: nextAmount(), to: world.probe }))
        await stage.told(stage.write({ kind: 'move', amount: nextAmount(), to: account.address }))
        await world.node.mine()
      }
      await until('the last write is mined', () => isMined(stage, stage.writes.at(-1)!))
      const head = await headOf(stage)
      await world.node.reorganise(2, { putBack: false })
      await until('what was reorganised away is known', async () => (await headOf(stage)) >= head)
    },
  },
  'fails-when-mined': {
    name: 'two writes are simulated at one state, and the second fails when it is mined',
    play: async (stage) => {
      const { world } = stage
      // The account has 10^30 of the token: enough for either of them, not for both.
      const some = 6n * 10n ** 29n
      for (const amount of [some + nextAmount(), some + nextAmount()]) {
        const write = stage.write({ kind: 'move', amount, to: world.probe })
        await stage.told(write)
      }
      stage.writes[1]!.mayFail = true
      await world.node.mine()
      await settled(stage, stage.writes[1]!)
      await world.node.mine(world.finality)
      await followed(stage)
      stage.expect((await stateOf(stage, stage.writes[1]!)) === 'REVERTED', 'a failed one is not final as such')
    },
  },
  'ran-dry': {
    name: 'an account runs out of coins before and after it has signed, and gets some',
    play: async (stage) => {
      const { world } = stage
      await give(stage, -999n * 10n ** 18n)
      // Enough for what it sends, not for what sending costs.
      const write = stage.write({ kind: 'pay', wei: (await heldBy(stage)) - nextAmount() })
      const told = await tryOnce(world, first(world), write)
      stage.expect(told?.body.code === 'insufficient_funds', `without coins it was told ${told?.status}`)
      await give(stage, 10n * 10n ** 18n)
      await stage.told(write)
      await world.node.mine()
      await until('it is mined', () => isMined(stage, write))
      const { node } = world
      node.script('eth_sendRawTransaction', 'swallowed')
      const later = stage.write()
      await stage.told(later)
      node.script('eth_sendRawTransaction', null)
      const held = await heldBy(stage)
      await give(stage, 1n - held)
      await world.age(20)
      const isKnown = async () =>
        isSaid(stage, 'account_low_balance', stage.account.address) || (await stateOf(stage, later)) !== 'SUBMITTED'
      await until('the service knows that it is short', isKnown)
      stage.expect((await stateOf(stage, later)) === 'SUBMITTED', 'it was not waited for')
      await give(stage, held - 1n)
      await world.age(20)
    },
  },
  'key-kept': {
    name: 'a client comes back with its key nearly a day after everything was final',
    play: async (stage) => {
      const { world } = stage
      const write = stage.write()
      await stage.told(write)
      await world.node.mine()
      await settled(stage, write)
      // However long it takes to be final: until then the key is that of a transaction that may be sent again.
      await world.age(25 * 3_600)
      const pending = await repeat(first(world), write, bodyOf(world, write))
      stage.expect(pending?.body.hash === write.hash, `not final, after a day it was told ${pending?.status}`)
      await world.node.mine(world.finality)
      await followed(stage)
      await world.age(23 * 3_600)
      const again = await repeat(second(world), write, bodyOf(world, write))
      stage.expect(again?.body.hash === write.hash, `final, after 23 hours it was told ${again?.status}`)
    },
  },
  'foreign-nonce': {
    name: 'somebody else uses the nonce of a write with the account’s own key',
    play: async (stage) => {
      const { world } = stage
      await stage.told(stage.write())
      await world.node.mine()
      world.node.script('eth_sendRawTransaction', 'swallowed')
      const write = stage.write()
      await stage.told(write)
      await intrude(stage, 1)
      world.node.script('eth_sendRawTransaction', null)
      await settled(stage, write)
      stage.expect((await stateOf(stage, write)) === 'REPLACED', 'it is not replaced')
      const refused = stage.write()
      refused.isAbandoned = true
      const told = await tryOnce(world, first(world), refused)
      stage.expect(told?.body.code === 'account_stopped', `the account goes on: ${told?.status} ${told?.body.code}`)
    },
  },
  resumed: {
    name: 'an account of which three nonces were used elsewhere is let go on by its operator, behind them, and a fourth stops it',
    play: async (stage) => {
      const { world, account } = stage
      world.node.script('eth_sendRawTransaction', 'swallowed')
      const write = stage.write()
      await stage.told(write)
      for (const nonce of [0, 1, 2]) world.resumed.add(await intrude(stage, nonce))
      world.node.script('eth_sendRawTransaction', null)
      await settled(stage, write)
      await followed(stage)
      const sender = fromHex(account.address)
      // As `chatelaine account resume` does.
      await world.db!.updateTable('stopped_lanes').set({ resume_asked_at: sql`now()` }).where('sender', '=', sender).execute() // prettier-ignore
      const lane = world.db!.selectFrom('stopped_lanes').select('nonce').where('sender', '=', sender)
      await until('the account goes on', async () => (await lane.executeTakeFirst()) === undefined)
      for (let count = 0; count < 2; count++) await stage.told(stage.write())
      const nonces = stage.writes.map(({ answer }) => answer?.tx?.nonce)
      stage.expect(nonces.join() === '0,3,4', `its writes have the nonces ${nonces.join()}`)
      await world.node.mine()
      await until('both are mined', () => isMined(stage, stage.writes.at(-1)!))
      world.node.script('eth_sendRawTransaction', 'swallowed')
      const again = stage.write()
      await stage.told(again)
      await intrude(stage, 5)
      world.node.script('eth_sendRawTransaction', null)
      await settled(stage, again)
      stage.expect((await stateOf(stage, again)) === 'REPLACED', 'the one behind the fourth is not replaced')
    },
  },
  'used-elsewhere': {
    name: 'a lagging node hides that the first nonce of an account was used elsewhere',
    play: async (stage) => {
      const { world } = stage
      const { node, finality } = world
      await intrude(stage, 0)
      await followed(stage)
      node.script('eth_getTransactionCount', 'lagging')
      const write = stage.write()
      await tryOnce(world, first(world), write).then((told) => note(write, told))
      node.script('eth_getTransactionCount', null)
      stage.expect(write.hash !== null, 'it was not told a hash')
      await world.age(20)
      await until('it was looked for', async () => {
        await world.age(20)
        return isSaid(stage, 'nonce too low', write.hash!)
      })
      await node.mine(finality - 10)
      await followed(stage)
      await world.age(20)
      await repeatedly(stage, write, 3)
      stage.expect((await stateOf(stage, write)) === 'SUBMITTED', 'it was given up before the foreign block was final')
      await node.mine(12)
      await until('it is given up', async () => {
        await world.age(20)
        return (await stateOf(stage, write)) === 'FAILED'
      }) // prettier-ignore
    },
  },
} satisfies Record<string, Scenario>

/** True when a server has logged that of whom it names. */
const isSaid = ({ world: { servers } }: Stage, what: string, whose: string): boolean =>
  servers.some((server) =>
    server
      .said()
      .split('\n')
      .some((line) => line.includes(what) && line.includes(whose)),
  )

/** Until bytes were given to the node so many times more, each time with the chance to give them up. */
async function repeatedly(stage: Stage, write: Write, times: number): Promise<void> {
  const { world } = stage
  const asked = () => world.node.counts.broadcasts ?? 0
  const before = asked()
  await until(`bytes were sent ${times} times more`, async () => {
    await world.age(20)
    return asked() >= before + times || (await stateOf(stage, write)) !== 'SUBMITTED'
  })
}
