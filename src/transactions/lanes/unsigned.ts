import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import type { Hex } from '../../ids.ts'
import { oncePer } from './group-commit.ts'

/** milliseconds between two checks without a notification, because another replica may be signing */
const LOOK_MS = 100

const waitingOf = oncePer('writes that wait for signatures', (_app, _chain) => new Map<Hex, Set<() => void>>())

/**
 * Resolves when this process has stored bytes of an account or vacated one of its nonces, after 100 ms at the latest.
 */
export function untilSigned(app: App, chain: Chain, from: Hex): Promise<void> {
  const waiting = waitingOf(app, chain)
  const { promise, resolve } = Promise.withResolvers<void>()
  const mine = waiting.get(from) ?? new Set()
  waiting.set(from, mine)
  const timer = app.clock.after(LOOK_MS, () => {
    mine.delete(wake)
    if (mine.size === 0 && waiting.get(from) === mine) waiting.delete(from)
    resolve()
  })
  function wake(): void {
    timer.cancel()
    resolve()
  }
  mine.add(wake)
  return promise
}

/** Wakes the writes that wait for an account's nonces to be signed, in the order of arrival. */
export function tellSigned(app: App, chain: Chain, from: Hex): void {
  const waiting = waitingOf(app, chain)
  const mine = waiting.get(from)
  if (mine === undefined) return
  waiting.delete(from)
  for (const wake of mine) wake()
}
