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

/** Where a proof may kill the signer (`CRASH_AT`). Without `--development` there is no such thing. */
export const crashPoint: (point: CrashPoint) => void = openCrashPoints(
  process.argv.includes('--development') ? (process.env.CRASH_AT ?? '') : '',
)
