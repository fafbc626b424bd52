import type { Hex } from '../ids.ts'
import type { FollowedBlock, KeptBlock } from './block.ts'

/** Limits of a network's blocks that wait in memory for the history: number of blocks, and bytes of their logs. */
const MAX_BLOCKS = 64
const MAX_SIZE = 32 * 1_048_576

/**
 * Followed blocks that the history has not indexed yet, so that they need not be fetched again. The size is limited: a
 * block that does not fit is fetched again when its turn comes.
 */
export class WaitingBlocks {
  readonly #blocks = new Map<number, { block: KeptBlock; size: number }>()
  #size = 0

  /** Adds a block if there is free memory. It replaces another block of the same number. */
  add(followed: FollowedBlock): void {
    const { number, hash, parentHash, timestamp, baseFee, receipts, native } = followed
    const block = {
      number,
      hash,
      parentHash,
      timestamp,
      baseFee,
      receipts,
      ...(native === undefined ? {} : { native }),
    }
    this.#drop(number)
    const size = sizeOf(block)
    if (this.#blocks.size >= MAX_BLOCKS || this.#size + size > MAX_SIZE) return
    this.#blocks.set(number, { block, size })
    this.#size += size
  }

  get(number: number, hash: Hex): KeptBlock | null {
    const block = this.#blocks.get(number)?.block
    return block?.hash === hash ? block : null
  }

  /** Removes the blocks that the history has indexed. */
  dropThrough(number: number): void {
    for (const known of this.#blocks.keys()) if (known <= number) this.#drop(known)
  }

  /** Returns whether at most half of each limit is used. */
  get isHalfEmpty(): boolean {
    return this.#blocks.size <= MAX_BLOCKS / 2 && this.#size <= MAX_SIZE / 2
  }

  #drop(number: number): void {
    this.#size -= this.#blocks.get(number)?.size ?? 0
    this.#blocks.delete(number)
  }
}

/** Approximate size of a log or receipt without its data, bytes. */
const FIXED = 500

const sizeOf = ({ receipts }: KeptBlock): number =>
  receipts.reduce((sum, { logs }) => logs.reduce((all, { data }) => all + data.length + FIXED, sum + FIXED), FIXED)
