import type { DatabaseSync } from 'node:sqlite'
import type { SignedAuthorization } from '../../gas/authorization.ts'
import { readOperation, readSigned, type PackedOperation } from '../../gas/packed-operation.ts'
import type { AccountSignature, OperationCall } from '../../gas/operation.ts'
import { encodeAuthorization } from '../../gas/transaction.ts'
import { decodeRlp, encodeRlp } from '../../rlp.ts'
import type { LedgerRow } from './record.ts'
import { LedgerDamaged } from '../refusal.ts'
import { MAX_DEADLINE_SECONDS } from '../../signer-wire/wire.ts'

/** An operation that was signed. `packed`: as calldata of the dispatcher has it, to the last byte. */
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

/** Of an operation what is looked at when it is packed. */
type CarriedOperation = Pick<HeldOperation, 'seq' | 'userId' | 'clientId' | 'dispatcher' | 'packed'>

type AccountNonce = { chainId: number; address: Buffer; nonce: number }

/** Operations and authorizations of the ledger, and what carried them. */
export type OperationLedger = {
  /** of an intent; `isTransaction`: the intent is one instead */
  ofIntent: (intentId: string) => { operation: HeldOperation | null; isTransaction: boolean }
  /** @param id  space and sequence, 32 bytes */
  ofId: (chainId: number, id: Buffer) => CarriedOperation | null
  delegationAt: (nonce: AccountNonce) => HeldDelegation | null
  delegationOf: (intentId: string) => HeldDelegation | null
  /** first attempts of transactions that carry an operation, oldest first */
  outersOf: (seq: number) => LedgerRow[]
  /** the outer of a record has the operations of these; inside the transaction that the record is written in (`append`) */
  carry: (outer: number, operations: readonly number[]) => void
  /** milliseconds since 1970 until when operations may be under way that a restore lost; 0: none are */
  pausedUntil: number
  /** sequences below it may be those of operations that a restore lost */
  sequenceFloor: bigint
}

/**
 * Sequences of one millisecond are 4,096, far more than anyone counts up in it, so a floor is above all that came before; and a server can hold
 * them in a number until the year 2039.
 */
const FLOOR_SHIFT = 12n

export function openOperations(db: DatabaseSync): OperationLedger {
  const ofIntent = db.prepare('SELECT * FROM ledger WHERE intent_id = ? ORDER BY seq')
  // Asked for each operation of a transaction: as little as is looked at.
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
        isTransaction: rows.length > 0 && operation === undefined,
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

/** `raw` of an operation: the dispatcher, the space, and then as the dispatcher takes it. */
export const operationBytes = ({ dispatcher, space }: { dispatcher: Buffer; space: Buffer }, packed: Buffer): Buffer =>
  Buffer.concat([dispatcher, space, packed])

/** The columns are never null where the kind is this: the table checks it. */
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

/** What the bytes of an operation say. */
export const readHeldOperation = (
  held: Pick<HeldOperation, 'packed'>,
): PackedOperation & { signature: AccountSignature; calls: OperationCall[] } => {
  const operation = readOperation(held.packed)
  return { ...operation, ...readSigned(operation) }
}

/** `raw` of an authorization: its tuple as a transaction of type 4 has it (EIP-7702). */
export const delegationBytes = (signed: SignedAuthorization): Buffer => encodeRlp(encodeAuthorization(signed))

function toDelegation(row: LedgerRow): HeldDelegation {
  const whose = { seq: row.seq, at: row.at, intentId: row.intent_id!, account: bytesOf(row.address) }
  return { ...whose, ...readDelegation(row.raw!) }
}

/** @throws LedgerDamaged */
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
/** The same bytes: SQLite gives them away. */
const bytesOf = ({ buffer, byteOffset, length }: Uint8Array): Buffer => Buffer.from(buffer, byteOffset, length)
