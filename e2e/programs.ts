import { spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** A program of ours with the settings it was given and no others. */
export type RunningProgram = { child: ChildProcess; err: () => string; ended: Promise<number | null> }

const running: ChildProcess[] = []

/** Where commands that an example runs keep what is compiled, as the launcher tells them: a third of a short one is compiling. */
export const keepCompiled = (): Record<string, string> => {
  const { NODE_COMPILE_CACHE } = process.env
  return NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }
}

/** @param file  main.ts, signer/main.ts, or cli/main.ts with its words */
export function startProgram(
  file: string,
  env: Record<string, string>,
  cwd: string,
  words: string[] = [],
): RunningProgram {
  const { PATH = '', NODE_COMPILE_CACHE } = process.env
  const path = fileURLToPath(new URL(`../src/${file}`, import.meta.url))
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', path, ...words], {
    cwd,
    // As the launcher has it: what is compiled is kept, but nothing runs beside the keys that somebody else compiled.
    env: { PATH, ...(file.startsWith('signer/') ? {} : { NODE_COMPILE_CACHE }), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let err = ''
  child.stderr!.on('data', (chunk: Buffer) => (err += chunk.toString()))
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  running.push(child)
  return { child, err: () => err, ended }
}

/** Whatever a failed test left running. */
export const endAll = (): void => running.forEach((child) => void child.kill('SIGKILL'))
