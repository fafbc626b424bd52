import type { Hex } from '../ids.ts'
import type { FollowedBlock, KeptBlock } from './block.ts'

/** Blocks of one network that wait for the history, and the text of their logs: characters, a byte each. */
const MAX_BLOCKS = 64
const MAX_SIZE = 32 * 1_048_576

/**
 * Blocks that were followed and are not in the history yet, so that they need not be read again. Never more than a bound:
 * what finds no room is asked of the node once more when its turn comes.
 */
export class WaitingBlocks {
  readonly #blocks = new Map<number, { block: KeptBlock; size: number }>()
  #size = 0

  /** Keeps a block while there is room; another of the same number makes way for it. */
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

  /** Forgets what is in the history. */
  dropThrough(number: number): void {
    for (const known of this.#blocks.keys()) if (known <= number) this.#drop(known)
  }

  /** Whether as many blocks again as are kept would find room. */
  get isHalfEmpty(): boolean {
    return this.#blocks.size <= MAX_BLOCKS / 2 && this.#size <= MAX_SIZE / 2
  }

  #drop(number: number): void {
    this.#size -= this.#blocks.get(number)?.size ?? 0
    this.#blocks.delete(number)
  }
}

/** What a log or a receipt takes beside its data, about. */
const FIXED = 500

const sizeOf = ({ receipts }: KeptBlock): number =>
  receipts.reduce((sum, { logs }) => logs.reduce((all, { data }) => all + data.length + FIXED, sum + FIXED), FIXED)
