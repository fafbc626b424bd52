/** Proofs of a process that are remembered; each is about 100 bytes of memory. */
const MAX = 250_000

/**
 * Proofs that were used, as long as they would be good. `forgotten`: it may have been used, and nothing remembers.
 * `full`: so many of its minute came that there is no room for another.
 */
export type SeenProofs = {
  /**
   * @param mark  names a proof and the key that made it
   * @param iat   when it was made, seconds since 1970
   * @param now   milliseconds since 1970
   */
  use(mark: string, at: { iat: number; now: number }): 'first' | 'again' | 'forgotten' | 'full'
}

/** Kept for a minute longer than the oldest proof that is accepted. */
const KEPT_MINUTES = 6

/**
 * Under pressure the oldest go first, and by a clock that is ahead all of now; nothing of the time of what was forgotten is
 * accepted again: what may have been used is never taken for new.
 */
export function openSeenProofs({ most = MAX } = {}): SeenProofs {
  /** by the minute in which they were made */
  const minutes = new Map<number, Set<string>>()
  let count = 0
  let forgottenBefore = Number.NEGATIVE_INFINITY

  function forget(minute: number): void {
    count -= minutes.get(minute)!.size
    minutes.delete(minute)
    forgottenBefore = Math.max(forgottenBefore, minute + 1)
  }

  return {
    use(mark, { iat, now }) {
      const [minute, present] = [Math.floor(iat / 60), Math.floor(now / 60_000)]
      for (const one of minutes.keys()) if (one < present - KEPT_MINUTES) forget(one)
      if (minute < forgottenBefore) return 'forgotten'
      for (const marks of minutes.values()) if (marks.has(mark)) return 'again'
      if (count >= most) {
        const oldest = Math.min(...minutes.keys())
        if (oldest >= present) return 'full'
        forget(oldest)
        if (minute <= oldest) return 'forgotten'
      }
      const ofMinute = minutes.get(minute) ?? new Set<string>()
      ofMinute.add(mark)
      minutes.set(minute, ofMinute)
      count++
      return 'first'
    },
  }
}
