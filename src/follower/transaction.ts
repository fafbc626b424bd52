import { readNumber, readObject } from '../chain/rpc/answers.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import { quantityOf, type Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { encodeRlp, type Decoded, type Encoded, type Rlp } from '../rlp.ts'
import { bytes, list, quantity, readRlp } from './fields.ts'
import { createdBy, recoverSender } from './sender.ts'
import { toHex } from '../hex.ts'

/** A transaction read from its own bytes: nothing here is a node's claim. All hex is lower-case. */
export type EncodedTransaction = {
  /** bytes that its block commits to and that its hash is computed from */
  encoded: Buffer
  hash: Hex
  /**
   * false for a transaction that a development node accepted for an impersonated account, whose hash is computed
   * differently
   */
  isSigned: boolean
  /**
   * Returns the sender; null if nobody signed. Recovers it at the first call, because recovery is the most expensive
   * part.
   * @throws InvalidResponse
   */
  from(): Hex | null
  to: Hex | null
  /** wei */
  value(): bigint
  data: Buffer
  nonce: number
  /**
   * Returns the created contract; null if it creates none.
   * @throws InvalidResponse
   */
  contractAddress(): Hex | null
  /** Returns the price in wei per gas that the transaction pays in a block with this base fee. */
  priceAt(baseFee: bigint | null): bigint
}

/** Last transaction type whose encoding is Ethereum's own: legacy, EIP-2930, 1559, 4844, 7702. */
const LAST_TYPE = 4

/**
 * Reads the type of a transaction or receipt; without one it is legacy.
 * @throws InvalidResponse
 */
export const typeOf = ({ type }: Record<string, unknown>): number =>
  type === undefined || type === null ? 0 : readNumber(type, 'type of a transaction')

/**
 * Returns false for types of other networks: OP deposits (0x7e), Arbitrum's (0x64 and up), zkSync's (0x71, 0xff),
 * Celo's.
 */
export const isEthereums = (type: number): boolean => type <= LAST_TYPE

type RlpField = [name: string, read: (value: unknown) => Rlp]

const TO: RlpField = ['to', (value) => (value === null || value === undefined ? Buffer.alloc(0) : bytes(value))]
const CALL: RlpField[] = [['gas', quantity], TO, ['value', quantity], ['input', bytes]]
const GAS_PRICE: RlpField = ['gasPrice', quantity]
const NONCE: RlpField = ['nonce', quantity]
const CHAIN_ID: RlpField = ['chainId', quantity]
const ACCESS_LIST: RlpField = ['accessList', (value) => list(value ?? []).map(encodeAccess)]
const DYNAMIC: RlpField[] = [CHAIN_ID, NONCE, ['maxPriorityFeePerGas', quantity], ['maxFeePerGas', quantity], ...CALL, ACCESS_LIST] // prettier-ignore

/** Fields by type, in the order of their encoding, without the signature. */
const FIELDS: readonly RlpField[][] = [
  [NONCE, GAS_PRICE, ...CALL],
  [CHAIN_ID, NONCE, GAS_PRICE, ...CALL, ACCESS_LIST],
  DYNAMIC,
  [...DYNAMIC, ['maxFeePerBlobGas', quantity], ['blobVersionedHashes', (value) => list(value).map(bytes)]],
  [...DYNAMIC, ['authorizationList', (value) => list(value).map(encodeAuthorization)]],
]

/**
 * Reads a whole transaction as a node sends it, by encoding it again.
 * @throws InvalidResponse  also for a type that is not Ethereum's: check `isEthereums` first
 */
export function readSent(answer: unknown): EncodedTransaction {
  const transaction = readObject(answer, 'a whole transaction')
  const type = typeOf(transaction)
  const fields = fieldsOf(type)
  const parts = fields.map(([name, read]): Encoded => ({ encoded: encodeRlp(read(transaction[name])) }))
  const [r, s] = [quantity(transaction.r), quantity(transaction.s)]
  const last = type === 0 ? quantity(transaction.v) : quantity(transaction.yParity ?? transaction.v)
  return sentOf(withType(type, encodeRlp([...parts, last, r, s])), {
    type,
    parts,
    last,
    r,
    s,
    to: TO[1](transaction.to) as Buffer,
    data: bytes(transaction.input),
    nonce: readNumber(transaction.nonce, 'nonce of a transaction'),
    amountIn: (name) => BigInt(transaction[name] as string),
  })
}

/**
 * Reads a transaction from the bytes that were sent.
 * @throws InvalidResponse as `readSent`
 */
export function readRaw(raw: Buffer): EncodedTransaction {
  // A list begins with 0xc0 or more, and is a legacy transaction.
  const type = raw[0]! < 0xc0 ? raw[0]! : 0
  const names = fieldsOf(type).map(([name]) => name)
  const items = readRlp(type === 0 ? raw : raw.subarray(1))
  if (!Array.isArray(items) || items.length !== names.length + 3)
    throw new InvalidResponse('a transaction is truncated')
  const bytesIn = (name: string): Buffer => onlyBytes(items[names.indexOf(name)]!)
  const [last, r, s] = items.slice(names.length).map(onlyBytes) as [Buffer, Buffer, Buffer]
  return sentOf(raw, {
    type,
    parts: items.slice(0, names.length),
    last,
    r,
    s,
    to: bytesIn('to'),
    data: bytesIn('input'),
    nonce: Number(numberIn(bytesIn('nonce'))),
    amountIn: (name) => numberIn(bytesIn(name)),
  })
}

/**
 * Returns the accounts that delegate in a transaction, and the nonce of each authorization (EIP-7702); [] for other
 * types.
 * @throws InvalidResponse
 */
export function readAuthorizations(raw: Buffer): { from: Hex; nonce: number }[] {
  const type = raw[0]! < 0xc0 ? raw[0]! : 0
  if (type !== 4) return []
  const items = readRlp(raw.subarray(1)) as Decoded[]
  const all = items[fieldsOf(type).findIndex(([name]) => name === 'authorizationList')]
  if (!Array.isArray(all)) throw new InvalidResponse('a transaction is truncated')
  return all.map((one) => {
    if (!Array.isArray(one) || one.length !== 6) throw new InvalidResponse('an authorization is truncated')
    const [chainId, address, nonce, parity, r, s] = one.map(onlyBytes) as [
      Buffer,
      Buffer,
      Buffer,
      Buffer,
      Buffer,
      Buffer,
    ]
    const digest = keccak(Buffer.concat([Buffer.of(5), encodeRlp([chainId, address, nonce])]))
    return {
      from: recoverSender(digest, { r, s, parity: parity.length === 0 ? 0 : 1 }),
      nonce: Number(numberIn(nonce)),
    }
  })
}

function onlyBytes(item: Decoded): Buffer {
  if (!Buffer.isBuffer(item)) throw new InvalidResponse('a field is not bytes')
  return item
}

type TransactionParts = {
  type: number
  /** fields before the signature */
  parts: readonly Rlp[]
  /** parity of the signature, or `v` of a legacy transaction */
  last: Buffer
  r: Buffer
  s: Buffer
  to: Buffer
  data: Buffer
  nonce: number
  amountIn: (name: string) => bigint
}

function sentOf(
  encoded: Buffer,
  { type, parts, last, r, s, to, data, nonce, amountIn }: TransactionParts,
): EncodedTransaction {
  const { parity, signedToo } = type === 0 ? legacySignature(last) : typedSignature(last)
  const isSigned = r.length + s.length > 0
  let sender: Hex | undefined
  const from = () => {
    if (!isSigned) return null
    const signed = withType(type, encodeRlp([...parts, ...signedToo]))
    return (sender ??= recoverSender(keccak(signed), { r, s, parity }))
  }
  return {
    encoded,
    hash: toHex(keccak(encoded)),
    isSigned,
    from,
    to: to.length === 0 ? null : toHex(to),
    value: () => amountIn('value'),
    data,
    nonce,
    contractAddress: () => {
      const creator = to.length === 0 ? from() : null
      return creator === null ? null : createdBy(creator, nonce)
    },
    priceAt: (baseFee) => priceOf(amountIn, type, baseFee),
  }
}

function fieldsOf(type: number): readonly RlpField[] {
  const fields = FIELDS[type]
  if (fields === undefined) throw new InvalidResponse(`the transaction has the type ${quantityOf(type)}`)
  return fields
}

/** Prefixes the type. EIP-2718: legacy transactions and receipts have none. */
export const withType = (type: number, body: Buffer): Buffer =>
  type === 0 ? body : Buffer.concat([Buffer.of(type), body])

type SignatureFields = { parity: 0 | 1; signedToo: Rlp[] }

/** EIP-155: `v` includes the chain id, which is signed as well; without EIP-155, `v` is 27 or 28. */
function legacySignature(v: Buffer): SignatureFields {
  const number = numberIn(v)
  if (number === 27n || number === 28n) return { parity: number === 27n ? 0 : 1, signedToo: [] }
  // `v` below 35 is neither form, so nobody signed this (development nodes send such transactions for impersonated
  // accounts). Recovery then yields a sender other than the one the node reports, or none.
  if (number < 35n) return { parity: 0, signedToo: [] }
  const parity = (number - 35n) % 2n === 0n ? 0 : 1
  return { parity, signedToo: [(number - 35n) / 2n, 0, 0] }
}

/** Nodes send the parity as `yParity`, as `v`, or as both. */
function typedSignature(parity: Buffer): SignatureFields {
  if (parity.length > 1 || (parity[0] ?? 0) > 1) throw new InvalidResponse('a transaction has an invalid signature')
  return { parity: parity.length === 0 ? 0 : 1, signedToo: [] }
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

/** EIP-1559: the base fee plus the priority fee, up to the fee cap. */
function priceOf(amountIn: TransactionParts['amountIn'], type: number, baseFee: bigint | null): bigint {
  if (type < 2) return amountIn('gasPrice')
  const [most, offered] = [amountIn('maxFeePerGas'), amountIn('maxPriorityFeePerGas')]
  const wanted = (baseFee ?? 0n) + offered
  return wanted < most ? wanted : most
}

const numberIn = (buffer: Buffer): bigint => (buffer.length === 0 ? 0n : BigInt(toHex(buffer)))
