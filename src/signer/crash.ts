import { readFileSync } from 'node:fs'

/**
 * Named points at which a proof may kill this process: `CRASH_AT=signer.after-commit` dies at the first
 * time, `signer.after-commit:7` at the seventh; `CRASH_AT=@file` reads them from a file, so that a process that runs
 * already can be given one. Without `--development` there is no such thing.
 */
export type CrashPoint = 'signer.before-commit' | 'signer.after-commit' | 'signer.after-witness'

const asked = process.argv.includes('--development') ? (process.env.CRASH_AT ?? '') : ''
let read = ''
let left = 0

/** SIGKILL to this very process when this point was asked for: nothing is flushed, nothing is closed. */
export function crashPoint(point: CrashPoint): void {
  if (asked === '') return
  const now = asked.startsWith('@') ? readFileSync(asked.slice(1), 'utf8') : asked
  const [wanted, times = '1'] = now.split(':')
  if (now !== read) left = Number(times)
  read = now
  if (point === wanted && --left === 0) process.kill(process.pid, 'SIGKILL')
}
