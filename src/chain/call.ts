import { AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { readBytes } from './answers.ts'
import { isBomb, noteBomb } from './bombs.ts'
import { revertDataOf } from './errors.ts'
import { RpcTooLarge } from './failures.ts'
import { RpcError, type Rpc } from './rpc.ts'

/** `latest`-like tag, a block number, or the hash that pins a read to one block. */
export type At = { blockHash: Hex } | { blockNumber: number } | 'latest' | 'finalized'

const blockParameter = (at: At): unknown => {
  if (typeof at === 'string') return at
  return 'blockHash' in at ? { blockHash: at.blockHash } : `0x${at.blockNumber.toString(16)}`
}

/** gas: what one transaction may have (EIP-7825). Nodes refuse calls with more, whatever they would burn: go-ethereum #32625, EDR */
export const CALL_GAS = 2 ** 24

/** bytes; a contract that answers or reverts with more than this is not read */
const MAX_RETURN_BYTES = 1_048_576
const MAX_RETURN_CHARACTERS = 2 * MAX_RETURN_BYTES + 2

/** What a call came to. `reverted` holds the node's error, from which the revert data is read. */
export type CallResult = { data: Hex } | { reverted: RpcError }

/**
 * eth_call at one block.
 * @param gas  highest gas the call may burn on the node
 * @throws RpcUnavailable, or RpcError when the node knows no such block or failed itself
 * @throws invalid_return_data  when the contract answers more than is read
 * @throws chain_timeout  when the node gave the call up
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
    const asked = isBomb(rpc, { to, data })
      ? rpc.call('eth_call', params, { alone: true })
      : rpc.call('eth_call', params)
    const answer = readBytes(await asked, 'result of a call')
    if (answer.length > MAX_RETURN_CHARACTERS) throw tooLong('answered')
    return { data: answer }
  } catch (error) {
    if (error instanceof RpcTooLarge) {
      noteBomb(rpc, { to, data })
      throw tooLong('answered', error)
    }
    if (!(error instanceof RpcError)) throw error
    if (!isExecutionError(error)) {
      if (!isGivenUp(error)) throw error
      // A gateway's time-out is that of all calls with it, this is the call's own.
      if (/execution aborted/i.test(error.message)) noteBomb(rpc, { to, data })
      throw new AppError('chain_timeout', 'The call takes the node too long.', { cause: error, retryAfter: 1 })
    }
    if (/out ?of ?gas/i.test(error.message)) noteBomb(rpc, { to, data })
    const reason = typeof error.data === 'string' ? error.data : (revertDataOf(error) ?? '')
    if (reason.length > MAX_RETURN_CHARACTERS) throw tooLong('reverted')
    return { reverted: error }
  }
}

// Without the answer as its cause: what holds many refusals would hold many megabytes.
const tooLong = (how: 'answered' | 'reverted', cause?: RpcTooLarge): AppError =>
  new AppError('invalid_return_data', `The contract ${how} with more than 1 MiB.`, cause === undefined ? {} : { cause })

/** The node has not seen the block that a read is pinned to: it lags, or the block was reorganised away. */
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

/** The node has the block, but no longer or not yet its state. */
export function isForgottenState({ message }: RpcError): boolean {
  // geth: "missing trie node", "historical state … is not available", "state … is not available"; nethermind: "No state
  // available for block"; reth: "state at block … is pruned"; erigon: "old data not available due to pruning";
  // besu: "World state unavailable".
  return /missing trie node|historical state|state .{0,40}not available|no state available|state at .{0,80}pruned|due to pruning|world state unavailable/i.test(
    message,
  )
}

/** The node ran the call as long as it lets one run. */
function isGivenUp({ message }: RpcError): boolean {
  // geth and erigon: "execution aborted (timeout = 5s)"; nethermind: "… was canceled due to enabled timeout"; besu:
  // "Timeout expired"
  return /execution aborted|timeout|timed out/i.test(message)
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
