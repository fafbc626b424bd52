/**
 * signer/rules: decides which signatures are allowed, and their limits.
 * Owns: whose agreement a signature needs (`authority.ts`), which signatures a nonce allows (`judge.ts`), the operator's policy in
 *   force, the amounts used within each period (`meters.ts`).
 * Does not own: the language of a policy (`signer/policy/document.ts`), whether a token is genuine (`signer/tokens/tokens.ts`).
 */

import type { MessageEvidence } from '../ledger/message-ledger.ts'
import type { TokenCaller } from '../tokens/caller.ts'
import { askGas, gasOf } from './gas-limits.ts'
import { askPolicy, NO_POLICY, type NextAttempt, type Limiting, type PolicyVerdict } from './limits.ts'
import type { Decision } from './policy.ts'
import { Refusal } from '../refusal.ts'
import type { SignOrder } from '../request.ts'
import { askTopUp, decideTopUp } from './top-up.ts'
import { askWithdrawal, decideWithdrawal, type WithdrawalGrant } from './withdrawals.ts'

/** Evidence for a signature, and the authority that follows from it. */
export type Authority = {
  /** the access token in the request; its user and application must not be frozen */
  token: TokenCaller | null
  /** the token or grant that agrees to the cost, as recorded; null: nobody agreed */
  caller: TokenCaller | null
  /** true: after a restore, sign only once the server has sent a list of freezes, because the restored store may lack one */
  waitsForList: boolean
  /**
   * returns the evidence to record, as JSON; `besides`: further evidence from the request, and the class of the content
   */
  evidence: (rule: string, besides?: EvidenceBesides) => string | null
}

/**
 * Evidence in addition to the token: the class of a message, the host of a sign-in, the rule that required an approval,
 * and that approval.
 */
export type EvidenceBesides = Partial<MessageEvidence> & { approval_sha256?: string; approval_jti?: string }

export type TransactionAuthority = Authority & {
  /**
   * true: the request has a token or grant for this transaction, or for every operation in it, so it may be the first
   * of its nonce
   */
  isVouched: boolean
  /** decides what this authority may sign, and names the rule; null: only the built-in rules apply */
  decide: (ask: SignOrder) => Decision | null
  /** checks the limits of this authority. @throws policy_denied */
  askLimits: (inside: Limiting, attempt: NextAttempt) => PolicyVerdict
  /** marks the authority as used, in the commit of the record */
  spend?: (intentId: string) => void
}

/** Defaults that grant nothing. `decide` and `askLimits` have no default, so each authority states its own. */
const NONE = { token: null, caller: null, isVouched: false, waitsForList: true, evidence: evidenceOf(null) }
const withinBuiltIns = () => null
const noLimits = () => NO_POLICY

const byToken = (token: TokenCaller): TransactionAuthority & { token: TokenCaller } => ({
  token,
  caller: token,
  isVouched: true,
  waitsForList: false,
  evidence: evidenceOf(token),
  decide: withinBuiltIns,
  askLimits: (inside, attempt) => askPolicy(inside, attempt, token),
})

/** Builds each kind of authority: what it may sign, which limits apply, and what is recorded as evidence. */
export const authorities = {
  /**
   * No token: allows fee bumps, cancellations and gap-filling transactions, within limits for requests without a token
   * (`decideReplacement`, `decideFill`, unattended.ts).
   */
  nothing: { ...NONE, decide: withinBuiltIns, askLimits: noLimits } satisfies TransactionAuthority,
  /** An access token: allows everything that its user's account may do, within the policy in force. */
  token: byToken,
  /** An access token for a sponsor's account: allows a top-up of the token's user, within the top-up limits. */
  topUp: (token: TokenCaller, address: () => Buffer | null): TransactionAuthority => ({
    ...byToken(token),
    decide: ({ tx }) => decideTopUp(tx, address()),
    askLimits: (inside, { ask: { tx }, account, at }) =>
      askTopUp(inside, { tx, sponsor: account.userId, person: token.userId, at }),
  }),
  /**
   * A grant of the signer's own OS user instead of a token: allows one withdrawal from a sponsor to one address. Lists
   * of revocations do not cover grants.
   */
  grant: (grant: WithdrawalGrant): TransactionAuthority => ({
    ...NONE,
    caller: grant.caller,
    isVouched: true,
    evidence: evidenceOf(grant.caller),
    decide: (ask) => decideWithdrawal(ask, grant),
    askLimits: (_inside, { ask: { tx, intentId }, at }) => askWithdrawal(grant, { tx, intentId, at }),
    spend: (intentId) => void (grant.usedBy = intentId),
  }),
  /**
   * Operations in the ledger: allow a sponsor transaction that includes them, within the limits of their users and the
   * sponsor.
   */
  operations: {
    ...NONE,
    isVouched: true,
    evidence: () => null,
    decide: withinBuiltIns,
    askLimits: (inside, attempt) => ({ ...NO_POLICY, charges: askGas(inside, gasOf(attempt), attempt.at) }),
  } satisfies TransactionAuthority,
  /** Cancels a sponsor transaction. A token allows it to use up its user's sequences, but agrees to no cost. */
  cancel: (token: TokenCaller | null): TransactionAuthority => ({
    ...NONE,
    token,
    isVouched: true,
    evidence: token === null ? () => null : evidenceOf(token),
    decide: withinBuiltIns,
    askLimits: noLimits,
  }),
}

/** Formats the evidence of a signature as JSON with these keys in this order. */
function evidenceOf(caller: TokenCaller | null): (rule: string, besides?: EvidenceBesides) => string {
  return (rule, besides = {}) =>
    JSON.stringify({
      token_sha256: caller?.tokenHash ?? null,
      jti: caller?.jti ?? null,
      client_id: caller?.clientId ?? null,
      rule,
      ...besides,
    })
}

export const WRITE_SCOPE = 'contracts:write'

/**
 * Checks the token's own limits: scope, chain and user.
 * @param userId  null: the caller checks the user
 * @throws insufficient_scope, forbidden_user
 */
export function authorise(
  caller: TokenCaller,
  { chainId, userId, scope = WRITE_SCOPE }: { chainId: number; userId: string | null; scope?: string },
): void {
  assertScope(caller, scope)
  if (caller.chainId !== chainId) {
    throw new Refusal(
      'insufficient_scope',
      'The access token is for an application on another network. Nothing was signed. Use an access token for this network.',
    )
  }
  if (userId !== null && caller.userId !== userId) {
    throw new Refusal(
      'forbidden_user',
      'The access token is for another user. Nothing was signed. Use an access token of that user.',
    )
  }
}

/** Checks that the token has a scope. @throws insufficient_scope */
export function assertScope({ scopes }: TokenCaller, scope: string): void {
  if (scopes.includes(scope)) return
  throw new Refusal(
    'insufficient_scope',
    `The access token does not have the scope ${scope}. Nothing was signed. Request the permission at sign-in.`,
  )
}
