import { decodeTokenText } from '../abi/text.ts'
import { isExecutionError, isRateLimited } from '../chain/rpc/errors.ts'
import type { Chain } from '../chain/network.ts'
import { RpcError } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'

/**
 * Standards of a contract, derived from its own answers. A contract can be fungible and a collection at once (ERC-404).
 * A pure ERC-1155 contract is neither.
 */
export type TokenStandards = {
  /** ERC-20: it has decimals and, if it is a collection as well, allowances */
  isFungible: boolean
  /** ERC-721, or an older collection without ERC-165 */
  isCollection: boolean
  /** whether it wraps the native currency and logs `Deposit` and `Withdrawal` instead of transfers, as WETH9 does */
  isWrapper: boolean
}

export type TokenFacts = { symbol: string; name: string; decimals: number; standards: TokenStandards }

/** Facts of a token that answers no call. */
export const NO_FACTS: TokenFacts = {
  symbol: '',
  name: '',
  decimals: 0,
  standards: { isFungible: false, isCollection: false, isWrapper: false },
}

/**
 * Answer of one token. `isContract`: the address has code. `isComplete`: it answered all calls that a token must
 * answer.
 */
export type TokenAnswer = { facts: TokenFacts; isContract: boolean; isComplete: boolean }

/** first four bytes of keccak256 of `decimals()` */
export const DECIMALS: Hex = '0x313ce567'

const interfaceCall = (id: string): Hex => `0x01ffc9a7${id.padEnd(64, '0')}`
const ofZeros = (selector: string): Hex => `0x${selector}${'0'.repeat(128)}`

/**
 * Calls that are made to every token, in order. Sources of the interface ids: ERC-165, ERC-721, ERC-1155, and
 * CryptoKitties for the draft of ERC-721.
 */
const QUESTIONS = {
  symbol: '0x95d89b41',
  name: '0x06fdde03',
  decimals: DECIMALS,
  saysCollection: interfaceCall('80ac58cd'),
  saysDraft: interfaceCall('9a20483d'),
  saysMulti: interfaceCall('d9b67a26'),
  /** `isApprovedForAll(address,address)` */
  approvals: ofZeros('e985e9c5'),
  /** `allowance(address,address)` */
  allowances: ofZeros('dd62ed3e'),
  /** `deposit()`, with value 0 */
  deposit: '0xd0e30db0',
} as const satisfies Record<string, Hex>
type Question = keyof typeof QUESTIONS

/**
 * gas units of each call: storage reads and a short text need 5 % of it; it bounds the gas that a hostile token uses up
 */
export const METADATA_GAS = 500_000
const GAS: Hex = `0x${METADATA_GAS.toString(16)}`

/** maximum tokens per batch: each needs ten calls including the check for code, and a batch has at most 50 */
export const MAX_TOKENS = 5

const MAX_DECIMALS = 77n

/** The block of a call: hash, number or tag. */
export type AtBlock = { blockHash: Hex } | Hex | 'latest' | 'finalized'

/**
 * Asks tokens for their standards, symbol, name and decimals, at one block in one batch. A token that reverts, runs out
 * of gas or returns invalid data has empty facts.
 * @param tokens  addresses, at most MAX_TOKENS
 * @throws RpcUnavailable | RpcError  if the node, not a token, failed
 */
export async function askTokens(chain: Chain, tokens: readonly Hex[], at: AtBlock): Promise<TokenAnswer[]> {
  const calls = tokens.map((to) => [
    { method: 'eth_getCode', params: [to, at] },
    ...Object.values(QUESTIONS).map((data) => ({ method: 'eth_call', params: [{ to, data, gas: GAS }, at] })),
  ])
  const answers = await chain.rpc.batch(calls.flat(), { timeoutMs: 5_000 })
  const size = calls[0]?.length ?? 0
  return tokens.map((_, index) => readAnswer(answers.slice(index * size, (index + 1) * size)))
}

function readAnswer([code, ...results]: unknown[]): TokenAnswer {
  // If the node does not know the block, the call for the code fails already. So later failures are caused by the
  // token.
  if (code instanceof RpcError) throw code
  const read = results.map(readResult)
  const answered = Object.fromEntries(
    Object.keys(QUESTIONS).map((question, index) => [question, read[index] ?? null]),
  ) as Record<Question, Hex | null>
  const { standards, isMulti } = readStandards(answered)
  const symbol = textOf(answered.symbol)
  const name = textOf(answered.name)
  const decimals = readDecimals(answered.decimals)
  return {
    facts: { symbol: symbol ?? '', name: name ?? '', decimals: standards.isFungible ? decimals! : 0, standards },
    isContract: typeof code === 'string' && code.length > 2,
    isComplete: symbol !== null && name !== null && (decimals !== null || standards.isCollection || isMulti),
  }
}

/**
 * Derives the standards. ERC-165 identifies collections, decimals identify fungible tokens. Some collections have
 * decimals by mistake, but no allowances. Collections without ERC-165 (the first ERC-404) have operator approvals, as
 * ERC-1155 does.
 */
function readStandards(answered: Record<Question, Hex | null>): { standards: TokenStandards; isMulti: boolean } {
  const { decimals, saysCollection, saysDraft, saysMulti, approvals, allowances, deposit } = answered
  const isMulti = isYes(saysMulti)
  const isCollection = isYes(saysCollection) || isYes(saysDraft) || (isBoolean(approvals) && !isMulti)
  const isFungible = readDecimals(decimals) !== null && (!isCollection || allowances?.length === 66)
  return { standards: { isFungible, isCollection, isWrapper: isFungible && deposit === '0x' }, isMulti }
}

const textOf = (data: Hex | null): string | null => (data === null ? null : decodeTokenText(data))

/** Returns the bytes of a result; null if it is invalid or the call failed. @throws RpcError if the node failed */
function readResult(result: unknown): Hex | null {
  if (result instanceof RpcError) {
    if (isNodesFault(result)) throw result
    return null
  }
  // Use no repeated group: on megabytes of input it would overflow the stack.
  return typeof result === 'string' && result.length % 2 === 0 && /^0x[0-9a-f]*$/i.test(result) ? (result as Hex) : null
}

/**
 * Returns whether the node failed, not the execution. A revert is always the token's: its text may be "rate limit
 * exceeded".
 */
const isNodesFault = (error: RpcError): boolean =>
  !isExecutionError(error) &&
  (isRateLimited(error) || (error.rpcCode === -32603 && !/gas|opcode|stack|vm/i.test(error.message)))

const isYes = (data: Hex | null): boolean => data?.length === 66 && BigInt(data) === 1n
const isBoolean = (data: Hex | null): boolean => data?.length === 66 && BigInt(data) <= 1n

/**
 * Decodes decimals; null if the result is too short. Numbers above 77 count as 0, because no amount could be formatted
 * with them.
 */
export function readDecimals(data: Hex | null): number | null {
  if (data === null || data.length < 66) return null
  const decimals = BigInt(data.slice(0, 66))
  return decimals <= MAX_DECIMALS ? Number(decimals) : 0
}
