/**
 * Classes of requests, by what they wait for:
 * - `write`: node, signer and commits
 * - `read`: a node
 * - `status`: our database (such as transaction states), and the identity provider at sign-in
 * - `vital`: shares the limit of `status`; revocations, operators, health checks
 */
export type AdmissionClass = 'vital' | 'status' | 'write' | 'read'

/**
 * The holder of an admission slot.
 * `person`: user of the application, or the IP address if the user is unknown
 * `weight`: share of the application relative to others, default 1
 */
export type Requester = { application: string; person?: string; weight?: number }

/** Releases a slot. A second call has no effect. */
export type Leave = () => void

export type Admission = {
  /**
   * Admits a request immediately or not at all; there is no queue. Returns null if it is not admitted.
   * @param count  slots that the request takes; it needs only one free slot to be admitted
   */
  enter(kind: AdmissionClass, whose: Requester, count?: number): Leave | null
  /** Returns whether `enter` would admit it now. */
  hasRoom(kind: AdmissionClass, whose: Requester): boolean
  /** admitted requests that hold a slot */
  inFlight(): Record<'status' | 'writes' | 'reads', number>
}

/** Slots above a limit, as a share of it, for applications and users that hold less than their fair share. */
const RESERVE = 0.25

/**
 * Opens the admission control, which decides by the number of requests in flight. Each class has its own semaphore, so
 * that a slow class takes no slots from the others. An application that fills a semaphore leaves its reserve to other
 * applications.
 * @param most  maximum requests in flight: half reads, a quarter writes, a quarter the rest; reserves are added
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

  /** Share of an application in the limit, by weight among the applications that hold a slot now. */
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
      // The application's own users may have used up its share. A second reserve is for users who hold less than an
      // equal part of it.
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
