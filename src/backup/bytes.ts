/** Reads a stream in pieces of given lengths. */
export type ByteReader = {
  /** returns this many bytes; fewer only at the end */
  read: (length: number) => Promise<Buffer>
  /** returns the text up to a newline, without it; null if there is none within this many bytes */
  line: (most: number) => Promise<string | null>
  isEnd: () => Promise<boolean>
}

/** Creates a reader of a stream. */
export function readBytes(source: AsyncIterable<Uint8Array>): ByteReader {
  const pieces = source[Symbol.asyncIterator]()
  let held: Buffer[] = []
  let length = 0
  let isDone = false

  return { read, line, isEnd: async () => !(await fill(1)) }

  /** Buffers bytes. @returns whether this many are buffered */
  async function fill(wanted: number): Promise<boolean> {
    while (length < wanted && !isDone) {
      const { value, done } = await pieces.next()
      if (done === true) isDone = true
      else if (value.length > 0) {
        held.push(Buffer.from(value.buffer, value.byteOffset, value.length))
        length += value.length
      }
    }
    return length >= wanted
  }

  async function read(wanted: number): Promise<Buffer> {
    await fill(wanted)
    const all = held.length === 1 ? held[0]! : Buffer.concat(held)
    const taken = all.subarray(0, wanted)
    const rest = all.subarray(taken.length)
    held = rest.length === 0 ? [] : [rest]
    length = rest.length
    return taken
  }

  async function line(most: number): Promise<string | null> {
    for (let wanted = 1; wanted <= most + 1; wanted++) {
      const isHeld = await fill(wanted)
      const all = Buffer.concat(held)
      held = [all]
      const end = all.indexOf(10)
      if (end !== -1) return end > most ? null : (await read(end + 1)).subarray(0, end).toString('latin1')
      if (!isHeld) return null
      wanted = Math.max(wanted, length)
    }
    return null
  }
}
