import { feePair, type UnsignedTransaction } from './transaction.ts'

/** What the rules measure against. Lists of contracts, limits per user and freezes will be here. */
export type PolicyLimits = {
  /** wei: gas × highest fee per gas of one transaction */
  maxFeeWei: bigint
  /** wei: the same for a cancel that fills a nonce for which no token was ever shown */
  maxFillFeeWei: bigint
  /** nonces of an account in a row that are filled so */
  maxFills: number
}

export type Decision = { allowed: boolean; rule: string }

type Rule = { name: string; applies: (tx: UnsignedTransaction, limits: PolicyLimits) => boolean; allows: boolean }

/** In this order; the first that applies decides. A transaction that no rule knows would be refused. */
const rules: readonly Rule[] = [
  { name: 'no-contract-creation', applies: ({ to }) => to === null, allows: false },
  {
    name: 'max-total-fee',
    applies: (tx, { maxFeeWei }) => totalFee(tx) > maxFeeWei,
    allows: false,
  },
  { name: 'default-allow', applies: () => true, allows: true },
]

const totalFee = ({ gas, fees }: UnsignedTransaction): bigint => gas * feePair(fees).max

/**
 * The gate that a cancel passes besides, when the ledger says that it fills a nonce for nobody. Its user is not there, so
 * what it may cost is little: anyone who has the server could otherwise burn the funds of everyone who is not.
 */
export const decideFill = (tx: UnsignedTransaction, { maxFillFeeWei }: PolicyLimits): Decision => ({
  allowed: totalFee(tx) <= maxFillFeeWei,
  rule: 'max-fill-fee',
})

/** The one gate in front of every signature, of a first attempt, a raised fee and a cancel alike. */
export function decide(tx: UnsignedTransaction, limits: PolicyLimits): Decision {
  const rule = rules.find(({ applies }) => applies(tx, limits))
  return rule === undefined ? { allowed: false, rule: 'no-rule' } : { allowed: rule.allows, rule: rule.name }
}
