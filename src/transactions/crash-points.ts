import type { App } from '../app.ts'
import { openCrashPoints } from '../crash-at.ts'
import { slot } from '../state.ts'

/**
 * Named points in a write at which a test may interrupt it. A hook that throws leaves the state that a killed process
 * would leave.
 * `CRASH_AT` (crash-at.ts) kills or stops the real process at a point. In production, hook and variable are absent. The
 * points are around the steps (steps.ts). Only points inside a database transaction (`in-…`) are in the body of a step.
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
  | 'before-bind-operation'
  | 'in-bind-operation'
  | 'after-bind-operation'
  | 'after-sign-operation'
  | 'before-pack'
  | 'after-bind-outer'
  | 'after-sign-outer'
  | 'in-store-outer'
  | 'after-store-outer'
  | 'before-answer-operation'
  | 'before-repack'
  | 'before-expire'
  | 'in-restore-operation'

type Hook = (step: Step) => void | Promise<void>
const hooks = slot('what interrupts the steps of writes', (_app: App): { hook: Hook | null } => ({ hook: null }))

/** For tests only: calls `hook` at every step of this App, until `hook` is null. */
export function interruptSteps(app: App, hook: Hook | null): void {
  hooks.of(app).hook = hook
}

/** Sends a signal to this process if `CRASH_AT` names this step. */
export const crashAt: (step: Step) => void = openCrashPoints(
  process.env.NODE_ENV === 'production' ? '' : (process.env.CRASH_AT ?? ''),
)

export async function reach(app: App, step: Step): Promise<void> {
  crashAt(step)
  await hooks.of(app).hook?.(step)
}

/**
 * Wraps a step with the points before and after it. The wrapped step has the same signature. If the step throws, the
 * point after it is not reached.
 * @param points.after  a point, or a function that chooses a point by the result; null: no point
 */
export const between =
  <Rest extends unknown[], Result>(
    { before, after }: { before?: Step; after: Step | ((result: Result) => Step | null) },
    step: (app: App, ...rest: Rest) => Promise<Result>,
  ) =>
  async (app: App, ...rest: Rest): Promise<Result> => {
    if (before !== undefined) await reach(app, before)
    const result = await step(app, ...rest)
    const reached = typeof after === 'function' ? after(result) : after
    if (reached !== null) await reach(app, reached)
    return result
  }
