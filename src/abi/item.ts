import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'

/** One parameter in the shape of a JSON ABI. `type` is canonical: `uint256`, `tuple[2][]`; `name` is '' when none was written. */
export type AbiParameter = { name: string; type: string; components?: AbiParameter[] }

/** null: nothing was written, and a write may carry value. 'nonpayable' only when it was written on purpose. */
export type StateMutability = 'view' | 'pure' | 'payable' | 'nonpayable'

export type AbiFunction = {
  name: string
  inputs: AbiParameter[]
  outputs: AbiParameter[]
  stateMutability: StateMutability | null
}

/** An `error Name(type name,…)`: how to read a revert. */
export type AbiErrorItem = { name: string; inputs: AbiParameter[] }

export type ParsedAbi = { function: AbiFunction; errors: AbiErrorItem[] }

/** Canonical signature of a function or an error: `transfer(address,uint256)`, tuples as `(…)`. */
export function signatureOf(item: { name: string; inputs: AbiParameter[] }): string {
  return `${item.name}(${item.inputs.map(canonicalType).join(',')})`
}

// Lives as long as the item itself, so nothing grows here.
const selectors = new WeakMap<object, Hex>()

/** The first 4 bytes of the Keccak-256 of the signature, as 0x and 8 digits. Costs about 2 µs the first time. */
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
