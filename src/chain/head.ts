import type { Clock } from '../clock.ts'
import type { Block } from './rpc/block.ts'
import { openPace, type Pace } from './pace.ts'

/** The newest block that this process may use for answers. The follower sets it after its database transaction. */
export type Head = {
  /** null until the first block is known */
  current(): Block | null
  /** milliseconds since the head last changed or was confirmed */
  ageMs(): number
  /**
   * Milliseconds since the current head was expected to be seen, by its timestamp and the recent delays. So a block
   * that is seen late does not delay the next ones. If that time is unknown, milliseconds since the head was seen.
   */
  sinceChangeMs(): number
  pace: Pace
  /**
   * Returns whether the follower runs in this process. Then no replica reports a block above this head before this
   * process has it.
   */
  isFollowed(): boolean
  /** @param forMs  milliseconds for which no other process can follow; 0: another process may follow now */
  setFollowed(forMs: number): void
  /** Sets a new head: a higher block, or a different one after a reorganisation. */
  set(block: Block): void
  /** Records that the node reported the head as the newest block again. */
  confirm(): void
  /** Resolves with the first head at or above `number`, or null after `timeoutMs`. */
  waitFor(number: number, timeoutMs: number): Promise<Block | null>
  /** Calls back on every change; returns a function that unsubscribes. */
  onChange(listener: (block: Block) => void): () => void
  /** state of the node, as seen by this process's requests for its newest block */
  node: NodeView
}

/** State of a node, so that health checks need not ask it. */
type NodeView = {
  /**
   * Runs a request for the newest block and records its outcome.
   * @throws the errors of `ask`
   */
  observe(ask: () => Promise<Block>): Promise<Block>
  /** number of the newest block in its last response; null before the first one */
  newest(): number | null
  /** milliseconds since the first request without a response; 0 while it responds */
  silentMs(): number
  /** error of the last failed request; null after a response */
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
  /** time of the first request since the last response */
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
 * Calls `forget` when a head is not the child of the last one, because blocks may have been reorganised. Subscribes to
 * every head: between two reads there may be many blocks.
 */
export function onReorganised(head: Head, forget: () => void): void {
  let last = head.current()
  head.onChange((block) => {
    if (last !== null && block.parentHash !== last.hash) forget()
    last = block
  })
}
