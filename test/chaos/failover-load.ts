import { setTimeout as pause } from 'node:timers/promises'
import type { Hex } from '../../src/ids.ts'
import { anyServer, newWrite, note, readBack, tryOnce, type Told, type Write } from './transactions-client.ts'
import type { Account, ChaosWorld } from './transactions-world.ts'

/** What a client was told and when; `at` is performance.now(). */
export type Answered = { write: Write; id: string; hash: Hex; askedAt: number; at: number }

/** Clients that write one after the other, each until it is told, repeating with its key as long as it takes. */
export type Load = {
  writes: Write[]
  /** in the order of their answers */
  answered: Answered[]
  /** answers beside success, by code, or by status where there is none */
  refusals: Map<string, number>
  /** 5xx other than 503 */
  faults: string[]
  /** begins no more; resolves when everybody was told */
  stop(): Promise<void>
}

/** milliseconds between a client's writes, and between its tries: short, as of a client that is told to repeat */
const PACE_MS = 60
const REPEAT_MS = 200

export function startLoad(
  world: ChaosWorld,
  { seed, clients = 2, paceMs = PACE_MS }: { seed: number; clients?: number; paceMs?: number },
): Load {
  const load = {
    writes: [] as Write[],
    answered: [] as Answered[],
    refusals: new Map<string, number>(),
    faults: [] as string[],
  }
  let isOver = false
  let isLost = false

  const refused = (told: Told | null) => {
    const code = told === null ? 'no answer' : (told.body.code ?? String(told.status))
    load.refusals.set(code, (load.refusals.get(code) ?? 0) + 1)
    if (told !== null && told.status >= 500 && told.status !== 503) load.faults.push(`${told.status} ${code}`)
  }

  async function insist(account: Account): Promise<void> {
    const write = newWrite(account, seed)
    const askedAt = performance.now()
    load.writes.push(write)
    while (write.hash === null && !isLost) {
      const told = world.servers.some((server) => server.isReady())
        ? await tryOnce(world, anyServer(world), write)
        : undefined
      if (told?.status === 200 && told.body.hash !== undefined) {
        note(write, told)
        load.answered.push({ write, id: told.body.id!, hash: told.body.hash, askedAt, at: performance.now() })
        return
      }
      if (told !== undefined) refused(told)
      if (told?.body.code === 'account_stopped') {
        write.problems.push('its account was stopped')
        return
      }
      await pause(REPEAT_MS)
    }
  }

  const running = world.accounts.flatMap((account) =>
    Array.from({ length: clients }, async () => {
      while (!isOver) {
        await insist(account)
        await pause(paceMs)
      }
    }),
  )
  return {
    ...load,
    async stop() {
      isOver = true
      // What nobody answers within a minute is a finding for the judge, not a reason to wait for ever.
      const late = pause(60_000, undefined, { ref: false }).then(() => {
        isLost = true
      })
      await Promise.race([Promise.all(running), late])
    },
  }
}

/**
 * Repeats each with its key, as a client does that was cut off before it could note the answer.
 * @returns  those that were told another hash, as sentences
 */
export async function repeatAll(world: ChaosWorld, answered: Answered[]): Promise<string[]> {
  const others: string[] = []
  await eightAtATime(answered, async ({ write, hash }) => {
    for (let tries = 0; tries < 100; tries++) {
      const told = await tryOnce(world, anyServer(world), write)
      if (told?.status === 200) {
        if (told.body.hash !== hash) others.push(`${write.account.name} was told ${hash}, and then ${told.body.hash}`)
        return
      }
      await pause(REPEAT_MS)
    }
    others.push(`${write.account.name} was told ${hash}, and then nothing`)
  })
  return others
}

/**
 * Looks every id up until it is found.
 * @returns  milliseconds until the last was that was not at its first look, and those that were not within the time
 */
export async function findAll(
  world: ChaosWorld,
  answered: Answered[],
  withinMs: number,
): Promise<{ tookMs: number; missing: string[] }> {
  const startedAt = performance.now()
  const missing: string[] = []
  let tookMs = 0
  await eightAtATime(answered, async ({ write, id }) => {
    for (let looks = 1; ; looks++) {
      const told = await readBack(anyServer(world), write, id)
      const ms = performance.now() - startedAt
      if (told?.status === 200) {
        if (looks > 1) tookMs = Math.max(tookMs, ms)
        return
      }
      if (ms > withinMs) return void missing.push(`${id} of ${write.account.name}: ${told?.body.code ?? 'no answer'}`)
      await pause(50)
    }
  })
  return { tookMs: Math.round(tookMs), missing }
}

async function eightAtATime<T>(all: T[], work: (one: T) => Promise<void>): Promise<void> {
  const left = [...all]
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let one = left.shift(); one !== undefined; one = left.shift()) await work(one)
    }),
  )
}
