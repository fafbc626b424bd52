import { keccak } from '../keccak.ts'
import { padded, word } from './words.ts'

/** A call of an operation. Addresses are 20 bytes; `value` in wei. */
export type OperationCall = { to: Buffer; value: bigint; data: Buffer }

/** An operation that an account signs and a sponsor sends: all calls are executed in this order, or none. */
export type GasOperation = {
  /** never 0, which would mean every network */
  chainId: number
  account: Buffer
  dispatcher: Buffer
  /** address that allows its sponsors; the first 20 bytes of the id */
  space: Buffer
  /** the other 12 bytes of the id; a space accepts each sequence once */
  sequence: bigint
  calls: readonly OperationCall[]
  /** gas units for everything that the account's code does, including the verification of the signature */
  gasLimit: number
  /** last second in which the operation may be executed, Unix time */
  deadline: number
}

/** A signature: r and s of 32 bytes, s at most half of the curve's order. */
export type AccountSignature = { r: Uint8Array; s: Uint8Array; recovery: 0 | 1 }

/** Hashes the encoding of an EIP-712 type, followed by the types that it refers to. */
export const typeHash = (text: string): Buffer => keccak(Buffer.from(text))
/** EIP-712 type of a call, in this project's delegate and in Calibur */
export const CALL = 'Call(address to,uint256 value,bytes data)'
const CALL_TYPE = typeHash(CALL)

/** Hashes `Call[]` by EIP-712. */
export const hashCalls = (calls: readonly OperationCall[]): Buffer =>
  keccak(
    Buffer.concat(
      calls.map(({ to, value, data }) => keccak(Buffer.concat([CALL_TYPE, padded(to), word(value), keccak(data)]))),
    ),
  )
