import type { TokenCaller } from './caller.ts'
import type { Freezes } from './freezes.ts'
import type { RunGrouped } from './group.ts'
import type { SignerIdentity } from './identity.ts'
import { isFill, judge, type SigningFacts } from './judge.ts'
import type { Keys } from './keys.ts'
import type { Ledger, LedgerSlot } from './ledger.ts'
import { askPolicy, NO_POLICY, type PolicyVerdict } from './limits.ts'
import { spentToText, type Meters } from './meters.ts'
import { decide, decideFill, decideReplacement, type Decision, type PolicyLimits } from './policy.ts'
import type { PolicyInForce } from './policy-in-force.ts'
import { OUTER, type LedgerAttempt } from './record.ts'
import { Refusal } from './refusal.ts'
import { readSignRequest, type SignOrder } from './request.ts'
import type { TokenVerifier } from './tokens.ts'
import { askTopUp, decideTopUp, isTopUp } from './top-up.ts'
import { assemble, digestOf } from './transaction.ts'
import { dearerBy, type UnattendedFees } from './unattended.ts'
import type { Checked, Hex, Signed } from './wire.ts'
import { askWithdrawal, decideWithdrawal, type WithdrawalGrant, type Withdrawals } from './withdrawals.ts'
import type { KeptAccount } from './wrapping.ts'

/** What the verbs of the signer work with. */
export type Inside = {
  keys: Keys
  tokens: TokenVerifier
  withdrawals: Pick<Withdrawals, 'find'>
  ledger: Ledger
  group: RunGrouped
  limits: PolicyLimits
  unattended: UnattendedFees
  freezes: Pick<Freezes, 'assertMoves' | 'isApplicationFrozen'>
  policy: Pick<PolicyInForce, 'current'>
  meters: Meters
  /** before anything is signed without a token. @throws revocations_stale */
  assertUnattended: () => void
  identity: Pick<SignerIdentity, 'origin' | 'sign'>
  now: () => number
}

const WRITE_SCOPE = 'contracts:write'

/**
 * Verb `sign`: freezes, token, built-in rules, ledger, the policy in force, in this order; then the key is opened, the signature
 * made and checked, the record and what it spends of limits written and committed, and only then are the bytes returned.
 * From a sponsor's account, with a token of the person who is topped up: its own limits in place of the policy (top-up.ts); or with what the
 * signer's own user granted, in the place of a token (withdrawals.ts).
 * Errors: bad_request, account_frozen, application_suspended, unknown_account, invalid_token, insufficient_scope,
 * forbidden_user, policy_denied, those of the ledger (`judge`), key_damaged.
 */
export async function sign(inside: Inside, request: unknown): Promise<Signed> {
  const { keys, group, ledger, unattended, meters, now } = inside
  const asked = await examine(inside, readSignRequest(request))
  const { ask, caller, account } = asked
  return group(ask.tx.nonce, () => {
    const at = now()
    const verdict = judgeNow(inside, asked, at)
    if ('stored' in verdict) return { ...toSigned(verdict.stored), stored: true }
    const { kind, rule, unattendedWei, policy, charges } = verdict
    const { requestHash } = ask
    const held = { ...verdict.terms, ...slotOf(ask), ...signWith(keys, account, ask), kind, rule, requestHash }
    ledger.append({
      at,
      kind,
      userId: account.userId,
      address: account.address,
      rule,
      held,
      clientId: caller?.clientId ?? null,
      tokenId: caller?.tokenId ?? null,
      evidence: evidenceOf(caller, rule),
      policy,
      spent: spentToText(charges),
    })
    meters.charge(at, charges)
    unattended.charge(ask.tx.chainId, unattendedWei)
    if (asked.grant !== null) asked.grant.usedBy = ask.intentId
    return { ...toSigned(held), stored: false }
  })
}

/**
 * Verb `check`: what `sign` would do, and by which rule, as things are now; the same checks in the same order. Nothing
 * is signed, written or counted. Errors: those of `sign`.
 */
export async function check(inside: Inside, request: unknown): Promise<Checked> {
  const verdict = judgeNow(inside, await examine(inside, readSignRequest(request)), inside.now())
  if ('stored' in verdict) return { kind: verdict.stored.kind, rule: verdict.stored.rule, stored: true }
  const { kind, rule, limits } = verdict
  return { kind, rule, stored: false, ...(limits.length === 0 ? {} : { limits }) }
}

/**
 * `toppedUp`: the person whose token was shown for an account of a sponsor's; null for what is signed with one's own. `grant`: what was shown
 * in the place of a token.
 */
type Examined = {
  ask: SignOrder
  caller: TokenCaller | null
  account: KeptAccount
  toppedUp: string | null
  grant: WithdrawalGrant | null
  rule: string
}

/** Freezes, token and policy: what does not depend on the ledger. */
async function examine({ keys, tokens, withdrawals, limits, freezes }: Inside, ask: SignOrder): Promise<Examined> {
  const { tx } = ask
  const account = keys.ofAddress(tx.from)
  if (account !== null) freezes.assertMoves({ chainId: tx.chainId, userId: account.userId })
  const grant = ask.accessToken === null ? null : withdrawals.find(ask.accessToken)
  const caller = grant?.caller ?? (ask.accessToken === null ? null : await tokens.check(ask.accessToken))
  const toppedUp = grant === null && caller !== null && account !== null && isTopUp(ask, account) ? caller.userId : null
  if (caller !== null) authorise(caller, { chainId: tx.chainId, userId: toppedUp ?? account?.userId ?? null })
  if (account === null) throw new Refusal('unknown_account', 'The signer has no such account.')
  const rule = pass(decide(tx, limits))
  if (grant !== null) return { ask, caller, account, toppedUp, grant, rule: pass(decideWithdrawal(ask, grant)) }
  if (toppedUp === null) return { ask, caller, account, toppedUp, grant, rule }
  return { ask, caller, account, toppedUp, grant, rule: pass(decideTopUp(tx, addressOf(keys, toppedUp))) }
}

/** The address that the person's key gives, not one that a row of the store says. @throws key_damaged */
function addressOf(keys: Keys, userId: string): Buffer | null {
  const account = keys.ofUser(userId)
  return account === null ? null : keys.use(account, () => account.address)
}

/** The ledger as it is now, and what policy asks of it: for what is signed, inside the group. */
function judgeNow(inside: Inside, { ask, caller, account, toppedUp, grant, rule }: Examined, at: number) {
  const { limits, unattended, freezes } = inside
  const slot = slotOf(ask)
  // Once more: a freeze may have come while the token was looked at.
  freezes.assertMoves({ chainId: slot.chainId, userId: account.userId })
  if (toppedUp !== null) freezes.assertMoves({ chainId: slot.chainId, userId: toppedUp })
  // Of a grant no list of what is revoked says anything.
  if (caller === null || grant !== null) inside.assertUnattended()
  else assertNotSuspended(freezes, caller.clientId)
  const isAgreed = caller !== null
  const facts = factsOf(inside, { slot, account, isVouched: isAgreed, intentId: ask.intentId })
  const { attempts } = facts
  const verdict = judge(ask, facts)
  if ('stored' in verdict) return verdict
  const { sign: kind, terms } = verdict
  if (isFill(ask, kind, facts)) rule = pass(decideFill(ask.tx, limits))
  else if (kind !== 'send' && attempts.length > 0) {
    // What it carries has to be looked at once more, and its limits.
    if (kind === 'replace' && isOuter(attempts[0]!)) pass({ allowed: false, rule: 'sponsored-only' })
    // A cancel only frees the lane, which the person's other applications need.
    if (kind === 'replace') assertNotSuspended(freezes, attempts[0]!.clientId)
    const refused = decideReplacement(
      ask.tx,
      { kind, first: attempts[0]!, agreed: agreedTo(attempts), isAgreed },
      limits,
    )
    if (refused !== null) pass(refused)
  }
  const unattendedWei = isAgreed ? 0n : dearerBy(terms, notAgreedTo(attempts))
  if (!unattended.hasRoom(slot.chainId, unattendedWei)) pass({ allowed: false, rule: 'max-unattended-fee' })
  const verdictOfPolicy: PolicyVerdict =
    caller === null
      ? NO_POLICY
      : grant !== null
        ? askWithdrawal(grant, { tx: ask.tx, intentId: ask.intentId, at })
        : toppedUp !== null
          ? askTopUp(inside, { tx: ask.tx, sponsor: account.userId, person: toppedUp, at })
          : askPolicy(inside, { tx: ask.tx, kind, terms, attempts, account, caller, at })
  return { ...{ kind, terms, rule, unattendedWei }, ...verdictOfPolicy }
}

/** What the ledger knows around a nonce of an account. */
export function factsOf(
  { ledger, limits }: Pick<Inside, 'ledger' | 'limits'>,
  {
    slot,
    account,
    isVouched,
    intentId,
  }: { slot: LedgerSlot; account: { userId: string }; isVouched: boolean; intentId: string },
): SigningFacts<LedgerAttempt> {
  const attempts = ledger.attempts(slot)
  return {
    attempts,
    isElsewhere: ledger.isElsewhere(intentId, slot),
    isDelegation: attempts.length === 0 && ledger.operations.delegationAt(slot) !== null,
    isVouched,
    isHeldElsewhere: () => ledger.isHeldElsewhere(account.userId),
    maxFills: limits.maxFills,
    floor: ledger.floor(slot),
    lane: () => ledger.lane(slot),
    unsignedBetween: (low, high) => ledger.unsignedBetween(slot, low, high),
    unvouchedBetween: (low, high) => ledger.unvouchedBetween(slot, low, high),
  }
}

/** Whether it carries operations: no token was shown for it, and of what sponsors send no other is so. */
export const isOuter = ({ kind, rule }: Pick<LedgerAttempt, 'kind' | 'rule'>): boolean =>
  kind !== 'cancel' && rule === OUTER

export const notAgreedTo = (attempts: LedgerAttempt[]): LedgerAttempt[] => attempts.filter(({ isAgreed }) => !isAgreed)

/** wei: the most that somebody agreed to for a nonce. */
export const agreedTo = (attempts: LedgerAttempt[]): bigint =>
  attempts.reduce((most, { gas, max, isAgreed }) => (isAgreed && gas * max > most ? gas * max : most), 0n)

export function assertNotSuspended(freezes: Inside['freezes'], clientId: string | null): void {
  if (clientId !== null && freezes.isApplicationFrozen(clientId))
    throw new Refusal('application_suspended', 'The operator suspended this application.')
}

const slotOf = ({ tx }: SignOrder) => ({ chainId: tx.chainId, address: tx.from, nonce: tx.nonce })

/** What was shown for a signature, in one form: these keys, in this order. The hash of a consent will be one of them. */
export const evidenceOf = (caller: TokenCaller | null, rule: string): string =>
  JSON.stringify({
    token_sha256: caller?.tokenHash ?? null,
    jti: caller?.jti ?? null,
    client_id: caller?.clientId ?? null,
    rule,
  })

/** @returns the rule that allows it */
export function pass({ allowed, rule }: Decision): string {
  if (!allowed) throw new Refusal('policy_denied', `The rule ${rule} rejects this transaction.`, { rule })
  return rule
}

/** The token's own limits: what it may do, on which chain, for whom. */
export function authorise(caller: TokenCaller, { chainId, userId }: { chainId: number; userId: string | null }): void {
  if (!caller.scopes.includes(WRITE_SCOPE)) {
    throw new Refusal('insufficient_scope', `The access token lacks the scope ${WRITE_SCOPE}.`)
  }
  if (caller.chainId !== chainId) {
    throw new Refusal('insufficient_scope', 'The access token is for an application on another chain.')
  }
  if (userId !== null && caller.userId !== userId) {
    throw new Refusal('forbidden_user', 'The access token is for another user.')
  }
}

function signWith(keys: Keys, account: KeptAccount, { tx }: SignOrder): { raw: Buffer; hash: Buffer } {
  return assemble(tx, keys.sign(account, digestOf(tx)))
}

export function toSigned({
  raw,
  hash,
  nonce,
  kind,
  rule,
}: Pick<LedgerAttempt, keyof Omit<Signed, 'stored'>>): Omit<Signed, 'stored'> {
  return { raw: hex(raw), hash: hex(hash), nonce, kind, rule }
}

export const hex = (bytes: Buffer): Hex => `0x${bytes.toString('hex')}`
