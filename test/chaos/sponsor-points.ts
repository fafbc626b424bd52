import { setTimeout as pause } from 'node:timers/promises'
import { encodeFunctionData, parseAbi } from 'viem'
import { allowSponsor } from '../../src/devnet/sponsor.ts'
import { TESTED_DELEGATE } from '../delegate.ts'
import type { Hex } from '../../src/ids.ts'
import { fractionsOf } from '../random.ts'
import type { Supervised } from './processes.ts'
import { judgeSponsored, type SponsoredVerdict } from './sponsor-judge.ts'
import { followedTo } from './transactions-oracle.ts'
import { GAS, wantOfPerson, withSponsors, type Sponsors } from './sponsor-world.ts'
import { PATIENCE_MS, until } from '../kit/until.ts'
import { change, insist, insistAt, newWrite, note, readBack, tryOnce, type Write } from './transactions-client.ts'
import { chaosWorld, type Account, type ChaosWorld, type Server } from './transactions-world.ts'

/**
 * Named points at which a process kills itself on the way of an operation, each brought about; what stands in brackets is another way to
 * the same point. The stage fails when nobody dies there.
 */
const WAYS = {
  'before-bind-operation': writing,
  'in-bind-operation': writing,
  'after-bind-operation': writing,
  'after-sign-operation': writing,
  'before-pack': writing,
  'after-bind-outer': writing,
  'after-sign-outer': writing,
  'in-store-outer': writing,
  'after-store-outer': writing,
  'after-broadcast': writing,
  'before-answer-operation': writing,
  'signer.before-commit': signing,
  'signer.after-commit': signing,
  'signer.after-witness': signing,
  'signer.before-commit:2': signing,
  'signer.after-commit:2': signing,
  'signer.after-witness:2': signing,
  'before-replace': raising,
  'after-replace-sign': raising,
  'after-replace-store': raising,
  'after-replace-broadcast': raising,
  'before-replace (a cancel)': cancelling,
  'after-replace-sign (a cancel)': cancelling,
  'after-replace-store (a cancel)': cancelling,
  'before-fill': filling,
  'after-fill-sign': filling,
  'after-fill-store': filling,
  'in-block': following,
  'after-follow (a block)': following,
  'in-retract': retracting,
  'after-follow (a rollback)': retracting,
  'before-repack': packingAgain,
  'after-bind-outer (again)': packingAgain,
  'after-sign-outer (again)': packingAgain,
  'in-store-outer (again)': packingAgain,
  'after-store-outer (again)': packingAgain,
  // The last: the chain's clock is ahead of all others from then on.
  'before-expire': expiring,
} satisfies Record<string, (stage: Stage) => Promise<void>>

export type SponsorPoint = keyof typeof WAYS
export const SPONSOR_POINTS = Object.keys(WAYS) as SponsorPoint[]
/** A nonce is filled after 30 s, and nobody can put the clock of the embedded database ahead. */
export const WITHOUT_POSTGRES = SPONSOR_POINTS.filter((point) => WAYS[point] !== filling)

type Stage = {
  world: ChaosWorld
  sponsors: Sponsors
  /** two people, each of whose first write delegates */
  people: [Account, Account]
  step: string
  /** the replica that is written to */
  target: Server
  write(of?: Account): Write
  mining: { isPaused: boolean }
}

export type SponsorPointsReport = {
  replicas: number
  fired: SponsorPoint[]
  missed: string[]
  verdict: SponsoredVerdict
  seconds: number
  said: string
}

const SEED = 0x59
const BLOCK_MS = 150

/** Kills a process at each of the points, one after the other, each with two people of its own; then the chain's word. */
export async function playSponsorPoints({
  points = SPONSOR_POINTS,
  replicas,
  cluster,
  log = () => {},
}: {
  points?: SponsorPoint[]
  replicas: number
  cluster: string | null
  log?: (line: string) => void
}): Promise<SponsorPointsReport> {
  const startedAt = performance.now()
  const { sponsors, prepare } = withSponsors()
  const settings = { LANE_BUMP_AFTER_SECONDS: '1' }
  const world = await chaosWorld({
    roll: fractionsOf(SEED),
    replicas,
    cluster,
    accounts: 2 * points.length,
    settings,
    prepare,
  })
  const end = new AbortController()
  const mining = { isPaused: false }
  const miner = mine(world, mining, end.signal)
  try {
    const writes: Write[] = []
    const fired: SponsorPoint[] = []
    const missed: string[] = []
    for (const [index, point] of points.entries()) {
      const people: Stage['people'] = [world.accounts[2 * index]!, world.accounts[2 * index + 1]!]
      const write = (of = people[0]) => {
        const one = newWrite(of, SEED, wantOfPerson(world, of))
        writes.push(one)
        return one
      }
      const stage: Stage = { ...{ world, sponsors, people, write, mining }, step: point.replace(/ .*/, ''), target: world.servers[index % replicas]! } // prettier-ignore
      const at = performance.now()
      try {
        await WAYS[point](stage)
        const by = everybody(world).find((one) => one.fired.at(-1) === stage.step)!
        fired.push(point)
        log(`${replicas} replica(s), ${by.name} killed at ${point}, ${Math.round(performance.now() - at)} ms`)
      } catch (error) {
        missed.push(`${point}: ${(error as Error).message}`)
        log(`${replicas} replica(s), FAILED at ${point}: ${(error as Error).message}`)
      }
      mining.isPaused = false
      world.node.spike(null)
      for (const one of everybody(world)) {
        one.arm()
        one.goOn()
        one.fired.length = 0
      }
      await Promise.all(everybody(world).map((one) => one.ready()))
      for (const { address } of sponsors.accounts) await allowSponsor(world.node.anvil.url, address, TESTED_DELEGATE)
      // Nothing that is written from then on would be in time.
      if (point !== 'before-expire') await settleAll(world, writes)
    }
    const verdict = await judgeSponsored(sponsors)(world, writes, { log })
    const said = everybody(world).map(({ name, said: last }) => `${name}:\n${last()}`)
    return { ...{ replicas, fired, missed, verdict }, seconds: Math.round((performance.now() - startedAt) / 1_000), said: said.join('\n') } // prettier-ignore
  } finally {
    end.abort()
    await miner
    await world.close()
  }
}

/** Why the points were not proven, or null. */
export function failureOfPoints({ missed, verdict }: SponsorPointsReport): string | null {
  if (missed.length > 0) return `nobody was killed at ${missed.join('; ')}`
  return verdict.problems.length > 0 ? verdict.problems.join('; ') : null
}

async function mine({ node }: ChaosWorld, mining: { isPaused: boolean }, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await pause(BLOCK_MS)
    if (!mining.isPaused) await node.mine()
  }
}

const everybody = ({ servers, signer }: ChaosWorld): Supervised[] => [...servers, signer]

const dies = (some: Supervised[], step: string): Promise<unknown> =>
  until(`somebody dies at ${step}`, () => some.some(({ fired }) => fired.at(-1) === step))

/** Every caller repeats with its key until it is told. The database's clock is put ahead: the dead hold nothing. */
async function settleAll(world: ChaosWorld, writes: Write[]): Promise<void> {
  const open = writes.filter(({ hash, isAbandoned }) => hash === null && !isAbandoned)
  if (open.length === 0) return
  if (world.db !== null) await world.age(8)
  const endsAt = performance.now() + PATIENCE_MS
  const isOver = () => performance.now() > endsAt
  await Promise.all(open.map((write) => insist(world, write, { isOver, refusals: new Map(), looks: 1 })))
}

const tell = (world: ChaosWorld, server: Server, write: Write): Promise<void> =>
  tryOnce(world, server, write).then((answer) => note(write, answer))

/** Two people write at once, one of them on the replica that dies. */
async function writing({ world, target, step, write, people }: Stage): Promise<void> {
  target.arm(step)
  const other = world.servers.find((server) => server !== target) ?? target
  await Promise.all([insistAt(world, target, { write: write() }), tell(world, other, write(people[1]))])
  await dies([target], step)
}

/** The first commit of an operation is the person's signature, the second the sponsor's. */
async function signing({ world, target, step, write }: Stage): Promise<void> {
  world.signer.arm(step)
  await insistAt(world, target, { write: write(), dying: world.signer })
  await dies([world.signer], step)
}

/** A write of each is told and kept out of blocks. */
async function withheld({ world, mining, write, people }: Stage, many: 1 | 2 = 2): Promise<Write[]> {
  mining.isPaused = true
  await pause(BLOCK_MS)
  const writes = people.slice(0, many).map((one) => write(one))
  await settleAll(world, writes)
  if (writes.some(({ hash }) => hash === null)) throw new Error('a write was not answered')
  return writes
}

/** Blocks get dearer than what was offered: the keeper raises. */
async function raising(stage: Stage): Promise<void> {
  const { world, step, mining } = stage
  await withheld(stage)
  for (const server of world.servers) server.arm(step)
  world.node.spike(40_000_000_000n)
  mining.isPaused = false
  await dies(world.servers, step)
}

/** A person cancels what is alone in its transaction: at its nonce the id is used up. */
async function cancelling(stage: Stage): Promise<void> {
  const { target, step } = stage
  const [write] = await withheld(stage, 1)
  target.arm(step)
  await change(target, write!, 'cancel')
  await dies([target], step)
}

/** A sponsor's nonce whose process dies before it is signed for: it is filled after 30 s. */
async function filling({ world, target, step, write, people }: Stage): Promise<void> {
  const one = write()
  target.arm('after-bind-outer', step)
  await insistAt(world, target, { write: one })
  await dies([target], 'after-bind-outer')
  for (const server of world.servers) if (server !== target) server.arm(step)
  await world.age(40)
  await dies(world.servers, step)
  write(people[1])
}

/** Whoever follows the chain dies at a block that holds operations. */
async function following(stage: Stage): Promise<void> {
  const { world, step, mining } = stage
  await withheld(stage)
  for (const server of world.servers) server.arm(step)
  mining.isPaused = false
  await dies(world.servers, step)
}

/** The block that holds operations and the delegations of their accounts is gone, and the node does not put them back. */
async function retracting(stage: Stage): Promise<void> {
  const { world, step, mining, target } = stage
  const writes = await withheld(stage)
  mining.isPaused = false
  await until('the writes are mined', async () => {
    const told = await Promise.all(writes.map((write) => readBack(target, write, write.answer!.id!)))
    return told.every((one) => ['MINED', 'FINALIZED'].includes(one?.body.state ?? ''))
  })
  mining.isPaused = true
  await pause(BLOCK_MS)
  await world.node.mine()
  const head = Number(await world.node.anvil.rpc<string>('eth_blockNumber'))
  await until('the follower has the newest block', () => isFollowed(world, stage.people[0], head))
  // By what is told: the transaction of the first answer may have been replaced by then.
  const [first] = writes
  const { blockNumber } = (await readBack(target, first!, first!.answer!.id!))!.body.receipt!
  for (const server of world.servers) server.arm(step)
  await world.node.reorganise(head - blockNumber + 1, { putBack: false })
  await dies(world.servers, step)
}

/** With the harness's own door to the database; without one, by what the service says. */
async function isFollowed(world: ChaosWorld, account: Account, head: number): Promise<boolean> {
  if (world.db === null) return (await followedTo(world, account)) === head
  const cursor = await world.db.selectFrom('cursors').select('block_number').executeTakeFirst()
  return cursor?.block_number === head
}

const abi = parseAbi(['function setSponsor(address sponsor, bool allowed)'])

/** A sponsor loses its right before what it sent is mined: that is reverted whole, and another one packs the same again. */
async function packingAgain(stage: Stage): Promise<void> {
  const { world, step, mining, sponsors } = stage
  const [write] = await withheld(stage, 1)
  const sponsor = String(write!.answer!.tx!.from) as Hex
  const data = encodeFunctionData({ abi, functionName: 'setSponsor', args: [sponsor, false] })
  // Before all else in its block.
  const fees = { maxFeePerGas: '0xe8d4a51000', maxPriorityFeePerGas: '0xe8d4a51000' }
  await world.node.anvil.rpc('eth_sendTransaction', { from: sponsors.space, to: GAS.dispatcher, data, ...fees })
  for (const server of world.servers) server.arm(step)
  mining.isPaused = false
  await dies(world.servers, step)
}

/** Signed and never packed, and its client never comes back: over when its time is. */
async function expiring({ world, target, step, write }: Stage): Promise<void> {
  const one = write()
  one.isAbandoned = true
  target.arm('after-sign-operation')
  await insistAt(world, target, { write: one })
  await dies([target], 'after-sign-operation')
  await target.ready()
  for (const server of world.servers) server.arm(step)
  await world.node.anvil.rpc('evm_increaseTime', 700)
  await dies(world.servers, step)
}
