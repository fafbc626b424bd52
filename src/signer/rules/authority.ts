/**
 * signer/rules: what may be signed, and how much of it.
 * Owns: who has to have agreed to a signature (`authority.ts`), what one nonce may be used for (`judge.ts`), the operator's policy
 *   while it is in force, the amounts used up within each period (`meters.ts`).
 * Does not own: the language of a policy (`signer/policy/document.ts`), whether a token is genuine (`signer/tokens/tokens.ts`).
 */

import type { TokenCaller } from '../tokens/caller.ts'
import { askGas, gasOf } from './gas-limits.ts'
import { askPolicy, NO_POLICY, type NextAttempt, type Limiting, type PolicyVerdict } from './limits.ts'
import type { Decision } from './policy.ts'
import { Refusal } from '../refusal.ts'
import type { SignOrder } from '../request.ts'
import { askTopUp, decideTopUp } from './top-up.ts'
import { askWithdrawal, decideWithdrawal, type WithdrawalGrant } from './withdrawals.ts'

/** What was shown for a signature, and what follows from it. */
export type Authority = {
  /** the access token that was shown: neither its user nor its application may be frozen */
  token: TokenCaller | null
  /** who agrees to what it costs, as the record has it; null: nobody */
  caller: TokenCaller | null
  /** A copy of the store may lack a freeze: after a restore it waits for the first list, which names all of the server’s. */
  waitsForList: boolean
  /** what was shown, as the record has it */
  evidence: (rule: string) => string | null
}

export type TransactionAuthority = Authority & {
  /** a token or a grant was shown for what it does, or for all that it carries: it may be the first of its nonce */
  isVouched: boolean
  /** the rule by which it may sign this; null: all that the built-in rules allow */
  decide: (ask: SignOrder) => Decision | null
  /** the limits that it has. @throws policy_denied */
  askLimits: (inside: Limiting, attempt: NextAttempt) => PolicyVerdict
  /** in the commit of the record */
  spend?: (intentId: string) => void
}

/** What a row grants it says itself: whatever it may sign, and no limits, come from nowhere. */
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

/** What may be shown, each with what it may sign, which limits it has and what of it is recorded. An approval will be a row of its own. */
export const authorities = {
  /** Raises, cancels and fills, within bounds of their own: `decideReplacement`, `decideFill`, unattended.ts. */
  nothing: { ...NONE, decide: withinBuiltIns, askLimits: noLimits } satisfies TransactionAuthority,
  /** An access token: whatever its user’s account may, within the policy in force. */
  token: byToken,
  /** An access token, for a sponsor’s account: funds for its user, within limits of their own. */
  topUp: (token: TokenCaller, address: () => Buffer | null): TransactionAuthority => ({
    ...byToken(token),
    decide: ({ tx }) => decideTopUp(tx, address()),
    askLimits: (inside, { ask: { tx }, account, at }) =>
      askTopUp(inside, { tx, sponsor: account.userId, person: token.userId, at }),
  }),
  /** A grant of the signer’s own user, in the place of a token: a sponsor’s funds for one address, once. Of it no list says anything. */
  grant: (grant: WithdrawalGrant): TransactionAuthority => ({
    ...NONE,
    caller: grant.caller,
    isVouched: true,
    evidence: evidenceOf(grant.caller),
    decide: (ask) => decideWithdrawal(ask, grant),
    askLimits: (_inside, { ask: { tx, intentId }, at }) => askWithdrawal(grant, { tx, intentId, at }),
    spend: (intentId) => void (grant.usedBy = intentId),
  }),
  /** Operations that the ledger holds: a sponsor’s transaction with them, within limits of their users and of the sponsor. */
  operations: {
    ...NONE,
    isVouched: true,
    evidence: () => null,
    decide: withinBuiltIns,
    askLimits: (inside, attempt) => ({ ...NO_POLICY, charges: askGas(inside, gasOf(attempt), attempt.at) }),
  } satisfies TransactionAuthority,
  /** For a cancel of such a transaction: its ids are used up for a token of their user, who agrees to nothing that a sponsor pays. */
  cancel: (token: TokenCaller | null): TransactionAuthority => ({
    ...NONE,
    token,
    isVouched: true,
    evidence: token === null ? () => null : evidenceOf(token),
    decide: withinBuiltIns,
    askLimits: noLimits,
  }),
}

/** What was shown for a signature, in one form: these keys, in this order. The hash of a consent will be one of them. */
function evidenceOf(caller: TokenCaller | null): (rule: string) => string {
  return (rule) =>
    JSON.stringify({
      token_sha256: caller?.tokenHash ?? null,
      jti: caller?.jti ?? null,
      client_id: caller?.clientId ?? null,
      rule,
    })
}

const WRITE_SCOPE = 'contracts:write'

/**
 * The token’s own limits: what it may do, on which chain, for whom.
 * @param userId  null: for whom, is looked at elsewhere
 */
export function authorise(caller: TokenCaller, { chainId, userId }: { chainId: number; userId: string | null }): void {
  if (!caller.scopes.includes(WRITE_SCOPE)) {
    throw new Refusal(
      'insufficient_scope',
      `The access token does not have the scope ${WRITE_SCOPE}. Nothing was signed. Request the permission at sign-in.`,
    )
  }
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
