import { openCrashPoints } from '../crash-at.ts'

export type CrashPoint =
  | 'signer.before-commit'
  | 'signer.after-commit'
  | 'signer.after-witness'
  | 'rotation.begun'
  | 'rotation.moving'
  | 'rotation.moved'
  | 'rotation.wrapping'
  | 'rotation.wrapped'

/** Ends the signer at the point that `CRASH_AT` names, for tests. Without `--development` it does nothing. */
export const crashPoint: (point: CrashPoint) => void = openCrashPoints(
  process.argv.includes('--development') ? (process.env.CRASH_AT ?? '') : '',
)
