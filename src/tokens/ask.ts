import { decodeTokenText } from '../abi/text.ts'
import { isExecutionError, isRateLimited } from '../chain/rpc/errors.ts'
import type { Chain } from '../chain/network.ts'
import { RpcError } from '../chain/rpc/rpc.ts'
import type { Hex } from '../ids.ts'

/**
 * What a contract is, by its own word. A contract can be fungible and a collection at once (ERC-404); an ERC-1155 contract that is nothing
 * else is neither.
 */
export type TokenStandards = {
  /** ERC-20: it has decimals, or allowances if it is a collection too */
  isFungible: boolean
  /** ERC-721, or a collection from before ERC-165 */
  isCollection: boolean
  /** Wraps the native currency and logs `Deposit` and `Withdrawal` instead of transfers, as WETH9 does. */
  isWrapper: boolean
}

export type TokenFacts = { symbol: string; name: string; decimals: number; standards: TokenStandards }

/** Facts of a token that answers nothing. */
export const NO_FACTS: TokenFacts = {
  symbol: '',
  name: '',
  decimals: 0,
  standards: { isFungible: false, isCollection: false, isWrapper: false },
}

/** What one token answered. `isContract` is false for an address without code; `isComplete` when it answered everything that it should have. */
export type TokenAnswer = { facts: TokenFacts; isContract: boolean; isComplete: boolean }

/** keccak256 of `decimals()`, four bytes */
export const DECIMALS: Hex = '0x313ce567'

const interfaceCall = (id: string): Hex => `0x01ffc9a7${id.padEnd(64, '0')}`
const ofZeros = (selector: string): Hex => `0x${selector}${'0'.repeat(128)}`

/** The calls that every token gets, in order. Source of the interface ids: ERC-165, ERC-721, ERC-1155; the draft of ERC-721 is CryptoKitties'. */
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
  /** `deposit()`, of no value */
  deposit: '0xd0e30db0',
} as const satisfies Record<string, Hex>
type Question = keyof typeof QUESTIONS

/** gas of each call: storage reads and a short text need a twentieth of it, a gas bomb ends here */
export const METADATA_GAS = 500_000
const GAS: Hex = `0x${METADATA_GAS.toString(16)}`

/** with the check of the code ten calls each: one batch stays at 50 */
export const MAX_TOKENS = 5

const MAX_DECIMALS = 77n

/** The block at which a question is answered: by its hash, its number or a tag. */
export type AtBlock = { blockHash: Hex } | Hex | 'latest' | 'finalized'

/**
 * Asks tokens what they are and what they call themselves, all at one block in one batch. A token that reverts, burns its gas or
 * answers nonsense has empty facts.
 * @param tokens  addresses, at most MAX_TOKENS
 * @throws RpcUnavailable | RpcError  when the node, not a token, failed
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
  // A node that does not know the block fails here too, so what fails below is the token's own doing.
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
 * ERC-165 decides what is a collection, decimals what is fungible. Some collections have stray decimals: they have no allowances. Collections
 * without ERC-165 (the first ERC-404) have approvals for all pieces, as an ERC-1155 has.
 */
function readStandards(answered: Record<Question, Hex | null>): { standards: TokenStandards; isMulti: boolean } {
  const { decimals, saysCollection, saysDraft, saysMulti, approvals, allowances, deposit } = answered
  const isMulti = isYes(saysMulti)
  const isCollection = isYes(saysCollection) || isYes(saysDraft) || (isBoolean(approvals) && !isMulti)
  const isFungible = readDecimals(decimals) !== null && (!isCollection || allowances?.length === 66)
  return { standards: { isFungible, isCollection, isWrapper: isFungible && deposit === '0x' }, isMulti }
}

const textOf = (data: Hex | null): string | null => (data === null ? null : decodeTokenText(data))

/** Bytes, or null for what is none and for a call that failed. @throws RpcError  when the node failed */
function readResult(result: unknown): Hex | null {
  if (result instanceof RpcError) {
    if (isNodesFault(result)) throw result
    return null
  }
  // Without a group that repeats: on megabytes one overflows the stack.
  return typeof result === 'string' && result.length % 2 === 0 && /^0x[0-9a-f]*$/i.test(result) ? (result as Hex) : null
}

/** Everything else is the execution's, and a revert is, whatever it says: a token may revert with "rate limit exceeded". */
const isNodesFault = (error: RpcError): boolean =>
  !isExecutionError(error) &&
  (isRateLimited(error) || (error.rpcCode === -32603 && !/gas|opcode|stack|vm/i.test(error.message)))

const isYes = (data: Hex | null): boolean => data?.length === 66 && BigInt(data) === 1n
const isBoolean = (data: Hex | null): boolean => data?.length === 66 && BigInt(data) <= 1n

/** null when the answer is no number at all; a number outside 0..77 counts as 0, because no amount could be shown with it */
export function readDecimals(data: Hex | null): number | null {
  if (data === null || data.length < 66) return null
  const decimals = BigInt(data.slice(0, 66))
  return decimals <= MAX_DECIMALS ? Number(decimals) : 0
}
