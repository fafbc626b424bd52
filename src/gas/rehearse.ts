import type { OperationCall } from './operation.ts'

/** What a call that failed put in front of the data that it reverted with: which one it was. */
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
 * Code by which a simulation sees what the delegate would do in an account, before anything is signed: it is put in the account's place
 * by a state override, and a sponsor calls it. It makes the calls, in their order; what the last one returned is returned. When one
 * fails, all is reverted with the index of it, one byte, and what it reverted with. Anyone who calls back in between is answered as the
 * receivers of tokens answer: by the selector that it called with.
 */
export function rehearsalCode(calls: readonly OperationCall[]): Buffer {
  // Two passes: where the data of calls lies depends on the length of the code, which is always the same.
  const codeBytes = assemble(calls, 0).length
  return Buffer.concat([assemble(calls, codeBytes), ...calls.map(({ data }) => data)])
}

/** @param dataAt where the data of the first call lies */
function assemble(calls: readonly OperationCall[], dataAt: number): Buffer {
  const parts: Buffer[] = []
  const put = (...bytes: number[]) => void parts.push(Buffer.from(bytes))
  const here = () => parts.reduce((sum, { length }) => sum + length, 0)
  /** `target` is 4 bytes, wherever it is. */
  const jumpIf = (target: number) => {
    push(4, BigInt(target))
    put(OP.JUMPI)
  }
  const push = (length: number, value: bigint) => {
    put(OP.PUSH0 + length)
    parts.push(Buffer.from(value.toString(16).padStart(2 * length, '0'), 'hex'))
  }
  // Called by the sponsor, who is the origin: do the calls. By anyone else: give back the selector.
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

/** mstore(0, calldataload(0)), return(0, 32): a selector is the first four bytes of the word, the rest nobody reads. */
const RECEIVER = Buffer.from([
  ...[OP.PUSH0, OP.CALLDATALOAD, OP.PUSH1 + 3, 0xff, 0xff, 0xff, 0xff, OP.PUSH1, 0xe0, 0x1b, 0x16],
  ...[OP.PUSH0, OP.MSTORE, OP.PUSH1, 0x20, OP.PUSH0, OP.RETURN],
])

/** Which call failed, and what it reverted with. @param data what the simulation was reverted with; empty when gas ran out outside of the calls */
export function readRehearsal(data: Uint8Array): { index: number; data: Buffer } {
  const bytes = Buffer.from(data)
  return { index: bytes[0] ?? 0, data: bytes.subarray(INDEX_BYTES) }
}
