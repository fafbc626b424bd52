import { replaceProcess } from './become.ts'
import { runCommand } from './run-command.ts'

/** `chatelaine …` as a process of its own. */
process.exitCode = await runCommand(process.argv.slice(2), {
  env: process.env,
  // Opened by the few commands that read it.
  get stdin() {
    return process.stdin
  },
  get stdout() {
    return process.stdout
  },
  get stderr() {
    return process.stderr
  },
  console,
  become: replaceProcess,
})
