import { keccak } from '../keccak.ts'
import type { Signature } from './curve.ts'

/** A transaction as the signer sees it: amounts as numbers, addresses and data as bytes. wei, and gas units. */
export type UnsignedTransaction = {
  chainId: number
  from: Buffer
  nonce: number
  /** null would create a contract; policy refuses that */
  to: Buffer | null
  value: bigint
  data: Buffer
  gas: bigint
  fees: FeeFields
}

export type FeeFields =
  | { type: 'legacy'; gasPrice: bigint }
  | { type: 'eip1559'; maxFeePerGas: bigint; maxPriorityFeePerGas: bigint }

/** Both fee fields of either form, wei per gas: what the ledger compares. */
export const feePair = (fees: FeeFields): { max: bigint; priority: bigint } =>
  fees.type === 'legacy'
    ? { max: fees.gasPrice, priority: fees.gasPrice }
    : { max: fees.maxFeePerGas, priority: fees.maxPriorityFeePerGas }

/** What a transaction does, apart from what it costs: the hash of recipient, value and data. */
export function effectOf({ to, value, data }: Pick<UnsignedTransaction, 'to' | 'value' | 'data'>): Buffer {
  const amount = Buffer.from(value.toString(16).padStart(64, '0'), 'hex')
  return keccak(Buffer.concat([to ?? Buffer.alloc(0), amount, data]))
}

/** A cancel pays its fee and does nothing else: to itself, no value, no data. */
export const doesNothing = ({ from, to, value, data }: UnsignedTransaction): boolean =>
  to !== null && to.equals(from) && value === 0n && data.length === 0

/** The 32 bytes that are signed. EIP-155 for the legacy form, EIP-1559 otherwise. */
export function digestOf(tx: UnsignedTransaction): Buffer {
  return keccak(tx.fees.type === 'legacy' ? rlp([...legacyFields(tx), tx.chainId, 0, 0]) : typed(feeMarketFields(tx)))
}

/** The bytes that a node takes, and their hash. */
export function assemble(tx: UnsignedTransaction, { r, s, recovery }: Signature): { raw: Buffer; hash: Buffer } {
  const point = [unpad(r), unpad(s)]
  const raw =
    tx.fees.type === 'legacy'
      ? rlp([...legacyFields(tx), BigInt(tx.chainId) * 2n + 35n + BigInt(recovery), ...point])
      : typed([...feeMarketFields(tx), recovery, ...point])
  return { raw, hash: keccak(raw) }
}

type RlpItem = Uint8Array | bigint | number | RlpItem[]

function legacyFields({ nonce, gas, to, value, data, fees }: UnsignedTransaction): RlpItem[] {
  return [nonce, feePair(fees).max, gas, to ?? Buffer.alloc(0), value, data]
}

function feeMarketFields({ chainId, nonce, gas, to, value, data, fees }: UnsignedTransaction): RlpItem[] {
  const { max, priority } = feePair(fees)
  return [chainId, nonce, priority, max, gas, to ?? Buffer.alloc(0), value, data, []]
}

const typed = (fields: RlpItem[]): Buffer => Buffer.concat([Buffer.of(0x02), rlp(fields)])

/** Recursive length prefix, yellow paper appendix B. Numbers go as their shortest big-endian bytes, zero as none. */
function rlp(item: RlpItem): Buffer {
  if (Array.isArray(item)) {
    const body = Buffer.concat(item.map(rlp))
    return Buffer.concat([prefix(body.length, 0xc0), body])
  }
  const bytes = item instanceof Uint8Array ? item : numberBytes(BigInt(item))
  if (bytes.length === 1 && bytes[0]! < 0x80) return Buffer.from(bytes)
  return Buffer.concat([prefix(bytes.length, 0x80), bytes])
}

function prefix(length: number, offset: number): Buffer {
  if (length < 56) return Buffer.of(offset + length)
  const size = numberBytes(BigInt(length))
  return Buffer.concat([Buffer.of(offset + 55 + size.length), size])
}

function numberBytes(number: bigint): Buffer {
  if (number === 0n) return Buffer.alloc(0)
  const hex = number.toString(16)
  return Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex')
}

/** r and s are numbers: one in 256 starts with a zero byte, which RLP leaves out. */
function unpad(bytes: Uint8Array): Uint8Array {
  const start = bytes.findIndex((byte) => byte !== 0)
  return start === -1 ? bytes.subarray(bytes.length) : bytes.subarray(start)
}
