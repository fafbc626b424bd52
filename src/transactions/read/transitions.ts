import type { Hex } from '../../ids.ts'
import { toHex } from '../../hex.ts'
import type { Transition } from '../../store/column-values.ts'
import type { AttemptRow } from '../intent.ts'

const IN_BLOCK: ReadonlySet<string> = new Set(['MINED', 'REVERTED', 'CANCELLED'])

/**
 * Returns the recorded transitions of a transaction, with hashes. Some hashes are not stored in the transitions,
 * because other tables have them and they would be 1/6 of a row. The first transition lacks the hash of the first
 * bytes. The second lacks it if those bytes were mined. Their times are in order (`inOrder`).
 * @param stored  as in the row
 * @param attempts  all attempts of the transaction, in any order
 */
export const readTransitions = (stored: Transition[], attempts: AttemptRow[]): Transition[] =>
  inOrder(withHashes(stored, attempts))

/**
 * Returns transitions with times that never go back. The row has the order in which they were written. Each has the
 * time at which its writer read its clock: a process may have waited for another, and bytes that the ledger restored
 * have the time of their signature.
 */
export function inOrder(transitions: Transition[]): Transition[] {
  let last = ''
  return transitions.map((transition) => {
    if (transition.at > last) last = transition.at
    return transition.at === last ? transition : { ...transition, at: last }
  })
}

function withHashes(stored: Transition[], attempts: AttemptRow[]): Transition[] {
  const [first, second, ...others] = stored
  if (first?.state !== 'SUBMITTED') return stored
  const hash = first.hash ?? firstHash(attempts)
  if (hash === undefined) return stored
  const isBare = second !== undefined && second.hash === undefined && IN_BLOCK.has(second.state)
  const rest = isBare ? [withHash(second, hash), ...others] : stored.slice(1)
  return [withHash(first, hash), ...rest]
}

/**
 * Returns the hash of the first bytes, which are the cheapest: every fee bump costs more than the attempt before it.
 */
function firstHash(attempts: AttemptRow[]): Hex | undefined {
  const own = attempts.filter((attempt) => !attempt.is_cancel)
  const [first] = own.toSorted((a, b) => Buffer.compare(a.max_fee, b.max_fee))
  return first === undefined ? undefined : toHex(first.hash)
}

/**
 * Returns the time of a row's last change. `now()` is the start of a database transaction. If that transaction waited
 * for the row's insertion, it began before the row was created.
 */
export const changedAt = ({ created_at: made, updated_at: changed }: { created_at: Date; updated_at: Date }): string =>
  (changed < made ? made : changed).toISOString()

/** Adds a hash, with the fields in the order in which the database stores them. */
const withHash = ({ at, state, ...more }: Transition, hash: Hex): Transition => ({ at, hash, state, ...more })
