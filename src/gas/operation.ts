import assert from 'node:assert/strict'
import { keccak } from '../keccak.ts'
import { delegateNameOf } from './addresses.ts'
import { caliburDigest, caliburDomain, caliburExecuteData } from './calibur.ts'
import {
  CALL,
  hashCalls,
  typeHash,
  type AccountSignature,
  type GasOperation,
  type OperationCall,
} from './gas-operation.ts'
import { bytesOf, padded, paddedRight, word } from './words.ts'

export type { AccountSignature, GasOperation, OperationCall } from './gas-operation.ts'

const OPERATION = 'Operation(address dispatcher,uint256 id,Call[] calls,uint256 gasLimit,uint256 deadline)'
const DOMAIN = 'EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)'
const [OPERATION_TYPE, DOMAIN_TYPE] = [typeHash(OPERATION + CALL), typeHash(DOMAIN)]
/** EIP-712 name and version of the domain, as in contracts/Delegate.sol */
const [NAME, VERSION] = [typeHash('Chatelaine'), typeHash('1')]
const MAX_CALLS = 255
const EXECUTE = typeHash('execute(uint256,uint256,uint256,bytes32,bytes32,bytes)').subarray(0, 4)

/**
 * Computes the 32 bytes that the account signs, for the delegate of the operation's dispatcher. Source: EIP-712, and
 * contracts/Delegate.sol.
 */
export function operationDigest(operation: GasOperation): Buffer {
  const { chainId, account, dispatcher, calls, gasLimit, deadline } = checked(operation)
  if (delegateNameOf(dispatcher) === 'calibur') return caliburDigest(operation, idOf(operation))
  const domain = delegateDomain(chainId, account)
  const message = [padded(dispatcher), idOf(operation), hashCalls(calls), word(gasLimit), word(deadline)]
  return keccak(Buffer.concat([Buffer.of(0x19, 0x01), domain, keccak(Buffer.concat([OPERATION_TYPE, ...message]))]))
}

/** Computes the domain separator of an account that runs contracts/Delegate.sol. Source: EIP-712 */
const delegateDomain = (chainId: number, account: Buffer): Buffer =>
  keccak(Buffer.concat([DOMAIN_TYPE, NAME, VERSION, word(chainId), padded(account)]))

/** Computes the domain separators of an account, one for each delegate whose operations it can sign. */
export const operationDomains = (chainId: number, account: Buffer): Buffer[] => [
  delegateDomain(chainId, account),
  caliburDomain(chainId, account),
]

/** Returns the 32 bytes of the id: space and sequence. */
const idOf = ({ space, sequence }: Pick<GasOperation, 'space' | 'sequence'>): Buffer =>
  Buffer.concat([space, bytesOf(sequence, 12)])

/** Encodes the dispatcher's call of the account, for simulations with the dispatcher as the sender. */
export function executeData(operation: GasOperation, signature: AccountSignature): Buffer {
  const { dispatcher, gasLimit, deadline, calls } = checked(operation)
  if (delegateNameOf(dispatcher) === 'calibur') return caliburExecuteData(operation, idOf(operation), signature)
  const packed = packCalls(calls)
  const { r, vs } = compact(signature)
  const heads = [idOf(operation), word(gasLimit), word(deadline), r, vs, word(6 * 32), word(packed.length)]
  return Buffer.concat([EXECUTE, ...heads, paddedRight(packed)])
}

/** Encodes calls in the form of the contracts: their number, then recipient, value and data of each. */
export function packCalls(calls: readonly OperationCall[]): Buffer {
  const parts = calls.flatMap(({ to, value, data }) => {
    const amount = value === 0n ? Buffer.alloc(0) : bytesOf(value, Math.ceil(value.toString(16).length / 2))
    return [to, Buffer.of(amount.length), amount, bytesOf(data.length, 3), data]
  })
  return Buffer.concat([Buffer.of(calls.length), ...parts])
}

/** Compacts a signature to 64 bytes, with the parity in the highest bit of s. Source: EIP-2098 */
export function compact({ r, s, recovery }: AccountSignature): { r: Buffer; vs: Buffer } {
  assert.ok(r.length === 32 && s.length === 32 && s[0]! < 0x80, 'the signature has a low s')
  const vs = Buffer.from(s)
  vs[0]! |= recovery << 7
  return { r: Buffer.from(r), vs }
}

/** Asserts that an operation is well-formed. A violation is a bug here, not a caller's error. */
function checked(operation: GasOperation): GasOperation {
  const { chainId, account, dispatcher, space, sequence, calls, gasLimit, deadline } = operation
  assert.ok(Number.isSafeInteger(chainId) && chainId > 0, 'an operation is for one network')
  for (const address of [account, dispatcher, space]) assert.equal(address.length, 20)
  assert.ok(sequence >= 0n && sequence < 1n << 96n)
  assert.ok(calls.length > 0 && calls.length <= MAX_CALLS)
  for (const { to, value, data } of calls)
    assert.ok(to.length === 20 && value >= 0n && value < 1n << 256n && data.length < 1 << 24)
  assert.ok(Number.isSafeInteger(gasLimit) && gasLimit > 0 && gasLimit < 2 ** 32)
  assert.ok(Number.isSafeInteger(deadline) && deadline > 0 && deadline < 2 ** 40)
  return operation
}
