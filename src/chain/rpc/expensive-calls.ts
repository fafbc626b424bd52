import { BoundedMap } from '../../bounded-map.ts'
import { systemClock } from '../../clock.ts'
import type { Hex } from '../../ids.ts'

const REMEMBERED_MS = 60_000
const MAX_REMEMBERED = 10_000

type Called = { to: Hex; data: Hex }
/** Calls that burnt all their gas or answered too much: for a minute their function is called outside of others' batches. */
export type ExpensiveCalls = { note(call: Called): void; has(call: Called): boolean }

export function openExpensiveCalls({ ticks } = systemClock): ExpensiveCalls {
  /** until when, in ticks */
  const known = new BoundedMap<string, number>(MAX_REMEMBERED)
  return {
    note: (call) => void known.set(keyOf(call), ticks() + REMEMBERED_MS),
    has: (call) => {
      // Hardly ever is there one, and every call asks.
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

// The function, not the contract: anyone who calls one with arguments that burn all gas slows down no other.
const keyOf = ({ to, data }: Called): string => to.toLowerCase() + data.slice(2, 10)
