import type { Clock } from '../clock.ts'
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
  /** What the node was last heard to say, by anyone of this process who asked it for its newest block. */
  node: NodeView
}

/** So that nobody has to ask a node how it is. */
type NodeView = {
  /** Notes what became of a question for the newest block. @throws what `ask` throws */
  observe(ask: () => Promise<Block>): Promise<Block>
  /** number of the block that it last called its newest; null before it said any */
  newest(): number | null
  /** milliseconds for which what it was asked has had no answer; 0 while it answers */
  silentMs(): number
  /** what became of the last question that failed; null once one is answered */
  failure(): unknown
}

export function openHead({ ticks, after }: Clock): Head {
  let head: Block | null = null
  let seenAt = Number.NEGATIVE_INFINITY
  let changedAt = Number.NEGATIVE_INFINITY
  let followedUntil = Number.NEGATIVE_INFINITY
  const pace = openPace()
  const node = openNodeView(ticks)
  const listeners = new Set<(block: Block) => void>()
  const onChange = (listener: (block: Block) => void) => {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }
  return {
    current: () => head,
    ageMs: () => ticks() - seenAt,
    sinceChangeMs: () => {
      const expectedAt = head === null ? null : pace.expectedAt(head)
      return ticks() - Math.min(changedAt, expectedAt ?? changedAt)
    },
    pace,
    isFollowed: () => ticks() < followedUntil,
    setFollowed: (forMs) => {
      followedUntil = ticks() + forMs
    },
    confirm: () => {
      seenAt = ticks()
    },
    set: (block) => {
      seenAt = ticks()
      if (head?.hash === block.hash) return
      head = block
      changedAt = seenAt
      pace.note(block, changedAt)
      for (const listener of listeners) listener(block)
    },
    onChange,
    node,
    waitFor: (number, timeoutMs) => {
      if (head !== null && head.number >= number) return Promise.resolve(head)
      const { promise, resolve } = Promise.withResolvers<Block | null>()
      const timer = after(timeoutMs, () => finish(null))
      const stop = onChange((block) => {
        if (block.number >= number) finish(block)
      })
      const finish = (block: Block | null) => {
        timer.cancel()
        stop()
        resolve(block)
      }
      return promise
    },
  }
}

function openNodeView(ticks: () => number): NodeView {
  let newest: number | null = null
  let failure: unknown = null
  /** when the first question was asked that nothing has answered since */
  let unansweredSince: number | null = null
  return {
    async observe(ask) {
      unansweredSince ??= ticks()
      try {
        const block = await ask()
        ;[newest, failure, unansweredSince] = [block.number, null, null]
        return block
      } catch (error) {
        failure = error
        throw error
      }
    },
    newest: () => newest,
    silentMs: () => (unansweredSince === null ? 0 : ticks() - unansweredSince),
    failure: () => failure,
  }
}

/**
 * Calls back where a head is not the block after the one before it: blocks may have been reorganised. Heard of each head as it comes: between two
 * that ask there may be many blocks.
 */
export function onReorganised(head: Head, forget: () => void): void {
  let last = head.current()
  head.onChange((block) => {
    if (last !== null && block.parentHash !== last.hash) forget()
    last = block
  })
}
