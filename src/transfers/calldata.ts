import { encodeCall } from '../abi/args.ts'
import { parseAbi, selectorOf } from '../abi/parse.ts'
import type { Hex } from '../ids.ts'
import type { Intent } from '../transactions/intent.ts'
import type { WriteAnswer } from '../transactions/write-wire.ts'
import type { Asset } from './order.ts'

const ABIS = {
  ERC20: 'transfer(address to, uint256 amount) public returns (bool)',
  ERC721: 'safeTransferFrom(address from, address to, uint256 tokenId) public',
  ERC1155: 'safeTransferFrom(address from, address to, uint256 id, uint256 amount, bytes data) public',
} as const

/**
 * Returns a transfer as a call. For collectibles it is the safe form, which asks a receiving contract whether it can
 * handle them.
 * @param value  smallest unit; 1 for an ERC-721
 */
export function intentOf(asset: Asset, { from, to, value }: { from: Hex; to: Hex; value: bigint }): Intent {
  if (asset.tokenType === 'NATIVE') return { to, data: '0x', value, abi: '', fn: null, errors: [] }
  const { tokenType, token } = asset
  const abi = ABIS[tokenType]
  const { function: fn, errors } = parseAbi(abi)
  return { to: token, data: encodeCall(fn, argsOf()), value: 0n, abi, fn, errors }

  function argsOf(): string[] {
    if (asset.tokenType === 'ERC1155') return [from, to, String(asset.tokenId), String(value), '0x']
    return asset.tokenType === 'ERC721' ? [from, to, String(asset.tokenId)] : [to, String(value)]
  }
}

/**
 * Returns the transfer of a call that has the form of `intentOf`; null for any other call.
 * @param account  lower-case
 */
export function transferIn(
  account: Hex,
  { to: target, data, value }: { to: Hex; data: Hex; value: bigint },
): SentAsset | null {
  if (data === '0x') return { tokenType: 'NATIVE', token: null, tokenId: null, to: target.toLowerCase() as Hex, value }
  const tokenType = (['ERC20', 'ERC721', 'ERC1155'] as const).find(
    (one) => data.startsWith(SELECTORS[one]) && (data.length - 10) / 64 >= WORDS[one],
  )
  if (tokenType === undefined) return null
  const word = (index: number): string => data.slice(10 + 64 * index, 74 + 64 * index)
  // A call may move tokens of another account that permits it: that is no transfer from this account.
  if (tokenType !== 'ERC20' && `0x${word(0).slice(24)}` !== account) return null
  const tokenId = tokenType === 'ERC20' ? null : BigInt(`0x${word(2)}`)
  const tx = { to: target, data, value: { hex: '0x0' } as WriteAnswer['tx']['value'] }
  return { tokenType, token: target.toLowerCase() as Hex, tokenId, ...movedBy(tokenType, tx) }
}

/** `value` in the smallest unit; 1 for an ERC-721. */
export type SentAsset = {
  tokenType: Asset['tokenType']
  token: Hex | null
  tokenId: bigint | null
  to: Hex
  value: bigint
}

const selectorFor = (abi: string): Hex => selectorOf(parseAbi(abi).function)
const SELECTORS = {
  ERC20: selectorFor(ABIS.ERC20),
  ERC721: selectorFor(ABIS.ERC721),
  ERC1155: selectorFor(ABIS.ERC1155),
}
/** Minimum number of words of their arguments. */
const WORDS = { ERC20: 2, ERC721: 3, ERC1155: 5 }

/** Returns asset, amount and recipient of a transaction made by `intentOf`; `to` is lower-case. */
export function movedBy(
  tokenType: Asset['tokenType'],
  { to, data, value }: Pick<WriteAnswer['tx'], 'to' | 'data' | 'value'>,
): { to: Hex; value: bigint } {
  const word = (index: number): string => data.slice(10 + 64 * index, 74 + 64 * index)
  const address = (index: number): Hex => `0x${word(index).slice(24)}`
  if (tokenType === 'NATIVE') return { to: to.toLowerCase() as Hex, value: BigInt(value.hex) }
  if (tokenType === 'ERC20') return { to: address(0), value: BigInt(`0x${word(1)}`) }
  return { to: address(1), value: tokenType === 'ERC721' ? 1n : BigInt(`0x${word(3)}`) }
}
