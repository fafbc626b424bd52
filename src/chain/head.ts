import type { Hex } from '../ids.ts'

export type Block = {
  number: number
  hash: Hex
  parentHash: Hex
  /** seconds since 1970 */
  timestamp: number
  /** wei per gas; null on networks without EIP-1559 */
  baseFee: bigint | null
}

/** The newest block this process may answer from. Set by the follower after its database transaction. */
export type Head = {
  /** null until the first block was seen */
  current(): Block | null
  /** milliseconds since the head last changed or was confirmed */
  ageMs(): number
  /** A new head, higher or, after a reorganisation, another one. */
  set(block: Block): void
  /** The node confirmed that the head is still the newest block. */
  confirm(): void
  /** Resolves with the first head at or above `number`, or null after `timeoutMs`. */
  waitFor(number: number, timeoutMs: number): Promise<Block | null>
  /** Calls back on every change; returns the way to stop. */
  onChange(listener: (block: Block) => void): () => void
}

/** @param now  the clock, milliseconds */
export function openHead(now: () => number): Head {
  let head: Block | null = null
  let seenAt = Number.NEGATIVE_INFINITY
  const listeners = new Set<(block: Block) => void>()
  const onChange = (listener: (block: Block) => void) => {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }
  return {
    current: () => head,
    ageMs: () => now() - seenAt,
    confirm: () => {
      seenAt = now()
    },
    set: (block) => {
      seenAt = now()
      if (head?.hash === block.hash) return
      head = block
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
