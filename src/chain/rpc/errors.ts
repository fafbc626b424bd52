import { RpcError } from './failures.ts'

/**
 * Outcomes of a broadcast. Only this file reads nodes' errors. Their texts differ by program and version, so each
 * pattern names its source. An error that matches no pattern is `unknown`, and unknown is treated as sent.
 */
export type SendRefusal =
  | 'known'
  | 'nonce_too_low'
  | 'nonce_too_high'
  | 'replacement_underpriced'
  | 'underpriced'
  | 'insufficient_funds'
  | 'pool_full'
  /** the pool reserves the account, or an authority of the transaction, for another transaction */
  | 'held_back'
  | 'rejected'
  | 'unknown'

const sendPatterns: readonly [SendRefusal, RegExp][] = [
  // geth core/txpool/errors.go ErrAlreadyKnown, reth and erigon the same; anvil "transaction already imported";
  // besu "Known transaction"; nethermind AcceptTxResult.AlreadyKnown; zkSync "known transaction. transaction with hash … is
  // already in the system"; erigon "existing tx with same hash"; Sei "tx already exists in cache"; EthereumJS (service/txpool)
  [
    'known',
    /already known|already imported|\bknown transaction|alreadyknown|existing tx with same hash|already exists in cache|already in the txpool/i,
  ],
  // This concerns an authorization in the transaction (EIP-7702), not the transaction. It must precede `nonce_too_low`,
  // whose text it includes.
  ['rejected', /authori(ty|[sz]ation)( list)?('s)? nonce/i],
  // geth and reth "replacement transaction underpriced"; erigon "could not replace existing tx"; nethermind
  // AcceptTxResult.ReplacementNotAllowed; EthereumJS "replacement gas too low". It must precede `underpriced`, whose
  // text it includes.
  [
    'replacement_underpriced',
    /replacement (transaction )?underpriced|could not replace existing|replacementnotallowed|replacement (blob )?gas too low/i,
  ],
  // geth core/error.go ErrNonceTooLow, reth, erigon, anvil; besu "Nonce too low"; nethermind OldNonce, OwnNonceAlreadyUsed;
  // OpenEthereum "Transaction nonce is too low"; zkSync "nonce too low. allowed nonce range: 427 - 447, actual: 426"
  ['nonce_too_low', /nonce (is )?too low|oldnonce|ownnoncealreadyused|nonce has already been used/i],
  // Nodes that mine immediately do not queue later nonces: EDR (Hardhat) "Nonce too high. Expected nonce to be 5 but
  // got 6", ganache "the tx doesn't have the correct nonce. account has nonce of: 5 tx has nonce of: 6". Nitro and
  // zkSync respond the same if a gap is too wide; nethermind NonceGap.
  ['nonce_too_high', /nonce too high|noncegap/i],
  // geth core/error.go ErrInsufficientFunds, reth, erigon, anvil; besu "Upfront cost exceeds account balance";
  // nethermind InsufficientFunds; Nitro "not enough funds for gas"; zkSync "not enough balance to cover the fee"
  [
    'insufficient_funds',
    /insufficient ?funds|insufficient balance|upfront cost exceeds account balance|not enough (funds|balance)/i,
  ],
  // geth core/txpool/errors.go ErrTxPoolOverflow, ErrAccountLimitExceeded, and ErrInflightTxLimitReached of delegated
  // accounts; reth "txpool is full"; erigon "pending sub-pool is full"; nethermind FeeTooLowToCompete: its pool is full;
  // Nitro "sequencer pending tx pool full, please try again", "queue full"; EthereumJS "already have max amount of txs"
  [
    'pool_full',
    /pool (is )?full|queue full|sub-pool is full|account limit exceeded|in-flight transaction limit|feetoolowtocompete|max amount of txs/i,
  ],
  // geth core/txpool/errors.go ErrAuthorityReserved, ErrOutOfOrderTxFromDelegated, ErrFutureReplacePending, and
  // reserver.go ErrAlreadyReserved: it may be accepted after the other transaction is mined
  [
    'held_back',
    /(authority|address) already reserved|gapped-nonce tx from delegated|future transaction tries to replace pending/i,
  ],
  // geth "transaction underpriced" and "max fee per gas less than block base fee"; erigon "fee too low", "underpriced";
  // besu "Gas price below configured minimum gas price"; nethermind FeeTooLow; Nitro "gas price too low"; EthereumJS
  [
    'underpriced',
    /underpriced|less than block base fee|(gas )?price (below|(is )?too low)|fee ?too ?low|pay (the minimum gas price|basefee)/i,
  ],
  // geth, reth, erigon core/error.go; besu TransactionInvalidReason; nethermind GasLimitExceeded, Invalid;
  // anvil "Out of gas: gas required exceeds…", "intrinsic gas too low"; geth core/error.go ErrFloorDataGas
  [
    'rejected',
    /intrinsic gas|insufficient gas for floor data|exceeds (the )?(block|transaction) gas limit|gas limit (is )?too (high|low)|gaslimitexceeded|exceeds the configured cap|oversized data|invalid (sender|signature|transaction)|invalid chain ?id|chain ?id mismatch|wrong chain ?id|type not supported|tip higher than|max priority fee per gas higher/i,
  ],
]

/** zkSync uses code 3 for all refusals, reverts or not: zksync-era, SubmitTxError, whose texts begin like this. */
const OF_ZKSYNC =
  /^(known transaction\. transaction with hash|nonce too (low|high)\. allowed nonce range|insufficient funds for gas \+ value\. balance|not enough balance to cover the fee)/

/**
 * Classifies a node's error for `eth_sendRawTransaction`.
 * @param error  the error that the call threw; `unknown` unless it is an error response of the node, because the node
 *   may have accepted the transaction
 */
export function classifySendError(error: unknown): SendRefusal {
  if (!(error instanceof RpcError)) return 'unknown'
  // A node that executes transactions includes the contract's revert text, which may contain "nonce too low" as well.
  const isExecution = error.rpcCode === -32015 || (error.rpcCode === 3 && !OF_ZKSYNC.test(error.message))
  if (isExecution || /\brevert/i.test(error.message)) return 'unknown'
  const text = typeof error.data === 'string' ? `${error.message} ${error.data}` : error.message
  return sendPatterns.find(([, pattern]) => pattern.test(text))?.[0] ?? 'unknown'
}

/**
 * Minimum fees that a pool stated in a refusal, wei per gas: tip, total price, and base fee of the block that it
 * builds.
 */
export type NamedFees = { tip?: bigint; price?: bigint; baseFee?: bigint }

const namedPatterns: readonly [keyof NamedFees, RegExp][] = [
  // geth core/txpool/validation.go "transaction underpriced: gas tip cap 1, minimum needed 2"; bor, bsc and op-geth
  // alike
  ['tip', /gas tip cap \(?\d+\)?,? (?:minimum needed|< pool minimum tip cap|< pool gas tip cap) \(?(\d{1,30})\b/i],
  // coreth core/txpool/validation.go "address 0x… have gas fee cap (1) < pool minimum fee cap (2)"; older geth for gas
  // prices
  ['price', /gas (?:fee cap|price) \(?\d+\)?,? (?:minimum needed|< pool minimum fee cap) \(?(\d{1,30})\b/i],
  // geth core/state_transition.go "max fee per gas less than block base fee: address 0x…, maxFeePerGas: 1, baseFee: 2", Nitro without
  // the second comma; nethermind "MaxFeePerGas: 1, BaseFee: 2"
  ['baseFee', /\bbase ?fee(?: per gas)?:? (\d{1,30})\b/i],
]

/**
 * Returns the minimum fees that a node stated when it rejected a transaction as underpriced; empty if it stated none.
 */
export function namedFees({ message }: Error): NamedFees {
  const found = namedPatterns.flatMap(([what, pattern]) => {
    const [, wei] = pattern.exec(message) ?? []
    return wei === undefined ? [] : [[what, BigInt(wei)]]
  })
  return Object.fromEntries(found) as NamedFees
}

/** Returns whether `eth_call` or `eth_estimateGas` failed because the account cannot pay for value or gas. */
export const isInsufficientFunds = (error: unknown): boolean =>
  classifySendError(error) === 'insufficient_funds' && !isExecutionText((error as RpcError).message)

/**
 * Returns the revert data in an error of `eth_call` or `eth_estimateGas`.
 * @returns 0x-hex; null if execution failed without data; undefined if it is no revert
 */
export function revertDataOf(error: unknown): `0x${string}` | null | undefined {
  if (!(error instanceof RpcError)) return undefined
  const data = findData(error.data, 0)
  // Code 3 is geth's (internal/ethapi, revertError), and also used by reth, erigon, anvil, besu and nethermind; -32015
  // is "VM execution error" of OpenEthereum and older nethermind.
  if (error.rpcCode === 3 || error.rpcCode === -32015) return data ?? null
  if (isExecutionText(error.message)) return data ?? null
  // besu and others: -32000 with only the data
  if (data !== undefined && data.length >= 10 && /^0x(08c379a0|4e487b71)/.test(data)) return data
  return undefined
}

/**
 * Returns whether the call itself failed in the EVM, or could not start with its gas. Any other error is the node's
 * failure.
 */
export const isExecutionError = (error: RpcError): boolean => revertDataOf(error) !== undefined

const executionPatterns: readonly RegExp[] = [
  // geth core/vm/errors.go, quoted unchanged by reth, erigon, nethermind and besu
  /revert|out of ?gas|invalid opcode|invalid jump|opcode .* not defined|stack (under|over)flow|stack limit|write protection|return data out of bounds|gas uint64 overflow|max code size|invalid code|call depth/i,
  // geth and erigon, for an estimate: internal/ethapi "gas required exceeds allowance"; core/error.go ErrIntrinsicGas
  /gas required exceeds|intrinsic gas/i,
  // anvil, revm's halt reasons; nethermind and OpenEthereum; hardhat and ganache "VM Exception while processing transaction"
  /EVM error|OpcodeNotFound|InvalidFEOpcode|InvalidJump|StackUnderflow|StackOverflow|OutOfOffset|CreateContract|NotActivated|memory limit|VM (execution|exception)/i,
]
const isExecutionText = (text: string): boolean => executionPatterns.some((pattern) => pattern.test(text))

/**
 * Finds hexadecimal data in an error's `data`. That is a string (geth, reth, erigon, besu, anvil), text around it
 * ("Reverted 0x…": nethermind, OpenEthereum), or an object (hardhat `data.data`, ganache `data[hash].return`).
 */
function findData(data: unknown, depth: number): `0x${string}` | undefined {
  if (typeof data === 'string') {
    const hex = /^(?:reverted\s+)?(0x(?:[0-9a-f]{2})*)$/i.exec(data.trim())
    return hex === null ? undefined : (hex[1]!.toLowerCase() as `0x${string}`)
  }
  if (typeof data !== 'object' || data === null || depth > 3) return undefined
  const fields = data as Record<string, unknown>
  for (const name of ['data', 'originalError', 'result', 'return']) {
    const found = findData(fields[name], depth + 1)
    if (found !== undefined) return found
  }
  // ganache uses the transaction's hash as the key
  for (const [name, value] of Object.entries(fields)) {
    if (!/^0x[0-9a-f]{64}$/i.test(name)) continue
    const found = findData(value, depth + 1)
    if (found !== undefined) return found
  }
  return undefined
}

/** Returns whether the node does not know the block that a read is pinned to: it lags, or the block was reorganised. */
export function isUnknownBlock(error: RpcError): boolean {
  // geth: "header not found", "unknown block", "header for hash not found"; anvil: "Resource not found" (-32001) for a
  // hash, "BlockOutOfRangeError" for a number; erigon: "block not found"; nethermind: "... could not be found";
  // besu: "Unknown block"; EDR (Hardhat): "Received invalid block tag 0x…. Latest block number is 7", hashes included;
  // zkSync: "Block with such an ID doesn't exist yet".
  return (
    isForgottenState(error) ||
    /block.{0,20}not found|header.{0,30}not found|resource not found|unknown block|could not be found|BlockOutOfRange|invalid block tag|block with such an id/i.test(
      error.message,
    )
  )
}

/** Returns whether the node has the block, but lacks its state, permanently or for now. */
export function isForgottenState({ message }: RpcError): boolean {
  // geth: "missing trie node", "historical state … is not available", "state … is not available"; nethermind: "No state
  // available for block"; reth: "state at block … is pruned"; erigon: "old data not available due to pruning";
  // besu: "World state unavailable".
  return /missing trie node|historical state|state .{0,40}not available|no state available|state at .{0,80}pruned|due to pruning|world state unavailable/i.test(
    message,
  )
}

/** Returns whether the node aborted the call at its time limit. */
export function isGivenUp({ message }: RpcError): boolean {
  // geth and erigon: "execution aborted (timeout = 5s)"; nethermind: "… was canceled due to enabled timeout"; besu:
  // "Timeout expired"
  return /execution aborted|timeout|timed out/i.test(message)
}

/** JSON-RPC 2.0 §5.1: internal error. Some nodes report reverts with this code. */
export const isBroken = (error: RpcError): boolean => error.rpcCode === -32603 && !isExecutionError(error)

/** JSON-RPC 2.0 §5.1: method not found */
export const isMissingMethod = ({ rpcCode }: RpcError): boolean => rpcCode === -32601

/**
 * Returns whether a rate limit was hit: waiting helps, or another node. -32005 also means limits of a single response
 * (EIP-1474; Infura uses it for "query returned more than 10000 results"). Callers whose responses may be long use
 * `isHurried` to distinguish them.
 */
export const isRateLimited = (error: RpcError): boolean =>
  (error.rpcCode === -32005 && !mayBeQuoted(error)) || isHurried(error)

/**
 * Returns whether a rate limit was hit, for requests whose response may be too long. Unlike `isRateLimited`, uses only
 * HTTP status 429 and texts.
 */
export const isHurried = (error: RpcError): boolean =>
  !mayBeQuoted(error) &&
  // Alchemy "compute units per second capacity", Infura "daily request count exceeded, request rate limited", QuickNode "credits"
  (error.rpcCode === 429 || /rate.?limit|too many requests|compute units|capacity|throttl|credits/i.test(error.message))

/**
 * Returns whether a call of a method hit a rate limit. For logs, -32005 may only mean that one response is too long,
 * which is no evidence about the node.
 */
export const isRateLimitedAt = (method: string, error: RpcError): boolean =>
  method === 'eth_getLogs' ? isHurried(error) : isRateLimited(error)

/** Returns whether the message may quote a contract, which can revert with any text. */
const mayBeQuoted = ({ rpcCode, message }: RpcError): boolean => rpcCode === 3 || /revert/i.test(message)
