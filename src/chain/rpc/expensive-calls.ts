import { BoundedMap } from '../../bounded-map.ts'
import { systemClock } from '../../clock.ts'
import type { Hex } from '../../ids.ts'

const REMEMBERED_MS = 60_000
const MAX_REMEMBERED = 10_000

type Called = { to?: Hex | undefined; data: Hex }
/**
 * Calls that used all their gas or returned too much. For a minute, calls of the same function are sent outside of
 * shared batches.
 */
export type ExpensiveCalls = { note(call: Called): void; has(call: Called): boolean }

export function openExpensiveCalls({ ticks } = systemClock): ExpensiveCalls {
  /** expiry in ticks */
  const known = new BoundedMap<string, number>(MAX_REMEMBERED)
  return {
    note: (call) => void known.set(keyOf(call), ticks() + REMEMBERED_MS),
    has: (call) => {
      // The map is usually empty, and every call checks it.
      if (known.size === 0) return false
      const key = keyOf(call)
      const until = known.get(key)
      if (until === undefined) return false
      if (until > ticks()) return true
      known.delete(key)
      return false
    },
  }
}

// The key is the function, not the contract: a caller whose arguments use up all gas delays no other function.
const keyOf = ({ to, data }: Called): string => (to ?? 'creation').toLowerCase() + data.slice(2, 10)
