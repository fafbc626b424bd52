import type { Hex } from '../ids.ts'
import type { RpcError } from './rpc/failures.ts'

/** of one half of what is kept */
const MAX_ENTRIES = 25_000
const MAX_CHARACTERS = 32_000_000

type Half = { answers: Map<string, Promise<unknown>>; characters: number }
/** What was read at one block: when the recent half is full, it takes the place of the one before. */
export type BlockAnswers = { recent: Half; before: Half }
/** What was read of a network at its newest block, one block at a time. */
export type ReadAnswers = { hash: Hex | null; of: BlockAnswers }

const newHalf = (): Half => ({ answers: new Map(), characters: 0 })
export const newAnswers = (): BlockAnswers => ({ recent: newHalf(), before: newHalf() })
export const openAnswers = (): ReadAnswers => ({ hash: null, of: newAnswers() })

/** Those of a block; what was kept of another goes. */
export function answersAt(kept: ReadAnswers, hash: Hex): BlockAnswers {
  if (kept.hash !== hash) {
    kept.hash = hash
    kept.of = newAnswers()
  }
  return kept.of
}

export const findKnown = <T>({ recent, before }: BlockAnswers, key: string): Promise<T> | undefined =>
  (recent.answers.get(key) ?? before.answers.get(key)) as Promise<T> | undefined

/** One request for all who want the same. A failure is not kept. */
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
      // What was asked before it was full may be long, too.
      if (half.characters > MAX_CHARACTERS) half.answers.delete(key)
    },
    () => half.answers.delete(key),
  )
  return answer
}

const isFull = ({ answers, characters }: Half): boolean => answers.size >= MAX_ENTRIES || characters > MAX_CHARACTERS

/** Characters, about. A revert may hold as much as an answer, once as bytes and once within its text. */
function sizeOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 100
  const { data, reverted } = value as { data?: Hex; reverted?: RpcError }
  if (reverted === undefined) return data?.length ?? 100
  const { message, data: given } = reverted
  return 500 + message.length + (typeof given === 'string' ? given.length : JSON.stringify(given ?? '').length)
}
