import { Refusal } from '../refusal.ts'
import { feePair, type UnsignedTransaction } from '../transaction.ts'

/** What the rules measure against. Lists of contracts and limits per user will be here. */
export type PolicyLimits = {
  /** chain ids that are signed for; null in development: every one */
  chains: ReadonlySet<number> | null
  /** wei: gas × highest fee per gas of one transaction */
  maxFeeWei: bigint
  /** wei: the same for a cancel that fills a nonce for which no token was ever shown */
  maxFillFeeWei: bigint
  /** nonces of an account in a row that are filled so */
  maxFills: number
  /** times the fee that the user agreed to for a nonce that an attempt may cost without a token */
  maxRaise: bigint
  /** wei: what is signed without a token may cost on one network within an hour, over all accounts */
  maxUnattendedFeeWei: bigint
  /** wei: what sponsors may give one person on one network within a day, fees counted; 0: nothing */
  topUpPerUserWei: bigint
  /** wei: what one sponsor may give on one network within a day, fees counted; 0: nothing */
  topUpPerSponsorWei: bigint
  /** wei: what sponsors may lose by operations of one person on one network within a day; 0: nothing */
  gasPerUserWei: bigint
  /** wei: what one sponsor may lose by operations on one network within a day; 0: nothing */
  gasPerSponsorWei: bigint
  /** accounts may delegate to Calibur */
  signsCalibur: boolean
  /** how far ahead of the signer's clock the last second of an operation may be; in development any time, because development chains are set ahead */
  maxDeadlineSeconds: number
}

export type Decision = { allowed: boolean; rule: string }

/** @returns the rule that allows it */
export function pass({ allowed, rule }: Decision): string {
  if (!allowed)
    throw new Refusal(
      'policy_denied',
      `The rule ${rule} rejects this transaction. Nothing was signed. Change the transaction, or ask the operator to change the rule.`,
      { rule },
    )
  return rule
}

type Rule = { name: string; applies: (tx: UnsignedTransaction, limits: PolicyLimits) => boolean; allows: boolean }

/** In this order; the first that applies decides. A transaction that no rule knows would be refused. */
const rules: readonly Rule[] = [
  { name: 'chain-not-listed', applies: ({ chainId }, { chains }) => chains?.has(chainId) === false, allows: false },
  { name: 'no-contract-creation', applies: ({ to }) => to === null, allows: false },
  // What an account calls in itself, the code that it has delegated to takes as its owner's word: Calibur would let another key in.
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

/** wei: the most that a transaction can cost besides its value. */
const totalFee = ({ gas, fees }: Pick<UnsignedTransaction, 'gas' | 'fees'>): bigint => gas * feePair(fees).max

/**
 * The gate that a cancel passes besides, when the ledger says that it fills a nonce for nobody. Its user is not there, so
 * what it may cost is little: anyone who has the server could otherwise burn the funds of everyone who is not.
 */
export const decideFill = (tx: UnsignedTransaction, { maxFillFeeWei }: PolicyLimits): Decision => ({
  allowed: totalFee(tx) <= maxFillFeeWei,
  rule: 'max-fill-fee',
})

/**
 * The gate of what takes the place of an earlier attempt. Without a token its user is not there: a raise by so much that
 * nobody would have agreed to it is refused, and where the first attempt was nearly free, because the network was, it may
 * cost what filling a nonce may. Gas below the first attempt's could turn a success into a failure.
 * @param first   the first attempt of the nonce
 * @param agreed  wei: the most that someone agreed to for the nonce
 * @param isAgreed  someone agrees to this attempt
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

/** The one gate in front of every signature, of a first attempt, a raised fee and a cancel alike. */
export function decide(tx: UnsignedTransaction, limits: PolicyLimits): Decision {
  const rule = rules.find(({ applies }) => applies(tx, limits))
  return rule === undefined ? { allowed: false, rule: 'no-rule' } : { allowed: rule.allows, rule: rule.name }
}
