import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { PATIENCE_MS, until } from '../kit/until.ts'
import { insist, insistAt, newWrite, note, readBack, tryOnce, type Write } from './transactions-client.ts'
import { followedTo, judge, type Verdict } from './transactions-oracle.ts'
import { chaosWorld, type Account, type ChaosWorld, type Server } from './transactions-world.ts'
import { fractionsOf } from '../random.ts'
import type { Supervised } from './processes.ts'

/**
 * Named points at which a process kills itself, each brought about: what has to happen for a process to get there is
 * made to happen, and the stage fails when it does not die there. Every kind of way has its own.
 */
const WAYS = {
  'before-bind': writing,
  'in-bind': writing,
  'after-bind': writing,
  'after-sign': writing,
  'after-store': writing,
  'after-broadcast': writing,
  'before-answer': writing,
  'before-replace': raising,
  'after-replace-sign': raising,
  'after-replace-store': raising,
  'after-replace-broadcast': raising,
  'before-fill': filling,
  'after-fill-sign': filling,
  'after-fill-store': filling,
  'in-block': following,
  'after-follow (a block)': following,
  'in-retract': retracting,
  'after-follow (a rollback)': retracting,
  'signer.before-commit': signing,
  'signer.after-commit': signing,
  'signer.after-witness': signing,
  'signer.after-commit (its write is torn)': tearing,
} satisfies Record<string, (stage: Stage) => Promise<void>>

export type Point = keyof typeof WAYS
export const POINTS = Object.keys(WAYS) as Point[]
/** A nonce is filled after 30 s, and nobody can put the clock of the embedded database ahead. */
export const WITHOUT_POSTGRES = POINTS.filter((point) => WAYS[point] !== filling)

type Stage = {
  world: ChaosWorld
  account: Account
  /** what `CRASH_AT` calls it */
  step: string
  /** the replica that is written to */
  target: Server
  write(): Write
  mining: { isPaused: boolean }
}

export type PointsReport = {
  replicas: number
  fired: { point: Point; by: string; ms: number }[]
  missed: string[]
  verdict: Verdict
  seconds: number
  said: string
}

const SEED = 0x901

/** Kills a process at each of the points, one after the other, each with an account of its own; then the chain's word. */
export async function playPoints({
  points = POINTS,
  replicas,
  cluster,
  log = () => {},
}: {
  points?: Point[]
  replicas: number
  cluster: string | null
  log?: (line: string) => void
}): Promise<PointsReport> {
  const startedAt = performance.now()
  const world = await chaosWorld({
    roll: fractionsOf(SEED),
    replicas,
    cluster,
    accounts: points.length,
    settings: { LANE_BUMP_AFTER_SECONDS: '1' },
  })
  const end = new AbortController()
  const mining = { isPaused: false }
  const miner = mine(world, mining, end.signal)
  try {
    const writes: Write[] = []
    const fired: PointsReport['fired'] = []
    const missed: string[] = []
    for (const [index, point] of points.entries()) {
      const account = world.accounts[index]!
      const write = () => {
        const one = newWrite(account, SEED)
        writes.push(one)
        return one
      }
      const stage: Stage = {
        ...{ world, account, write, mining },
        step: point.replace(/ .*/, ''),
        target: world.servers[index % replicas]!,
      }
      const at = performance.now()
      try {
        await WAYS[point](stage)
        const by = everybody(world).find((one) => one.fired.at(-1) === stage.step)!
        fired.push({ point, by: by.name, ms: Math.round(performance.now() - at) })
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
      await settleAll(world, writes)
    }
    const verdict = await judge(world, writes)
    const said = everybody(world).map(({ name, said: last }) => `${name}:\n${last()}`)
    return {
      ...{ replicas, fired, missed, verdict, said: said.join('\n') },
      seconds: Math.round((performance.now() - startedAt) / 1_000),
    }
  } finally {
    end.abort()
    await miner
    await world.close()
  }
}

/** Why the points were not proven, or null. */
export function failureOf({ missed, verdict }: PointsReport): string | null {
  if (missed.length > 0) return `nobody was killed at ${missed.join('; ')}`
  return verdict.problems.length > 0 ? verdict.problems.join('; ') : null
}

const BLOCK_MS = 150

async function mine({ node }: ChaosWorld, mining: { isPaused: boolean }, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await pause(BLOCK_MS)
    if (!mining.isPaused) await node.mine()
  }
}

const everybody = ({ servers, signer }: ChaosWorld): Supervised[] => [...servers, signer]

/** Every caller repeats with its key until it is told a hash. The database's clock is put ahead: the dead hold nothing. */
async function settleAll(world: ChaosWorld, writes: Write[]): Promise<void> {
  if (world.db !== null) await world.age(8)
  const endsAt = performance.now() + PATIENCE_MS
  const isOver = () => performance.now() > endsAt
  const open = writes.filter(({ hash, isAbandoned }) => hash === null && !isAbandoned)
  await Promise.all(open.map((write) => insist(world, write, { isOver, refusals: new Map(), looks: 1 })))
}

async function told({ world }: Stage, write: Write): Promise<void> {
  await settleAll(world, [write])
  if (write.hash === null) throw new Error(`a write of ${write.account.name} was not answered`)
}

async function mined(stage: Stage, write: Write): Promise<void> {
  await until('the write is mined', async () => {
    const answer = await readBack(stage.target, write)
    return ['MINED', 'FINALIZED'].includes(answer?.body.state ?? '')
  })
}

const dies = (some: Supervised[], step: string): Promise<unknown> =>
  until(`somebody dies at ${step}`, () => some.some(({ fired }) => fired.at(-1) === step))

/** Two writes of an account at once, one of them on the replica that dies. */
async function writing(stage: Stage): Promise<void> {
  const { world, target, step } = stage
  target.arm(step)
  const [first, second] = [stage.write(), stage.write()]
  const other = world.servers.find((server) => server !== target) ?? target
  await Promise.all([insistAt(world, target, { write: first }), tell(world, other, second)])
  await dies([target], step)
}

const tell = (world: ChaosWorld, server: Server, write: Write): Promise<void> =>
  tryOnce(world, server, write).then((answer) => note(write, answer))

/** Blocks get dearer than what was offered: the keeper raises. All replicas may; the first to get there dies. */
async function raising(stage: Stage): Promise<void> {
  await withheld(stage, () => stage.world.node.spike(40_000_000_000n))
}

/** An intent whose process dies after the bind and whose caller never comes back: its nonce is filled after 30 s. */
async function filling(stage: Stage): Promise<void> {
  const { world, target, step } = stage
  const write = stage.write()
  write.isAbandoned = true
  target.arm('after-bind', step)
  await insistAt(world, target, { write })
  await dies([target], 'after-bind')
  for (const server of world.servers) if (server !== target) server.arm(step)
  await world.age(40)
  await dies(world.servers, step)
  // The lane goes on behind it.
  stage.write()
}

/** Whoever follows the chain dies at a block that holds the write. */
async function following(stage: Stage): Promise<void> {
  await withheld(stage)
}

/** A write is kept out of blocks until every server is armed; one of them dies when blocks come again. */
async function withheld(stage: Stage, prepare = () => {}): Promise<void> {
  const { world, step, mining } = stage
  mining.isPaused = true
  await pause(BLOCK_MS)
  await told(stage, stage.write())
  for (const server of world.servers) server.arm(step)
  prepare()
  mining.isPaused = false
  await dies(world.servers, step)
}

/** Whoever follows dies in the rollback, or after it: the block of the write is gone, and the node does not put it back. */
async function retracting(stage: Stage): Promise<void> {
  const { world, step, mining } = stage
  const write = stage.write()
  await told(stage, write)
  await mined(stage, write)
  mining.isPaused = true
  await pause(BLOCK_MS)
  await world.node.mine()
  const head = Number(await world.node.anvil.rpc<string>('eth_blockNumber'))
  await until('the follower has the newest block', () => isFollowed(world, stage.account, head))
  const { blockNumber } = await world.node.anvil.rpc<{ blockNumber: string }>('eth_getTransactionReceipt', write.hash)
  for (const server of world.servers) server.arm(step)
  await world.node.reorganise(head - Number(blockNumber) + 1, { putBack: false })
  await dies(world.servers, step)
}

/** With the harness's own door to the database; without one, by what the service says. */
async function isFollowed(world: ChaosWorld, account: Account, head: number): Promise<boolean> {
  if (world.db === null) return (await followedTo(world, account)) === head
  const cursor = await world.db.selectFrom('cursors').select('block_number').executeTakeFirst()
  return cursor?.block_number === head
}

async function signing({ world, target, step, write }: Stage): Promise<void> {
  world.signer.arm(step)
  const { signer: dying } = world
  await Promise.all([write(), write()].map((one) => insistAt(world, target, { write: one, dying })))
  await dies([world.signer], step)
}

/** As a loss of power: the write that was under way is on the disk by half. Nobody was told of it, so nothing is lost. */
async function tearing(stage: Stage): Promise<void> {
  const { world } = stage
  world.signer.hold()
  await signing(stage)
  tearLastFrame(world.signerDir)
  world.signer.goOn()
  await world.signer.ready()
  if (/ledger_damaged/.test(world.signer.said())) throw new Error('the signer refuses a store that lost nothing')
}

const WAL_HEADER = 32
const FRAME_HEADER = 24

/**
 * Spoils the second half of the last frame of the write-ahead log, which SQLite then does not count as committed.
 * Frames of an older generation, with other salts, may stand behind it.
 * Source: sqlite.org/fileformat2.html, The Write-Ahead Log
 */
export function tearLastFrame(folder: string): void {
  const path = join(
    folder,
    readdirSync(folder).find((name) => name.endsWith('-wal'))!,
  )
  const bytes = readFileSync(path)
  const frameBytes = FRAME_HEADER + bytes.readUInt32BE(8)
  const salts = bytes.subarray(16, 24)
  let last = -1
  for (let at = WAL_HEADER; at + frameBytes <= bytes.length; at += frameBytes)
    if (bytes.subarray(at + 8, at + 16).equals(salts)) last = at
  if (last < 0) throw new Error('the write-ahead log holds no frame')
  const file = openSync(path, 'r+')
  const half = Math.floor(frameBytes / 2)
  writeSync(file, Buffer.alloc(frameBytes - half, 0x5a), 0, frameBytes - half, last + half)
  closeSync(file)
}
