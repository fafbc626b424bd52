/** bytes; a write has at most 96 KiB of calldata, which is 192 KiB of hex, and a sponsor's transaction little more (pack.ts) */
export const MAX_FRAME_BYTES = 524_288

/** The other side does not speak this protocol; the connection is of no further use. */
export class FrameError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'FrameError'
  }
}

/**
 * One message as bytes, length first.
 * @throws FrameError  when it is larger than MAX_FRAME_BYTES: the other side would close the connection
 */
export function encodeFrame(message: unknown): Buffer {
  const text = JSON.stringify(message)
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_FRAME_BYTES) throw new FrameError(`A frame of ${bytes} bytes is too large.`)
  const frame = Buffer.allocUnsafe(4 + bytes)
  frame.writeUInt32BE(bytes, 0)
  frame.write(text, 4)
  return frame
}

/**
 * Puts frames together from chunks of any size, and hands each message on in the order it arrived, with its length
 * in bytes.
 * @returns  a function to give every chunk to
 * @throws FrameError  from that function, on a length above MAX_FRAME_BYTES or bytes that are no JSON in UTF-8
 */
export function frameReader(onMessage: (message: unknown, bytes: number) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (chunk) => {
    let bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    while (bytes.length >= 4) {
      const length = bytes.readUInt32BE(0)
      // Refused from its length alone, before anything of that size is kept.
      if (length > MAX_FRAME_BYTES) throw new FrameError('A frame is too large.')
      if (bytes.length < 4 + length) break
      const message = readJson(bytes.subarray(4, 4 + length))
      bytes = bytes.subarray(4 + length)
      onMessage(message, length)
    }
    rest = bytes
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

function readJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(utf8.decode(bytes))
  } catch {
    // JSON.parse repeats part of its input in its message, and that may be a token: the cause is dropped.
    throw new FrameError('A frame is not JSON in UTF-8.')
  }
}
