import { compact, packCalls, type AccountSignature, type GasOperation, type OperationCall } from './operation.ts'

/** Bytes of an operation before its calls: account 20, sequence 12, gas limit 4, deadline 5, r 32, vs 32, length of calls 3. */
const HEADER = 108
/** `dispatch(address,bytes)`, as in contracts/Dispatcher.sol */
const DISPATCH = Buffer.from('7fa0e44b', 'hex')
const WORD = 32

/** Encodes an operation for the dispatcher's `operations`, which concatenates them. Source: contracts/Dispatcher.sol */
export function packOperation(operation: GasOperation, signature: AccountSignature): Buffer {
  const { account, sequence, gasLimit, deadline, calls } = operation
  const { r, vs } = compact(signature)
  const packed = packCalls(calls)
  const head = Buffer.alloc(HEADER)
  account.copy(head)
  Buffer.from(sequence.toString(16).padStart(24, '0'), 'hex').copy(head, 20)
  head.writeUInt32BE(gasLimit, 32)
  head.writeUIntBE(deadline, 36, 5)
  r.copy(head, 41)
  vs.copy(head, 73)
  head.writeUIntBE(packed.length, 105, 3)
  return Buffer.concat([head, packed])
}

/** An operation in the dispatcher's calldata. `packed`: the part of the calldata with this operation. */
export type PackedOperation = {
  account: Buffer
  /** 12 bytes, as a number */
  sequence: bigint
  gasLimit: number
  deadline: number
  packed: Buffer
}

export type Dispatch = { space: Buffer; operations: PackedOperation[] }

/**
 * Decodes calldata of `dispatch`; null unless it is byte for byte the output of `abi.encode`. Rejects another selector
 * or offset, an address with more than 160 bits, a truncated operation, nonzero padding, trailing bytes, and an empty
 * list. Does not decode the calls, because the caller compares the whole operation with its own copy.
 */
export function readDispatch(data: Buffer): Dispatch | null {
  const start = DISPATCH.length
  const places = start + 3 * WORD
  if (data.length < places || !data.subarray(0, start).equals(DISPATCH)) return null
  const [space, offset, length] = [0, 1, 2].map((word) => data.subarray(start + word * WORD, start + (word + 1) * WORD)) // prettier-ignore
  if (numberOf(offset!) !== 2 * WORD || space!.subarray(0, 12).some((byte) => byte !== 0)) return null
  const size = numberOf(length!)
  const end = places + (size ?? 0)
  if (size === null || size === 0 || data.length !== places + Math.ceil(size / WORD) * WORD) return null
  if (data.subarray(end).some((byte) => byte !== 0)) return null
  const operations = readPacked(data.subarray(places, end))
  return operations === null ? null : { space: space!.subarray(12), operations }
}

/** Splits operations; null if the last is truncated. */
function readPacked(bytes: Buffer): PackedOperation[] | null {
  const found: PackedOperation[] = []
  for (let at = 0; at < bytes.length;) {
    if (at + HEADER > bytes.length) return null
    const end = at + HEADER + bytes.readUIntBE(at + 105, 3)
    if (end > bytes.length) return null
    found.push(readOperation(bytes.subarray(at, end)))
    at = end
  }
  return found
}

/** Decodes the header of one operation. @param packed  one operation, at least HEADER bytes */
export const readOperation = (packed: Buffer): PackedOperation => ({
  account: packed.subarray(0, 20),
  sequence: (packed.readBigUInt64BE(20) << 32n) | BigInt(packed.readUInt32BE(28)),
  gasLimit: packed.readUInt32BE(32),
  deadline: packed.readUIntBE(36, 5),
  packed,
})

/** Decodes the signature and the calls of an operation. @param packed  trusted bytes of `packOperation`, from this process or the ledger */
export function readSigned({ packed }: PackedOperation): { signature: AccountSignature; calls: OperationCall[] } {
  const [r, s] = [Buffer.from(packed.subarray(41, 73)), Buffer.from(packed.subarray(73, 105))]
  const recovery = s[0]! < 0x80 ? 0 : 1
  s[0]! &= 0x7f
  return { signature: { r, s, recovery }, calls: readCalls(packed.subarray(HEADER)) }
}

function readCalls(bytes: Buffer): OperationCall[] {
  let at = 1
  const take = (length: number): Buffer => bytes.subarray(at, (at += length))
  return Array.from({ length: bytes[0]! }, () => {
    const to = take(20)
    const value = BigInt(`0x0${take(take(1)[0]!).toString('hex')}`)
    return { to, value, data: take(take(3).readUIntBE(0, 3)) }
  })
}

/** Reads a word as a number; null above 2^48, which no length reaches. */
function numberOf(word: Buffer): number | null {
  return word.subarray(0, 26).some((byte) => byte !== 0) ? null : word.readUIntBE(26, 6)
}
