import { Refusal } from '../refusal.ts'
import { feePair, type UnsignedTransaction } from '../transaction.ts'

/** The limits of the built-in rules. */
export type PolicyLimits = {
  /** chain ids that the signer signs for; null in development: all */
  chains: ReadonlySet<number> | null
  /** wei: maximum of gas × maximum fee per gas of one transaction */
  maxFeeWei: bigint
  /**
   * wei: maximum of gas × maximum fee per gas of a cancellation that fills a nonce for which no token was ever in a
   * request
   */
  maxFillFeeWei: bigint
  /** maximum consecutive nonces of an account that such cancellations may fill */
  maxFills: number
  /** how many times the agreed fee of a nonce an attempt without a token may cost */
  maxRaise: bigint
  /** wei: maximum cost per network and hour of everything signed without a token, over all accounts */
  maxUnattendedFeeWei: bigint
  /** wei: maximum that sponsors may give one user per network and day, including fees; 0: nothing */
  topUpPerUserWei: bigint
  /** wei: maximum that one sponsor may give per network and day, including fees; 0: nothing */
  topUpPerSponsorWei: bigint
  /** wei: maximum that sponsors may lose per network and day by one user's operations; 0: nothing */
  gasPerUserWei: bigint
  /** wei: maximum that one sponsor may lose per network and day by operations; 0: nothing */
  gasPerSponsorWei: bigint
  /** true: accounts may delegate to Calibur */
  signsCalibur: boolean
  /**
   * maximum seconds from the signer's clock to an operation's deadline; unlimited in development, because development chains are
   * set ahead
   */
  maxDeadlineSeconds: number
}

export type Decision = { allowed: boolean; rule: string }

/** Returns the name of the rule that allows. @throws policy_denied */
export function pass({ allowed, rule }: Decision, what: 'transaction' | 'message' = 'transaction'): string {
  if (!allowed)
    throw new Refusal(
      'policy_denied',
      `The rule ${rule} rejects this ${what}. Nothing was signed. Change the ${what}, or ask the operator to change the rule.`,
      { rule },
    )
  return rule
}

type Rule = { name: string; applies: (tx: UnsignedTransaction, limits: PolicyLimits) => boolean; allows: boolean }

/** The first rule that applies decides. If none applied, the transaction would be rejected. */
const rules: readonly Rule[] = [
  { name: 'chain-not-listed', applies: ({ chainId }, { chains }) => chains?.has(chainId) === false, allows: false },
  { name: 'no-contract-creation', applies: ({ to }) => to === null, allows: false },
  // The code that an account delegates to treats a call from the account to itself as a command of its owner. In
  // Calibur, such a call could add another key.
  {
    name: 'no-call-of-own-account',
    applies: ({ from, to, data }) => to !== null && to.equals(from) && data.length > 0,
    allows: false,
  },
  {
    name: 'max-total-fee',
    applies: (tx, { maxFeeWei }) => totalFee(tx) > maxFeeWei,
    allows: false,
  },
  { name: 'default-allow', applies: () => true, allows: true },
]

/** Returns the maximum fee of a transaction: its maximum cost without its value, wei. */
const totalFee = ({ gas, fees }: Pick<UnsignedTransaction, 'gas' | 'fees'>): bigint => gas * feePair(fees).max

/**
 * Checks the fee of a cancellation for a nonce for which no token was ever in a request. The limit is low because the
 * user is absent. Otherwise an attacker who controls the server could burn the funds of every absent user.
 */
export const decideFill = (tx: UnsignedTransaction, { maxFillFeeWei }: PolicyLimits): Decision => ({
  allowed: totalFee(tx) <= maxFillFeeWei,
  rule: 'max-fill-fee',
})

/**
 * Checks a replacement. Without a token the user is absent, so a fee bump far above the agreed fee is rejected. If the
 * agreed fee is very low because the network was nearly free, the replacement may cost as much as a gap-filling
 * transaction. Gas below the gas of the first attempt is rejected, because it could turn a success into a failure.
 * @param first     the first attempt of the nonce
 * @param agreed    wei: the maximum that someone agreed to for the nonce
 * @param isAgreed  true if someone agrees to the cost of this attempt
 * @returns the decision that rejects it; null if it may be signed
 */
export function decideReplacement(
  tx: UnsignedTransaction,
  { kind, first, agreed, isAgreed }: { kind: 'replace' | 'cancel'; first: { gas: bigint }; agreed: bigint; isAgreed: boolean }, // prettier-ignore
  { maxRaise, maxFillFeeWei }: PolicyLimits,
): Decision | null {
  if (kind === 'replace' && tx.gas < first.gas) return { allowed: false, rule: 'gas-below-first' }
  if (isAgreed) return null
  const raised = agreed * maxRaise
  const most = raised > maxFillFeeWei ? raised : maxFillFeeWei
  return totalFee(tx) > most ? { allowed: false, rule: 'max-raise' } : null
}

/** Applies the built-in rules to a transaction: first attempts, fee bumps and cancellations alike. */
export function decide(tx: UnsignedTransaction, limits: PolicyLimits): Decision {
  const rule = rules.find(({ applies }) => applies(tx, limits))
  return rule === undefined ? { allowed: false, rule: 'no-rule' } : { allowed: rule.allows, rule: rule.name }
}
