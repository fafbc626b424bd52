import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { deadline } from '../../deadline.ts'
import { AppError } from '../../errors.ts'
import { slot } from '../../state.ts'
import { type Clock } from '../../clock.ts'

export type GroupLimits = {
  /** maximum members of one group */
  most: number
  /** maximum bytes of one group; a larger member forms a group of its own */
  mostBytes: number
  /** maximum groups that are committed at a time */
  lanes: number
  /** drop members whose caller no longer waits, before their commit; only if nothing was done for them yet */
  dropsLate?: boolean
}

/** members that wait for a commit, at most; admission control normally lets in fewer */
const MAX_WAITING = 20_000

type PendingItem<Item, Result> = {
  item: Item
  bytes: number
  /** deadline in ticks of the clock */
  until: number
  resolve: (result: Result) => void
  reject: (error: unknown) => void
}

/**
 * Commits the work of many requests together: requests that arrive during a commit form the next group. A single
 * request does not wait for others. Under load, all members of a group but one save a commit, a plan and a round trip.
 * @param commit  runs one database transaction for all members, in the order of arrival; returns a result for each,
 *   in that order
 * @param sizeOf  bytes of a member, roughly
 * @returns resolves after the commit that includes the member is durable. If a group certainly fails, each member is
 *   tried alone, so that no member fails because of another. If the outcome is unknown, all members get that error.
 */
export function together<Item, Result>(
  { ticks }: Clock,
  { most, mostBytes, lanes, dropsLate = false }: GroupLimits,
  sizeOf: (item: Item) => number,
  commit: (items: Item[]) => Promise<Result[]>,
): (item: Item) => Promise<Result> {
  let waiting: PendingItem<Item, Result>[] = []
  let underWay = 0
  let isScheduled = false

  function start(): void {
    isScheduled = false
    if (dropsLate) dropLate()
    while (waiting.length > 0 && underWay < lanes) {
      const group = takeGroup()
      underWay++
      void finish(group).finally(() => {
        underWay--
        if (!isScheduled) start()
      })
    }
  }

  function dropLate(): void {
    const now = ticks()
    if (!waiting.some(({ until }) => until < now)) return
    for (const { until, reject } of waiting) if (until < now) reject(tooLate())
    waiting = waiting.filter(({ until }) => until >= now)
  }

  function takeGroup(): PendingItem<Item, Result>[] {
    let bytes = 0
    let count = 0
    for (; count < waiting.length && count < most; count++) {
      bytes += waiting[count]!.bytes
      if (count > 0 && bytes > mostBytes) break
    }
    const group = waiting.slice(0, count)
    waiting = waiting.slice(count)
    return group
  }

  async function finish(group: PendingItem<Item, Result>[]): Promise<void> {
    try {
      const results = await commit(group.map(({ item }) => item))
      for (const [index, { resolve }] of group.entries()) resolve(results[index]!)
    } catch (error) {
      if (group.length > 1 && !isUnknown(error)) for (const member of group) await finishAlone(member)
      else for (const { reject } of group) reject(error)
    }
  }

  async function finishAlone(member: PendingItem<Item, Result>): Promise<void> {
    // Nothing was done for this member yet, and the groups before it may have taken long.
    if (dropsLate && member.until < ticks()) member.reject(tooLate())
    else await finish([member])
  }

  return (item) => {
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    if (waiting.length >= MAX_WAITING) throw tooMany()
    waiting.push({ item, bytes: sizeOf(item), until: deadline(), resolve, reject })
    if (!isScheduled && underWay < lanes) {
      isScheduled = true
      // Start after all readable sockets were read, so that their requests join the same group.
      setImmediate(start)
    }
    return promise
  }
}

const tooLate = (): AppError =>
  new AppError('overloaded', 'The write could not start in time. Nothing was done. Retry.', { retryAfter: 1 })

const tooMany = (): AppError =>
  new AppError(
    'overloaded',
    'The queue for the database is full. Nothing was done. Retry with the same idempotency key.',
    { retryAfter: 1 },
  )

/** Returns whether the commit may have succeeded although the connection was lost, so that it must not be repeated. */
const isUnknown = (error: unknown): boolean => error instanceof AppError && error.code === 'database_unavailable'

/**
 * Creates one instance of something per network and App. A process has one App, tests have several.
 * @param name  names the App's slot
 */
export function oncePer<T>(name: string, open: (app: App, chain: Chain) => T): (app: App, chain: Chain) => T {
  const opened = slot(name, (_app: App) => new Map<number, T>())
  return (app, chain) => {
    const byChain = opened.of(app)
    const known = byChain.get(chain.chainId)
    if (known !== undefined) return known
    const made = open(app, chain)
    byChain.set(chain.chainId, made)
    return made
  }
}
