import { readFileSync } from 'node:fs'
import type { App } from '../app.ts'
import { slot } from '../state.ts'

/**
 * Named points on the way of a write at which a proof may stop it: a hook that throws leaves everything as a killed
 * process would; `CRASH_AT=after-store:7` kills the real one at the seventh time, `CRASH_AT=after-bind:1:SIGSTOP` stops it
 * in its tracks until someone lets it continue; `CRASH_AT=@file` reads that from a file, so that a process that runs
 * already can be given a point. In production there is no such thing.
 */
export type Step =
  | 'before-bind'
  | 'in-bind'
  | 'after-bind'
  | 'after-sign'
  | 'after-store'
  | 'after-broadcast'
  | 'before-answer'
  | 'before-replace'
  | 'after-replace-sign'
  | 'after-replace-store'
  | 'after-replace-broadcast'
  | 'before-fill'
  | 'after-fill-sign'
  | 'after-fill-store'
  | 'in-block'
  | 'in-retract'
  | 'after-follow'

type Hook = (step: Step) => void | Promise<void>
const hooks = slot('what interrupts the steps of writes', (_: App): { hook: Hook | null } => ({ hook: null }))

/** Tests only: calls `hook` at every step of this App, until it is given null. */
export function interruptSteps(app: App, hook: Hook | null): void {
  hooks.of(app).hook = hook
}

const asked = process.env.NODE_ENV === 'production' ? '' : (process.env.CRASH_AT ?? '')
let read = ''
let left = 0

export async function reach(app: App, step: Step): Promise<void> {
  crashAt(step)
  await hooks.of(app).hook?.(step)
}

/** The signal to this very process when this step was asked for: nothing is flushed, nothing is closed. */
export function crashAt(step: Step): void {
  if (asked === '') return
  const now = asked.startsWith('@') ? readFileSync(asked.slice(1), 'utf8') : asked
  const [wanted, times = '1', signal = 'SIGKILL'] = now.split(':')
  if (now !== read) left = Number(times)
  read = now
  if (step === wanted && --left === 0) process.kill(process.pid, signal)
}
