import type { OperationCall } from './operation.ts'

/** Bytes before the revert data of a failed call: the index of the call. */
const INDEX_BYTES = 1

const OP = {
  EQ: 0x14,
  ISZERO: 0x15,
  ORIGIN: 0x32,
  CALLER: 0x33,
  CALLDATALOAD: 0x35,
  CODECOPY: 0x39,
  RETURNDATASIZE: 0x3d,
  RETURNDATACOPY: 0x3e,
  MSTORE: 0x52,
  MSTORE8: 0x53,
  JUMPI: 0x57,
  GAS: 0x5a,
  JUMPDEST: 0x5b,
  ADD: 0x01,
  CALL: 0xf1,
  RETURN: 0xf3,
  REVERT: 0xfd,
  PUSH0: 0x5f,
  PUSH1: 0x60,
} as const

/**
 * Builds code that simulates, before anything is signed, the delegate's execution in an account. A state override puts
 * the code at the account's address, and a sponsor calls it. The code makes the calls in order and returns the result
 * of the last one. If one fails, everything is reverted with the call's index (one byte) and its revert data. If
 * another address calls the code in between, it returns the selector of that call, as receivers of tokens must.
 */
export function rehearsalCode(calls: readonly OperationCall[]): Buffer {
  // Assemble twice: the offset of the calls' data depends on the length of the code, which does not change.
  const codeBytes = assemble(calls, 0).length
  return Buffer.concat([assemble(calls, codeBytes), ...calls.map(({ data }) => data)])
}

/** Assembles the code. @param dataAt  offset of the first call's data */
function assemble(calls: readonly OperationCall[], dataAt: number): Buffer {
  const parts: Buffer[] = []
  const put = (...bytes: number[]) => void parts.push(Buffer.from(bytes))
  const here = () => parts.reduce((sum, { length }) => sum + length, 0)
  /** Jumps to a target, which always takes 4 bytes. */
  const jumpIf = (target: number) => {
    push(4, BigInt(target))
    put(OP.JUMPI)
  }
  const push = (length: number, value: bigint) => {
    put(OP.PUSH0 + length)
    parts.push(Buffer.from(value.toString(16).padStart(2 * length, '0'), 'hex'))
  }
  // If the sponsor, who is the origin, calls: make the calls. If any other address calls: return the selector.
  put(OP.CALLER, OP.ORIGIN, OP.EQ)
  jumpIf(3 + 6 + RECEIVER.length)
  parts.push(RECEIVER)
  put(OP.JUMPDEST)
  let at = dataAt
  calls.forEach(({ to, value, data }, index) => {
    push(4, BigInt(data.length))
    push(4, BigInt(at))
    put(OP.PUSH0, OP.CODECOPY)
    at += data.length
    put(OP.PUSH0, OP.PUSH0)
    push(4, BigInt(data.length))
    put(OP.PUSH0)
    push(32, value)
    put(OP.PUSH0 + 20)
    parts.push(to)
    put(OP.GAS, OP.CALL)
    const failure = Buffer.from([
      ...[OP.PUSH1, index, OP.PUSH0, OP.MSTORE8, OP.RETURNDATASIZE, OP.PUSH0, OP.PUSH1, INDEX_BYTES, OP.RETURNDATACOPY],
      ...[OP.RETURNDATASIZE, OP.PUSH1, INDEX_BYTES, OP.ADD, OP.PUSH0, OP.REVERT],
    ])
    jumpIf(here() + 6 + failure.length)
    parts.push(failure)
    put(OP.JUMPDEST)
  })
  put(OP.RETURNDATASIZE, OP.PUSH0, OP.PUSH0, OP.RETURNDATACOPY, OP.RETURNDATASIZE, OP.PUSH0, OP.RETURN)
  return Buffer.concat(parts)
}

/** mstore(0, calldataload(0)), return(0, 32): the selector is the first four bytes of the word; the rest is 0. */
const RECEIVER = Buffer.from([
  ...[OP.PUSH0, OP.CALLDATALOAD, OP.PUSH1 + 3, 0xff, 0xff, 0xff, 0xff, OP.PUSH1, 0xe0, 0x1b, 0x16],
  ...[OP.PUSH0, OP.MSTORE, OP.PUSH1, 0x20, OP.PUSH0, OP.RETURN],
])

/**
 * Decodes which call failed, and its revert data. @param data  the revert data of the simulation; empty if gas ran out
 * outside the calls
 */
export function readRehearsal(data: Uint8Array): { index: number; data: Buffer } {
  const bytes = Buffer.from(data)
  return { index: bytes[0] ?? 0, data: bytes.subarray(INDEX_BYTES) }
}
