import { createHash } from 'node:crypto'
import { keccak256, serializeTransaction, toHex, type TransactionSerializable } from 'viem'
import type { Hex } from '../src/ids.ts'
import { addressOf as addressOfKey, publicKeyOf, signDigest } from '../src/signer/keys/curve.ts'

/** A transaction as a node shows it whole, and the bytes that its block commits to. */
export type WholeTransaction = { hash: Hex; encoded: Buffer; answer: Record<string, unknown> }

type Key = { key: Buffer; account: Buffer }
const keys = new Map<Hex, Key>()

/** An account that signs what it sends. Of other senders the bytes are right, and the signature is somebody else's. */
export function signerAt(number: number): Hex {
  const key = createHash('sha256').update(`signer ${number}`).digest()
  const account = addressOfKey(publicKeyOf(key))
  const address: Hex = `0x${account.toString('hex')}`
  keys.set(address, { key, account })
  return address
}
const stranger = signerAt(0)

const GAS_PRICE = 1_000_000_007n
const COMMON = { chainId: 31337, gas: 90_000n, value: 3n, data: '0xc0ffee' as Hex }
const POINT = { r: toHex(7n, { size: 32 }), s: toHex(8n, { size: 32 }), yParity: 1 }
const AUTHORIZATION = { chainId: 31337, nonce: 5, address: `0x${'c1'.repeat(20)}` as Hex }
const ACCESS_LIST = [{ address: `0x${'c2'.repeat(20)}` as Hex, storageKeys: [`0x${'05'.repeat(32)}` as Hex] }]
const BLOB = `0x01${'b0'.repeat(31)}` as Hex

/** What differs between the types, in the library's words. In blocks of a base fee near 1 gwei all cost the same. */
const TYPES = [
  { type: 'legacy', gasPrice: GAS_PRICE },
  { type: 'eip2930', gasPrice: GAS_PRICE, accessList: ACCESS_LIST },
  { type: 'eip1559' },
  { type: 'eip4844', maxFeePerBlobGas: 1n, blobVersionedHashes: [BLOB] },
  { type: 'eip7702', authorizationList: [{ ...AUTHORIZATION, ...POINT }] },
] as const

/** A transaction of one of the types 0 to 4, made by the library and not by what is tested. */
export function makeTransaction(of: { from: Hex; to: Hex | null; nonce: number; type: number }): WholeTransaction {
  const { from, to, nonce, type } = of
  const dynamic = type < 2 ? {} : { maxFeePerGas: GAS_PRICE, maxPriorityFeePerGas: GAS_PRICE, accessList: ACCESS_LIST }
  const fields = { ...COMMON, ...dynamic, ...TYPES[type], to, nonce } as TransactionSerializable
  const { key, account } = keys.get(from) ?? keys.get(stranger)!
  const digest = Buffer.from(keccak256(serializeTransaction(fields)).slice(2), 'hex')
  const { r, s, recovery } = signDigest(digest, key, account)
  const [v, point] = [type === 0 ? BigInt(31337 * 2 + 35 + recovery) : BigInt(recovery), { r: hexOf(r), s: hexOf(s) }]
  const raw = serializeTransaction(fields, type === 0 ? { ...point, v } : { ...point, yParity: recovery })
  const hash = keccak256(raw)
  const quantities = { v, nonce: BigInt(nonce), type: BigInt(type), chainId: 31337n, gas: COMMON.gas, value: COMMON.value, r: BigInt(point.r), s: BigInt(point.s) } // prettier-ignore
  const answer = {
    ...{ hash, from, to, input: COMMON.data },
    ...hexed({ ...quantities, ...(type < 2 ? {} : { yParity: v }) }),
    ...(type < 2 ? hexed({ gasPrice: GAS_PRICE }) : hexed({ gasPrice: GAS_PRICE, maxFeePerGas: GAS_PRICE, maxPriorityFeePerGas: GAS_PRICE })), // prettier-ignore
    ...(type === 0 ? {} : { accessList: ACCESS_LIST }),
    ...(type === 3 ? { maxFeePerBlobGas: '0x1', blobVersionedHashes: [BLOB] } : {}),
    ...(type === 4 ? { authorizationList: [{ ...AUTHORIZATION, ...hexed({ chainId: 31337n, nonce: 5n, yParity: 1n, r: 7n, s: 8n }) }] } : {}), // prettier-ignore
  }
  return { hash, encoded: Buffer.from(raw.slice(2), 'hex'), answer }
}

const hexOf = (bytes: Uint8Array): Hex => `0x${Buffer.from(bytes).toString('hex')}`
const hexed = (numbers: Record<string, bigint>): Record<string, Hex> =>
  Object.fromEntries(Object.entries(numbers).map(([name, value]) => [name, `0x${value.toString(16)}`]))
