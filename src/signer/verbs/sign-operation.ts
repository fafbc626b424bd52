import { toHex } from '../../hex.ts'
import { authorizationDigest, type SignedAuthorization } from '../../gas/authorization.ts'
import { delegateNameOf, GAS_PAIRS } from '../../gas/addresses.ts'
import { operationDigest, type AccountSignature, type GasOperation, type OperationCall } from '../../gas/operation.ts'
import { packOperation, readOperation, readSigned } from '../../gas/packed-operation.ts'
import type { DelegateName } from '../../ids.ts'
import { settleApproval, type Approval } from '../rules/approval.ts'
import { authorise, authorities } from '../rules/authority.ts'
import type { TokenCaller } from '../tokens/caller.ts'
import type { Signature } from '../keys/curve.ts'
import { assertReachable } from '../rules/judge.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { askPolicyOfCalls, NO_POLICY } from '../rules/limits.ts'
import { delegationBytes, operationBytes } from '../ledger/operation-ledger.ts'
import { readCheckRequest, readOperationRequest, type OperationOrder } from './operation-request.ts'
import {
  admit,
  draftNow,
  signInTurn,
  toChecked,
  type SigningJob,
  type SignatureDraft,
  type Inside,
} from './pipeline.ts'
import { decide, pass, type Decision, type PolicyLimits } from '../rules/policy.ts'
import type { SignedRecord } from '../ledger/record.ts'
import { Refusal } from '../refusal.ts'
import { factsOf } from './sign.ts'
import { askCarried } from './sign-outer.ts'
import type { Checked, Hex, OperationCallText, OperationsHealth, SignedOperationText } from '../../signer-wire/wire.ts'

const NOBODY = Buffer.alloc(20)

/**
 * Handles the verb `signOperation`: checks freezes, token, built-in rules, ledger, the policy for each call and the approval, in
 * this order. Then it signs the operation and, if requested, the authorization, and records both in one commit. An intent has one
 * operation forever, and an operation id has one intent. The same request again returns the stored operation and is not charged.
 * Errors: bad_request, account_frozen, application_suspended, unknown_account, invalid_token, insufficient_scope, forbidden_user,
 * revocations_stale, policy_denied, approval_required, intent_conflict, sequence_conflict, clocks_apart, operations_paused,
 * key_damaged; for the authorization nonce_conflict, nonce_gap.
 */
export async function signOperation(inside: Inside, request: unknown): Promise<SignedOperationText> {
  return signInTurn(inside, await examine(inside, readOperationRequest(request, { isDryRun: false })))
}

/**
 * Handles the verb `checkOperation`: makes the checks of `signOperation` in the same order. If the request names a
 * sponsor, it then makes the checks of the sponsor transaction. A missing approval is reported, not refused. Nothing is
 * signed, written or counted. Errors: those of `signOperation`, except approval_required, then those of `signOuter`.
 */
export async function checkOperation(inside: Inside, request: unknown): Promise<Omit<Checked, 'kind'>> {
  const { ask, carried } = readCheckRequest(request)
  const job = await examine(inside, ask)
  const at = inside.now()
  const draft = draftNow(inside, job, at)
  if (carried !== null) askCarried(inside, { ...carried, operation: ask.operation, userId: job.account.userId }, at)
  return toChecked(draft)
}

type OperationDraft = SignatureDraft<SignedOperationText>

/** Checks freezes, token and built-in rules, which do not depend on the ledger. */
async function examine(inside: Inside, ask: OperationOrder): Promise<SigningJob<OperationDraft>> {
  const { tokens, limits } = inside
  const { chainId, account: from } = ask.operation
  const { account, authority } = await admit(inside, { chainId, from }, async (account) => {
    const token = await tokens.check(ask.accessToken)
    authorise(token, { chainId, userId: account?.userId ?? null })
    return authorities.token(token)
  })
  const fees = { type: 'eip1559', maxFeePerGas: 0n, maxPriorityFeePerGas: 0n } as const
  const gas = BigInt(ask.operation.gasLimit)
  const refused = decideDelegate(ask.operation, limits)
  if (refused !== null) pass(refused)
  // The fees are 0 here because the sponsor pays them.
  const rules = ask.operation.calls.map((call) => pass(decide({ ...call, chainId, from, nonce: 0, gas, fees }, limits)))
  const approval = await inside.approvals.read(ask.approval)
  const wanted = { ask, token: authority.token, approval, rule: rules[0]!, digest: operationDigest(ask.operation) }
  const draft = (at: number) => draftOperation(inside, wanted, at)
  return { account, authority, chainId, order: ask.authorizationNonce ?? 0, draft }
}

/** Calibur treats the zero address as the account itself, and a call to the account itself is rejected (policy.ts). */
function decideDelegate({ dispatcher, calls }: GasOperation, { signsCalibur }: PolicyLimits): Decision | null {
  if (delegateNameOf(dispatcher) !== 'calibur') return null
  if (!signsCalibur) return { allowed: false, rule: 'delegate-not-listed' }
  return calls.some(({ to }) => to.equals(NOBODY)) ? { allowed: false, rule: 'no-call-of-own-account' } : null
}

/** An operation to sign. `rule`: allows the operation, unless the policy names other rules. */
type WantedOperation = {
  ask: OperationOrder
  token: TokenCaller
  approval: Approval | null
  rule: string
  digest: Buffer
}

/**
 * Drafts an operation and its authorization: reuses their records in the ledger, and checks the rest against the
 * policy.
 */
function draftOperation(inside: Inside, wanted: WantedOperation, at: number): OperationDraft {
  const { ask, token, digest } = wanted
  const { operation, intentId, authorizationNonce, requestHash } = ask
  const { chainId, deadline } = operation
  const { operation: held, isOther } = inside.ledger.operations.ofIntent(intentId)
  if (isOther) throw new Refusal('intent_conflict', 'This intent was not signed as an operation.')
  if (held !== null && (held.chainId !== chainId || !held.digest.equals(digest)))
    throw new Refusal('intent_conflict', 'This intent was signed as another operation.')
  const delegated = delegatedBy(inside, wanted)
  if (held === null) {
    if (ask.hasSequence) assertUnused(inside, ask)
    assertInTime(inside, deadline, at)
  }
  const verdict = held === null ? askPolicyOfCalls(inside, operation, token, at) : NO_POLICY
  const rule = held?.rule ?? verdict.rule ?? wanted.rule
  const settled = settleApproval(verdict.requires, wanted.approval, {
    ...{ userId: token.userId, clientId: token.clientId, chainId, from: operation.account, intentId, at },
    content: () => ({ calls: toCallTexts(operation.calls) }),
  })
  return {
    ...verdict,
    ...settled,
    rule,
    stored: held !== null,
    unattendedWei: 0n,
    make(sign) {
      const records: SignedRecord[] = []
      const signature = held === null ? sign(digest) : readSigned(readOperation(held.packed)).signature
      const packed = held?.packed ?? packOperation(operation, signature)
      if (held === null) {
        const signed = {
          chainId,
          nonce: null,
          intentId,
          effect: idOf(ask),
          hash: digest,
          requestHash,
          gas: BigInt(operation.gasLimit),
          raw: operationBytes(operation, packed),
        }
        records.push({ kind: 'operation', rule, signed })
      }
      let delegation = delegated
      if (authorizationNonce !== null && delegation === null) {
        delegation = delegate(operation, authorizationNonce, sign)
        const signed = {
          chainId,
          nonce: authorizationNonce,
          intentId,
          effect: delegation.address,
          gas: null,
          requestHash: null,
          hash: authorizationDigest(delegation),
          raw: delegationBytes(delegation),
        }
        records.push({ kind: 'authorization', rule, signed })
      }
      const signed = { digest: toHex(digest), signature: toPoint(signature), packed: toHex(packed) }
      const authorization = delegation === null ? {} : { authorization: toDelegationText(delegation) }
      return { records, answer: { ...signed, rule, stored: held !== null, ...authorization } }
    },
  }
}

/**
 * Checks that no operation has the id, and that no operation lost in a restore can have it. @throws sequence_conflict
 */
function assertUnused({ ledger: { operations } }: Inside, ask: OperationOrder): void {
  if (operations.ofId(ask.operation.chainId, idOf(ask)) !== null)
    throw new Refusal('sequence_conflict', 'This sequence belongs to another operation.')
  if (ask.operation.sequence < operations.sequenceFloor)
    throw new Refusal('sequence_conflict', `This sequence may have been used before the ledger was restored. Sequences from ${operations.sequenceFloor} are unused.`) // prettier-ignore
}

/**
 * Checks the deadline. After a restore, rejects every new operation for the maximum lifetime of an operation. Until
 * then, a lost operation may still be executed, and its intent may have another id now.
 * @throws clocks_apart, operations_paused
 */
function assertInTime({ ledger, limits }: Inside, deadline: number, at: number): void {
  const { pausedUntil } = ledger.operations
  if (at < pausedUntil)
    throw new Refusal('operations_paused', `A restore of the ledger may have lost open operations. No operation is signed before ${new Date(pausedUntil).toISOString()}.`) // prettier-ignore
  const seconds = at / 1_000
  if (deadline <= seconds || deadline > seconds + limits.maxDeadlineSeconds)
    throw new Refusal('clocks_apart', `The signer’s clock reads ${timeOf(seconds)}, and the write expires at ${timeOf(deadline)}. The signer accepts only a time within the next hour.`) // prettier-ignore
}

const timeOf = (seconds: number): string => new Date(Math.min(seconds * 1_000, MAX_TIME_MS)).toISOString()
/** the last millisecond that a Date can represent */
const MAX_TIME_MS = 8.64e15

/**
 * Returns the ledger's authorization for the nonce; null if it is not signed yet or not requested.
 * @throws nonce_conflict, nonce_gap
 */
function delegatedBy(inside: Inside, { ask, token: { userId } }: WantedOperation): SignedAuthorization | null {
  const { authorizationNonce: nonce, intentId } = ask
  if (nonce === null) return null
  const { chainId, account: address } = ask.operation
  const slot = { chainId, address, nonce }
  const held = inside.ledger.operations.delegationAt(slot)
  if (held !== null) return held
  const facts = factsOf(inside, slot, { userId, isVouched: true, intentId })
  if (facts.attempts.length > 0) throw new Refusal('nonce_conflict', 'This nonce belongs to a transaction.')
  assertReachable(nonce, facts)
  return null
}

/** Signs an authorization for the delegate code that belongs to the operation's dispatcher. */
function delegate(
  { chainId, dispatcher }: GasOperation,
  nonce: number,
  sign: (digest: Buffer) => Signature,
): SignedAuthorization {
  const { delegate: address } = GAS_PAIRS[delegateNameOf(dispatcher)!]
  const authorization = { chainId, address, nonce }
  return { ...authorization, ...sign(authorizationDigest(authorization)) }
}

const idOf = ({ operation: { space, sequence } }: OperationOrder): Buffer =>
  Buffer.concat([space, Buffer.from(sequence.toString(16).padStart(24, '0'), 'hex')])

/** Returns the facts that a server needs before it requests operations. */
export function operationsHealth(
  { operations }: Pick<Ledger, 'operations'>,
  { signsCalibur }: PolicyLimits,
  now: () => number,
): OperationsHealth {
  const { pausedUntil, sequenceFloor } = operations
  const from = now() < pausedUntil ? pausedUntil : null
  const { dispatcher, delegate } = GAS_PAIRS.chatelaine
  const where = { dispatcher: toHex(dispatcher), delegate: toHex(delegate) }
  const delegates: DelegateName[] = signsCalibur ? ['chatelaine', 'calibur'] : ['chatelaine']
  return { ...where, sequenceFloor: sequenceFloor.toString(), from, delegates }
}

/** Formats calls for the wire. */
export const toCallTexts = (calls: readonly OperationCall[]): OperationCallText[] =>
  calls.map(({ to, value, data }) => ({ to: toHex(to), value: value.toString(), data: toHex(data) }))

/** Formats a signature for the wire: r and s as 32 bytes each. */
export const toPoint = ({ r, s, recovery }: AccountSignature): SignedOperationText['signature'] => ({
  r: bytes32(r),
  s: bytes32(s),
  yParity: recovery,
})

/** Formats an authorization for the wire. */
export const toDelegationText = ({ chainId, address, nonce, ...signature }: SignedAuthorization) => ({
  chainId,
  address: toHex(address),
  nonce,
  ...toPoint(signature),
})

const bytes32 = (bytes: Uint8Array): Hex => toHex(bytes)
