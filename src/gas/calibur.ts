import { keccak } from '../keccak.ts'
import { GAS_PAIRS } from './addresses.ts'
import {
  CALL,
  hashCalls,
  typeHash,
  type AccountSignature,
  type GasOperation,
  type OperationCall,
} from './gas-operation.ts'
import { padded, paddedRight, word } from './words.ts'

/**
 * Calldata and digests for Calibur 1.0.0. An account signs a batch by its own key, with the dispatcher as its only
 * executor. If one call reverts, the whole batch is reverted. The key of the batch's nonce includes id and gas limit,
 * as in contracts/CaliburDispatcher.sol.
 * Source: github.com/Uniswap/calibur, EIP712, SignedBatchedCallLib, NonceManager, CalldataDecoder.
 */

const BATCH = 'BatchedCall(Call[] calls,bool revertOnFailure)'
const SIGNED =
  'SignedBatchedCall(BatchedCall batchedCall,uint256 nonce,bytes32 keyHash,address executor,uint256 deadline)'
const DOMAIN = 'EIP712Domain(string name,string version,uint256 chainId,address verifyingContract,bytes32 salt)'
/** EIP-712 appends the types that a type refers to, in order of their names. */
const [BATCH_TYPE, SIGNED_TYPE, DOMAIN_TYPE] = [
  typeHash(BATCH + CALL),
  typeHash(SIGNED + BATCH + CALL),
  typeHash(DOMAIN),
]
const [NAME, VERSION] = [typeHash('Calibur'), typeHash('1.0.0')]
const EXECUTE = typeHash('execute((((address,uint256,bytes)[],bool),uint256,bytes32,address,uint256),bytes)').subarray(0, 4) // prettier-ignore
/** the account's own key */
const ROOT_KEY = Buffer.alloc(32)
/** bytes of the counter below the key of a nonce */
const COUNT_BYTES = 8

/** Computes the 32 bytes that the account signs. */
export function caliburDigest(operation: GasOperation, id: Buffer): Buffer {
  const { chainId, account, dispatcher, calls, deadline } = operation
  const domain = caliburDomain(chainId, account)
  const batch = keccak(Buffer.concat([BATCH_TYPE, hashCalls(calls), word(1)]))
  const fields = [batch, caliburNonce(operation, id), ROOT_KEY, padded(dispatcher), word(deadline)]
  return keccak(Buffer.concat([Buffer.of(0x19, 0x01), domain, keccak(Buffer.concat([SIGNED_TYPE, ...fields]))]))
}

/**
 * Computes the domain separator of an account. Its salt is the address of the code, below twelve bytes that only the
 * account itself could set.
 */
export function caliburDomain(chainId: number, account: Buffer): Buffer {
  const salt = padded(GAS_PAIRS.calibur.delegate)
  return keccak(Buffer.concat([DOMAIN_TYPE, NAME, VERSION, word(chainId), padded(account), salt]))
}

/** Returns a nonce of Calibur with counter 0 and a key that no other operation has. */
function caliburNonce({ gasLimit }: Pick<GasOperation, 'gasLimit'>, id: Buffer): Buffer {
  const key = keccak(Buffer.concat([id, word(gasLimit)]))
  return Buffer.concat([key.subarray(0, 32 - COUNT_BYTES), Buffer.alloc(COUNT_BYTES)])
}

/** Encodes the dispatcher's call of the account, like abi.encode. */
export function caliburExecuteData(operation: GasOperation, id: Buffer, signature: AccountSignature): Buffer {
  const { dispatcher, calls, deadline } = operation
  const batch = Buffer.concat([word(64), word(1), encodeCalls(calls)])
  const signed = Buffer.concat([word(160), caliburNonce(operation, id), ROOT_KEY, padded(dispatcher), word(deadline), batch]) // prettier-ignore
  const wrapped = wrap(signature)
  return Buffer.concat([EXECUTE, word(64), word(64 + signed.length), signed, encodeBytes(wrapped)])
}

/** Encodes `abi.encode(bytes, bytes)` of the 65-byte signature and of empty hook data. */
function wrap({ r, s, recovery }: AccountSignature): Buffer {
  const flat = encodeBytes(Buffer.concat([r, s, Buffer.of(27 + recovery)]))
  return Buffer.concat([word(64), word(64 + flat.length), flat, encodeBytes(Buffer.alloc(0))])
}

function encodeCalls(calls: readonly OperationCall[]): Buffer {
  const encoded = calls.map(({ to, value, data }) => Buffer.concat([padded(to), word(value), word(96), encodeBytes(data)])) // prettier-ignore
  let place = 32 * calls.length
  const places = encoded.map(({ length }) => word((place += length) - length))
  return Buffer.concat([word(calls.length), ...places, ...encoded])
}

const encodeBytes = (bytes: Buffer): Buffer => Buffer.concat([word(bytes.length), paddedRight(bytes)])
