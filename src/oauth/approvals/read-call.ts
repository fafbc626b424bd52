import { budgetFor, tryDecodeSequence } from '../../abi/decode.ts'
import { parseAbi, selectorOf } from '../../abi/parse.ts'
import { shapeOf, type Shape, type Value } from '../../abi/shape.ts'
import { fromHex, toHex } from '../../hex.ts'
import type { Hex } from '../../ids.ts'
import { moveOf, type Summary } from '../../messages/classify.ts'
import type { EquivalentCall } from '../../messages/equivalent-call.ts'
import { allows, allowsAll, allowsByPermit2, pays, paysNative, type Grant } from '../../messages/grants.ts'

/** One asset that leaves the account, or may be taken from it. Addresses have checksums. */
export type Move = Summary['moves'][number] & {
  /** the number that is an amount at a token, and an id at a contract of collectibles (`approve`, `transferFrom`); decimal */
  id?: string
}
/** Reads a call; null if it takes from another account. `own`: the account, lower-case. */
type CallReader = (args: Value[], at: { contract: Buffer; own: Hex }) => Grant | null

const address = (value: Value | undefined): Buffer => fromHex(value as Hex)
const number = (value: Value | undefined): bigint => value as bigint

const paysItem: CallReader = ([from, to, item, amount], { contract, own }) =>
  from === own ? { ...pays(contract, address(to), typeof amount === 'bigint' ? amount : 1n), item: number(item) } : null
const allowsAmount: CallReader = ([to, amount], { contract }) => allows(contract, address(to), number(amount))

/** Functions that a page can describe, at any address. The signer's table is `signer/policy/calldata.ts`. */
const READERS: Record<string, CallReader> = {
  'transfer(address,uint256)': ([to, amount], { contract }) => pays(contract, address(to), number(amount)),
  'transferFrom(address,address,uint256)': ([from, to, amount], { contract, own }) =>
    from === own ? pays(contract, address(to), number(amount)) : null,
  'safeTransferFrom(address,address,uint256)': paysItem,
  'safeTransferFrom(address,address,uint256,bytes)': paysItem,
  'safeTransferFrom(address,address,uint256,uint256,bytes)': paysItem,
  'approve(address,uint256)': allowsAmount,
  // An increase by 0 revokes nothing.
  'increaseAllowance(address,uint256)': (args, at) => (args[1] === 0n ? null : allowsAmount(args, at)),
  'setApprovalForAll(address,bool)': ([to, isOn], { contract }) => allowsAll(contract, address(to), isOn === true),
  // Permit2
  'approve(address,address,uint160,uint48)': ([token, to, amount, until]) =>
    allowsByPermit2(address(token), address(to), number(amount), number(until)),
}

const FUNCTIONS = new Map(
  Object.entries(READERS).map(([signature, read]): [Hex, { shapes: Shape[]; read: CallReader }] => {
    const { function: fn } = parseAbi(`${signature} public`)
    return [selectorOf(fn), { shapes: fn.inputs.map(shapeOf), read }]
  }),
)

/** Functions with one selector in ERC-20, where the number is an amount, and in ERC-721, where it is an id. */
const ITEMS = new Set<Hex>(['0x095ea7b3', '0x23b872dd'])

/**
 * Reads the payments and allowances of a call.
 * @param own  the account that makes the call
 * @returns `selector`: of an unknown function, one with unreadable arguments, or one that also receives native currency, which only
 *   the contract's own code explains; null if the moves are the whole effect
 */
export function readCall({ to, value, data }: EquivalentCall, own: Buffer): { moves: Move[]; selector: Hex | null } {
  const paid = value > 0n || data.length === 0 ? [paysNative(to, value)] : []
  if (data.length === 0) return { moves: paid.map(moveOf), selector: null }
  const selector = toHex(data.subarray(0, 4))
  const known = FUNCTIONS.get(selector)
  const rest = data.subarray(4)
  const args = known === undefined ? null : tryDecodeSequence(known.shapes, rest, budgetFor(rest))
  const grant = args === null ? null : known!.read(args, { contract: to, own: toHex(own) })
  const id = ITEMS.has(selector) && grant !== null ? { id: String(grant.amount) } : {}
  return {
    moves: [...paid.map(moveOf), ...(grant === null ? [] : [{ ...moveOf(grant), ...id }])],
    selector: grant === null || value > 0n ? selector : null,
  }
}
