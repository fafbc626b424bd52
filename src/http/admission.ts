/**
 * What a request is worth when not all can be served: `vital` is refused only to anyone who floods us with it (taking access
 * away, operators, whether we live), `status` is let in up to the limit (what became of a write, signing in), then come new
 * writes, then reads: a read is repeated without harm.
 */
export type AdmissionClass = 'vital' | 'status' | 'write' | 'read'

/**
 * Whose request it is. Callers that are not known yet are one application, and a person each by address.
 * `weight`: the application's part against those of the others; 1 unless given
 */
export type Requester = { application: string; person: string; weight?: number }

/** What the process suffers from, milliseconds: how late the event loop is at least, and the longest wait for a connection. */
type Strain = { loopDelayMs: number; poolWaitMs: number }

/**
 * A request that was let in.
 * `leave`: it is over; `servedMs`: how long it took, where that says how busy we are. Twice does no harm.
 */
export type Ticket = { leave(servedMs?: number): void }

export type Admission = {
  /**
   * Lets a request in at once, or not at all: nobody queues here.
   * @param count  how many it counts for once it is in; one that is heavy is let in where there is room for one
   */
  enter(kind: AdmissionClass, whose: Requester, count?: number): Ticket | null
  /** Whether `enter` would let it in now. */
  hasRoom(kind: AdmissionClass, whose: Requester): boolean
  /** Moves the limits; called about every 100 ms. */
  adapt(strain: Strain): void
  /** requests in flight, and how many may be */
  state(): Record<'all' | 'reads' | 'writes', { limit: number; inFlight: number }>
}

type Share = { all: number; light: number }

/**
 * Shares of the limit of all that a class may fill, and that those may who hold less than their part of it: for each class above
 * what any other may fill, or an application that fills everything with that one would keep the others out of this one.
 */
const CEILING = {
  vital: { all: 1, light: 2 },
  status: { all: 1, light: 1.25 },
  write: { all: 0.95, light: 1.2 },
  read: { all: 0.8, light: 1.05 },
} as const satisfies Record<AdmissionClass, Share>
/** the same of the limit of a class of its own */
const OF_CLASS: Share = { all: 1, light: 1.25 }

/** milliseconds: the event loop is late by this much all the time */
const LATE_LOOP_MS = 100
/** milliseconds for a connection to the database */
const LATE_POOL_MS = 100
/** milliseconds after which the quickest of before is forgotten: a node may be another one by then */
const FORGET_MS = 300_000
/** milliseconds: how long half of a class take at most, wherever the node is */
const MAX_SLOW_MS = 3_000
/** times the quickest */
const SLOWER = 3

type Height = { least: number; start: number }
/** `slowMs`: half of them take longer, milliseconds; three times the quickest where that is more */
type ClassHeight = Height & { slowMs: number }
const ALL: Height = { least: 256, start: 1_024 }
const READS: ClassHeight = { least: 128, start: 512, slowMs: 100 }
const WRITES: ClassHeight = { least: 16, start: 256, slowMs: 500 }

/**
 * Decides who may begin, by what is in flight and how it goes. Limits find their own height: of all requests by the delay
 * of the event loop and of the database's connections; of reads and of writes by how long half of them take, because what
 * holds them up (node, signer, commits) is mostly no work of this process, and because those who are refused are work too. A
 * limit falls by a share when it is too high and rises slowly while it is used, as TCP's does. Anyone who holds less than a
 * fair share, of its application by weight and there of its person, still finds room when the others find none.
 * @param most  requests in flight at most, whatever the limits have come to
 * @param now   monotonic clock, milliseconds
 * Source: Chiu and Jain 1989 (additive increase, multiplicative decrease); Nichols and Jacobson, CoDel (standing delay);
 * Little's law
 */
export function openAdmission({ most, now }: { most: number; now: () => number }): Admission {
  const all = openPool(ALL, most)
  const reads = openPaced(READS, { most, now })
  const writes = openPaced(WRITES, { most, now })
  const ofClass = { vital: null, status: null, read: reads, write: writes }

  const hasRoom = (kind: AdmissionClass, whose: Requester): boolean =>
    all.hasRoom(CEILING[kind], whose) && ofClass[kind]?.hasRoom(OF_CLASS, whose) !== false

  return {
    hasRoom,
    enter(kind, whose, count = 1) {
      if (!hasRoom(kind, whose)) return null
      const paced = ofClass[kind]
      all.take(whose, count)
      paced?.take(whose, count)
      let isOver = false
      return {
        leave(servedMs) {
          if (isOver) return
          isOver = true
          all.giveBack(whose, count)
          paced?.giveBack(whose, count)
          if (servedMs !== undefined) paced?.note(servedMs)
        },
      }
    },
    adapt({ loopDelayMs, poolWaitMs }) {
      if (loopDelayMs > LATE_LOOP_MS || poolWaitMs > LATE_POOL_MS) all.fall(0.8)
      else all.rise(0.05, 4)
      all.newTurn()
      reads.adapt()
      writes.adapt()
    },
    state: () => ({ all: all.state(), reads: reads.state(), writes: writes.state() }),
  }
}

/** A pool whose limit follows how long its members take. */
function openPaced({ slowMs, ...height }: ClassHeight, { most, now }: { most: number; now: () => number }) {
  const pool = openPool(height, most)
  const quickest = openQuickest(now)
  let served: number[] = []
  let cutAt = Number.NEGATIVE_INFINITY
  return {
    ...pool,
    note: (ms: number) => void served.push(ms),
    adapt(): void {
      if (served.length > 0) {
        const sorted = served.toSorted((a, b) => a - b)
        served = []
        const median = sorted[sorted.length >> 1]!
        if (median <= Math.min(Math.max(slowMs, SLOWER * quickest.note(sorted[0]!)), MAX_SLOW_MS)) pool.rise(0.03, 2)
        // Those in flight began under the limit of before: what a lower one does shows when they are over.
        else if (now() - cutAt >= median) {
          pool.fall(0.9)
          cutAt = now()
        }
      }
      pool.newTurn()
    },
  }
}

type Holder = { count: number; weight: number; people: Map<string, number> }

/** What is in flight, whose it is, and a limit between `least` and `most` that moves only as far as it is used. */
function openPool({ least, start }: Height, most: number) {
  const floor = Math.min(least, most)
  const holders = new Map<string, Holder>()
  let limit = Math.min(start, most)
  let inFlight = 0
  /** of all holders */
  let weights = 0
  /** most at once since the limit moved last */
  let peak = 0

  /**
   * Whether someone who holds less than a fair part still finds room: a person who holds less than others of the
   * application, up to half of the room above; and where the application too holds less than others, up to all of it.
   * That is kept for anyone who comes.
   */
  function isLight({ all, light }: Share, { application, person, weight = 1 }: Requester): boolean {
    const holder = holders.get(application)
    const applications = holders.size + (holder === undefined ? 1 : 0)
    const part = weight / (weights - (holder?.weight ?? 0) + weight)
    const held = holder?.people.get(person) ?? 0
    const people = (holder?.people.size ?? 0) + (held === 0 ? 1 : 0)
    const ofApplication = limit * light * part
    if (held >= Math.max(1, ofApplication / people)) return false
    const isLightApplication = applications > 1 && (holder?.count ?? 0) < ofApplication
    if (isLightApplication) return inFlight < limit * light
    return people > 1 && inFlight < (limit * (all + light)) / 2
  }

  return {
    hasRoom(share: Share, whose: Requester): boolean {
      return inFlight < limit * share.all || isLight(share, whose)
    },
    take({ application, person, weight = 1 }: Requester, count: number): void {
      const holder = holders.get(application) ?? { count: 0, weight: 0, people: new Map<string, number>() }
      holders.set(application, holder)
      weights += weight - holder.weight
      holder.weight = weight
      holder.count += count
      holder.people.set(person, (holder.people.get(person) ?? 0) + count)
      inFlight += count
      peak = Math.max(peak, inFlight)
    },
    giveBack({ application, person }: Requester, count: number): void {
      const holder = holders.get(application)!
      const left = holder.people.get(person)! - count
      if (left === 0) holder.people.delete(person)
      else holder.people.set(person, left)
      holder.count -= count
      inFlight -= count
      if (holder.count > 0) return
      holders.delete(application)
      weights -= holder.weight
    },
    fall(factor: number): void {
      // A single slow one in a process that has nothing to do says nothing of how many are too many.
      if (peak < floor) return
      limit = Math.max(floor, Math.min(limit, Math.max(peak, limit / 2)) * factor)
    },
    rise(share: number, step: number): void {
      // Reads fill four fifths of all.
      if (peak >= limit * CEILING.read.all * 0.9) limit = Math.min(most, limit + Math.max(step, limit * share))
    },
    newTurn(): void {
      peak = inFlight
    },
    state: () => ({ limit: Math.floor(limit), inFlight }),
  }
}

/** The smallest of the last five to ten minutes. */
function openQuickest(now: () => number) {
  let [before, current, since] = [Infinity, Infinity, now()]
  return {
    note(ms: number): number {
      if (now() - since >= FORGET_MS) [before, current, since] = [current, Infinity, now()]
      current = Math.min(current, ms)
      return Math.min(before, current)
    },
  }
}
