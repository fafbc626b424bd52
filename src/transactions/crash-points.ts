import type { App } from '../app.ts'
import { openCrashPoints } from '../crash-at.ts'
import { slot } from '../state.ts'

/**
 * Named points on the way of a write at which a proof may stop it: a hook that throws leaves everything as a killed
 * process would, and `CRASH_AT` (crash-at.ts) kills or stops the real one. In production there is no such thing.
 * They stand around the steps (steps.ts); only those within a database transaction (`in-…`) are in its body.
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

/** Tests only: calls `hook` at every step of this App, until it is given null. */
export function interruptSteps(app: App, hook: Hook | null): void {
  hooks.of(app).hook = hook
}

/** The signal to this very process when this step was asked for. */
export const crashAt: (step: Step) => void = openCrashPoints(
  process.env.NODE_ENV === 'production' ? '' : (process.env.CRASH_AT ?? ''),
)

export async function reach(app: App, step: Step): Promise<void> {
  crashAt(step)
  await hooks.of(app).hook?.(step)
}

/**
 * A step with the points around it: it is called as it was, and a proof may stop it there. What fails does not reach the point after it.
 * @param points.after  by what came of it; null: no point
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
