import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { whoElseReads } from '../../secret-file.ts'
import { StartError } from '../refusal.ts'

/**
 * Reads a secret from a file that a command's option names.
 * @param name    description for error messages
 * @param option  the option that names it
 * @throws StartError  if the file is missing or readable by others
 */
export function readOwnFile(path: string, { name, option }: { name: string; option: string }): Buffer {
  let fd: number
  try {
    fd = openSync(path, 'r')
  } catch (cause) {
    throw new StartError(`The ${name} cannot be opened: ${option}.`, cause)
  }
  try {
    const others = whoElseReads(fstatSync(fd))
    if (others !== null) throw new StartError(`The ${name} is readable by ${others}. Run chmod 600 on it.`)
    return readFileSync(fd)
  } finally {
    closeSync(fd)
  }
}
