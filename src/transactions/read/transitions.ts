import type { Hex } from '../../ids.ts'
import { toHex } from '../../hex.ts'
import type { Transition } from '../../store/column-values.ts'
import type { AttemptRow } from '../intent.ts'

const IN_BLOCK: ReadonlySet<string> = new Set(['MINED', 'REVERTED', 'CANCELLED'])

/**
 * The steps of a transaction as they are recorded. Hashes that the tables have anyway are not stored in them, for they would be
 * a sixth of a row: the first step is without that of the first bytes, and the second without it where a block has just these.
 * @param stored    as the row has them
 * @param attempts  all of the transaction, in any order
 */
export function readTransitions(stored: Transition[], attempts: AttemptRow[]): Transition[] {
  const [first, second, ...others] = stored
  if (first?.state !== 'SUBMITTED') return stored
  const hash = first.hash ?? firstHash(attempts)
  if (hash === undefined) return stored
  const isBare = second !== undefined && second.hash === undefined && IN_BLOCK.has(second.state)
  const rest = isBare ? [withHash(second, hash), ...others] : stored.slice(1)
  return [withHash(first, hash), ...rest]
}

/** A raise costs more than what it raises: the first bytes of an intent are its cheapest. */
function firstHash(attempts: AttemptRow[]): Hex | undefined {
  const own = attempts.filter((attempt) => !attempt.is_cancel)
  const [first] = own.toSorted((a, b) => Buffer.compare(a.max_fee, b.max_fee))
  return first === undefined ? undefined : toHex(first.hash)
}

/**
 * When a row was changed last. The time of a statement is that of when its transaction began: one that waited for another to make the row
 * may have begun before it was made.
 */
export const changedAt = ({ created_at: made, updated_at: changed }: { created_at: Date; updated_at: Date }): string =>
  (changed < made ? made : changed).toISOString()

/** In the order in which the database keeps fields. */
const withHash = ({ at, state, ...more }: Transition, hash: Hex): Transition => ({ at, hash, state, ...more })
