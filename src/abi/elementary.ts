/** Solidity's names of elementary types, with the canonical name of each. */
const canonicalNames = new Map<string, string>([
  ['address', 'address'],
  ['bool', 'bool'],
  ['string', 'string'],
  ['bytes', 'bytes'],
  ['function', 'function'],
  ['uint', 'uint256'],
  ['int', 'int256'],
])
for (let bits = 8; bits <= 256; bits += 8) {
  canonicalNames.set(`uint${bits}`, `uint${bits}`)
  canonicalNames.set(`int${bits}`, `int${bits}`)
}
for (let size = 1; size <= 32; size++) canonicalNames.set(`bytes${size}`, `bytes${size}`)

/** Returns the canonical name of an elementary type (`uint` → `uint256`), or null for any other word. */
export const elementaryType = (word: string): string | null => canonicalNames.get(word) ?? null

/** Explains to the caller why a word is not a type. */
export function explainUnknownType(word: string): { code: string; detail: string } {
  const shown = word.slice(0, 40)
  if (/^u?fixed(\d|$)/.test(shown)) {
    return { code: 'unsupported_type', detail: `${shown} has no encoding that a compiler implements` }
  }
  if (/^u?int\d/.test(shown)) {
    return { code: 'unknown_type', detail: `${shown} is not a type: integer widths are multiples of 8 from 8 to 256` }
  }
  if (/^bytes\d/.test(shown)) {
    return { code: 'unknown_type', detail: `${shown} is not a type: only bytes1 to bytes32 are` }
  }
  if (shown === 'mapping') return { code: 'unsupported_type', detail: 'a mapping cannot be a parameter' }
  const hint = 'write address for a contract, uint8 for an enum, tuple(…) for a struct'
  return { code: 'unknown_type', detail: `"${shown}" is not a type; ${hint}` }
}
