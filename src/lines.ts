import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

/**
 * The lines of a file, or of standard input where it is `-`. Opened when the first is asked for: readline gives lines to
 * nobody, and without a word, while its loop has not begun.
 * @throws Error  with the code of the system: ENOENT
 */
export async function* linesOf(file: string, { stdin }: { stdin: Readable } = process): AsyncGenerator<string> {
  const input = file === '-' ? stdin : createReadStream(file)
  yield* createInterface({ input, crlfDelay: Infinity })
}
