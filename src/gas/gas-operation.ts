import { keccak } from '../keccak.ts'
import { padded, word } from './words.ts'

/** Addresses are 20 bytes; `value` in wei. */
export type OperationCall = { to: Buffer; value: bigint; data: Buffer }

/** What an account signs, for a sponsor to send: all calls are done, in this order, or none. */
export type GasOperation = {
  /** never 0, which would be every network */
  chainId: number
  account: Buffer
  dispatcher: Buffer
  /** which sponsors may send it: the address that allows them, the first 20 bytes of the id */
  space: Buffer
  /** the other 12 bytes; one that was used in the space never is again */
  sequence: bigint
  calls: readonly OperationCall[]
  /** for all that the account's code does, the check of the signature included */
  gasLimit: number
  /** the last second in which it may be done, since 1970 */
  deadline: number
}

/** r and s of 32 bytes; s not above half of the order of the curve */
export type AccountSignature = { r: Uint8Array; s: Uint8Array; recovery: 0 | 1 }

/** A type of EIP-712, as it is written, those that it refers to behind it. */
export const typeHash = (text: string): Buffer => keccak(Buffer.from(text))
/** as our own code has it, and Calibur */
export const CALL = 'Call(address to,uint256 value,bytes data)'
const CALL_TYPE = typeHash(CALL)

/** Of `Call[]`, as EIP-712 has it. */
export const hashCalls = (calls: readonly OperationCall[]): Buffer =>
  keccak(
    Buffer.concat(
      calls.map(({ to, value, data }) => keccak(Buffer.concat([CALL_TYPE, padded(to), word(value), keccak(data)]))),
    ),
  )
