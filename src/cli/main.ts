import { replaceProcess } from './become.ts'
import { runCommand } from './run-command.ts'

process.exitCode = await runCommand(process.argv.slice(2), {
  env: process.env,
  // A getter, so that only commands which read standard input open it.
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
