/** Runs test files one after the other in this process and records the CPU seconds of each. */
import asyncHooks, { AsyncResource } from 'node:async_hooks'
import { appendFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

// node:test follows every promise, to know to which test it belongs, which takes a tenth of all CPU. Once all tests are
// named, all that it is good for is to blame an error that nobody catches on a test: here it fails the file instead. So the
// hooks are kept, to be disabled then; node:test is imported after that, or it would not take this function.
const hooks = []
const { createHook } = asyncHooks
asyncHooks.createHook = (callbacks) => {
  const hook = createHook(callbacks)
  hooks.push(hook)
  return hook
}
const { after, before, describe, mock } = await import('node:test')
asyncHooks.createHook = createHook

/** errors that nobody caught, of the file that runs */
const stray = []
for (const event of ['uncaughtException', 'unhandledRejection']) process.on(event, (error) => stray.push(error))
async function failIfStray() {
  // A rejection counts as not caught only when the promises that are under way are through.
  await new Promise((done) => setImmediate(done))
  if (stray.length > 0) throw new AggregateError(stray.splice(0), 'nobody caught an error')
}
process.once('exit', () => {
  if (stray.length > 0) process.exitCode = 1
})

// node:test ends the process once the tests are over, and with it what a slow reader has not read yet.
const { exit } = process
process.exit = (code) => process.stdout.write('', () => exit.call(process, code))

/** What the next file would find otherwise than it was, if a file left it changed. */
const surroundings = () => JSON.stringify({ cwd: process.cwd(), env: process.env })
function failIfChanged(found) {
  mock.reset()
  if (surroundings() !== found) throw new Error('the working directory or an environment variable was left changed')
}

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
      let found
      before(() => {
        // All files are imported before the first test.
        if (isFirst) {
          record('imports', opened)
          for (const hook of hooks) hook.disable()
        }
        isFirst = false
        from = cpuSeconds()
        found = surroundings()
      })
      // node:test knows the suite of a test by the asynchronous context that the test is named in.
      const suite = new AsyncResource('suite')
      imported = imported.then(() => suite.runInAsyncScope(() => import(pathToFileURL(join(root, file)).href)))
      await imported
      suite.runInAsyncScope(() => {
        after(() => record(file, from))
        after(failIfStray)
        after(() => failIfChanged(found))
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
