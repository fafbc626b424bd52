/**
 * maximum bytes of a frame; a write has at most 96 KiB of calldata, which is 192 KiB of hex, and a sponsor transaction little more
 * (pack.ts)
 */
export const MAX_FRAME_BYTES = 524_288

/** The peer does not speak this protocol; the connection must be closed. */
export class FrameError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'FrameError'
  }
}

/**
 * Encodes one message: its length (32-bit big-endian), then JSON.
 * @throws FrameError  if it is larger than MAX_FRAME_BYTES, because the peer would close the connection
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
 * Creates a function that assembles frames from chunks of any size. It passes on each message in order of arrival, with its length
 * in bytes.
 * @returns  the function to call with every chunk
 * @throws FrameError  from that function, for a length above MAX_FRAME_BYTES or bytes that are not JSON in UTF-8
 */
export function frameReader(onMessage: (message: unknown, bytes: number) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return (chunk) => {
    let bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    while (bytes.length >= 4) {
      const length = bytes.readUInt32BE(0)
      // Reject by length alone, before a frame of that size is buffered.
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
    // Drop the cause: the message of JSON.parse repeats part of its input, which may be a token.
    throw new FrameError('A frame is not JSON in UTF-8.')
  }
}
