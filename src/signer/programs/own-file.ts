import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { whoElseReads } from '../../secret-file.ts'
import { StartError } from '../refusal.ts'

/**
 * A secret that a command is given as a file.
 * @param name    what it is, for people
 * @param option  that named it
 * @throws StartError  when the file is missing or open to others
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
    if (others !== null) throw new StartError(`The ${name} is readable by ${others}: chmod 600.`)
    return readFileSync(fd)
  } finally {
    closeSync(fd)
  }
}
