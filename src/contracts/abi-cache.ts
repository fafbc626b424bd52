import { parseAbi, type ParsedAbi } from '../abi/parse.ts'
import { BoundedMap } from '../bounded-map.ts'

const MAX_TEXTS = 1_000
/** A longer text is parsed every time; what is parsed of a text takes up to 30 times its length. */
const MAX_CHARACTERS = 512

// Callers can change what is remembered here, not how much: 1,000 texts of 512 characters.
const remembered = new BoundedMap<string, ParsedAbi>(MAX_TEXTS)

/**
 * `parseAbi`, remembering short texts: an application sends the same few again and again, and parsing one and
 * hashing its signature costs as much as the rest of a read together (`docs/evidence/performance.md`).
 * @returns  shared by all who send this text: not to be changed
 * @throws invalid_abi
 */
export function parsedAbi(text: string): ParsedAbi {
  if (text.length > MAX_CHARACTERS) return parseAbi(text)
  const known = remembered.get(text)
  if (known !== undefined) return known
  const parsed = parseAbi(text)
  remembered.set(text, parsed)
  return parsed
}
