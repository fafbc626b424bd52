import { BoundedMap } from '../../bounded-map.ts'
import type { Hex } from '../../ids.ts'
import type { Rpc } from './rpc.ts'

const REMEMBERED_MS = 60_000
const MAX_REMEMBERED = 10_000
const bombs = new WeakMap<Rpc, BoundedMap<string, number>>()

// The function, not the contract: anyone who calls one with arguments that burn all gas slows down no other.
const keyOf = ({ to, data }: { to: Hex; data: Hex }): string => to.toLowerCase() + data.slice(2, 10)

/** A call burnt all its gas or answered too much: for a minute the function is called outside of others' batches. */
export function noteBomb(rpc: Rpc, call: { to: Hex; data: Hex }): void {
  const known = bombs.get(rpc) ?? new BoundedMap<string, number>(MAX_REMEMBERED)
  bombs.set(rpc, known)
  known.set(keyOf(call), performance.now() + REMEMBERED_MS)
}

export function isBomb(rpc: Rpc, call: { to: Hex; data: Hex }): boolean {
  const known = bombs.get(rpc)
  if (known === undefined) return false
  const key = keyOf(call)
  const until = known.get(key)
  if (until === undefined) return false
  if (until > performance.now()) return true
  known.delete(key)
  return false
}
