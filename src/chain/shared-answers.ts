import type { Hex } from '../ids.ts'
import type { RpcError } from './rpc/failures.ts'

/** maximum entries per half of the memory */
const MAX_ENTRIES = 25_000
const MAX_CHARACTERS = 32_000_000

type Half = { answers: Map<string, Promise<unknown>>; characters: number }
/** Results read at one block, in two halves. When the recent half is full, it replaces the older half. */
export type BlockAnswers = { recent: Half; before: Half }
/** Results read at a network's newest block, for one block at a time. */
export type ReadAnswers = { hash: Hex | null; of: BlockAnswers }

const newHalf = (): Half => ({ answers: new Map(), characters: 0 })
export const newAnswers = (): BlockAnswers => ({ recent: newHalf(), before: newHalf() })
export const openAnswers = (): ReadAnswers => ({ hash: null, of: newAnswers() })

/** Returns the results of a block; discards those of any other block. */
export function answersAt(kept: ReadAnswers, hash: Hex): BlockAnswers {
  if (kept.hash !== hash) {
    kept.hash = hash
    kept.of = newAnswers()
  }
  return kept.of
}

export const findKnown = <T>({ recent, before }: BlockAnswers, key: string): Promise<T> | undefined =>
  (recent.answers.get(key) ?? before.answers.get(key)) as Promise<T> | undefined

/** Shares one request among equal reads. Discards a failure. */
export function remember<T>(answers: BlockAnswers, key: string, answer: Promise<T>): Promise<T> {
  if (isFull(answers.recent)) {
    answers.before = answers.recent
    answers.recent = newHalf()
  }
  const half = answers.recent
  half.answers.set(key, answer)
  answer.then(
    (value) => {
      half.characters += key.length + sizeOf(value)
      // Delete the result if the half is already full: it may be large as well.
      if (half.characters > MAX_CHARACTERS) half.answers.delete(key)
    },
    () => half.answers.delete(key),
  )
  return answer
}

const isFull = ({ answers, characters }: Half): boolean => answers.size >= MAX_ENTRIES || characters > MAX_CHARACTERS

/**
 * Returns the approximate size in characters. A revert may be as long as a result, once as bytes and once in its
 * message.
 */
function sizeOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 100
  const { data, reverted } = value as { data?: Hex; reverted?: RpcError }
  if (reverted === undefined) return data?.length ?? 100
  const { message, data: given } = reverted
  return 500 + message.length + (typeof given === 'string' ? given.length : JSON.stringify(given ?? '').length)
}
