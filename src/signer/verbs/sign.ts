import { toHex } from '../../hex.ts'
import { authorise, authorities, type TransactionAuthority } from '../rules/authority.ts'
import { assertNotSuspended } from '../tokens/freezes.ts'
import { isFill, judge, type SigningFacts } from '../rules/judge.ts'
import type { Keys } from '../keys/keys.ts'
import type { LedgerSlot } from '../ledger/ledger.ts'
import { NO_POLICY } from '../rules/limits.ts'
import { decide, decideFill, decideReplacement, pass } from '../rules/policy.ts'
import {
  admit,
  draftNow,
  signInTurn,
  toChecked,
  type SigningJob,
  type SignatureDraft,
  type Inside,
} from './pipeline.ts'
import { isAgreed, OUTER, type LedgerAttempt } from '../ledger/record.ts'
import { readSignRequest, type SignOrder } from '../request.ts'
import { isTopUp } from '../rules/top-up.ts'
import { assemble, digestOf } from '../transaction.ts'
import { dearerBy } from '../rules/unattended.ts'
import type { Checked, Signed } from '../../signer-wire/wire.ts'
import type { KeptAccount } from '../keys/wrapping.ts'

/**
 * Verb `sign`: freezes, token, built-in rules, ledger, the limits of what was shown, in this order.
 * From a sponsor's account, with a token of the person who is topped up, or with what the signer's own user granted (authority.ts).
 * Errors: bad_request, account_frozen, application_suspended, unknown_account, invalid_token, insufficient_scope,
 * forbidden_user, policy_denied, those of the ledger (`judge`), key_damaged.
 */
export async function sign(inside: Inside, request: unknown): Promise<Signed> {
  return signInTurn(inside, await examine(inside, readSignRequest(request)))
}

/**
 * Verb `check`: what `sign` would do, and by which rule, as things are now; the same checks in the same order. Nothing
 * is signed, written or counted. Errors: those of `sign`.
 */
export async function check(inside: Inside, request: unknown): Promise<Checked> {
  const draft = draftNow(inside, await examine(inside, readSignRequest(request)), inside.now())
  return { kind: draft.kind, ...toChecked(draft) }
}

/** Freezes, token and rules: what does not depend on the ledger. */
async function examine(inside: Inside, ask: SignOrder): Promise<SigningJob<TransactionDraft>> {
  const { chainId, from, nonce } = ask.tx
  const { account, authority } = await admit(inside, { chainId, from }, (account) =>
    readAuthority(inside, ask, account),
  )
  const builtIn = pass(decide(ask.tx, inside.limits))
  const decision = authority.decide(ask)
  const wanted = { ask, account, authority, rule: decision === null ? builtIn : pass(decision), assertFits }
  return { account, authority, chainId, order: nonce, draft: (at) => draftTransaction(inside, wanted, at) }
}

async function readAuthority(
  { keys, tokens, withdrawals }: Inside,
  ask: SignOrder,
  account: KeptAccount | null,
): Promise<TransactionAuthority> {
  if (ask.accessToken === null) return authorities.nothing
  const whose = { chainId: ask.tx.chainId, userId: account?.userId ?? null }
  const grant = withdrawals.find(ask.accessToken)
  if (grant !== null) {
    authorise(grant.caller, whose)
    return authorities.grant(grant)
  }
  const token = await tokens.check(ask.accessToken)
  if (account !== null && isTopUp(ask, account)) {
    authorise(token, { ...whose, userId: null })
    return authorities.topUp(token, () => addressOf(keys, token.userId))
  }
  authorise(token, whose)
  return authorities.token(token)
}

/** The address that the person's key gives, not one that a row of the store says. @throws key_damaged */
function addressOf(keys: Keys, userId: string): Buffer | null {
  const account = keys.ofUser(userId)
  return account === null ? null : keys.use(account, () => account.address)
}

/** What a sponsor's transaction carries has to be looked at once more, and its limits. */
const assertFits: WantedTransaction['assertFits'] = (kind, attempts) => {
  if (kind === 'replace' && isOuter(attempts[0]!)) pass({ allowed: false, rule: 'sponsored-only' })
}

/** A transaction that is asked for, with all that is in it. */
export type WantedTransaction = {
  ask: SignOrder
  account: KeptAccount
  authority: TransactionAuthority
  /** by which it is allowed, unless limits name another */
  rule: string
  /** what its verb says of the attempts that its nonce has */
  assertFits: (kind: SignOrder['kind'], attempts: LedgerAttempt[]) => void
}

export type TransactionDraft = SignatureDraft<Signed> & { kind: SignOrder['kind'] }

/** One more attempt of a nonce: the ledger as it is now, the rules about it, and what limits say. */
export function draftTransaction(inside: Inside, wanted: WantedTransaction, at: number): TransactionDraft {
  const { limits, unattended, freezes } = inside
  const { ask, account, authority, assertFits } = wanted
  const { chainId, nonce } = ask.tx
  const slot = { chainId, address: account.address, nonce }
  const { isVouched } = authority
  const facts = factsOf(inside, slot, { userId: account.userId, isVouched, intentId: ask.intentId })
  const { attempts } = facts
  const verdict = judge(ask, facts)
  if ('stored' in verdict) return storedDraft(verdict.stored)
  const { sign: kind, terms } = verdict
  assertFits(kind, attempts)
  let { rule } = wanted
  const isOneAgreed = isAgreed({ tokenId: authority.caller?.tokenId ?? null, rule, kind })
  if (isFill(ask, kind, facts)) rule = pass(decideFill(ask.tx, limits))
  else if (kind !== 'send' && attempts.length > 0) {
    // A cancel only frees the lane, which the person's other applications need.
    if (kind === 'replace') assertNotSuspended(freezes, attempts[0]!.clientId)
    const replacement = { kind, first: attempts[0]!, agreed: agreedTo(attempts), isAgreed: isOneAgreed }
    const refused = decideReplacement(ask.tx, replacement, limits)
    if (refused !== null) pass(refused)
  }
  const unattendedWei = isOneAgreed
    ? 0n
    : dearerBy(
        terms,
        attempts.filter((each) => !each.isAgreed),
      )
  if (!unattended.hasRoom(chainId, unattendedWei)) pass({ allowed: false, rule: 'max-unattended-fee' })
  const limited = { rule, ...authority.askLimits(inside, { ask, kind, terms, attempts, account, at }) }
  return {
    ...limited,
    kind,
    unattendedWei,
    stored: false,
    make(signDigest) {
      const signed = assemble(ask.tx, signDigest(digestOf(ask.tx)))
      const held = { ...terms, ...slot, ...signed, kind, rule: limited.rule, requestHash: ask.requestHash }
      const carries = kind === 'send' ? ask.carried?.map(({ seq }) => seq) : []
      return { records: [{ kind, rule: limited.rule, held, carries }], answer: { ...toSigned(held), stored: false } }
    },
    recorded: () => authority.spend?.(ask.intentId),
  }
}

const storedDraft = (held: LedgerAttempt): TransactionDraft => ({
  ...NO_POLICY,
  kind: held.kind,
  rule: held.rule,
  stored: true,
  unattendedWei: 0n,
  make: () => ({ records: [], answer: { ...toSigned(held), stored: true } }),
})

/** What the ledger knows around a nonce of an account. */
export function factsOf(
  { ledger, limits }: Pick<Inside, 'ledger' | 'limits'>,
  slot: LedgerSlot,
  { userId, isVouched, intentId }: { userId: string; isVouched: boolean; intentId: string },
): SigningFacts<LedgerAttempt> {
  const attempts = ledger.attempts(slot)
  return {
    attempts,
    isElsewhere: ledger.isElsewhere(intentId, slot),
    isDelegation: attempts.length === 0 && ledger.operations.delegationAt(slot) !== null,
    isVouched,
    isHeldElsewhere: () => ledger.isHeldElsewhere(userId),
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

/** wei: the most that someone agreed to for a nonce. */
const agreedTo = (attempts: LedgerAttempt[]): bigint =>
  attempts.reduce((most, each) => (each.isAgreed && each.gas * each.max > most ? each.gas * each.max : most), 0n)

export const toSigned = (held: Pick<LedgerAttempt, keyof Omit<Signed, 'stored'>>): Omit<Signed, 'stored'> => ({
  raw: toHex(held.raw),
  hash: toHex(held.hash),
  nonce: held.nonce,
  kind: held.kind,
  rule: held.rule,
})
