/** Runs test files one after the other in this process and records the CPU seconds of each. */
import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe } from 'node:test'
import { pathToFileURL } from 'node:url'

/** Ticks of a second in /proc; Linux has always said 100 to programs. */
const TICKS = 100

export function openBatch({ root, weights }) {
  let before = cpuSeconds()
  return (file) =>
    describe(file, async () => {
      await import(pathToFileURL(join(root, file)).href)
      after(() => {
        const now = cpuSeconds()
        appendFileSync(weights, `${file} ${(now - before).toFixed(2)}\n`)
        before = now
      })
    })
}

/** CPU seconds of this process and of the processes that it started and that have ended. Elsewhere than on Linux: its own. */
function cpuSeconds() {
  try {
    const fields = readFileSync('/proc/self/stat', 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS
  } catch {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  }
}
