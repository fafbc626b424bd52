import type { App } from '../src/app.ts'
import { systemClock, type Clock } from '../src/clock.ts'
import { openHead } from '../src/chain/head.ts'
import { openMemory } from '../src/chain/memory.ts'
import type { Chain } from '../src/chain/network.ts'
import { openState } from '../src/state.ts'
import type { Application } from '../src/applications/application.ts'
import { forgetApplication, saveApplication } from '../src/applications/registry.ts'

/** The head of a chain and what is remembered of it, as `openChain` opens them. */
export function openedHead(clock: Clock = systemClock): Pick<Chain, 'clock' | 'head' | 'memory' | 'state'> {
  const head = openHead(clock)
  return { clock, head, memory: openMemory(head), state: openState() }
}

/** The same network, changed in a few things, that remembers nothing of what the other one has seen. */
export const chainLike = (chain: Chain, changes: Partial<Chain> = {}): Chain => ({
  ...chain,
  ...changes,
  memory: openMemory(changes.head ?? chain.head),
  state: openState(),
})

/** The same program, changed in a few things, that remembers nothing of what the other one did. */
export const appLike = (app: App, changes: Partial<App> = {}): App => ({ ...app, ...changes, state: openState() })

/** Saves an application that the program may have seen already, as the operator API does it. */
export async function changeApplication(app: App, application: Application): Promise<void> {
  await saveApplication(app, application)
  forgetApplication(app, application.clientId)
}
