import { readNumber, readObject } from '../chain/answers.ts'
import { BadAnswer } from '../chain/failures.ts'
import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { bytes, list, quantity } from './fields.ts'
import { bytesOf, encodeRlp, type Encoded, type Rlp } from './rlp.ts'
import { createdBy, recoverSender } from './sender.ts'

/** A transaction as its own bytes say it: nothing here is the node's word. All hex is lower-case. */
export type Sent = {
  /** what its block commits to, and what its hash is of */
  encoded: Buffer
  hash: Hex
  /** false for what a development node let somebody send in another's name, which has a hash of its own */
  isSigned: boolean
  /** @returns null where nobody signed; recovered when it is first asked for, the dearest part of all @throws BadAnswer */
  from(): Hex | null
  to: Hex | null
  nonce: number
  /** @returns null where it creates none @throws BadAnswer */
  contractAddress(): Hex | null
  /** wei per gas that it pays in a block of this base fee */
  priceAt(baseFee: bigint | null): bigint
}

/** Types whose encoding is Ethereum's own: legacy, EIP-2930, 1559, 4844, 7702. */
const LAST_TYPE = 4

/** The type of a transaction or of a receipt as a node writes it; none is the oldest. @throws BadAnswer */
export const typeOf = ({ type }: Record<string, unknown>): number =>
  type === undefined || type === null ? 0 : readNumber(type, 'type of a transaction')

/** False for the types of other networks: OP deposits (0x7e), Arbitrum's (0x64 and up), zkSync's (0x71, 0xff), Celo's. */
export const isEthereums = (type: number): boolean => type <= LAST_TYPE

type Field = [name: string, read: (value: unknown) => Rlp]

const TO: Field = ['to', (value) => (value === null || value === undefined ? Buffer.alloc(0) : bytes(value))]
const CALL: Field[] = [['gas', quantity], TO, ['value', quantity], ['input', bytes]]
const GAS_PRICE: Field = ['gasPrice', quantity]
const NONCE: Field = ['nonce', quantity]
const CHAIN_ID: Field = ['chainId', quantity]
const ACCESS_LIST: Field = ['accessList', (value) => list(value ?? []).map(encodeAccess)]
const DYNAMIC: Field[] = [CHAIN_ID, NONCE, ['maxPriorityFeePerGas', quantity], ['maxFeePerGas', quantity], ...CALL, ACCESS_LIST] // prettier-ignore

/** Fields by type, in the order of their encoding, up to the signature. */
const FIELDS: readonly Field[][] = [
  [NONCE, GAS_PRICE, ...CALL],
  [CHAIN_ID, NONCE, GAS_PRICE, ...CALL, ACCESS_LIST],
  DYNAMIC,
  [...DYNAMIC, ['maxFeePerBlobGas', quantity], ['blobVersionedHashes', (value) => list(value).map(bytes)]],
  [...DYNAMIC, ['authorizationList', (value) => list(value).map(encodeAuthorization)]],
]

/**
 * Reads a transaction as a node sends it whole, by encoding it anew.
 * @throws BadAnswer  also for a type that is not Ethereum's: ask `isEthereums` before
 */
export function readSent(answer: unknown): Sent {
  const transaction = readObject(answer, 'a whole transaction')
  const type = typeOf(transaction)
  const fields = FIELDS[type]
  if (fields === undefined) throw new BadAnswer(`the transaction has the type 0x${type.toString(16)}`)
  const parts = fields.map(([name, read]): Encoded => ({ encoded: encodeRlp(read(transaction[name])) }))
  const [r, s] = [quantity(transaction.r), quantity(transaction.s)]
  const { last, parity, signedToo } = type === 0 ? legacySignature(transaction) : typedSignature(transaction)
  const encode = (items: Rlp[]) => withType(type, encodeRlp(items))
  const encoded = encode([...parts, last, r, s])
  const isSigned = r.length + s.length > 0
  let sender: Hex | undefined
  const from = () =>
    isSigned ? (sender ??= recoverSender(keccak(encode([...parts, ...signedToo])), { r, s, parity })) : null
  const to = TO[1](transaction.to) as Buffer
  const nonce = readNumber(transaction.nonce, 'nonce of a transaction')
  return {
    encoded,
    hash: hexOf(keccak(encoded)),
    isSigned,
    from,
    to: to.length === 0 ? null : hexOf(to),
    nonce,
    contractAddress: () => {
      const creator = to.length === 0 ? from() : null
      return creator === null ? null : createdBy(creator, bytesOf(nonce))
    },
    priceAt: (baseFee) => priceOf(transaction, type, baseFee),
  }
}

/** EIP-2718: the oldest transactions and receipts stand without their type. */
export const withType = (type: number, body: Buffer): Buffer =>
  type === 0 ? body : Buffer.concat([Buffer.of(type), body])

type Signature = { last: Buffer; parity: 0 | 1; signedToo: Rlp[] }

/** EIP-155: since 2016 the network's number is signed as well and stands in `v`; before, `v` is 27 or 28. */
function legacySignature({ v }: Record<string, unknown>): Signature {
  const last = quantity(v)
  const number = last.length === 0 ? 0n : BigInt(`0x${last.toString('hex')}`)
  if (number === 27n || number === 28n) return { last, parity: number === 27n ? 0 : 1, signedToo: [] }
  // Below stands what nobody signed; recovering a sender from it gives another one than was told, or none.
  if (number < 35n) return { last, parity: 0, signedToo: [] }
  const parity = (number - 35n) % 2n === 0n ? 0 : 1
  return { last, parity, signedToo: [bytesOf((number - 35n) / 2n), Buffer.alloc(0), Buffer.alloc(0)] }
}

/** Nodes write the parity as `yParity`, as `v`, or as both. */
function typedSignature({ yParity, v }: Record<string, unknown>): Signature {
  const last = quantity(yParity ?? v)
  if (last.length > 1 || (last[0] ?? 0) > 1) throw new BadAnswer('a transaction has a signature that is none')
  return { last, parity: last.length === 0 ? 0 : 1, signedToo: [] }
}

function encodeAccess(answer: unknown): Rlp {
  const { address, storageKeys } = readObject(answer, 'an entry of an access list')
  return [bytes(address), list(storageKeys).map(bytes)]
}

/** EIP-7702 */
function encodeAuthorization(answer: unknown): Rlp {
  const { chainId, address, nonce, yParity, v, r, s } = readObject(answer, 'an authorization')
  return [quantity(chainId), bytes(address), quantity(nonce), quantity(yParity ?? v), quantity(r), quantity(s)]
}

/** EIP-1559: the base fee and what is offered on top, up to what is paid at most. */
function priceOf(transaction: Record<string, unknown>, type: number, baseFee: bigint | null): bigint {
  if (type < 2) return numberOf(transaction.gasPrice)
  const [most, offered] = [numberOf(transaction.maxFeePerGas), numberOf(transaction.maxPriorityFeePerGas)]
  const wanted = (baseFee ?? 0n) + offered
  return wanted < most ? wanted : most
}

const numberOf = (value: unknown): bigint => BigInt(value as string)

const hexOf = (buffer: Buffer): Hex => `0x${buffer.toString('hex')}`
