import { AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { isBomb, noteBomb } from './bombs.ts'
import { RpcTooLarge } from './failures.ts'
import { RpcError, RpcUnavailable, type Rpc } from './rpc.ts'

/** `latest`-like tag, a block number, or the hash that pins a read to one block. */
export type At = { blockHash: Hex } | { blockNumber: number } | 'latest' | 'finalized'

export const blockParameter = (at: At): unknown => {
  if (typeof at === 'string') return at
  return 'blockHash' in at ? { blockHash: at.blockHash } : `0x${at.blockNumber.toString(16)}`
}

/** gas; hardening.md caps what one read may burn on the node */
export const CALL_GAS = 30_000_000

/** bytes; a contract that answers more than this is not read */
export const MAX_RETURN_BYTES = 1_048_576

/** What a call came to. `reverted` holds the node's error, from which the revert data is read. */
export type CallResult = { data: Hex } | { reverted: RpcError }

/**
 * eth_call at one block.
 * @param gas  highest gas the call may burn on the node
 * @throws RpcUnavailable, or RpcError when the node knows no such block or failed itself
 * @throws invalid_return_data  when the contract answers more than is read
 */
export async function ethCall(
  rpc: Rpc,
  { to, data, from, at, gas = CALL_GAS }: { to: Hex; data: Hex; from?: Hex; at: At; gas?: number },
): Promise<CallResult> {
  const params = [
    { to, data, ...(from === undefined ? {} : { from }), gas: `0x${gas.toString(16)}` },
    blockParameter(at),
  ]
  try {
    const answer = await (isBomb(rpc, { to, data })
      ? rpc.call('eth_call', params, { alone: true })
      : rpc.call('eth_call', params))
    if (typeof answer !== 'string' || !answer.startsWith('0x'))
      throw new RpcUnavailable('the node answered a call with something else than bytes', { timedOut: false })
    return { data: answer as Hex }
  } catch (error) {
    if (error instanceof RpcTooLarge) {
      noteBomb(rpc, { to, data })
      throw new AppError('invalid_return_data', 'The contract answered with more than 1 MiB.', { cause: error })
    }
    if (!(error instanceof RpcError && isExecutionError(error))) throw error
    if (/out ?of ?gas/i.test(error.message)) noteBomb(rpc, { to, data })
    return { reverted: error }
  }
}

/** The node has not seen the block that a read is pinned to: it lags, or the block was reorganised away. */
export function isUnknownBlock(error: RpcError): boolean {
  // geth: "header not found", "unknown block", "header for hash not found"; anvil: "Resource not found" (-32001) for a
  // hash, "BlockOutOfRangeError" for a number; erigon: "block not found"; nethermind: "... could not be found";
  // besu: "Unknown block"; pruned state in geth: "missing trie node".
  return /block.{0,20}not found|header.{0,30}not found|resource not found|unknown block|could not be found|missing trie node|BlockOutOfRange|state .{0,40}not available|historical state/i.test(
    error.message,
  )
}

/** The call itself failed in the EVM: reverted, out of gas, invalid code. Anything else is the node's failure. */
export function isExecutionError(error: RpcError): boolean {
  // Code 3 is geth's and anvil's for reverts (EIP-1474 leaves it open); the texts are geth's core/vm/errors.go,
  // revm's halt reasons as anvil prints them, nethermind's and besu's.
  return (
    error.rpcCode === 3 ||
    /revert|out of ?gas|invalid opcode|invalid jump|stack (under|over)flow|stack limit|write protection|return data out of bounds|gas uint64 overflow|max code size|invalid code|EVM error|VM execution error|OpcodeNotFound|InvalidFEOpcode|InvalidJump|StackUnderflow|StackOverflow|OutOfOffset|CreateContract|NotActivated|intrinsic gas|memory limit/i.test(
      error.message,
    )
  )
}
