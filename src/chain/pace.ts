/** How quickly the blocks of a network follow each other, learned from their own timestamps. */
export type Pace = {
  /** @param seenAt  when it was first seen, milliseconds; absent where it was not seen as the newest */
  note(block: { number: number; timestamp: number }, seenAt?: number): void
  /** when a block of that timestamp is seen where nothing delays it, by the clock of `seenAt`; null while unknown */
  expectedAt(block: { timestamp: number }): number | null
  /** milliseconds below which hardly a block lately followed another; null while unknown, and where they come as they like */
  intervalMs(): number | null
}

/** the last so many blocks say it, and so many at least */
const REMEMBERED = 32
const ENOUGH = 8
/** in so many blocks, one that came early says nothing: seconds are rounded */
const ONE_IN = 12
/** milliseconds: what a node says of its blocks makes nobody wait longer */
const MAX_MS = 15_000

/**
 * A short time between neighbours, not the usual one: a network that lately had three times two blocks within a second is
 * asked as if it always had. Timestamps count seconds, so that networks of several blocks a second have none.
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
