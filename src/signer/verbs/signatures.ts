import { toHex } from '../../hex.ts'
import { hash } from 'node:crypto'
import type { RunBeside } from '../beside.ts'
import type { Heads } from '../ledger/heads.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { readMessageRow, type HeldMessage } from '../ledger/message-ledger.ts'
import { readHeldOperation, readOperationRow } from '../ledger/operation-ledger.ts'
import type { LedgerRow } from '../ledger/record.ts'
import { readSignaturesRequest } from '../request.ts'
import { toCallTexts } from './sign-operation.ts'
import { MAX_FRAME_BYTES } from '../../signer-wire/frames.ts'
import { readSignedHead, type ListedMessage, type ListedSignature, type SignaturePage } from '../../signer-wire/wire.ts'

const MAX_SIGNATURES = 20
// A generous estimate, in bytes: field names, a user id, and the 50 hashes of a proof.
const OVERHEAD = 6_000
/**
 * Characters of an answer per byte of `raw`, for kinds that need more than hexadecimal digits: JSON writes a control
 * character with six.
 */
const BULK: Partial<Record<LedgerRow['kind'], number>> = { operation: 4, message: 8 }

/**
 * Handles the verb `signatures`: lists the ledger's signatures of a user's account, newest first, whichever application
 * requested them. Each has a proof that the answer's signed head covers it. Needs no token, because the server
 * identifies the user. Each proof is computed as a separate step beside signing.
 * Errors: bad_request, overloaded.
 */
export async function listSignatures(
  { ledger, heads, beside }: { ledger: Ledger; heads: Heads; beside: RunBeside },
  request: unknown,
): Promise<SignaturePage> {
  const { userId, before, chainId, intentId } = readSignaturesRequest(request)
  const { head, size, rows } = await beside(() => {
    const note = heads.newest()
    const { size } = readSignedHead(note)!
    // The next head will cover, within moments, the records that this head does not cover yet.
    const below = Math.min(before, size + 1)
    return { head: note, size, rows: ledger.signaturesBefore({ userId, chainId, intentId }, below, MAX_SIGNATURES + 1) }
  })
  const signatures: ListedSignature[] = []
  let room = MAX_FRAME_BYTES - OVERHEAD
  for (const row of rows.slice(0, MAX_SIGNATURES)) {
    room -= row.raw!.length * (BULK[row.kind] ?? 2) + OVERHEAD
    if (room < 0 && signatures.length > 0) break
    signatures.push(await beside(() => toListed(row, ledger.tree.inclusion(row.seq - 1, size))))
  }
  return { signatures, hasMore: rows.length > signatures.length, head }
}

/** These columns are never null if there is an intent: the table checks it. */
function toListed(row: LedgerRow, proof: Buffer[]): ListedSignature {
  return {
    seq: row.seq,
    signedAt: row.at,
    kind: row.kind as ListedSignature['kind'],
    raw: toHex(row.raw!),
    hash: toHex(row.hash!),
    nonce: row.nonce,
    ...(row.kind === 'operation' ? { calls: toCallTexts(readHeldOperation(readOperationRow(row)).calls) } : {}),
    ...(row.kind === 'message' ? { message: toListedMessage(readMessageRow(row)) } : {}),
    ...(row.kind === 'authorization' ? { delegate: toHex(row.effect!) } : {}),
    chainId: row.chain_id!,
    intentId: row.intent_id!,
    clientId: row.client_id,
    rule: row.rule,
    evidenceHash: row.evidence === null ? null : hash('sha256', row.evidence, 'hex'),
    record: Buffer.from(row.record).toString('hex'),
    proof: proof.map((one) => one.toString('hex')),
  }
}

const toListedMessage = ({ kind, content, signature, class: name }: HeldMessage): ListedMessage => ({
  kind,
  content,
  class: name,
  signature: toHex(signature),
})
