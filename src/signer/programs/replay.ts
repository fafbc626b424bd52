import { parseTransaction } from 'viem/utils'
import type { PolicyDocument } from '../policy/document.ts'
import {
  evaluate,
  evaluateCancel,
  evaluateFees,
  type MeterCharge,
  type PolicyAnswer,
  type PolicyQuestion,
  type ReadMeter,
} from '../policy/evaluate.ts'
import { effectOf, effectsOfMessage } from '../policy/effect.ts'
import { evaluateCalls, type AllowedCalls } from '../policy/evaluate-calls.ts'
import { charge, usedIn, type MeterWindow } from '../policy/window.ts'
import { classify } from '../../messages/classify.ts'
import { readMessage } from '../../messages/message.ts'
import { readMessageEvidence, readMessageRow } from '../ledger/message-ledger.ts'
import { readHeldOperation, readOperationRow } from '../ledger/operation-ledger.ts'
import type { LedgerRow } from '../ledger/record.ts'
import type { EvidenceBesides } from '../rules/authority.ts'
import { isSponsor } from '../tokens/sponsor.ts'
import { openStoreForReading } from '../store.ts'

/**
 * A signature with a token for the user's own account, and the rejection that a policy would have given; null: it would have
 * allowed it.
 */
export type ReplayedSignature = {
  seq: number
  at: number
  userId: string
  clientId: string
  chainId: number
  refusal: { rule: string; reason: string } | null
}

/**
 * Evaluates a policy for every signature of the ledger, in order and at its time, with meters that begin empty. A signature that it
 * would have rejected does not use its limits. Freezes are checked first. It only reads.
 */
export function* replayLedger(folder: string, policy: PolicyDocument): Generator<ReplayedSignature> {
  const { db } = openStoreForReading(folder)
  const replay = openReplay(policy)
  try {
    const rows = db
      .prepare(`SELECT * FROM ledger WHERE kind IN ('send', 'replace', 'cancel', 'operation', 'message') ORDER BY seq`)
      .iterate()
    for (const row of rows as Iterable<LedgerRow>) {
      const replayed = replay(row)
      if (replayed !== null) yield replayed
    }
  } finally {
    db.close()
  }
}

/**
 * Opens an evaluation of a policy with empty meters. Call it with the signatures of the ledger in order.
 * @returns null for a signature that no policy decides
 */
export function openReplay(policy: PolicyDocument): (row: LedgerRow) => ReplayedSignature | null {
  const windows = new Map<string, MeterWindow>()
  // wei by nonce: the most expensive attempt with a token.
  const dearest = new Map<string, bigint>()
  // By nonce: the application of its first attempt, null if that had no token.
  const first = new Map<string, string | null>()
  return (row) => {
    const { at, seq, kind } = row
    if (kind === 'operation' || kind === 'message')
      return replayQuestions(row, kind === 'operation' ? questionsOf(row) : messageQuestionsOf(row))
    const nonce = `${Buffer.from(row.address).toString('hex')} ${row.chain_id} ${row.nonce}`
    const isFirst = !first.has(nonce)
    if (isFirst) first.set(nonce, row.client_id)
    // The policy does not apply to top-ups and withdrawals, the only signatures of a sponsor with a token or grant.
    if (row.token_id === null || isSponsor(row.user_id)) return null
    const question = questionOf(row)
    const read = readAt(at)
    const before = dearest.get(nonce) ?? 0n
    const dearerBy = question.feeWei > before ? question.feeWei - before : 0n
    const answer =
      frozen(policy, question, kind === 'replace' ? first.get(nonce)! : null) ??
      (kind === 'send'
        ? evaluate(policy, question, read)
        : kind === 'cancel'
          ? evaluateCancel(policy, question, { dearerBy, isFirst }, read)
          : evaluateFees(policy, question, dearerBy, read))
    if (answer.allowed) {
      dearest.set(nonce, before + dearerBy)
      chargeAll(at, answer.charges)
    }
    const { userId, clientId, effect } = question
    const refusal = refusalOf(row, answer)
    return { seq, at, userId, clientId, chainId: effect.chainId, refusal }
  }

  function readAt(at: number): ReadMeter {
    return (meter, period) => ({
      ...usedIn(windows.get(meter) ?? null, { at, period }),
      exists: windows.has(meter),
    })
  }

  function chargeAll(at: number, charges: readonly MeterCharge[]): void {
    for (const { meter, period, amount } of charges)
      windows.set(meter, charge(windows.get(meter) ?? null, { at, period, amount }))
  }

  function replayQuestions(row: LedgerRow, questions: PolicyQuestion[]): ReplayedSignature {
    const { seq, at, user_id: userId } = row
    const [clientId, chainId] = [row.client_id!, row.chain_id!]
    const answer = frozen(policy, questions[0]!, null) ?? evaluateCalls(policy, questions, readAt(at))
    if (answer.allowed) chargeAll(at, answer.charges)
    return { seq, at, userId, clientId, chainId, refusal: refusalOf(row, answer) }
  }
}

/** Returns the rejection, or the demand of an approval that was not shown when the record was made. */
function refusalOf({ evidence }: LedgerRow, answer: PolicyAnswer | AllowedCalls): ReplayedSignature['refusal'] {
  if (!answer.allowed) return { rule: answer.rule, reason: answer.reason }
  if (answer.requires === null) return null
  const { approval_jti: approved } = JSON.parse(evidence!) as EvidenceBesides
  if (approved !== undefined) return null
  return { rule: answer.requires, reason: 'it requires the user’s approval, and none was shown' }
}

/**
 * Builds the questions of a message from its content and its time. Whether a sign-in belonged to the application was decided then:
 * the record names its host.
 */
function messageQuestionsOf(row: LedgerRow): PolicyQuestion[] {
  const { kind, content, chainId, address: from } = readMessageRow(row)
  const { domain } = readMessageEvidence(row)
  const input = { text: { text: content }, bytes: { hex: content }, typedData: { typedData: content } }[kind]
  const facts = { address: from, chainId, at: row.at, domains: domain === null ? [] : [domain] }
  const effects = effectsOfMessage(classify(readMessage(input), facts), { chainId, from })
  return effects.map((effect) => ({ effect, feeWei: 0n, userId: row.user_id, clientId: row.client_id! }))
}

/** Builds a question per call of an operation; its fees are 0 because a sponsor pays them. */
function questionsOf(row: LedgerRow): PolicyQuestion[] {
  const from = Buffer.from(row.address)
  const { calls } = readHeldOperation(readOperationRow(row))
  return calls.map((call) => ({
    effect: effectOf({ chainId: row.chain_id!, from, ...call }),
    feeWei: 0n,
    userId: row.user_id,
    clientId: row.client_id!,
  }))
}

/** Returns the rejection by the policy's freezes, if any. @param raised  the application whose write is replaced; null if none is */
function frozen(
  { freeze }: PolicyDocument,
  { userId, clientId, effect: { chainId } }: PolicyQuestion,
  raised: string | null,
): Extract<PolicyAnswer, { allowed: false }> | null {
  const { users, clients, chains, everything } = freeze
  const what = everything
    ? 'everything'
    : users.has(userId)
      ? 'the user'
      : chains.has(chainId)
        ? 'the chain'
        : clients.has(clientId) || (raised !== null && clients.has(raised))
          ? 'the application'
          : null
  return what === null ? null : { allowed: false, rule: 'frozen', reason: `it freezes ${what}` }
}

/** Builds the question from the signed bytes, which alone show what was agreed to. */
function questionOf(row: LedgerRow): PolicyQuestion {
  const tx = parseTransaction(`0x${Buffer.from(row.raw!).toString('hex')}`)
  return {
    effect: effectOf({
      chainId: row.chain_id!,
      from: Buffer.from(row.address),
      to: Buffer.from(tx.to!.slice(2), 'hex'),
      value: tx.value ?? 0n,
      data: Buffer.from((tx.data ?? '0x').slice(2), 'hex'),
    }),
    feeWei: BigInt(row.gas!) * BigInt(row.max_fee!),
    userId: row.user_id,
    clientId: row.client_id!,
  }
}
