/** Interval of a network's blocks, measured from their timestamps. */
export type Pace = {
  /** @param seenAt  when the block was first seen, milliseconds; absent if it was not seen as the newest */
  note(block: { number: number; timestamp: number }, seenAt?: number): void
  /** returns when a block with that timestamp is seen without delay, by the clock of `seenAt`; null while unknown */
  expectedAt(block: { timestamp: number }): number | null
  /** shortest usual time between two recent blocks, milliseconds; null while unknown, or if blocks are irregular */
  intervalMs(): number | null
}

/** number of remembered blocks, and the minimum for a result */
const REMEMBERED = 32
const ENOUGH = 8
/** one block of this number may be early without effect, because timestamps are rounded to seconds */
const ONE_IN = 12
/** milliseconds: upper bound, so that a node's timestamps cannot cause longer waits */
const MAX_MS = 15_000

/**
 * Measures the interval of blocks. It is a short time between neighbours, not the average: if a network recently had
 * two blocks within a second three times, it is polled at that rate. Timestamps count seconds, so a network with
 * several blocks per second has no interval.
 */
export function openPace(): Pace {
  let last: { number: number; timestamp: number } | null = null
  let seconds: number[] = []
  let shortest: number | null = null
  let delays: number[] = []
  return {
    expectedAt: ({ timestamp }) => (delays.length === 0 ? null : timestamp * 1_000 + Math.min(...delays)),
    note: ({ number, timestamp }, seenAt) => {
      if (seenAt !== undefined && number !== last?.number)
        delays = [...delays.slice(1 - REMEMBERED), seenAt - timestamp * 1_000]
      if (last !== null && number === last.number + 1) {
        seconds = [...seconds.slice(1 - REMEMBERED), timestamp - last.timestamp]
        const short = seconds.toSorted((a, b) => a - b)[Math.floor(seconds.length / ONE_IN)]!
        shortest = seconds.length < ENOUGH || !(short > 0) ? null : Math.min(MAX_MS, short * 1_000)
      }
      if (last === null || number !== last.number) last = { number, timestamp }
    },
    intervalMs: () => shortest,
  }
}
