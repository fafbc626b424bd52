import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

/**
 * Yields the lines of a file, or of standard input if `file` is `-`. It opens the input when the first line is
 * requested, because readline silently drops lines that arrive before its loop begins.
 * @throws Error  with the system's code, such as ENOENT
 */
export async function* linesOf(file: string, { stdin }: { stdin: Readable } = process): AsyncGenerator<string> {
  const input = file === '-' ? stdin : createReadStream(file)
  yield* createInterface({ input, crlfDelay: Infinity })
}
