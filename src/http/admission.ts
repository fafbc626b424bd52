/**
 * What holds a request up: `write` node, signer and commits, `read` a node, `status` only our own database (signing in, what
 * became of a write). `vital` is of `status`: taking access away, operators, whether we live.
 */
export type AdmissionClass = 'vital' | 'status' | 'write' | 'read'

/**
 * Whose request it is.
 * `weight`: the application's part against those of the others; 1 unless given
 */
export type Requester = { application: string; weight?: number }

/** Gives back what a request holds. Twice does no harm. */
export type Leave = () => void

export type Admission = {
  /**
   * Lets a request in at once, or not at all: nobody queues here.
   * @param count  how many it counts for once it is in; one that is heavy is let in where there is room for one
   */
  enter(kind: AdmissionClass, whose: Requester, count?: number): Leave | null
  /** Whether `enter` would let it in now. */
  hasRoom(kind: AdmissionClass, whose: Requester): boolean
  /** requests in flight */
  inFlight(): Record<'status' | 'writes' | 'reads', number>
}

/** Room above a limit, as a part of it, for who holds less than a fair share. */
const RESERVE = 0.25

/**
 * Decides who may begin, by what is in flight. Each class has a bounded semaphore of its own, so that what holds up one
 * takes no room from the others, and an application that fills one leaves room to others.
 * @param most  requests in flight at most: half of them reads, a quarter writes, a quarter the rest; the reserves come on top
 */
export function openAdmission(most: number): Admission {
  const status = openSemaphore(most / 4)
  const writes = openSemaphore(most / 4)
  const reads = openSemaphore(most / 2)
  const ofClass = { vital: status, status, write: writes, read: reads }
  return {
    hasRoom: (kind, whose) => ofClass[kind].hasRoom(whose),
    enter(kind, whose, count = 1) {
      const semaphore = ofClass[kind]
      if (!semaphore.hasRoom(whose)) return null
      semaphore.add(whose, count)
      let isOver = false
      return () => {
        if (!isOver) semaphore.add(whose, -count)
        isOver = true
      }
    },
    inFlight: () => ({ status: status.inFlight(), writes: writes.inFlight(), reads: reads.inFlight() }),
  }
}

function openSemaphore(limit: number) {
  const holders = new Map<string, { count: number; weight: number }>()
  let inFlight = 0

  /** An application's part of the limit, by weight among those that hold something now. */
  function shareOf({ application, weight = 1 }: Requester): number {
    let others = 0
    for (const [name, holder] of holders) if (name !== application) others += holder.weight
    return (limit * weight) / (others + weight)
  }

  return {
    inFlight: () => inFlight,
    hasRoom(whose: Requester): boolean {
      if (inFlight < limit) return true
      return inFlight < limit * (1 + RESERVE) && (holders.get(whose.application)?.count ?? 0) < shareOf(whose)
    },
    add({ application, weight = 1 }: Requester, count: number): void {
      const holder = { count: (holders.get(application)?.count ?? 0) + count, weight }
      if (holder.count === 0) holders.delete(application)
      else holders.set(application, holder)
      inFlight += count
    },
  }
}
