import { readAddress } from '../abi/address.ts'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { readAt } from '../chain/reads.ts'
import { CALL_GAS } from '../chain/rpc/call.ts'
import { isExecutionError } from '../chain/rpc/errors.ts'
import { mapChainError, RpcError } from '../chain/rpc/rpc.ts'
import { AppError } from '../errors.ts'
import { fromHex, toHex } from '../hex.ts'
import type { Caller } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { quantityOf, wordDigits, type Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { digestOf, type Message } from '../messages/message.ts'
import { openCurve } from '../secp256k1.ts'
import { validatorCode } from './validator.ts'
import type { Verified } from './wire.ts'

/**
 * Verifies a signature of any account: first by its key, which needs no node, then by its contract.
 * @throws invalid_address, chain_unavailable, chain_timeout
 * Source: ERC-6492, verifier side
 */
export async function verifySignature(
  app: App,
  caller: Caller,
  asked: { address: string; message: Message; signature: string },
): Promise<Verified> {
  const chain = chainOf(app, caller)
  const address = addressOf(asked.address)
  const digest = digestOf(asked.message)
  const signature = fromHex(asked.signature)
  const method = await methodOf(chain, { address, digest, signature })
  return { valid: method !== null, method, hash: toHex(digest) }
}

type SignatureClaim = { address: Hex; digest: Buffer; signature: Buffer }

async function methodOf(chain: Chain, claim: SignatureClaim): Promise<Verified['method']> {
  if (claim.signature.subarray(-32).equals(DEPLOYS)) return (await isOfFuture(chain, claim)) ? 'erc6492' : null
  if (signerOf(claim) === claim.address) return 'eoa'
  return (await isOfContract(chain, claim)) ? 'erc1271' : null
}

/** The last 32 bytes of a signature of a contract that is not deployed yet. Source: ERC-6492 */
const DEPLOYS = Buffer.from('6492'.repeat(16), 'hex')

/** Half of the order of secp256k1. Third parties can turn a valid signature into one with a higher s, so those are rejected. Source: EIP-2 */
const MAX_S = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n

/**
 * Recovers the address from a signature of 65 bytes or in the compact form; null if it is malformed.
 * Source: EIP-2098
 */
function signerOf({ digest, signature }: Pick<SignatureClaim, 'digest' | 'signature'>): Hex | null {
  const parts = signature.length === 65 ? long(signature) : signature.length === 64 ? short(signature) : null
  if (parts === null || BigInt(toHex(parts.rs.subarray(32))) > MAX_S) return null
  try {
    return toHex(keccak(openCurve().recover(parts.rs, parts.recovery, digest).subarray(1)).subarray(12))
  } catch {
    // No point of the curve has this r and s.
    return null
  }
}

const long = (signature: Buffer) => {
  const recovery = signature[64]! - 27
  return recovery === 0 || recovery === 1 ? { rs: signature.subarray(0, 64), recovery } : null
}

function short(signature: Buffer) {
  const rs = Buffer.from(signature)
  rs[32]! &= 0x7f
  return { rs, recovery: signature[32]! >> 7 }
}

/** Selector of `isValidSignature(bytes32,bytes)`. The function also returns it for a valid signature. Source: ERC-1271 */
const IS_VALID = '0x1626ba7e'

async function isOfContract(chain: Chain, { address, digest, signature }: SignatureClaim): Promise<boolean> {
  const data: Hex = `${IS_VALID}${digest.toString('hex')}${bytesArgument(2, signature)}`
  const result = await ask(() => readAt(chain, 'latest', (reads) => reads.call({ to: address, data })))
  return result !== null && 'data' in result && result.data === IS_VALID.padEnd(66, '0')
}

async function isOfFuture({ rpc }: Chain, { address, digest, signature }: SignatureClaim): Promise<boolean> {
  const signer = wordDigits(BigInt(address))
  const data: Hex = `${validatorCode()}${signer}${digest.toString('hex')}${bytesArgument(3, signature)}`
  const result = await ask(() => rpc.call('eth_call', [{ data, gas: quantityOf(CALL_GAS) }, 'latest']))
  return result === '0x01'
}

/** Encodes bytes as the last of `count` arguments. The others have one word each. */
function bytesArgument(count: number, bytes: Buffer): string {
  const padded = Buffer.concat([bytes, Buffer.alloc(-bytes.length & 31)])
  return `${wordDigits(BigInt(32 * count))}${wordDigits(BigInt(bytes.length))}${padded.toString('hex')}`
}

/** Calls the contract. Returns null if the call reverts or returns too much, which proves no signature. */
async function ask<T>(call: () => Promise<T>): Promise<T | null> {
  try {
    return await call()
  } catch (error) {
    const isOfContract =
      error instanceof RpcError
        ? isExecutionError(error)
        : error instanceof AppError && error.code === 'invalid_return_data'
    if (isOfContract) return null
    throw mapChainError(error)
  }
}

/** @throws invalid_address */
function addressOf(text: string): Hex {
  try {
    return readAddress(text).toLowerCase() as Hex
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    throw new AppError('invalid_address', error.message, {
      errors: [{ pointer: '/address', code: 'invalid_address', detail: error.message }],
    })
  }
}
