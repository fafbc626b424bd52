// Kills the process at the moment when a file has begun to be there: PARTIAL.
import fs from 'node:fs'

const { open } = fs.promises
fs.promises.open = async (path, ...rest) => {
  const handle = await open(path, ...rest)
  if (path === process.env.PARTIAL) process.kill(process.pid, 'SIGKILL')
  return handle
}
;(await import('node:module')).syncBuiltinESMExports()
