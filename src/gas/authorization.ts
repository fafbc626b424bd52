import assert from 'node:assert/strict'
import { keccak } from '../keccak.ts'
import { encodeRlp } from '../rlp.ts'
import type { AccountSignature } from './operation.ts'

/** An authorization by which an account runs the code at an address (EIP-7702), until it signs another. */
export type Authorization = {
  /** never 0, which would mean every network */
  chainId: number
  /** address of the code, 20 bytes */
  address: Buffer
  /** nonce of the account when a transaction includes this; the network silently skips another nonce */
  nonce: number
}

export type SignedAuthorization = Authorization & AccountSignature

/** Computes the 32 bytes that the account signs. Source: EIP-7702, keccak(0x05 ‖ rlp([chain_id, address, nonce])) */
export function authorizationDigest({ chainId, address, nonce }: Authorization): Buffer {
  assert.ok(Number.isSafeInteger(chainId) && chainId > 0, 'an authorization is for one network')
  assert.ok(Number.isSafeInteger(nonce) && nonce >= 0 && address.length === 20)
  return keccak(Buffer.concat([Buffer.of(0x05), encodeRlp([chainId, address, nonce])]))
}
