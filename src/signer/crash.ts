/**
 * Named points at which a proof may kill this process: `CRASH_AT=signer.after-commit` dies at the first
 * time, `signer.after-commit:7` at the seventh. In production there is no such thing.
 */
export type CrashPoint = 'signer.before-commit' | 'signer.after-commit' | 'signer.after-witness'

const [wanted, times = '1'] = (process.env.NODE_ENV === 'production' ? '' : (process.env.CRASH_AT ?? '')).split(':')
let left = Number(times)

/** SIGKILL to this very process when this point was asked for: nothing is flushed, nothing is closed. */
export function crashPoint(point: CrashPoint): void {
  if (point === wanted && --left === 0) process.kill(process.pid, 'SIGKILL')
}
