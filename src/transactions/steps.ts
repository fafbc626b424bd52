import type { App } from '../app.ts'

/**
 * Named points on the way of a write at which a proof may stop it: a hook that throws leaves everything as a killed
 * process would; `CRASH_AT=after-store:7` kills the real one at the seventh time, `CRASH_AT=after-bind:1:SIGSTOP` stops it
 * in its tracks until somebody lets it go on. In production there is no such thing.
 */
export type Step =
  | 'before-bind'
  | 'in-bind'
  | 'after-bind'
  | 'after-sign'
  | 'after-store'
  | 'after-broadcast'
  | 'before-replace'
  | 'after-replace-sign'
  | 'after-replace-store'
  | 'after-replace-broadcast'
  | 'before-fill'
  | 'after-fill-sign'
  | 'in-block'
  | 'in-retract'

type Hook = (step: Step) => void | Promise<void>
const hooks = new WeakMap<App, Hook>()

/** Tests only: calls `hook` at every step of this App, until it is given null. */
export function interruptSteps(app: App, hook: Hook | null): void {
  if (hook === null) hooks.delete(app)
  else hooks.set(app, hook)
}

const [wanted, times = '1', signal = 'SIGKILL'] = (
  process.env.NODE_ENV === 'production' ? '' : (process.env.CRASH_AT ?? '')
).split(':')
let left = Number(times)

export async function reach(app: App, step: Step): Promise<void> {
  if (step === wanted && --left === 0) process.kill(process.pid, signal)
  await hooks.get(app)?.(step)
}
