import { toHex } from '../../hex.ts'
import { delegateNameOf } from '../../gas/addresses.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { LedgerAttempt, LedgerRow } from '../ledger/record.ts'
import { readHeldOperation, type HeldDelegation, type HeldOperation } from '../ledger/operation-ledger.ts'
import { readRecallRequest, readRecallSinceRequest, type RecallAsk } from '../request.ts'
import { toSigned } from './sign.ts'
import { toCallTexts, toDelegationText, toPoint } from './sign-operation.ts'
import { MAX_FRAME_BYTES } from '../../signer-wire/frames.ts'
import type {
  Recalled,
  RecalledDelegation,
  RecalledOperation,
  RecalledSince,
  SignRequest,
  Verbs,
} from '../../signer-wire/wire.ts'

// Generous estimates, in bytes: field names, and numbers of up to 78 digits.
const FRAME_OVERHEAD = 256
const ATTEMPT_OVERHEAD = 1_536

/**
 * Handles the verb `recall`: returns the signatures of an intent or a nonce, newest first, as many as one frame holds;
 * `hasMore`:
 * whether there are more. After a crash, the server fetches the signed bytes that it did not store. After a restore of
 * its database, it finds the intent of a transaction on the chain. Needs no token, because the bytes were returned
 * before. Errors: bad_request.
 */
export function recall(ledger: Ledger, request: unknown): Verbs['recall']['answer'] {
  const asked = readRecallRequest(request)
  return { ...recallAttempts(ledger, asked), ...recallOperation(ledger, asked) }
}

function recallAttempts(ledger: Ledger, asked: RecallAsk): { attempts: Recalled[]; hasMore: boolean } {
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

/** Returns the operation and authorization of an intent, or the authorization that used a nonce. */
function recallOperation(
  { operations }: Ledger,
  asked: RecallAsk,
): Omit<Verbs['recall']['answer'], 'attempts' | 'hasMore'> {
  const isIntent = 'intentId' in asked
  const operation = isIntent ? operations.ofIntent(asked.intentId).operation : null
  const delegation = isIntent ? operations.delegationOf(asked.intentId) : operations.delegationAt(asked)
  return {
    ...(operation === null ? {} : { operation: toRecalledOperation(operation, operations.outersOf(operation.seq)) }),
    ...(delegation === null ? {} : { authorization: toRecalledDelegation(delegation) }),
  }
}

function toRecalledOperation(held: HeldOperation, outers: LedgerRow[]): RecalledOperation {
  const { seq, at, userId, clientId, requestHash, intentId, chainId, digest, dispatcher, space, packed, rule, address } = held // prettier-ignore
  const delegate = delegateNameOf(dispatcher)
  const { signature, calls, sequence, gasLimit, deadline } = readHeldOperation(held)
  return {
    seq,
    signedAt: at,
    userId,
    clientId,
    requestHash: requestHash === null ? null : toHex(requestHash),
    intentId,
    chainId,
    from: toHex(address),
    digest: toHex(digest),
    packed: toHex(packed),
    rule,
    space: toHex(space),
    sequence: sequence.toString(),
    gasLimit: String(gasLimit),
    deadline,
    calls: toCallTexts(calls),
    ...(delegate === null || delegate === 'chatelaine' ? {} : { delegate }),
    signature: toPoint(signature),
    outers: outers.map(toSignature).map((outer) => ({
      seq: outer.seq,
      intentId: outer.intentId,
      from: outer.from,
      nonce: outer.nonce,
      hash: outer.hash,
    })),
  }
}

function toRecalledDelegation(held: HeldDelegation): RecalledDelegation {
  const { seq, at, intentId, account } = held
  return { seq, signedAt: at, intentId, from: toHex(account), ...toDelegationText(held) }
}

/** Maximum records per request: about 3 ms of the thread that signs, and at most 200 kB of answer. */
const MAX_RECORDS = 500

/**
 * Handles the verb `recallSince`: lists signatures after a record. Needs no token, because they were returned before.
 * Omits messages: a message uses no nonce, and the same request again returns the recorded signature.
 * Errors: bad_request.
 */
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
    signatures: rows.filter(isTransaction).map(toSignature),
    operations: rows.filter(({ kind }) => kind === 'operation').map(toOperation),
    authorizations: rows.filter(({ kind }) => kind === 'authorization').map(toDelegation),
  }
}

const isTransaction = ({ kind, nonce }: LedgerRow): boolean => nonce !== null && kind !== 'authorization'

function toOperation({ seq, address, chain_id, intent_id, hash, effect }: LedgerRow) {
  const id = Buffer.from(effect!)
  return {
    seq,
    intentId: intent_id!,
    chainId: chain_id!,
    from: toHex(address),
    hash: toHex(hash!),
    space: toHex(id.subarray(0, 20)),
    sequence: BigInt(toHex(id.subarray(20))).toString(),
  }
}

const toDelegation = ({ seq, address, chain_id, intent_id, nonce }: LedgerRow) => ({
  seq,
  intentId: intent_id!,
  chainId: chain_id!,
  from: toHex(address),
  nonce: nonce!,
})

/** These columns are never null if there is a nonce: the table checks it. */
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
    from: toHex(address),
    nonce: nonce!,
    intentId: intent_id!,
    hash: toHex(hash!),
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
    seq,
    signedAt,
    userId,
    clientId,
    requestHash: requestHash === null ? null : toHex(requestHash),
    ...toSigned(held),
    stored: true,
    intentId,
    chainId,
    from: toHex(address),
    gas: gas.toString(),
    ...fees,
  }
}
