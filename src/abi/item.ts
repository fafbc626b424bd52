import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'

/**
 * A parameter in the form of a JSON ABI. `type` is canonical: `uint256`, `tuple[2][]`. `name` is '' if it is missing.
 */
export type AbiParameter = { name: string; type: string; components?: AbiParameter[] }

/** null: not specified, so a write may send value. 'nonpayable' only if it was written explicitly. */
export type StateMutability = 'view' | 'pure' | 'payable' | 'nonpayable'

export type AbiFunction = {
  name: string
  inputs: AbiParameter[]
  outputs: AbiParameter[]
  stateMutability: StateMutability | null
}

/** An `error Name(type name,…)`, which decodes reverts. */
export type AbiErrorItem = { name: string; inputs: AbiParameter[] }

export type ParsedAbi = { function: AbiFunction; errors: AbiErrorItem[] }

/** Returns the canonical signature of a function or error: `transfer(address,uint256)`, tuples as `(…)`. */
export function signatureOf(item: { name: string; inputs: AbiParameter[] }): string {
  return `${item.name}(${item.inputs.map(canonicalType).join(',')})`
}

// Entries end with their items, so the map does not grow.
const selectors = new WeakMap<object, Hex>()

/**
 * Returns the selector: the first 4 bytes of the Keccak-256 of the signature, as 0x-hex. The first call costs about 2
 * µs.
 */
export function selectorOf(item: { name: string; inputs: AbiParameter[] }): Hex {
  const known = selectors.get(item)
  if (known !== undefined) return known
  const selector = `0x${keccak(Buffer.from(signatureOf(item), 'utf8')).toString('hex', 0, 4)}` as const
  selectors.set(item, selector)
  return selector
}

function canonicalType({ type, components }: AbiParameter): string {
  if (!type.startsWith('tuple')) return type
  return `(${(components ?? []).map(canonicalType).join(',')})${type.slice('tuple'.length)}`
}
