import { readFileSync } from 'node:fs'

/**
 * Opens the crash points of a program, at which a test can kill it. The setting `CRASH_AT` selects one:
 * - `after-store` kills the process the first time it reaches that point
 * - `after-store:7` kills it the seventh time
 * - `after-bind:1:SIGSTOP` suspends it until it receives SIGCONT
 * - `@file` reads one of these from a file at each point, so that a running process can be given a point
 * @param asked  value of `CRASH_AT`; '': no crash points
 * @returns      a function to call at each point with its name. The signal goes to this process: nothing is flushed or
 * closed
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
