import type { DatabaseSync } from 'node:sqlite'
import type { SignedAuthorization } from '../../gas/authorization.ts'
import { readOperation, readSigned, type PackedOperation } from '../../gas/packed-operation.ts'
import type { AccountSignature, OperationCall } from '../../gas/operation.ts'
import { encodeAuthorization } from '../../gas/transaction.ts'
import { decodeRlp, encodeRlp } from '../../rlp.ts'
import type { LedgerRow } from './record.ts'
import { LedgerDamaged } from '../refusal.ts'
import { MAX_DEADLINE_SECONDS } from '../../signer-wire/wire.ts'

/** A signed operation. `packed`: its bytes exactly as in the dispatcher's calldata. */
export type HeldOperation = {
  seq: number
  at: number
  userId: string
  address: Buffer
  clientId: string
  requestHash: Buffer | null
  intentId: string
  chainId: number
  digest: Buffer
  dispatcher: Buffer
  space: Buffer
  packed: Buffer
  rule: string
}

export type HeldDelegation = SignedAuthorization & { seq: number; at: number; intentId: string; account: Buffer }

/** The fields of an operation that are needed when it is batched. */
type CarriedOperation = Pick<HeldOperation, 'seq' | 'userId' | 'clientId' | 'dispatcher' | 'packed'>

type AccountNonce = { chainId: number; address: Buffer; nonce: number }

/** The ledger's operations and authorizations, and the sponsor transactions that include them. */
export type OperationLedger = {
  /** the operation of an intent; `isOther`: true if the intent has a record of another kind */
  ofIntent: (intentId: string) => { operation: HeldOperation | null; isOther: boolean }
  /** @param id  space and sequence, 32 bytes */
  ofId: (chainId: number, id: Buffer) => CarriedOperation | null
  delegationAt: (nonce: AccountNonce) => HeldDelegation | null
  delegationOf: (intentId: string) => HeldDelegation | null
  /** first attempts of the sponsor transactions that include an operation, oldest first */
  outersOf: (seq: number) => LedgerRow[]
  /**
   * records that the sponsor transaction of record `outer` includes these operations; inside the transaction that
   * writes the record (`append`)
   */
  carry: (outer: number, operations: readonly number[]) => void
  /**
   * milliseconds since 1970 until which operations lost in a restore may still be executed; 0: no operation was lost
   */
  pausedUntil: number
  /** operations lost in a restore may have used sequences below it */
  sequenceFloor: bigint
}

/**
 * Number of bits of a floor below its milliseconds. One millisecond has 4,096 sequences, far more than a server uses,
 * so a floor is above all earlier sequences. A server can represent floors as JavaScript numbers until the year 2039.
 */
const FLOOR_SHIFT = 12n

/** Opens the ledger's operations. The last restore determines `pausedUntil` and `sequenceFloor`. */
export function openOperations(db: DatabaseSync): OperationLedger {
  const ofIntent = db.prepare('SELECT * FROM ledger WHERE intent_id = ? ORDER BY seq')
  // This runs for each operation of a transaction, so it reads only the needed columns.
  const ofId = db.prepare(
    `SELECT seq, user_id, client_id, raw FROM ledger WHERE chain_id = ? AND effect = ? AND kind = 'operation'`,
  )
  const delegationAt = db.prepare(
    `SELECT * FROM ledger WHERE address = ? AND chain_id = ? AND nonce = ? AND kind = 'authorization'`,
  )
  const delegationOf = db.prepare(`SELECT * FROM ledger WHERE intent_id = ? AND kind = 'authorization'`)
  const outersOf = db.prepare('SELECT l.* FROM carried c JOIN ledger l ON l.seq = c.outer WHERE c.operation = ? ORDER BY l.seq') // prettier-ignore
  const carry = db.prepare('INSERT INTO carried (operation, outer) VALUES (?, ?)')
  const { at } = db.prepare(`SELECT max(at) AS at FROM ledger WHERE kind = 'restore'`).get() as { at: number | null }
  const readOne = <T>(row: unknown, read: (row: LedgerRow) => T): T | null =>
    row === undefined ? null : read(row as LedgerRow)

  return {
    ofIntent(intentId) {
      const rows = ofIntent.all(intentId) as LedgerRow[]
      const operation = rows.find(({ kind }) => kind === 'operation')
      return {
        operation: readOne(operation, readOperationRow),
        isOther: rows.length > 0 && operation === undefined,
      }
    },
    ofId: (chainId, id) => readOne(ofId.get(chainId, id), readCarried),
    delegationAt: ({ address, chainId, nonce }) => readOne(delegationAt.get(address, chainId, nonce), toDelegation),
    delegationOf: (intentId) => readOne(delegationOf.get(intentId), toDelegation),
    outersOf: (seq) => outersOf.all(seq) as LedgerRow[],
    carry(outer, operations) {
      for (const operation of operations) carry.run(operation, outer)
    },
    pausedUntil: at === null ? 0 : at + MAX_DEADLINE_SECONDS * 1_000,
    sequenceFloor: at === null ? 0n : BigInt(at) << FLOOR_SHIFT,
  }
}

/** Concatenates the `raw` of an operation: dispatcher, space, and the packed form of the dispatcher. */
export const operationBytes = ({ dispatcher, space }: { dispatcher: Buffer; space: Buffer }, packed: Buffer): Buffer =>
  Buffer.concat([dispatcher, space, packed])

/** Parses the row of an operation. Its columns are never null: the table checks it. */
export function readOperationRow(row: LedgerRow): HeldOperation {
  const raw = bytesOf(row.raw!)
  return {
    seq: row.seq,
    at: row.at,
    userId: row.user_id,
    address: bytesOf(row.address),
    clientId: row.client_id!,
    requestHash: row.request_hash === null ? null : bytesOf(row.request_hash),
    intentId: row.intent_id!,
    chainId: row.chain_id!,
    digest: bytesOf(row.hash!),
    rule: row.rule,
    dispatcher: raw.subarray(0, 20),
    space: raw.subarray(20, 40),
    packed: raw.subarray(40),
  }
}

function readCarried({ seq, user_id: userId, client_id: clientId, raw }: LedgerRow): CarriedOperation {
  const bytes = bytesOf(raw!)
  return { seq, userId, clientId: clientId!, dispatcher: bytes.subarray(0, 20), packed: bytes.subarray(40) }
}

/** Decodes the packed form of an operation. */
export const readHeldOperation = (
  held: Pick<HeldOperation, 'packed'>,
): PackedOperation & { signature: AccountSignature; calls: OperationCall[] } => {
  const operation = readOperation(held.packed)
  return { ...operation, ...readSigned(operation) }
}

/** Encodes the `raw` of an authorization: its tuple as in a transaction of type 4 (EIP-7702). */
export const delegationBytes = (signed: SignedAuthorization): Buffer => encodeRlp(encodeAuthorization(signed))

function toDelegation(row: LedgerRow): HeldDelegation {
  const whose = { seq: row.seq, at: row.at, intentId: row.intent_id!, account: bytesOf(row.address) }
  return { ...whose, ...readDelegation(row.raw!) }
}

/** Decodes the `raw` of an authorization. @throws LedgerDamaged */
export function readDelegation(raw: Uint8Array): SignedAuthorization {
  const fields = decodeRlp(bytesOf(raw))
  if (!Array.isArray(fields) || fields.length !== 6 || fields.some(Array.isArray))
    throw new LedgerDamaged('An authorization in the ledger cannot be read.')
  const [chainId, address, nonce, parity, r, s] = fields as Buffer[]
  return {
    chainId: numberOf(chainId!),
    address: address!,
    nonce: numberOf(nonce!),
    r: padded(r!),
    s: padded(s!),
    recovery: numberOf(parity!) as 0 | 1,
  }
}

const numberOf = (bytes: Buffer): number => Number(`0x0${bytes.toString('hex')}`)
const padded = (bytes: Buffer): Buffer => Buffer.concat([Buffer.alloc(32 - bytes.length), bytes])
/** Wraps the bytes without a copy; SQLite does not use them again. */
const bytesOf = ({ buffer, byteOffset, length }: Uint8Array): Buffer => Buffer.from(buffer, byteOffset, length)
