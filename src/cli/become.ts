import { fileURLToPath } from 'node:url'
import type { Shell, Successor } from './shell.ts'

/** SIGUSR1 opens a debugger to every user of the machine, `__proto__` is a way to the prototype of every object. */
const HARDENED = ['--disable-sigusr1', '--disable-proto=throw']
/**
 * MB of each half of the engine's heap for what is new: it doubles under load up to 16, at some time within hours, which looks like a
 * leak (+25 MB of 120; bench/signer-memory.ts). So many it has within seconds.
 */
const NEW_SPACE = '--max-semi-space-size=8'

/** A program of the signer takes the place of this process: there is nobody between it and what watches over it. */
export const become = (shell: Shell, program: string, args: string[]): Promise<never> =>
  shell.become({ file: fileOf(`../signer/${program}`), flags: [...HARDENED, NEW_SPACE], args })

/** The same of the authorization server, whose libraries have prototypes of their own making. */
export const becomeAuth = (shell: Shell): Promise<never> =>
  shell.become({ file: fileOf('../auth.ts'), flags: HARDENED.slice(0, 1), args: [] })

const fileOf = (program: string): string => fileURLToPath(new URL(program, import.meta.url))

/** How a process of its own becomes another program. @throws Error where the system has no such thing */
export async function replaceProcess({ file, flags, args }: Successor): Promise<never> {
  // Windows has no such thing, and no Unix sockets as the signer needs them.
  if (process.execve === undefined) throw new Error(`This system does not support that here: run node ${file}`)
  // Options of Node from an environment that was made for another program could load code or open a debugger.
  const { NODE_OPTIONS: _dropped, ...env } = process.env
  return process.execve(process.execPath, [process.execPath, ...flags, ...process.execArgv, file, ...args], env)
}
