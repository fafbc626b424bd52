/** What of a request's head decides whether it is let in, as Node's parser would tell it. */
export type RawHead = {
  method: string
  url: string
  headers: {
    authorization?: string
    'idempotency-key'?: string
    'x-idempotency-key'?: string
    'x-request-id'?: string
    'accept-language'?: string
    origin?: string
  }
  /** how many header fields there are */
  fields: number
  /** bytes of the head, and of the body behind it */
  headBytes: number
  bodyBytes: number
}

/** Longer heads are for the parser to judge. */
const MAX_HEAD_BYTES = 8_192
const MAX_BODY_BYTES = 65_536
const MAX_FIELDS = 64

const REQUEST_LINE = /(GET|POST|PUT|PATCH|DELETE) (\/[!-~]*) HTTP\/1\.1\r\n/y
/** One field: a token and what can be seen, and spaces. A tab is for the parser. */
const FIELD = /([!#-'*+.^-z|~\-\dA-Z]+):([ -~]*)\r\n/y

/** Fields that change where a request ends, or what becomes of its connection. */
const NOT_OURS = new Set(['transfer-encoding', 'upgrade', 'expect', 'trailer', 'te', 'http2-settings', 'proxy-connection']) // prettier-ignore
const KEPT = new Set(['authorization', 'idempotency-key', 'x-idempotency-key', 'x-request-id', 'accept-language', 'origin']) // prettier-ignore

/**
 * The head that a chunk begins with, if every reader of RFC 9112 reads it alike: a head that is there as a whole, a method
 * and a version of every day, no folded line, no character beyond ASCII, nothing twice that must be there once, a body
 * whose length is a number or none.
 * @returns  null where any of that is in doubt: then only the parser may read it
 */
export function readHead(chunk: Buffer): RawHead | null {
  const end = chunk.indexOf('\r\n\r\n')
  if (end === -1 || end > MAX_HEAD_BYTES) return null
  const text = chunk.toString('latin1', 0, end + 2)
  REQUEST_LINE.lastIndex = 0
  const line = REQUEST_LINE.exec(text)
  if (line === null) return null
  const headers: Record<string, string> = {}
  let [at, fields, bodyBytes, hosts, isLong] = [REQUEST_LINE.lastIndex, 0, 0, 0, false]
  while (at < text.length) {
    FIELD.lastIndex = at
    const field = FIELD.exec(text)
    if (field === null || ++fields > MAX_FIELDS) return null
    at = FIELD.lastIndex
    const name = field[1]!.toLowerCase()
    const value = field[2]!.trim()
    if (KEPT.has(name)) {
      if (name in headers) return null
      headers[name] = value
    } else if (name === 'host') hosts++
    else if (name === 'content-length') {
      if (isLong || !/^\d{1,6}$/.test(value)) return null
      isLong = true
      bodyBytes = Number(value)
    } else if (NOT_OURS.has(name) || (name === 'connection' && value.toLowerCase() !== 'keep-alive')) return null
  }
  if (hosts !== 1 || bodyBytes > MAX_BODY_BYTES) return null
  return { method: line[1]!, url: line[2]!, headers, fields, headBytes: end + 4, bodyBytes }
}
