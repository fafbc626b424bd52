import { RpcTooLarge } from './failures.ts'

/** The parts of an HTTP response that JSON-RPC needs. */
export type HttpAnswer = { status: number; body: Buffer; isReusable: boolean }

export type HttpReader = {
  /**
   * Reads bytes.
   * @returns the response once it is complete
   * @throws BadHttp, RpcTooLarge
   */
  take(chunk: Buffer): HttpAnswer | null
  /**
   * Ends the input when the connection ended.
   * @returns the response if its body lasts until then
   */
  finish(): HttpAnswer | null
}

/** Thrown for bytes that are not HTTP/1.1 as supported here. */
export class BadHttp extends Error {}

const MAX_HEAD_BYTES = 32_768
const MAX_LINE_BYTES = 1_024
/** maximum pieces of a body that may be of any size; beyond, the average size in bytes has a minimum */
const MAX_CRUMBS = 10_000
const MIN_PIECE_BYTES = 64

type ReaderState =
  | { at: 'head' }
  | { at: 'length'; left: number }
  | { at: 'end' }
  | { at: 'chunk size' | 'chunk end' | 'trailer' }
  | { at: 'chunk'; left: number }

/**
 * Creates a reader of one response to a POST, from the bytes of a connection in pieces of any size. The HTTP client of
 * Node.js costs 60 µs more per request, which is most of the cost of a single read.
 * Source: RFC 9112 §4, §6, §7.1
 */
export function newHttpReader(maxBytes: number): HttpReader {
  let state: ReaderState = { at: 'head' }
  let held: Buffer = Buffer.alloc(0)
  let status = 0
  let isKept = false
  const body: Buffer[] = []
  let size = 0

  const whole = (isReusable: boolean): HttpAnswer => ({
    status,
    body: body.length === 1 ? body[0]! : Buffer.concat(body),
    isReusable,
  })

  function keep(bytes: Buffer): void {
    if (bytes.length === 0) return
    size += bytes.length
    if (size > maxBytes) throw new RpcTooLarge()
    body.push(bytes)
    if (body.length > MAX_CRUMBS && size / body.length < MIN_PIECE_BYTES)
      throw new BadHttp('the body has too many tiny chunks')
  }

  /** Takes the next line without its end; null while it is incomplete. */
  function takeLine(): string | null {
    const end = held.indexOf('\r\n')
    if (end > MAX_LINE_BYTES || (end === -1 && held.length > MAX_LINE_BYTES))
      throw new BadHttp('a line of a chunked body is too long')
    if (end === -1) return null
    const line = held.toString('latin1', 0, end)
    held = held.subarray(end + 2)
    return line
  }

  /** Reads the next part of the response. @returns false if more bytes are needed */
  function step(): boolean {
    switch (state.at) {
      case 'head': {
        const end = held.indexOf('\r\n\r\n')
        if (end > MAX_HEAD_BYTES || (end === -1 && held.length > MAX_HEAD_BYTES))
          throw new BadHttp('the head is too long')
        if (end === -1) return false
        const head = readHead(held.toString('latin1', 0, end))
        held = held.subarray(end + 4)
        // Interim responses, such as 103 Early Hints, precede the final one.
        if (head.status < 200) return true
        if (head.length !== null && head.length > maxBytes) throw new RpcTooLarge()
        status = head.status
        isKept = head.isKept
        if (status === 204 || status === 304) state = { at: 'length', left: 0 }
        else if (head.isChunked) state = { at: 'chunk size' }
        else state = head.length === null ? { at: 'end' } : { at: 'length', left: head.length }
        return true
      }
      case 'length':
      case 'chunk': {
        const bytes = held.subarray(0, state.left)
        held = held.subarray(bytes.length)
        keep(bytes)
        state.left -= bytes.length
        if (state.left > 0 || state.at === 'length') return false
        state = { at: 'chunk end' }
        return true
      }
      case 'end':
        keep(held)
        held = held.subarray(held.length)
        return false
      case 'chunk size': {
        const line = takeLine()
        if (line === null) return false
        const digits = /^([0-9a-f]{1,8})[ \t]*(;.*)?$/i.exec(line)
        if (digits === null) throw new BadHttp('a chunk without its size')
        const left = Number.parseInt(digits[1]!, 16)
        state = left === 0 ? { at: 'trailer' } : { at: 'chunk', left }
        return true
      }
      case 'chunk end': {
        const line = takeLine()
        if (line === null) return false
        if (line !== '') throw new BadHttp('a chunk longer than its size')
        state = { at: 'chunk size' }
        return true
      }
      case 'trailer': {
        const line = takeLine()
        if (line === null) return false
        if (line !== '') return true
        state = { at: 'length', left: 0 }
        return false
      }
    }
  }

  return {
    take: (chunk) => {
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
      while (step());
      // Bytes after the response belong to no request, so such a connection is not reused.
      return state.at === 'length' && state.left === 0 ? whole(isKept && held.length === 0) : null
    },
    finish: () => (state.at === 'end' ? whole(false) : null),
  }
}

type ResponseHead = { status: number; length: number | null; isChunked: boolean; isKept: boolean }

function readHead(text: string): ResponseHead {
  const [first = '', ...lines] = text.split('\r\n')
  const start = /^HTTP\/1\.([01]) ([1-5]\d\d)( |$)/.exec(first)
  if (start === null) throw new BadHttp('the answer does not begin like HTTP/1.1')
  const head: ResponseHead = { status: Number(start[2]), length: null, isChunked: false, isKept: start[1] === '1' }
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    if (name !== 'content-length' && name !== 'transfer-encoding' && name !== 'connection') continue
    const value = line
      .slice(colon + 1)
      .trim()
      .toLowerCase()
    if (name === 'connection')
      head.isKept = value.includes('close') ? false : head.isKept || value.includes('keep-alive')
    else if (name === 'transfer-encoding') {
      if (value !== 'chunked') throw new BadHttp('unexpected content encoding')
      head.isChunked = true
    } else {
      if (!/^\d{1,15}$/.test(value) || (head.length !== null && head.length !== Number(value)))
        throw new BadHttp('invalid Content-Length')
      head.length = Number(value)
    }
  }
  // RFC 9112 §6.3: a response with Transfer-Encoding and Content-Length may be an attempt at response smuggling.
  if (head.isChunked && head.length !== null) throw new BadHttp('two Content-Length headers')
  return head
}
