import { PATIENCE_MS } from '../kit/until.ts'
import { insist, newWrite, readBack, type Want, type Write } from './transactions-client.ts'
import type { Account, ChaosWorld, Server } from './transactions-world.ts'

/**
 * One fault at one moment, as exactly as processes allow. What it leaves is judged by the oracle, for the engine as it
 * is and for every mutant that it is there to catch. Needs PostgreSQL: two replicas, and time that can be made to pass.
 */
export type Scenario = { name: string; settings?: Record<string, string>; play: (stage: Stage) => Promise<void> }

export type Stage = {
  world: ChaosWorld
  account: Account
  writes: Write[]
  /** a new write of the account, in the verdict from now on */
  write(want?: Want): Write
  /** what the scenario says of itself: told, not thrown, so that the judge has its say too */
  problems: string[]
  expect(isSo: boolean, text: string): void
  /** repeats until it is told */
  told(write: Write): Promise<void>
  /** resolves when the process runs again, with that crash point if one is named */
  restart(one: Server | ChaosWorld['signer'], ...points: string[]): Promise<void>
}

const SEED = 0x5ce
/** milliseconds that a client insists: a mutant may answer nothing, and is played with all the others */
export const TOLD_MS = PATIENCE_MS / 2

export function stageOf(world: ChaosWorld, account: Account): Stage {
  const writes: Write[] = []
  const problems: string[] = []
  return {
    world,
    account,
    writes,
    problems,
    expect: (isSo, text) => {
      if (!isSo) problems.push(`scenario: ${text}`)
    },
    write: (want) => {
      const write = newWrite(account, SEED, want)
      writes.push(write)
      return write
    },
    told: async (write) => {
      const endsAt = performance.now() + TOLD_MS
      await insist(world, write, { isOver: () => performance.now() > endsAt, refusals: new Map(), looks: 0 })
    },
    restart: async (one, ...points) => {
      one.signal('SIGKILL')
      one.arm(...points)
      await one.gone()
      await one.ready()
    },
  }
}

export const first = ({ servers }: ChaosWorld): Server => servers[0]!
export const second = ({ servers }: ChaosWorld): Server => servers[1]!
export const offeredOf = ({ world: { node }, account }: Stage) =>
  [...node.pool.offered.values()].filter(({ from }) => from === account.address)
export const isMined = async ({ world }: Stage, write: Write): Promise<boolean> => {
  const told = await readBack(second(world), write)
  return ['MINED', 'FINALIZED'].includes(told?.body.state ?? '')
}
