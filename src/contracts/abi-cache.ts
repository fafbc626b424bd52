import { parseAbi, type ParsedAbi } from '../abi/parse.ts'
import { BoundedMap } from '../bounded-map.ts'

const MAX_TEXTS = 1_000
/**
 * Maximum length of remembered texts, because a parsed text takes up to 30 times its length. Longer texts are parsed
 * every time.
 */
const MAX_CHARACTERS = 512

// Callers can influence which texts are remembered, but not how many: 1,000 texts of 512 characters.
const remembered = new BoundedMap<string, ParsedAbi>(MAX_TEXTS)

/**
 * Parses an ABI. Remembers short texts, because applications send the same few repeatedly. Parsing one and hashing its
 * signature costs as much as the rest of a read (`docs/evidence/performance.md`).
 * @returns an object shared by all callers with this text: do not change it
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
