import type { Transaction } from './transaction.ts'

/** What the rules measure against. Lists of contracts, limits per user and freezes will stand here. */
export type Limits = {
  /** wei: gas × highest fee per gas of one transaction */
  maxFeeWei: bigint
}

export type Decision = { allowed: boolean; rule: string }

type Rule = { name: string; applies: (tx: Transaction, limits: Limits) => boolean; allows: boolean }

/** In this order; the first that applies decides. A transaction that no rule knows would be refused. */
const rules: readonly Rule[] = [
  { name: 'no-contract-creation', applies: ({ to }) => to === null, allows: false },
  {
    name: 'max-total-fee',
    applies: ({ gas, fees }, { maxFeeWei }) =>
      gas * (fees.type === 'legacy' ? fees.gasPrice : fees.maxFeePerGas) > maxFeeWei,
    allows: false,
  },
  { name: 'default-allow', applies: () => true, allows: true },
]

/** The one gate in front of every signature, of a first attempt, a raised fee and a cancel alike. */
export function decide(tx: Transaction, limits: Limits): Decision {
  const rule = rules.find(({ applies }) => applies(tx, limits))
  return rule === undefined ? { allowed: false, rule: 'no-rule' } : { allowed: rule.allows, rule: rule.name }
}
