/** Proofs that a process remembers; each takes about 100 bytes. */
const MAX = 250_000

/** Used proofs, remembered for as long as they would be accepted. */
export type SeenProofs = {
  /**
   * Records a proof.
   * @param mark  identifies a proof and its key
   * @param iat   when it was made, seconds since 1970
   * @param now   milliseconds since 1970
   * @returns     `first`: not used before. `again`: used. `forgotten`: older than the remembered proofs, so it may
   * have been used. `full`: the memory is full of current proofs
   */
  use(mark: string, at: { iat: number; now: number }): 'first' | 'again' | 'forgotten' | 'full'
}

/** One minute longer than the oldest accepted proof. */
const KEPT_MINUTES = 6

/**
 * Opens the memory of used proofs. When it is full, it drops the oldest minute; if the clock jumps ahead, it drops all
 * that have become old. Proofs from dropped minutes are rejected, because they may have been used.
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
