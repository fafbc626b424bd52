/**
 * What holds a request up: `write` node, signer and commits, `read` a node, `status` our own database (what became of a write)
 * and, of those who sign in, their provider. `vital` is of `status`: taking access away, operators, whether we live.
 */
export type AdmissionClass = 'vital' | 'status' | 'write' | 'read'

/**
 * Whose request it is.
 * `person`: whom the application asks for, or an address where nobody is known
 * `weight`: the application's part against those of the others; 1 unless given
 */
export type Requester = { application: string; person?: string; weight?: number }

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

/** Room above a limit, as a part of it, for applications and persons that hold less than a fair share. */
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
  const holders = new Map<string, { count: number; weight: number; persons: Map<string, number> }>()
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
      if (inFlight >= limit * (1 + RESERVE)) return false
      const share = shareOf(whose)
      const { count, persons } = holders.get(whose.application) ?? { count: 0, persons: new Map<string, number>() }
      if (count < share) return true
      // Its own people may have taken its share: a reserve of its own is for those who have less of it than others.
      const own = persons.get(whose.person ?? '') ?? 0
      return count < share * (1 + RESERVE) && own < share / (persons.size + (own === 0 ? 1 : 0))
    },
    add({ application, person = '', weight = 1 }: Requester, more: number): void {
      const { count, persons } = holders.get(application) ?? { count: 0, persons: new Map<string, number>() }
      const own = (persons.get(person) ?? 0) + more
      if (own === 0) persons.delete(person)
      else persons.set(person, own)
      if (count + more === 0) holders.delete(application)
      else holders.set(application, { count: count + more, weight, persons })
      inFlight += more
    },
  }
}
