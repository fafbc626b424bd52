import { fileURLToPath } from 'node:url'

/** SIGUSR1 opens a debugger to every user of the machine, `__proto__` is a way to the prototype of every object. */
const HARDENED = ['--disable-sigusr1', '--disable-proto=throw']

/** A program of the signer takes the place of this process: there is nobody between it and what watches over it. */
export function become(program: string, args: string[]): never {
  const file = fileURLToPath(new URL(`../signer/${program}`, import.meta.url))
  // Windows has no such thing, and no Unix sockets as the signer needs them.
  if (process.execve === undefined) throw new Error(`This system does not support that here: run node ${file}`)
  // Options of Node from an environment that was made for another program could load code or open a debugger.
  const { NODE_OPTIONS: _dropped, ...env } = process.env
  return process.execve(process.execPath, [process.execPath, ...HARDENED, ...process.execArgv, file, ...args], env)
}
