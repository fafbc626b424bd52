import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { deadline } from '../../deadline.ts'
import { AppError } from '../../errors.ts'
import { slot } from '../../state.ts'
import { type Clock } from '../../clock.ts'

export type GroupLimits = {
  /** members of one group */
  most: number
  /** bytes of one group; a larger member goes alone */
  mostBytes: number
  /** groups under way at a time */
  lanes: number
  /** members that nobody waits for any more are dropped before their commit; only where nothing was done yet */
  dropsLate?: boolean
}

/** what waits for a commit, at most: the gate lets fewer in, and this holds whatever else should come */
const MAX_WAITING = 20_000

type PendingItem<Item, Result> = {
  item: Item
  bytes: number
  /** ticks of the clock */
  until: number
  resolve: (result: Result) => void
  reject: (error: unknown) => void
}

/**
 * Commits the work of many together: what arrives while a commit is under way becomes the next group. Nobody waits for
 * company, so alone it costs nothing, and under load it saves a commit, a plan and a round trip for all but one.
 *
 * @param commit  one database transaction for all of these, in the order they came; a result for each, in that order
 * @param sizeOf  bytes of a member, roughly
 * @returns       resolves after the commit that holds the member is durable. When a group fails for sure, each member
 *                is tried alone, so that nobody fails for a neighbour; when its end is unknown, all are told so
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
    // Nothing was done for it, and those before it may have taken long.
    if (dropsLate && member.until < ticks()) member.reject(tooLate())
    else await finish([member])
  }

  return (item) => {
    const { promise, resolve, reject } = Promise.withResolvers<Result>()
    if (waiting.length >= MAX_WAITING) throw tooMany()
    waiting.push({ item, bytes: sizeOf(item), until: deadline(), resolve, reject })
    if (!isScheduled && underWay < lanes) {
      isScheduled = true
      // After the sockets that are readable now were read: what they ask for goes into the same group.
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

/** A connection that was lost may have been lost at COMMIT: what it did is not done again beside it. */
const isUnknown = (error: unknown): boolean => error instanceof AppError && error.code === 'database_unavailable'

/**
 * One of something for each network of each App: a process has one App, tests have several.
 * @param name  of what it is, among what the App remembers
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
