import { readFileSync } from 'node:fs'

/**
 * Points of a program at which a proof may end it, by what `CRASH_AT` says: `after-store` kills it the first time it comes
 * there, `after-store:7` the seventh, `after-bind:1:SIGSTOP` stops it in its tracks until someone lets it continue;
 * `@file` reads that from a file, so that a process that runs already can be given a point.
 * @param asked  '' where there is no such thing
 * @returns      to be called at each point, with its name. The signal is for this very process: nothing is flushed, nothing is closed
 */
export function openCrashPoints(asked: string): (point: string) => void {
  if (asked === '') return () => {}
  let read = ''
  let left = 0
  return (point) => {
    const now = asked.startsWith('@') ? readFileSync(asked.slice(1), 'utf8') : asked
    const [wanted, times = '1', signal = 'SIGKILL'] = now.split(':')
    if (now !== read) left = Number(times)
    read = now
    if (point === wanted && --left === 0) process.kill(process.pid, signal)
  }
}
