import { toHex } from '../../hex.ts'
import { settleApproval, type Approval } from '../rules/approval.ts'
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
import type { Checked, OperationCallText, Signed } from '../../signer-wire/wire.ts'
import type { KeptAccount } from '../keys/wrapping.ts'

/**
 * Handles the verb `sign`: checks freezes, token, built-in rules, ledger, limits and approval, in this order, then signs. For a
 * sponsor's account, the token of the user who receives a top-up is accepted, or a grant of the signer's own OS user (authority.ts).
 * Errors: bad_request, account_frozen, application_suspended, unknown_account, invalid_token, insufficient_scope, forbidden_user,
 * policy_denied, approval_required, ledger errors (`judge`), key_damaged.
 */
export async function sign(inside: Inside, request: unknown): Promise<Signed> {
  return signInTurn(inside, await examine(inside, readSignRequest(request)))
}

/**
 * Handles the verb `check`: reports how `sign` would decide now, and by which rule. Makes the checks of `sign` in the
 * same order. A missing approval is reported, not refused. Nothing is signed, written or counted.
 * Errors: those of `sign`, except approval_required.
 */
export async function check(inside: Inside, request: unknown): Promise<Checked> {
  const draft = draftNow(inside, await examine(inside, readSignRequest(request)), inside.now())
  return { kind: draft.kind, ...toChecked(draft) }
}

/** Checks freezes, token and rules, which do not depend on the ledger. */
async function examine(inside: Inside, ask: SignOrder): Promise<SigningJob<TransactionDraft>> {
  const { chainId, from, nonce } = ask.tx
  const { account, authority } = await admit(inside, { chainId, from }, (account) =>
    readAuthority(inside, ask, account),
  )
  const builtIn = pass(decide(ask.tx, inside.limits))
  const decision = authority.decide(ask)
  const approval = await inside.approvals.read(ask.approval)
  const wanted = { ask, account, authority, approval, rule: decision === null ? builtIn : pass(decision), assertFits }
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

/** Returns the address derived from the user's key, which the store's row may not match. @throws key_damaged */
function addressOf(keys: Keys, userId: string): Buffer | null {
  const account = keys.ofUser(userId)
  return account === null ? null : keys.use(account, () => account.address)
}

/** The operations and limits of a sponsor transaction must be checked again, so `sign` does not replace one. */
const assertFits: WantedTransaction['assertFits'] = (kind, attempts) => {
  if (kind === 'replace' && isOuter(attempts[0]!)) pass({ allowed: false, rule: 'sponsored-only' })
}

/** A transaction to sign, with its authority, approval and checks. */
export type WantedTransaction = {
  ask: SignOrder
  account: KeptAccount
  authority: TransactionAuthority
  /** null if the request has no valid approval */
  approval: Approval | null
  /** allows the transaction, unless limits name another rule */
  rule: string
  /** the verb's own check of the nonce's earlier attempts */
  assertFits: (kind: SignOrder['kind'], attempts: LedgerAttempt[]) => void
}

export type TransactionDraft = SignatureDraft<Signed> & { kind: SignOrder['kind'] }

/** Drafts one more attempt of a nonce: checks the current ledger, its rules and the limits. */
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
    // A suspended application cannot replace, but its nonce can be cancelled: that unblocks the account queue for the user's other
    // applications.
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
  const settled = settleApproval(limited.requires, wanted.approval, {
    ...{ userId: account.userId, clientId: authority.caller?.clientId ?? '', chainId, from: account.address, at },
    ...{ intentId: ask.intentId, content: () => ({ calls: [callText(ask.tx)] }) },
  })
  return {
    ...limited,
    ...settled,
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

/** Formats the call of a transaction for the digest of an approval; a contract creation is rejected before. */
const callText = ({ to, value, data }: SignOrder['tx']): OperationCallText => ({
  to: toHex(to!),
  value: value.toString(),
  data: toHex(data),
})

/** Collects the ledger facts about a nonce of an account. */
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

/**
 * Returns whether an attempt is a sponsor transaction that includes operations. Its cancellation has the same rule and
 * is excluded.
 */
export const isOuter = ({ kind, rule }: Pick<LedgerAttempt, 'kind' | 'rule'>): boolean =>
  kind !== 'cancel' && rule === OUTER

/** Returns the maximum cost, in wei, that someone agreed to for a nonce. */
const agreedTo = (attempts: LedgerAttempt[]): bigint =>
  attempts.reduce((most, each) => (each.isAgreed && each.gas * each.max > most ? each.gas * each.max : most), 0n)

/** Formats an attempt for the wire, without `stored`. */
export const toSigned = (held: Pick<LedgerAttempt, keyof Omit<Signed, 'stored'>>): Omit<Signed, 'stored'> => ({
  raw: toHex(held.raw),
  hash: toHex(held.hash),
  nonce: held.nonce,
  kind: held.kind,
  rule: held.rule,
})
