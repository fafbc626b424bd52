import type { Block } from './rpc/block.ts'
import { openPace, type Pace } from './pace.ts'

/** The newest block this process may answer from. Set by the follower after its database transaction. */
export type Head = {
  /** null until the first block was seen */
  current(): Block | null
  /** milliseconds since the head last changed or was confirmed */
  ageMs(): number
  /**
   * Milliseconds since the current head was to be seen, by its timestamp and how late others were lately: one that is seen late
   * makes the next ones no later. Since it was seen, where that is unknown.
   */
  sinceChangeMs(): number
  pace: Pace
  /**
   * Whether the follower runs in this process: then nothing is reported as mined above this head, by whichever replica,
   * before it is here.
   */
  isFollowed(): boolean
  /** @param forMs  how long nobody else can follow instead; 0: another may */
  setFollowed(forMs: number): void
  /** A new head, higher or, after a reorganisation, another one. */
  set(block: Block): void
  /** The node confirmed that the head is still the newest block. */
  confirm(): void
  /** Resolves with the first head at or above `number`, or null after `timeoutMs`. */
  waitFor(number: number, timeoutMs: number): Promise<Block | null>
  /** Calls back on every change; returns the way to stop. */
  onChange(listener: (block: Block) => void): () => void
}

/** @param now  a clock that nobody puts back, milliseconds */
export function openHead(now: () => number): Head {
  let head: Block | null = null
  let seenAt = Number.NEGATIVE_INFINITY
  let changedAt = Number.NEGATIVE_INFINITY
  let followedUntil = Number.NEGATIVE_INFINITY
  const pace = openPace()
  const listeners = new Set<(block: Block) => void>()
  const onChange = (listener: (block: Block) => void) => {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }
  return {
    current: () => head,
    ageMs: () => now() - seenAt,
    sinceChangeMs: () => {
      const expectedAt = head === null ? null : pace.expectedAt(head)
      return now() - Math.min(changedAt, expectedAt ?? changedAt)
    },
    pace,
    isFollowed: () => now() < followedUntil,
    setFollowed: (forMs) => {
      followedUntil = now() + forMs
    },
    confirm: () => {
      seenAt = now()
    },
    set: (block) => {
      seenAt = now()
      if (head?.hash === block.hash) return
      head = block
      changedAt = seenAt
      pace.note(block, changedAt)
      for (const listener of listeners) listener(block)
    },
    onChange,
    waitFor: (number, timeoutMs) => {
      if (head !== null && head.number >= number) return Promise.resolve(head)
      const { promise, resolve } = Promise.withResolvers<Block | null>()
      const timer = setTimeout(() => finish(null), timeoutMs)
      const stop = onChange((block) => {
        if (block.number >= number) finish(block)
      })
      const finish = (block: Block | null) => {
        clearTimeout(timer)
        stop()
        resolve(block)
      }
      return promise
    },
  }
}
