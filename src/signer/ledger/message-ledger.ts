import type { DatabaseSync } from 'node:sqlite'
import type { MessageClass } from '../../messages/classify.ts'
import type { Message } from '../../messages/message.ts'
import type { LedgerRow } from './record.ts'
import { LedgerDamaged } from '../refusal.ts'

/** A message in its canonical form (`messageText`): the text, 0x-hex of bytes, or JSON text of typed data. */
export type MessageText = { kind: Message['kind']; content: string }

/** A signed message. */
export type HeldMessage = MessageText & {
  chainId: number
  address: Buffer
  digest: Buffer
  /** 65 bytes: r, s and v (27 or 28) */
  signature: Buffer
  class: MessageClass
  rule: string
}

/**
 * Evidence in a message's record in addition to the token: its class, the host of a sign-in, and the rule that required
 * the user's approval (null if none did).
 */
export type MessageEvidence = { class: MessageClass; domain: string | null; requires: string | null }

/** The ledger's messages. */
export type MessageLedger = {
  /** Reads the message of an intent; `isOther`: true if the intent has a record of another kind */
  ofIntent: (intentId: string) => { message: HeldMessage | null; isOther: boolean }
}

/** Opens the ledger's messages. */
export function openMessages(db: DatabaseSync): MessageLedger {
  const ofIntent = db.prepare('SELECT * FROM ledger WHERE intent_id = ? ORDER BY seq LIMIT 1')
  return {
    ofIntent(intentId) {
      const row = ofIntent.get(intentId) as LedgerRow | undefined
      if (row === undefined) return { message: null, isOther: false }
      const isOther = row.kind !== 'message'
      return { message: isOther ? null : readMessageRow(row), isOther }
    },
  }
}

/** Kinds of messages; the first byte of `raw` is the index. */
const KINDS: readonly Message['kind'][] = ['text', 'bytes', 'typedData']
const SIGNATURE_BYTES = 65

/** Builds the `raw` of a message: a byte for its kind, the signature, and the content in UTF-8. */
export const messageBytes = ({ kind, content }: MessageText, signature: Buffer): Buffer =>
  Buffer.concat([Buffer.of(KINDS.indexOf(kind)), signature, Buffer.from(content, 'utf8')])

/** Parses the row of a message. A constraint of the table excludes null columns. @throws LedgerDamaged */
export function readMessageRow(row: LedgerRow): HeldMessage {
  const raw = Buffer.from(row.raw!)
  const kind = KINDS[raw[0]!]
  if (kind === undefined) throw new LedgerDamaged(`Record ${row.seq} of the ledger holds a message of unknown kind.`)
  return {
    kind,
    content: raw.toString('utf8', 1 + SIGNATURE_BYTES),
    chainId: row.chain_id!,
    address: Buffer.from(row.address),
    digest: Buffer.from(row.hash!),
    signature: raw.subarray(1, 1 + SIGNATURE_BYTES),
    class: readMessageEvidence(row).class,
    rule: row.rule,
  }
}

/** Parses the evidence of a message. @throws LedgerDamaged */
export function readMessageEvidence({ seq, evidence }: Pick<LedgerRow, 'seq' | 'evidence'>): MessageEvidence {
  try {
    return JSON.parse(evidence!) as MessageEvidence
  } catch (cause) {
    throw new LedgerDamaged(`The evidence of record ${seq} of the ledger cannot be read.`, cause)
  }
}
