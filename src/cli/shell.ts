import type { Readable, Writable } from 'node:stream'
import type { Environment } from '../config.ts'

/** What a command has of the process it runs in. It takes nothing else of it, so that many can run in one. */
export type Shell = {
  env: Environment
  stdin: Readable
  stdout: Writable
  stderr: Writable
  /** Writes lines to these two streams; a reader that has closed one of them ends no command. */
  console: Pick<Console, 'log' | 'error'>
  /** Runs a program in place of this process. */
  become: (successor: Successor) => Promise<never>
}

/** A program that takes over: its file, options of Node.js before it and words behind it. */
export type Successor = { file: string; flags: string[]; args: string[] }

/** Ends a command that has said everything with this exit code. */
export class ExitCode extends Error {
  readonly code: number
  constructor(code: number) {
    super(`exit code ${code}`)
    this.code = code
  }
}

/** The log of a command: lines on standard error. */
export const logTo =
  ({ console }: Shell) =>
  (line: string): void =>
    console.error(line.trimEnd())

/** The action of a command: `run` with the shell in front of what Commander read. */
export const inShell =
  <Words extends unknown[]>(shell: Shell, run: (shell: Shell, ...words: Words) => Promise<void> | void) =>
  (...words: Words): Promise<void> | void =>
    run(shell, ...words)

/** Calls `listener` at the first of these signals. @returns the way to stop listening */
export function onSignals(signals: readonly NodeJS.Signals[], listener: () => void): () => void {
  for (const signal of signals) process.once(signal, listener)
  return () => {
    for (const signal of signals) process.off(signal, listener)
  }
}

/** Lets the process exit in order at these signals: what listens to `exit` deletes what is temporary. @returns the way back */
export const exitOnSignals = (): (() => void) => onSignals(['SIGINT', 'SIGTERM', 'SIGHUP'], () => process.exit(1))

/** Files that are made meanwhile are for this user alone. The mask is the process's: the last one that ends restores it. */
export async function inPrivate<T>(work: () => Promise<T>): Promise<T> {
  if (masks.count++ === 0) masks.before = process.umask(0o077)
  try {
    return await work()
  } finally {
    if (--masks.count === 0) process.umask(masks.before)
  }
}

const masks = { count: 0, before: 0 }
