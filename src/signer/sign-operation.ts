import { authorizationDigest, type SignedAuthorization } from '../gas/authorization.ts'
import { delegateNameOf, GAS_PAIRS } from '../gas/addresses.ts'
import { operationDigest, type AccountSignature, type GasOperation, type OperationCall } from '../gas/operation.ts'
import { packOperation, readOperation, readSigned } from '../gas/packed-operation.ts'
import type { DelegateName } from '../ids.ts'
import type { TokenCaller } from './caller.ts'
import { assertReachable } from './judge.ts'
import type { Ledger } from './ledger.ts'
import { askPolicyOfCalls, type PolicyVerdict } from './limits.ts'
import { spentToText } from './meters.ts'
import { delegationBytes, operationBytes } from './operation-ledger.ts'
import { readCheckRequest, readOperationRequest, type OperationOrder } from './operation-request.ts'
import { decide, pass, type Decision, type PolicyLimits } from './policy.ts'
import { Refusal } from './refusal.ts'
import { askCarried } from './sign-outer.ts'
import { authorise, evidenceOf } from './authority.ts'
import { assertNotSuspended } from './freezes.ts'
import type { Inside } from './pipeline.ts'
import { factsOf, hex } from './sign.ts'
import {
  type Checked,
  type Hex,
  type OperationCallText,
  type OperationsHealth,
  type SignedOperationText,
} from './wire.ts'
import type { KeptAccount } from './wrapping.ts'

const NOBODY = Buffer.alloc(20)

type ExaminedOperation = {
  ask: OperationOrder
  caller: TokenCaller
  account: KeptAccount
  digest: Buffer
  rule: string
}

/**
 * Verb `signOperation`: freezes, token, built-in rules, ledger, the policy about each call, in this order; then the operation is signed, and the
 * authorization where one was asked for, and both are recorded in one commit. An intent has one operation and an id one intent, forever:
 * the same again gives what is stored, at no charge.
 * Errors: bad_request, account_frozen, application_suspended, unknown_account, invalid_token, insufficient_scope, forbidden_user,
 * revocations_stale, policy_denied, intent_conflict, sequence_conflict, operations_paused; of the authorization nonce_conflict, nonce_gap;
 * key_damaged.
 */
export async function signOperation(inside: Inside, request: unknown): Promise<SignedOperationText> {
  const asked = await examine(inside, readOperationRequest(request, { isDryRun: false }))
  const { ask, caller, account, digest } = asked
  const { keys, ledger, meters, group, now } = inside
  return group(ask.authorizationNonce ?? 0, () => {
    const at = now()
    const { held, verdict, delegated } = judgeNow(inside, asked, at)
    const entry = { at, userId: account.userId, address: account.address, clientId: caller.clientId, tokenId: caller.tokenId } // prettier-ignore
    // Both before anything is written: a key that does not open refuses the whole request.
    const signature = held === null ? keys.sign(account, digest) : readSigned(readOperation(held.packed)).signature
    const isNew = ask.authorizationNonce !== null && delegated === null
    const delegation = isNew ? delegate(inside, asked) : delegated
    const packed = held?.packed ?? packOperation(ask.operation, signature)
    const rule = held?.rule ?? verdict.rule ?? asked.rule
    if (held === null) {
      const { operation } = ask
      const signed = {
        ...{ chainId: operation.chainId, nonce: null, intentId: ask.intentId, effect: idOf(ask), hash: digest },
        ...{ gas: BigInt(operation.gasLimit), raw: operationBytes(operation, packed), requestHash: ask.requestHash },
      }
      const { policy, charges } = verdict
      const evidence = evidenceOf(caller)(rule)
      ledger.append({ ...entry, kind: 'operation', rule, signed, evidence, policy, spent: spentToText(charges) })
      meters.charge(at, charges)
    }
    if (isNew) {
      const { chainId, nonce } = delegation!
      const signed = {
        ...{ chainId, nonce, intentId: ask.intentId, effect: delegation!.address, gas: null, requestHash: null },
        ...{ hash: authorizationDigest(delegation!), raw: delegationBytes(delegation!) },
      }
      ledger.append({ ...entry, kind: 'authorization', rule, signed, evidence: evidenceOf(caller)(rule) })
    }
    return toText({ digest, packed, signature, delegation, rule, stored: held !== null })
  })
}

/**
 * Verb `checkOperation`: the same checks in the same order, then those of the transaction that would carry it, where that is asked. Nothing is
 * signed, written or counted. Errors: those of `signOperation`, then those of `signOuter`.
 */
export async function checkOperation(inside: Inside, request: unknown): Promise<Omit<Checked, 'kind'>> {
  const { ask, carried } = readCheckRequest(request)
  const asked = await examine(inside, ask)
  const at = inside.now()
  const { held, verdict } = judgeNow(inside, asked, at)
  if (carried !== null) askCarried(inside, { ...carried, operation: ask.operation, userId: asked.account.userId }, at)
  if (held !== null) return { rule: held.rule, stored: true }
  const { rule = asked.rule, limits } = verdict
  return { rule, stored: false, ...(limits.length === 0 ? {} : { limits }) }
}

/** Freezes, token and built-in rules: what does not depend on the ledger. */
async function examine({ keys, tokens, limits, freezes }: Inside, ask: OperationOrder): Promise<ExaminedOperation> {
  const { chainId, account: from } = ask.operation
  const account = keys.ofAddress(from)
  if (account !== null) freezes.assertMoves({ chainId, userId: account.userId })
  const caller = await tokens.check(ask.accessToken)
  authorise(caller, { chainId, userId: account?.userId ?? null })
  if (account === null) throw new Refusal('unknown_account', 'The signer has no such account.')
  const fees = { type: 'eip1559', maxFeePerGas: 0n, maxPriorityFeePerGas: 0n } as const
  const gas = BigInt(ask.operation.gasLimit)
  const refused = decideDelegate(ask.operation, limits)
  if (refused !== null) pass(refused)
  // Fees are the sponsor's.
  const rules = ask.operation.calls.map((call) => pass(decide({ ...call, chainId, from, nonce: 0, gas, fees }, limits)))
  return { ask, caller, account, digest: operationDigest(ask.operation), rule: rules[0]! }
}

/** To an address of zeros Calibur calls the account itself, which is refused (policy.ts). */
function decideDelegate({ dispatcher, calls }: GasOperation, { signsCalibur }: PolicyLimits): Decision | null {
  if (delegateNameOf(dispatcher) !== 'calibur') return null
  if (!signsCalibur) return { allowed: false, rule: 'delegate-not-listed' }
  return calls.some(({ to }) => to.equals(NOBODY)) ? { allowed: false, rule: 'no-call-of-own-account' } : null
}

/** The ledger as it is now, and what policy asks of it: for what is signed, inside the group. */
function judgeNow(inside: Inside, { ask, caller, account, digest }: ExaminedOperation, at: number) {
  const { ledger, freezes } = inside
  const { chainId, account: from, calls, deadline } = ask.operation
  // Once more: a freeze may have come while the token was looked at.
  freezes.assertMoves({ chainId, userId: account.userId })
  assertNotSuspended(freezes, caller.clientId)
  const { operation: held, isTransaction } = ledger.operations.ofIntent(ask.intentId)
  if (isTransaction) throw new Refusal('intent_conflict', 'This intent was signed as a transaction.')
  if (held !== null && (held.chainId !== chainId || !held.digest.equals(digest)))
    throw new Refusal('intent_conflict', 'This intent was signed as another operation.')
  const delegated = delegatedBy(inside, { ask, account })
  const verdict: PolicyVerdict = { policy: null, charges: [], limits: [] }
  if (held !== null) return { held, verdict, delegated }
  if (ask.hasSequence) assertUnused(inside, ask)
  assertInTime(inside, deadline, at)
  return { held, delegated, verdict: askPolicyOfCalls(inside, { chainId, from, calls, account, caller, at }) }
}

/** Whether no operation has the id, none that a restore lost either. @throws sequence_conflict */
function assertUnused({ ledger: { operations } }: Inside, ask: OperationOrder): void {
  if (operations.ofId(ask.operation.chainId, idOf(ask)) !== null)
    throw new Refusal('sequence_conflict', 'This sequence belongs to another operation.')
  if (ask.operation.sequence < operations.sequenceFloor)
    throw new Refusal('sequence_conflict', `This sequence may have been used before the ledger was restored: those from ${operations.sequenceFloor} on were not.`) // prettier-ignore
}

/**
 * What a restore lost may still be done, whatever id its intent is given now: until that is over, nothing new is.
 * @throws clocks_apart, operations_paused
 */
function assertInTime({ ledger, limits }: Inside, deadline: number, at: number): void {
  const { pausedUntil } = ledger.operations
  if (at < pausedUntil)
    throw new Refusal('operations_paused', `Operations may be under way that the ledger lost in a restore: none is signed before ${new Date(pausedUntil).toISOString()}.`) // prettier-ignore
  const seconds = at / 1_000
  if (deadline <= seconds || deadline > seconds + limits.maxDeadlineSeconds)
    throw new Refusal('clocks_apart', `The signer’s clock reads ${timeOf(seconds)}, and the last second of the write is ${timeOf(deadline)}: it signs for no past one, and for at most an hour ahead.`) // prettier-ignore
}

const timeOf = (seconds: number): string => new Date(Math.min(seconds * 1_000, MAX_TIME_MS)).toISOString()
/** the last millisecond that a Date can be */
const MAX_TIME_MS = 8.64e15

/** What the ledger has for the nonce of the authorization; null where it is to be signed, or none was asked for. @throws nonce_conflict, nonce_gap */
function delegatedBy(
  inside: Inside,
  { ask, account }: Pick<ExaminedOperation, 'ask' | 'account'>,
): SignedAuthorization | null {
  const { authorizationNonce: nonce, intentId } = ask
  if (nonce === null) return null
  const { chainId, account: address } = ask.operation
  const slot = { chainId, address, nonce }
  const held = inside.ledger.operations.delegationAt(slot)
  if (held !== null) return held
  const facts = factsOf(inside, { slot, account, isVouched: true, intentId })
  if (facts.attempts.length > 0) throw new Refusal('nonce_conflict', 'This nonce belongs to a transaction.')
  assertReachable(nonce, facts)
  return null
}

/** To the code that its dispatcher is made for, and no other. */
function delegate({ keys }: Inside, { ask, account }: ExaminedOperation): SignedAuthorization {
  const { chainId } = ask.operation
  const { delegate: address } = GAS_PAIRS[delegateNameOf(ask.operation.dispatcher)!]
  const authorization = { chainId, address, nonce: ask.authorizationNonce! }
  return { ...authorization, ...keys.sign(account, authorizationDigest(authorization)) }
}

const idOf = ({ operation: { space, sequence } }: OperationOrder): Buffer =>
  Buffer.concat([space, Buffer.from(sequence.toString(16).padStart(24, '0'), 'hex')])

function toText({
  digest,
  packed,
  signature,
  delegation,
  rule,
  stored,
}: {
  digest: Buffer
  packed: Buffer
  signature: AccountSignature
  delegation: SignedAuthorization | null
  rule: string
  stored: boolean
}): SignedOperationText {
  const signed = { digest: hex(digest), signature: toPoint(signature), packed: hex(packed), rule, stored }
  return delegation === null ? signed : { ...signed, authorization: toDelegationText(delegation) }
}

/** What a server has to know to ask for operations. */
export function operationsHealth(
  { operations }: Pick<Ledger, 'operations'>,
  { signsCalibur }: PolicyLimits,
  now: () => number,
): OperationsHealth {
  const { pausedUntil, sequenceFloor } = operations
  const from = now() < pausedUntil ? pausedUntil : null
  const { dispatcher, delegate } = GAS_PAIRS.chatelaine
  const where = { dispatcher: hex(dispatcher), delegate: hex(delegate) }
  const delegates: DelegateName[] = signsCalibur ? ['chatelaine', 'calibur'] : ['chatelaine']
  return { ...where, sequenceFloor: sequenceFloor.toString(), from, delegates }
}

export const toCallTexts = (calls: readonly OperationCall[]): OperationCallText[] =>
  calls.map(({ to, value, data }) => ({ to: hex(to), value: value.toString(), data: hex(data) }))

export const toPoint = ({ r, s, recovery }: AccountSignature): SignedOperationText['signature'] => ({
  r: bytes32(r),
  s: bytes32(s),
  yParity: recovery,
})

export const toDelegationText = ({ chainId, address, nonce, ...signature }: SignedAuthorization) => ({
  ...{ chainId, address: hex(address), nonce },
  ...toPoint(signature),
})

const bytes32 = (bytes: Uint8Array): Hex => hex(Buffer.from(bytes))
