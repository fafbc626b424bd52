import { fileURLToPath } from 'node:url'
import type { Shell, Successor } from './shell.ts'

/**
 * SIGUSR1 would open a debugger to every user of the machine; `__proto__` would allow changes to the prototype of every
 * object.
 */
const HARDENED = ['--disable-sigusr1', '--disable-proto=throw']
/**
 * MB per semi-space, the part of the heap for new objects. V8 doubles it under load up to 16, at some time within
 * hours, which looks like a leak (+25 MB of 120; bench/signer-memory.ts). With a fixed value it is reached within
 * seconds.
 */
const NEW_SPACE = '--max-semi-space-size=8'

/** Replaces this process by a program of the signer, so that no process is between it and its supervisor. */
export const become = (shell: Shell, program: string, args: string[]): Promise<never> =>
  shell.become({ file: fileOf(`../signer/${program}`), flags: [...HARDENED, NEW_SPACE], args })

/** Replaces this process by the authorization server. `__proto__` remains enabled, because its libraries set prototypes. */
export const becomeAuth = (shell: Shell): Promise<never> =>
  shell.become({ file: fileOf('../auth.ts'), flags: HARDENED.slice(0, 1), args: [] })

const fileOf = (program: string): string => fileURLToPath(new URL(program, import.meta.url))

/** Replaces this process by another program. @throws Error if the system does not support it */
export async function replaceProcess({ file, flags, args }: Successor): Promise<never> {
  // Windows has no execve, and lacks the Unix sockets that the signer needs.
  if (process.execve === undefined) throw new Error(`This system cannot replace the process. Run node ${file} instead`)
  // NODE_OPTIONS were set for another program; they could load code or open a debugger.
  const { NODE_OPTIONS: _dropped, ...env } = process.env
  return process.execve(process.execPath, [process.execPath, ...flags, ...process.execArgv, file, ...args], env)
}
