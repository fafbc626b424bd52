/** Concurrent deliveries of a process. */
export type Slots = {
  /** Takes a slot. @param isSlow  its webhook answers slowly: these share a part. @returns null  none is free */
  take(isSlow: boolean): (() => void) | null
}

/** Opens the slots of a process. A few slow webhooks cannot take those of all others. */
export function openSlots(max = 256, maxSlow = 64): Slots {
  let [taken, slow] = [0, 0]
  return {
    take: (isSlow) => {
      if (taken >= max || (isSlow && slow >= maxSlow)) return null
      taken++
      if (isSlow) slow++
      return () => {
        taken--
        if (isSlow) slow--
      }
    },
  }
}
