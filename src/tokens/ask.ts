import { decodeTokenText } from '../abi/text.ts'
import { isExecutionError, isRateLimited } from '../chain/rpc/errors.ts'
import type { Chain } from '../chain/network.ts'
import { RpcError } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'
import type { TokenType } from './record.ts'

export type TokenFacts = { symbol: string; name: string; decimals: number }

/** `tokenType` is null when no transfer has shown it yet. */
export type Token = { address: Hex; tokenType: TokenType | null }

/**
 * What one token said. `isContract` is false for an address without code; `isComplete` when it answered everything
 * that its type has.
 */
export type TokenAnswer = { facts: TokenFacts; isContract: boolean; isComplete: boolean }

/** keccak256 of `symbol()`, `name()`, `decimals()`, four bytes each */
const SELECTORS = ['0x95d89b41', '0x06fdde03', '0x313ce567'] as const

/** `supportsInterface` with the identifiers of ERC-721 and ERC-1155. Source: ERC-165 */
const COLLECTIBLES = ['0x80ac58cd', '0xd9b67a26'].map((id) => `0x01ffc9a7${id.slice(2).padEnd(64, '0')}`)

/** gas of each call: storage reads and a short text need a twentieth of it, a gas bomb ends here */
const GAS: Hex = '0x7a120'

/** with the check of the code four to six calls each: one batch stays at 48 */
export const MAX_TOKENS = 8

const MAX_DECIMALS = 77n

/** The block at which a question is answered: by its hash, its number or a tag. */
export type AtBlock = { blockHash: Hex } | Hex | 'latest' | 'finalized'

/**
 * Asks tokens what they call themselves, all at one block in one batch. A token that reverts, burns its gas or
 * answers nonsense has empty facts.
 * @throws RpcUnavailable | RpcError  when the node, not a token, failed
 */
export async function askTokens(chain: Chain, tokens: readonly Token[], at: AtBlock): Promise<TokenAnswer[]> {
  const calls = tokens.map(({ address, tokenType }) => [
    { method: 'eth_getCode', params: [address, at] },
    ...[...SELECTORS, ...(tokenType === null ? COLLECTIBLES : [])].map((data) => ({
      method: 'eth_call',
      params: [{ to: address, data, gas: GAS }, at],
    })),
  ])
  const answers = await chain.rpc.batch(calls.flat(), { timeoutMs: 5_000 })
  let next = 0
  return tokens.map(({ tokenType }, index) =>
    readAnswer(answers.slice(next, (next += calls[index]!.length)), tokenType),
  )
}

function readAnswer([code, ...results]: unknown[], tokenType: TokenType | null): TokenAnswer {
  // A node that does not know the block fails here too, so what fails below is the token's own doing.
  if (code instanceof RpcError) throw code
  const [symbolData, nameData, decimalsData, ...collectibles] = results.map(readResult)
  const symbol = symbolData === null ? null : decodeTokenText(symbolData!)
  const name = nameData === null ? null : decodeTokenText(nameData!)
  const decimals = readDecimalsOf(tokenType, decimalsData!, collectibles)
  return {
    facts: { symbol: symbol ?? '', name: name ?? '', decimals: decimals ?? 0 },
    isContract: typeof code === 'string' && code.length > 2,
    isComplete: symbol !== null && name !== null && decimals !== null,
  }
}

function readResult(result: unknown): Hex | null {
  if (result instanceof RpcError) {
    if (isNodesFault(result)) throw result
    return null
  }
  // Without a group that repeats: on megabytes one overflows the stack.
  return typeof result === 'string' && result.length % 2 === 0 && /^0x[0-9a-f]+$/i.test(result) ? (result as Hex) : null
}

/** Everything else is the execution's, and a revert is, whatever it says: a token may revert with "rate limit exceeded". */
const isNodesFault = (error: RpcError): boolean =>
  !isExecutionError(error) &&
  (isRateLimited(error) || (error.rpcCode === -32603 && !/gas|opcode|stack|vm/i.test(error.message)))

/** A collectible has none. One that no transfer has shown yet says itself that it is one, unless it has decimals: some say yes to everything. */
function readDecimalsOf(tokenType: TokenType | null, data: Hex | null, collectibles: (Hex | null)[]): number | null {
  if (tokenType !== null && tokenType !== 'ERC20') return 0
  return readDecimals(data) ?? (collectibles.some(isYes) ? 0 : null)
}

const isYes = (data: Hex | null): boolean => data?.length === 66 && BigInt(data) === 1n

/** null when the answer is no number at all; a number outside 0..77 counts as 0, because no amount could be shown with it */
function readDecimals(data: Hex | null): number | null {
  if (data === null || data.length < 66) return null
  const decimals = BigInt(data.slice(0, 66))
  return decimals <= MAX_DECIMALS ? Number(decimals) : 0
}
