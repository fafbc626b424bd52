import type { Telemetry } from './telemetry.ts'

/**
 * The resources that a program has opened. `close` closes them in reverse order; if one fails, it logs that and
 * continues.
 */
export type Opened = {
  <T>(name: string, thing: T, close: (thing: T) => Promise<void> | void): T
  close(): Promise<void>
}

/** Starts a list of opened resources. A resource that fails to close is logged as `close_failed`. */
export function openClosers({ log }: Telemetry): Opened {
  const closers: { name: string; close: () => Promise<void> | void }[] = []
  const opened = <T>(name: string, thing: T, close: (thing: T) => Promise<void> | void): T => {
    closers.push({ name, close: () => close(thing) })
    return thing
  }
  const close = async () => {
    for (const { name, close: end } of closers.toReversed()) {
      try {
        await end()
      } catch (error) {
        log.error('close_failed', { part: name }, error)
      }
    }
  }
  return Object.assign(opened, { close })
}
