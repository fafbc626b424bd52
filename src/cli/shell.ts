import type { Readable, Writable } from 'node:stream'
import type { Environment } from '../config.ts'

/** The parts of its process that a command may use, so that many commands can run in one process. */
export type Shell = {
  env: Environment
  stdin: Readable
  stdout: Writable
  stderr: Writable
  /** writes lines to these streams; a closed reader does not end the command */
  console: Pick<Console, 'log' | 'error'>
  /** runs a program in place of this process */
  become: (successor: Successor) => Promise<never>
}

/** The program that replaces a process: its file, options of Node.js, and arguments. */
export type Successor = { file: string; flags: string[]; args: string[] }

/** Ends a command that has printed everything with this exit code. */
export class ExitCode extends Error {
  readonly code: number
  constructor(code: number) {
    super(`exit code ${code}`)
    this.code = code
  }
}

/** Returns a log writer for a command: lines on standard error. */
export const logTo =
  ({ console }: Shell) =>
  (line: string): void =>
    console.error(line.trimEnd())

/** Adapts `run` to a Commander action, with the shell as the first argument. */
export const inShell =
  <Words extends unknown[]>(shell: Shell, run: (shell: Shell, ...words: Words) => Promise<void> | void) =>
  (...words: Words): Promise<void> | void =>
    run(shell, ...words)

/** Calls `listener` once for each of these signals. @returns a function that stops listening */
export function onSignals(signals: readonly NodeJS.Signals[], listener: () => void): () => void {
  for (const signal of signals) process.once(signal, listener)
  return () => {
    for (const signal of signals) process.off(signal, listener)
  }
}

/**
 * Exits the process in order at these signals, so that `exit` listeners delete temporary files.
 * @returns a function that stops it
 */
export const exitOnSignals = (): (() => void) => onSignals(['SIGINT', 'SIGTERM', 'SIGHUP'], () => process.exit(1))

/**
 * Makes files that are created during `work` private to this user. The mask is process-wide: the last concurrent call
 * restores it.
 */
export async function inPrivate<T>(work: () => Promise<T>): Promise<T> {
  if (masks.count++ === 0) masks.before = process.umask(0o077)
  try {
    return await work()
  } finally {
    if (--masks.count === 0) process.umask(masks.before)
  }
}

const masks = { count: 0, before: 0 }
