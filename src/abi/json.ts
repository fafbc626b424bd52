/**
 * A JSON document without loss. Integers are texts of any length, objects are maps (so `__proto__` is an ordinary key),
 * and every node has its position: `at` counts characters from 0.
 */
export type JsonNode = { at: number } & (
  | { kind: 'null' }
  | { kind: 'boolean'; value: boolean }
  | { kind: 'integer'; text: string }
  | { kind: 'string'; value: string }
  | { kind: 'array'; items: JsonNode[] }
  | { kind: 'object'; fields: Map<string, JsonNode> }
)

/**
 * `at` counts characters from 0. `path` leads to the rejected value; it is empty if the document is not JSON. `message`
 * is a clause without a full stop.
 */
export class JsonError extends Error {
  readonly code: 'invalid_json' | 'duplicate_key' | 'not_an_integer' | 'too_deep'
  readonly at: number
  readonly path: readonly (string | number)[]

  constructor(code: JsonError['code'], at: number, message: string, path: JsonError['path'] = []) {
    super(message)
    this.name = 'JsonError'
    this.code = code
    this.at = at
    this.path = path
  }
}

/** Deeper than any type that our parser accepts: 8 tuples with 4 array dimensions each, plus the outermost 4. */
export const MAX_JSON_DEPTH = 44

/** `path` is valid up to the depth of the present node; later elements are left over from others. */
type JsonCursor = { readonly text: string; at: number; readonly path: (string | number)[] }

/**
 * Parses a document in one pass. Rejects fractions and exponents (a float might not hold the integer), duplicate keys,
 * and more than 44 levels.
 * @throws JsonError
 * Source: RFC 8259
 */
export function readJson(text: string): JsonNode {
  const cursor: JsonCursor = { text, at: 0, path: [] }
  const document = readNode(cursor, 0)
  skipSpace(cursor)
  if (cursor.at < text.length)
    throw new JsonError('invalid_json', cursor.at, 'unexpected text after the end of the JSON')
  return document
}

function readNode(cursor: JsonCursor, depth: number): JsonNode {
  skipSpace(cursor)
  const { at } = cursor
  if (depth > MAX_JSON_DEPTH) throw new JsonError('too_deep', at, `the JSON is more than ${MAX_JSON_DEPTH} levels deep`)
  switch (next(cursor)) {
    case '[':
      return { kind: 'array', at, items: readItems(cursor, depth) }
    case '{':
      return { kind: 'object', at, fields: readFields(cursor, depth) }
    case '"':
      return { kind: 'string', at, value: readString(cursor) }
    case 't':
      takeLiteral(cursor, 'true')
      return { kind: 'boolean', at, value: true }
    case 'f':
      takeLiteral(cursor, 'false')
      return { kind: 'boolean', at, value: false }
    case 'n':
      takeLiteral(cursor, 'null')
      return { kind: 'null', at }
    default:
      return { kind: 'integer', at, text: readInteger(cursor, depth) }
  }
}

function readItems(cursor: JsonCursor, depth: number): JsonNode[] {
  const items: JsonNode[] = []
  cursor.at++
  if (takeSymbol(cursor, ']')) return items
  do {
    cursor.path[depth] = items.length
    items.push(readNode(cursor, depth + 1))
  } while (takeSymbol(cursor, ','))
  if (!takeSymbol(cursor, ']')) throw unexpected(cursor, '"," or "]"')
  return items
}

function readFields(cursor: JsonCursor, depth: number): Map<string, JsonNode> {
  const fields = new Map<string, JsonNode>()
  cursor.at++
  if (takeSymbol(cursor, '}')) return fields
  do {
    skipSpace(cursor)
    const { at } = cursor
    if (next(cursor) !== '"') throw unexpected(cursor, 'a key in quotes')
    const key = readString(cursor)
    cursor.path[depth] = key
    if (fields.has(key)) {
      throw new JsonError('duplicate_key', at, 'a key appears twice in one object', cursor.path.slice(0, depth + 1))
    }
    if (!takeSymbol(cursor, ':')) throw unexpected(cursor, '":"')
    fields.set(key, readNode(cursor, depth + 1))
  } while (takeSymbol(cursor, ','))
  if (!takeSymbol(cursor, '}')) throw unexpected(cursor, '"," or "}"')
  return fields
}

const escapes: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
}

function readString(cursor: JsonCursor): string {
  const { text } = cursor
  const parts: string[] = []
  cursor.at++
  let start = cursor.at
  for (; cursor.at < text.length; cursor.at++) {
    const code = text.charCodeAt(cursor.at)
    if (code === 0x22) {
      parts.push(text.slice(start, cursor.at))
      cursor.at++
      return parts.join('')
    }
    if (code < 0x20) throw new JsonError('invalid_json', cursor.at, 'a string has a control character')
    if (code === 0x5c) {
      parts.push(text.slice(start, cursor.at), readEscape(cursor))
      start = cursor.at + 1
    }
  }
  throw new JsonError('invalid_json', cursor.at, 'a string does not end')
}

/** Reads an escape. The cursor moves from the backslash to the last character of the escape. */
function readEscape(cursor: JsonCursor): string {
  const { at } = cursor
  const letter = cursor.text[at + 1] ?? ''
  cursor.at++
  if (Object.hasOwn(escapes, letter)) return escapes[letter]!
  const digits = cursor.text.slice(at + 2, at + 6)
  if (letter !== 'u' || !/^[0-9a-fA-F]{4}$/.test(digits)) {
    throw new JsonError('invalid_json', at, 'a string has an invalid escape')
  }
  cursor.at += 4
  return String.fromCharCode(parseInt(digits, 16))
}

function readInteger(cursor: JsonCursor, depth: number): string {
  const { text, at } = cursor
  if (next(cursor) === '-') cursor.at++
  const first = cursor.at
  while (isDigit(cursor)) cursor.at++
  if (cursor.at === first) throw unexpected(cursor, 'a value')
  if (cursor.at - first > 1 && text[first] === '0') {
    throw new JsonError('invalid_json', first, 'a number starts with 0')
  }
  if (next(cursor) === '.' || next(cursor) === 'e' || next(cursor) === 'E') {
    throw new JsonError('not_an_integer', at, 'a number has a fraction or an exponent', cursor.path.slice(0, depth))
  }
  return text.slice(at, cursor.at)
}

function takeLiteral(cursor: JsonCursor, literal: string): void {
  if (!cursor.text.startsWith(literal, cursor.at)) throw unexpected(cursor, 'a value')
  cursor.at += literal.length
}

function takeSymbol(cursor: JsonCursor, symbol: string): boolean {
  skipSpace(cursor)
  if (next(cursor) !== symbol) return false
  cursor.at++
  return true
}

const next = ({ text, at }: JsonCursor): string => (at < text.length ? String.fromCharCode(text.charCodeAt(at)) : '')

function isDigit({ text, at }: JsonCursor): boolean {
  const code = at < text.length ? text.charCodeAt(at) : 0
  return code >= 0x30 && code <= 0x39
}

function skipSpace(cursor: JsonCursor): void {
  while (cursor.at < cursor.text.length) {
    const code = cursor.text.charCodeAt(cursor.at)
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return
    cursor.at++
  }
}

function unexpected(cursor: JsonCursor, expected: string): JsonError {
  const found = cursor.at < cursor.text.length ? '' : ', but the text ends'
  return new JsonError('invalid_json', cursor.at, `expected ${expected}${found}`)
}
