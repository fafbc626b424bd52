import { GAS_PAIRS } from '../../gas/addresses.ts'
import { operationDomains } from '../../gas/operation.ts'
import { DELEGATES } from '../../ids.ts'
import type { Classified } from '../../messages/classify.ts'
import type { Message } from '../../messages/message.ts'
import { domainSeparator, type TypedDomain } from '../../messages/typed-data.ts'
import { pass, type PolicyLimits } from './policy.ts'
import { Refusal } from '../refusal.ts'

/** Name of the built-in rule that requires the user's approval. */
const APPROVAL_RULE = 'message-approval'

/**
 * Rejects typed data that an account's own code or a dispatcher could accept as an operation. Compares the domain
 * separator by value, for any network and account, so no name of a type or field can hide it.
 * @throws policy_denied
 */
export function assertSignable({ message, from }: { message: Message; from: Buffer }): void {
  if (message.kind === 'typedData' && isOfOwnCode(message.typed.domain, from))
    pass({ allowed: false, rule: 'message-own-account' }, 'message')
}

const OWN_CODE = DELEGATES.flatMap((name) => [GAS_PAIRS[name].dispatcher, GAS_PAIRS[name].delegate])

function isOfOwnCode(domain: TypedDomain, from: Buffer): boolean {
  const { chainId, verifyingContract } = domain
  if (verifyingContract === null) return false
  // Delegate code has the account as the verifying contract.
  if (verifyingContract.equals(from) || OWN_CODE.some((code) => code.equals(verifyingContract))) return true
  const separator = domainSeparator(domain)
  return chainId !== null && operationDomains(chainId, verifyingContract).some((own) => own.equals(separator))
}

/**
 * Checks the built-in rules that a policy cannot override.
 * @throws policy_denied; invalid_message for a sign-in to another application, of another account or network, or too
 *   old
 */
export function assertListed(
  { class: name, needs, problem }: Classified,
  { chainId }: { chainId: number },
  { chains }: PolicyLimits,
): void {
  if (chains?.has(chainId) === false) pass({ allowed: false, rule: 'chain-not-listed' }, 'message')
  if (needs !== 'never') return
  if (name !== 'login') pass({ allowed: false, rule: 'message-own-account' }, 'message')
  throw new Refusal('invalid_message', `The message is not valid: ${problem}. Nothing was signed.`, { pointer: '' })
}

/**
 * Returns the built-in rule for a class.
 * @param isNamed    true if a rule of the policy names the message by its classes or type; then no approval and no rule is needed
 * @returns  `requires`: the name of the rule that requires the user's approval; null if none does
 * @throws policy_denied  for a class that only the operator's policy can allow
 */
export function builtInRule(
  { class: name, needs }: Pick<Classified, 'class' | 'needs'>,
  isNamed: boolean,
): { rule: string; requires: string | null } {
  if (needs === 'token' || isNamed) return { rule: `message-${name}`, requires: null }
  const rule = needs === 'approval' ? APPROVAL_RULE : pass({ allowed: false, rule: 'message-not-listed' }, 'message')
  return { rule, requires: rule }
}
