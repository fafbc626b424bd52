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
 * What Calibur 1.0.0 takes, and what an account signs for it: a batch that is reverted whole where a call of it is, for the dispatcher as
 * the one executor, by the account's own key. Id and gas limit are in the key of its nonce, as contracts/CaliburDispatcher.sol makes it.
 * Source: github.com/Uniswap/calibur, EIP712, SignedBatchedCallLib, NonceManager, CalldataDecoder.
 */

const BATCH = 'BatchedCall(Call[] calls,bool revertOnFailure)'
const SIGNED =
  'SignedBatchedCall(BatchedCall batchedCall,uint256 nonce,bytes32 keyHash,address executor,uint256 deadline)'
const DOMAIN = 'EIP712Domain(string name,string version,uint256 chainId,address verifyingContract,bytes32 salt)'
/** Types that a type refers to follow it in the order of their names (EIP-712). */
const [BATCH_TYPE, SIGNED_TYPE, DOMAIN_TYPE] = [
  typeHash(BATCH + CALL),
  typeHash(SIGNED + BATCH + CALL),
  typeHash(DOMAIN),
]
const [NAME, VERSION] = [typeHash('Calibur'), typeHash('1.0.0')]
const EXECUTE = typeHash('execute((((address,uint256,bytes)[],bool),uint256,bytes32,address,uint256),bytes)').subarray(0, 4) // prettier-ignore
/** the account's own key */
const ROOT_KEY = Buffer.alloc(32)
/** bytes of the count below the key of a nonce */
const COUNT_BYTES = 8

/** The 32 bytes that the account signs. */
export function caliburDigest(operation: GasOperation, id: Buffer): Buffer {
  const { chainId, account, dispatcher, calls, deadline } = operation
  // The address of the code that is run is in the domain, below twelve bytes that only the account itself could set.
  const salt = padded(GAS_PAIRS.calibur.delegate)
  const domain = keccak(Buffer.concat([DOMAIN_TYPE, NAME, VERSION, word(chainId), padded(account), salt]))
  const batch = keccak(Buffer.concat([BATCH_TYPE, hashCalls(calls), word(1)]))
  const fields = [batch, caliburNonce(operation, id), ROOT_KEY, padded(dispatcher), word(deadline)]
  return keccak(Buffer.concat([Buffer.of(0x19, 0x01), domain, keccak(Buffer.concat([SIGNED_TYPE, ...fields]))]))
}

/** A key of Calibur's nonces that no other operation has, with its first count. */
function caliburNonce({ gasLimit }: Pick<GasOperation, 'gasLimit'>, id: Buffer): Buffer {
  const key = keccak(Buffer.concat([id, word(gasLimit)]))
  return Buffer.concat([key.subarray(0, 32 - COUNT_BYTES), Buffer.alloc(COUNT_BYTES)])
}

/** What the dispatcher calls the account with, as abi.encode has it. */
export function caliburExecuteData(operation: GasOperation, id: Buffer, signature: AccountSignature): Buffer {
  const { dispatcher, calls, deadline } = operation
  const batch = Buffer.concat([word(64), word(1), encodeCalls(calls)])
  const signed = Buffer.concat([word(160), caliburNonce(operation, id), ROOT_KEY, padded(dispatcher), word(deadline), batch]) // prettier-ignore
  const wrapped = wrap(signature)
  return Buffer.concat([EXECUTE, word(64), word(64 + signed.length), signed, encodeBytes(wrapped)])
}

/** `abi.encode(bytes, bytes)` of the 65 bytes, and of nothing for hooks. */
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
