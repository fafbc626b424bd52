import type { Ledger } from './ledger.ts'
import type { LedgerAttempt, LedgerRow } from './record.ts'
import { readRecallRequest, readRecallSinceRequest } from './request.ts'
import { hex, toSigned } from './sign.ts'
import { MAX_FRAME_BYTES } from './frames.ts'
import { type Recalled, type RecalledSince, type SignRequest } from './wire.ts'

// Generous: the names of the fields, and numbers of 78 digits.
const FRAME_OVERHEAD = 256
const ATTEMPT_OVERHEAD = 1_536

/**
 * Verb `recall`: what was signed for an intent, or for a nonce, newest first. After a crash the server finds here the
 * bytes that it had asked for and not stored; after a restore of its database, whose a transaction on the chain is.
 * Needs no token: they were given away before. Stops at what one frame holds, and says so.
 */
export function recall(ledger: Ledger, request: unknown): { attempts: Recalled[]; hasMore: boolean } {
  const asked = readRecallRequest(request)
  const attempts: Recalled[] = []
  let room = MAX_FRAME_BYTES - FRAME_OVERHEAD
  for (const held of 'intentId' in asked ? ledger.ofIntent(asked.intentId) : ledger.attempts(asked).toReversed()) {
    if (held.seq >= asked.before) continue
    room -= held.raw.length * 2 + ATTEMPT_OVERHEAD
    if (room < 0 && attempts.length > 0) return { attempts, hasMore: true }
    attempts.push(toRecalled(held))
  }
  return { attempts, hasMore: false }
}

/** Records looked at per question: about 3 ms of the one thread that signs, and at most 200 kB of answer. */
const MAX_RECORDS = 500

/** Verb `recallSince`: what was signed after a record. Needs no token: it names what was given away before. */
export function recallSince(ledger: Ledger, request: unknown): RecalledSince {
  const { after } = readRecallSinceRequest(request)
  const rows = ledger.since(after, MAX_RECORDS)
  const known = ledger.recordAt(after)
  const last = rows.at(-1)
  return {
    record: known === null ? null : known.toString('hex'),
    through:
      last === undefined
        ? { seq: ledger.head().count, record: ledger.head().record.toString('hex') }
        : { seq: last.seq, record: Buffer.from(last.record).toString('hex') },
    isEnd: last === undefined || last.seq === ledger.head().count,
    signatures: rows.flatMap((row) => (row.nonce === null ? [] : [toSignature(row)])),
  }
}

/** The columns are never null where there is a nonce: the table checks it. */
function toSignature({
  seq,
  kind,
  address,
  chain_id,
  nonce,
  intent_id,
  hash,
}: LedgerRow): RecalledSince['signatures'][number] {
  return {
    seq,
    kind: kind as SignRequest['kind'],
    chainId: chain_id!,
    from: hex(Buffer.from(address)),
    nonce: nonce!,
    intentId: intent_id!,
    hash: hex(Buffer.from(hash!)),
  }
}

function toRecalled(held: LedgerAttempt): Recalled {
  const {
    seq,
    at: signedAt,
    userId,
    clientId,
    requestHash,
    intentId,
    chainId,
    address,
    gas,
    feeType,
    max,
    priority,
  } = held
  const fees =
    feeType === 'legacy'
      ? { gasPrice: max.toString() }
      : { maxFeePerGas: max.toString(), maxPriorityFeePerGas: priority.toString() }
  return {
    ...{ seq, signedAt, userId, clientId, requestHash: requestHash === null ? null : hex(requestHash) },
    ...{ ...toSigned(held), stored: true, intentId, chainId, from: hex(address), gas: gas.toString(), ...fees },
  }
}
