import { setTimeout as pause } from 'node:timers/promises'
import { encodeFunctionData, parseAbi } from 'viem'
import { allowSponsor } from '../../src/devnet/sponsor.ts'
import { TESTED_DELEGATE } from '../delegate.ts'
import type { Hex } from '../../src/ids.ts'
import type { Check } from './transactions-evidence.ts'
import type { Mutant } from './transactions-mutants.ts'
import { loseTail, rememberAll } from './sponsor-tail.ts'
import { GAS, type Sponsors } from './sponsor-world.ts'
import { until } from '../kit/until.ts'
import {
  change,
  insist,
  nextAmount,
  newWrite,
  note,
  readBack,
  tryOnce,
  type Part,
  type Want,
  type Write,
} from './transactions-client.ts'
import { COINS, type Account, type ChaosWorld } from './transactions-world.ts'

/** One fault of sponsored writes at one moment, with two replicas on PostgreSQL; the judge says what it left. */
export type SponsorStage = {
  world: ChaosWorld
  sponsors: Sponsors
  /** somebody with coins, and somebody without */
  rich: Account
  poor: Account
  mining: { isPaused: boolean }
  writes: Write[]
  write(of: Account, want?: Want): Write
  /** repeats until it is told */
  told(...writes: Write[]): Promise<void>
  /** until the service says that it is in a block */
  settled(write: Write): Promise<void>
  expect(isSo: boolean, what: string, check?: Check): void
}

type Scenario = {
  name: string
  /** what the program is for it, in a copy: its times are too long to wait for */
  patches?: Mutant['patches']
  play(stage: SponsorStage): Promise<void>
}

const add = (): Part => ({ kind: 'add', amount: nextAmount() })
const TOLD_MS = 60_000

const setSponsor = parseAbi(['function setSponsor(address sponsor, bool allowed)'])

/** Before all else in its block. */
const FIRST = { maxFeePerGas: '0xe8d4a51000', maxPriorityFeePerGas: '0xe8d4a51000' }

async function holdBack({ mining }: SponsorStage): Promise<void> {
  mining.isPaused = true
  await pause(300)
}

/** The sponsor that sends a write may not send any more, before what it sent is in a block. */
async function disallow({ world, sponsors }: SponsorStage, write: Write): Promise<void> {
  const sponsor = String(write.answer!.tx!.from) as Hex
  const data = encodeFunctionData({ abi: setSponsor, functionName: 'setSponsor', args: [sponsor, false] })
  await world.node.anvil.rpc('eth_sendTransaction', { from: sponsors.space, to: GAS.dispatcher, data, ...FIRST })
}

async function allowAll({ world, sponsors }: SponsorStage): Promise<void> {
  for (const { address } of sponsors.accounts) await allowSponsor(world.node.anvil.url, address, TESTED_DELEGATE)
}

export const sponsorScenarios = {
  plain: {
    name: 'people write, alone, at once, and several calls in one',
    play: async (stage) => {
      const writes = [stage.write(stage.rich), stage.write(stage.poor), stage.write(stage.poor, { kind: 'batch', parts: [add(), add()] })] // prettier-ignore
      await stage.told(...writes)
      for (const write of writes) await stage.settled(write)
    },
  },
  reverts: {
    name: 'what was simulated is not so any more: it reverts, and the transaction that carries it succeeds',
    play: async (stage) => {
      await holdBack(stage)
      const most = (COINS * 6n) / 10n
      const writes = [1, 2].map(() => stage.write(stage.rich, { kind: 'pay', wei: most + nextAmount() }))
      for (const write of writes) write.mayFail = true
      await stage.told(...writes)
      stage.mining.isPaused = false
      for (const write of writes) await stage.settled(write)
      const states = await Promise.all(writes.map(async (write) => (await readBack(stage.world.servers[0]!, write, write.answer!.id!))?.body.state)) // prettier-ignore
      stage.expect(
        states.filter((state) => state !== 'REVERTED').length === 1,
        `one of two is done: ${states.join(', ')}`,
      )
    },
  },
  'another-packing': {
    name: 'a sponsor loses its right, and what it sent is reverted whole: it goes into another transaction under its id',
    play: async (stage) => {
      await holdBack(stage)
      const [one, other] = [stage.write(stage.rich), stage.write(stage.poor)]
      await stage.told(one, other)
      await disallow(stage, one)
      stage.mining.isPaused = false
      for (const write of [one, other]) await stage.settled(write)
      await allowAll(stage)
    },
  },
  reorganised: {
    name: 'the block with a delegation and what needed it goes, and the node does not put them back',
    play: async (stage) => {
      const { world } = stage
      const writes = [stage.write(stage.rich), stage.write(stage.poor)]
      await stage.told(...writes)
      for (const write of writes) await stage.settled(write)
      await holdBack(stage)
      const head = Number(await world.node.anvil.rpc<Hex>('eth_blockNumber'))
      const numbers = await Promise.all(writes.map(async ({ hash }) => Number((await world.node.anvil.rpc<{ blockNumber: Hex }>('eth_getTransactionReceipt', hash)).blockNumber))) // prettier-ignore
      await world.node.reorganise(head - Math.min(...numbers) + 1, { putBack: false })
      for (const write of writes)
        await until('the service says that it is in no block', async () => (await readBack(world.servers[0]!, write, write.answer!.id!))?.body.state === 'SUBMITTED', TOLD_MS) // prettier-ignore
      await stage.told(stage.write(stage.poor))
      stage.mining.isPaused = false
    },
  },
  killed: {
    name: 'a server dies when its client was told nothing, and the client repeats',
    play: async (stage) => {
      const [server, other] = stage.world.servers as [ChaosWorld['servers'][0], ChaosWorld['servers'][0]]
      server.arm('after-broadcast')
      const write = stage.write(stage.poor)
      note(write, await tryOnce(stage.world, server, write))
      await until('a server dies', () => server.fired.length > 0)
      await stage.world.age(8)
      note(write, await tryOnce(stage.world, other, write))
      await stage.told(write)
    },
  },
  late: {
    name: 'what it was sent in is lost, and by then its time is over: it has failed, and is not packed any more',
    // Ten minutes are four seconds, and the last thirty of them one.
    patches: [
      ['transactions/lanes/send-operation.ts', 'const LIFE_SECONDS = 600', 'const LIFE_SECONDS = 4'],
      ['transactions/sponsors/pack.ts', 'MIN_LIFE_SECONDS = 30', 'MIN_LIFE_SECONDS = 1'],
    ],
    play: async (stage) => {
      await holdBack(stage)
      const write = stage.write(stage.poor)
      await stage.told(write)
      const { deadline } = write.answer!.operation!
      await until('its time is over', () => Date.now() / 1_000 > deadline + 2)
      await disallow(stage, write)
      stage.mining.isPaused = false
      await pause(3_000)
      await allowAll(stage)
      await pause(1_500)
      const told = await readBack(stage.world.servers[1]!, write, write.answer!.id!)
      stage.expect(told?.body.state === 'FAILED', `it is ${told?.body.state}`)
    },
  },
  cancelled: {
    name: 'what its person cancelled in time is not done',
    play: async (stage) => {
      await stage.told(stage.write(stage.poor))
      await stage.settled(stage.writes[0]!)
      await holdBack(stage)
      const write = stage.write(stage.poor)
      await stage.told(write)
      const asked = await change(stage.world.servers[0]!, write, 'cancel')
      stage.expect(asked?.status === 200, `the cancel is answered ${asked?.status}`)
      stage.mining.isPaused = false
      await stage.settled(write)
      await pause(2_000)
      const told = await readBack(stage.world.servers[1]!, write, write.answer!.id!)
      stage.expect(told?.body.state === 'CANCELLED', `it is ${told?.body.state}`)
    },
  },
  tail: {
    name: 'the database loses the operation and what carried it, after they were told',
    play: async (stage) => {
      const { world } = stage
      await stage.told(stage.write(stage.rich))
      await holdBack(stage)
      const goBack = await rememberAll(world.db!)
      const writes = [stage.write(stage.rich), stage.write(stage.poor)]
      await stage.told(...writes)
      await loseTail(world, goBack)
      await Promise.all(world.servers.map((server) => server.ready()))
      stage.mining.isPaused = false
      for (const write of writes) await stage.settled(write)
    },
  },
  uncoded: {
    name: 'an account has lost the code that it delegated to: nothing is done, and the write has failed',
    play: async (stage) => {
      const { world, poor } = stage
      const before = stage.write(poor)
      await stage.told(before)
      await stage.settled(before)
      await holdBack(stage)
      const write = stage.write(poor)
      await stage.told(write)
      const code = await world.node.anvil.rpc<Hex>('eth_getCode', poor.address, 'latest')
      await world.node.anvil.rpc('anvil_setCode', poor.address, '0x')
      stage.mining.isPaused = false
      await stage.settled(write)
      await world.node.anvil.rpc('anvil_setCode', poor.address, code)
    },
  },
  budget: {
    name: 'many writes at once, for more than the budget of the network has',
    play: async (stage) => {
      const { world, sponsors } = stage
      await stage.told(stage.write(stage.rich))
      await stage.settled(stage.writes[0]!)
      await until('it is counted', async () => (await world.db!.selectFrom('operations').select('id').where('is_counted', '=', true).execute()).length > 0) // prettier-ignore
      await holdBack(stage)
      const { charged } = await world.db!.selectFrom('operations').select('charged').where('is_counted', '=', true).executeTakeFirstOrThrow() // prettier-ignore
      // Of what one write costs in the end, so many are in it: of what one may cost, a few.
      const budget = 7n * BigInt(charged)
      await world
        .db!.updateTable('networks')
        .set({ sponsor_per_day: String(budget) })
        .execute()
      const writes = Array.from({ length: 60 }, () => stage.write(stage.poor))
      await Promise.all(
        writes.map(async (write, index) => {
          const told = await tryOnce(world, world.servers[index % world.servers.length]!, write)
          note(write, told)
          write.isAbandoned = told?.body.code === 'gas_budget_exhausted'
        }),
      )
      stage.mining.isPaused = false
      await stage.told(...writes.filter(({ isAbandoned }) => !isAbandoned))
      for (const write of writes) if (write.hash !== null) await stage.settled(write)
      const paid = await paidBy(world, sponsors)
      stage.expect(paid <= budget, `sponsors paid ${paid} wei, the budget is ${budget}`, 'money')
      stage.expect(writes.some(({ isAbandoned }) => isAbandoned), 'nobody was refused') // prettier-ignore
    },
  },
} satisfies Record<string, Scenario>

export type SponsorScenarioName = keyof typeof sponsorScenarios

/** wei that sponsors have less than they were given */
async function paidBy({ node }: ChaosWorld, { accounts }: Sponsors): Promise<bigint> {
  const held = await Promise.all(
    accounts.map(({ address }) => node.anvil.rpc<Hex>('eth_getBalance', address, 'latest')),
  )
  return held.reduce((sum, one) => sum + COINS - BigInt(one), 0n)
}

const SEED = 0x5ce2

export function sponsorStageOf(world: ChaosWorld, sponsors: Sponsors, problems: string[]): SponsorStage {
  const writes: Write[] = []
  const [rich, poor] = world.accounts as [Account, Account]
  const stage: SponsorStage = {
    ...{ world, sponsors, rich, poor, writes, mining: { isPaused: false } },
    write: (of, want = add()) => {
      const write = newWrite(of, SEED, want)
      writes.push(write)
      return write
    },
    told: async (...some) => {
      const endsAt = performance.now() + TOLD_MS
      const isOver = () => performance.now() > endsAt
      await Promise.all(some.map((write) => insist(world, write, { isOver, refusals: new Map(), looks: 0 })))
    },
    settled: async (write) => {
      await until('a write is settled', async () => {
        const told = await readBack(world.servers[1]!, write, write.answer!.id!)
        return told?.status === 200 && told.body.state !== 'SUBMITTED'
      }, TOLD_MS) // prettier-ignore
    },
    expect: (isSo, what, check = 'scenario') => {
      if (!isSo) problems.push(`${check}: ${what}`)
    },
  }
  return stage
}
