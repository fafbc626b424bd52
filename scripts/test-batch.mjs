/** Runs test files one after the other in this process and records the CPU seconds of each. */
import { AsyncResource } from 'node:async_hooks'
import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe } from 'node:test'
import { pathToFileURL } from 'node:url'

/** Ticks of a second in /proc; Linux has always said 100 to programs. */
const TICKS = 100

export function openBatch({ root, weights }) {
  const record = (name, from) => appendFileSync(weights, `${name} ${(cpuSeconds() - from).toFixed(2)}\n`)
  const opened = cpuSeconds()
  let isFirst = true
  // One after the other: a file that is imported beside another can find its tests in the other's suite.
  let imported = Promise.resolve()
  return (file) =>
    describe(file, async () => {
      let from
      before(() => {
        // All files are imported before the first test.
        if (isFirst) record('imports', opened)
        isFirst = false
        from = cpuSeconds()
      })
      // node:test knows the suite of a test by the asynchronous context that the test is named in.
      const suite = new AsyncResource('suite')
      imported = imported.then(() => suite.runInAsyncScope(() => import(pathToFileURL(join(root, file)).href)))
      await imported
      suite.runInAsyncScope(() => after(() => record(file, from)))
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
