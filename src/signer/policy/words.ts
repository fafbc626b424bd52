import { checksumAddress } from '../../digits.ts'
import { SCOPES, type PolicyDocument, type PolicyRule, type RuleAmount, type RuleMatch } from './document.ts'
import { MESSAGE_CLASSES } from './effect.ts'
import { isKnown, PERMIT2_APPROVE, type CallClass } from './calldata.ts'

/** Describes a policy in words: a line for its freezes, if any, then a line per rule. */
export function describePolicy(policy: PolicyDocument): string[] {
  const { users, clients, chains, everything } = policy.freeze
  const frozen = [
    ...(everything ? ['everything'] : []),
    ...[...chains].map((chain) => `network ${chain}`),
    ...[...clients].map((client) => `application ${client}`),
    ...[...users].map((user) => `user ${user}`),
  ]
  return [
    ...(frozen.length === 0 ? [] : [`frozen: ${frozen.join(', ')}`]),
    ...policy.rules.map((rule) => `${rule.name}: ${describeRule(rule, policy.tokens)}`),
  ]
}

function describeRule(rule: PolicyRule, tokens: PolicyDocument['tokens']): string {
  const about = describeMatch(rule)
  if (rule.effect === 'deny' || rule.effect === 'allow') return `${rule.effect} ${about}`
  if (rule.effect === 'require') {
    const above = rule.above.map(
      (amount) =>
        `more than ${amountOf(amount, amount.perCall!, tokens)} ${thingOf(amount, tokens)}${amount.of === 'token' ? `, or of unknown functions of it${listed(amount, ' but')}` : ''}`, // prettier-ignore
    )
    const to = rule.isForNewRecipients ? ', to recipients that the user has not approved under this rule' : ''
    return `require the user’s ${rule.tier} for ${above.length === 0 ? about : `${about} of ${above.join(' or ')}`}${to}`
  }
  const each = rule.per.length === 0 ? 'together' : `for each ${rule.per.join(' and ')}`
  return `limit ${about} to ${rule.limits.map((limit) => describeLimit(limit, tokens)).join('; ')}, ${each}`
}

const NAMES: [keyof RuleMatch, string][] = [
  ['chains', 'on chain'],
  ['clients', 'by application'],
  ['users', 'by user'],
  ['class', 'of class'],
  ['domains', 'that sign in to'],
  ['types', 'of type'],
  ['to', 'that call'],
  ['functions', 'with selector'],
  ['recipients', 'for recipient'],
]

function describeMatch({ effect, match }: PolicyRule): string {
  const parts = NAMES.flatMap(([field, words]) => {
    const set = match[field] as ReadonlySet<string | number> | null
    return set === null ? [] : [`${words} ${[...set].map((one) => shown(field, one)).join(' or ')}`]
  })
  const args = match.args.map(({ index, oneOf }) => `with argument ${index} one of ${[...oneOf].join(', ')}`)
  return [subjectOf({ effect, match }), ...parts, ...args].join(' ')
}

/** Names what a rule can match. An allowing rule with classes matches no message unless it lists MESSAGE. */
function subjectOf({ effect, match }: Pick<PolicyRule, 'effect' | 'match'>): string {
  const classes = [...(match.class ?? [])]
  if (match.domains !== null || match.types !== null) return 'messages'
  if (classes.length > 0 && classes.every((one) => MESSAGE_CLASSES.has(one))) return 'messages'
  return effect === 'allow' && classes.length > 0 && !classes.includes('MESSAGE')
    ? 'transactions'
    : 'transactions and messages'
}

function shown(field: keyof RuleMatch, value: string | number): string {
  if (field === 'to' || field === 'recipients') return checksumAddress(`0x${value}`)
  return field === 'functions' ? `0x${value}` : String(value)
}

function describeLimit(limit: RuleAmount, tokens: PolicyDocument['tokens']): string {
  const { perCall, period } = limit
  const amounts = [
    ...(perCall === null ? [] : [`${amountOf(limit, perCall, tokens)} ${thingOf(limit, tokens)} at a time`]),
    ...(period === null ? [] : [`${amountOf(limit, period.amount, tokens)} ${thingOf(limit, tokens)} in any ${spanOf(period.seconds)}`]), // prettier-ignore
  ].join(', ')
  return limit.of === 'token' ? `${amounts}, and to known functions of it${listed(limit, ' and')}` : amounts
}

const listed = ({ functions }: RuleAmount, before: string): string =>
  functions === null ? '' : `${before} ${[...functions].map((one) => `0x${one}`).join(' or ')} (amount not limited)`

const spanOf = (seconds: number): string => (seconds === 3_600 ? 'hour' : seconds === 86_400 ? '24 hours' : `${seconds / 86_400} days`) // prettier-ignore

const tokenOf = ({ chainId, tokenAddress }: RuleAmount, tokens: PolicyDocument['tokens']) => tokens.get(`${chainId}:${tokenAddress}`) // prettier-ignore

function thingOf(amount: RuleAmount, tokens: PolicyDocument['tokens']): string {
  if (amount.of === 'count') return 'transactions'
  if (amount.of !== 'token') return amount.of === 'fees' ? 'of fees' : 'of native currency'
  const token = tokenOf(amount, tokens)
  return `${token === undefined ? 'units of' : `${token.symbol},`} ${checksumAddress(`0x${amount.tokenAddress}`)} on chain ${amount.chainId}`
}

/** Formats an amount, in whole tokens if the document states their decimals. */
function amountOf(amount: RuleAmount, value: bigint, tokens: PolicyDocument['tokens']): string {
  const token = amount.of === 'token' ? tokenOf(amount, tokens) : undefined
  if (token === undefined) return amount.of === 'native' || amount.of === 'fees' ? `${value} wei` : value.toString()
  const digits = value.toString().padStart(token.decimals + 1, '0')
  const [whole, rest] = [digits.slice(0, digits.length - token.decimals), digits.slice(digits.length - token.decimals)]
  return `${whole}${`.${rest}`.replace(/\.?0*$/, '')}`
}

/**
 * Finds statements that are allowed in a policy but probably mistakes: rules that can never match, limits that can never be
 * reached, sums of different currencies.
 * @param served  chain ids that the signer signs for; null if unknown
 */
export function findDoubts(policy: PolicyDocument, served: ReadonlySet<number> | null): string[] {
  const doubts: string[] = []
  const doubt = (rule: PolicyRule, text: string) => void doubts.push(`${rule.name}: ${text}`)
  if (!policy.rules.some(({ effect }) => effect === 'allow'))
    doubts.push('no rule allows anything, so every transaction is rejected')
  if (policy.freeze.everything) doubts.push('everything is frozen')
  for (const rule of policy.rules) {
    const { match } = rule
    const isUnbounded = Object.values(match).every(
      (field) => field === null || (Array.isArray(field) && field.length === 0),
    )
    if (rule.effect === 'deny' && isUnbounded) doubt(rule, 'denies everything')
    for (const text of doubtsOfMessages(rule)) doubt(rule, text)
    const unserved = served === null ? [] : [...(match.chains ?? [])].filter((chain) => !served.has(chain))
    if (unserved.length > 0) doubt(rule, `SIGNER_CHAINS does not list ${unserved.join(', ')}`)
    if (match.class !== null && match.functions !== null && isOnly(match.class, ['NATIVE']) && rule.effect === 'allow')
      doubt(rule, 'can never match: NATIVE alone has no function')
    if (match.users !== null && [...match.users].every((user) => policy.freeze.users.has(user)))
      doubt(rule, 'can never match: all of its users are frozen')
    if (match.chains !== null && [...match.chains].every((chain) => policy.freeze.chains.has(chain)))
      doubt(rule, 'can never match: all of its chains are frozen')
    if (match.clients !== null && [...match.clients].every((client) => policy.freeze.clients.has(client)))
      doubt(rule, 'can never match: all of its applications are frozen')
    if (rule.effect === 'limit') for (const text of doubtsOfLimit(rule, rule.limits)) doubt(rule, text)
  }
  return doubts
}

/** Classes that a message has only beside one of others. */
const BESIDE: readonly (readonly [CallClass, readonly CallClass[]])[] = [
  ['LOGIN_RESOURCES', ['LOGIN']],
  ['LONG_LIVED', ['TRANSFER', 'APPROVE']],
]

function* doubtsOfMessages({ effect, match }: PolicyRule): Generator<string> {
  const own = [...(match.class ?? [])].filter((one) => MESSAGE_CLASSES.has(one))
  if (effect === 'allow' && own.length > 0 && !own.includes('MESSAGE'))
    yield `${own.join(' and ')} can never match: class does not list MESSAGE, which every message is`
  for (const [one, others] of BESIDE)
    if (effect === 'allow' && match.class?.has(one) === true && !others.some((other) => match.class!.has(other)))
      yield `${one} can never match: class does not list ${others.join(' or ')}`
  if (match.domains !== null && match.types !== null) yield 'can never match: a sign-in has no type'
  if (match.domains !== null && match.class?.has('LOGIN') === false)
    yield 'domains can never match: class does not list LOGIN'
}

function* doubtsOfLimit(rule: PolicyRule & { effect: 'limit' }, limits: readonly RuleAmount[]): Generator<string> {
  const { match, per } = rule
  for (const { of, chainId, tokenAddress, perCall, period, functions } of limits) {
    const name = of === 'token' ? `tokens ${chainId}:${checksumAddress(`0x${tokenAddress}`)}` : of
    if (of === 'token' && match.chains?.has(chainId!) === false)
      yield `${name} can never match: chains does not list ${chainId}`
    if (
      of === 'token' &&
      match.to !== null &&
      !match.to.has(tokenAddress!) &&
      match.functions?.has(PERMIT2_APPROVE) !== true
    )
      yield `${name} can match only by Permit2: to does not list the token`
    if (of === 'token' && match.class !== null && isOnly(match.class, ['NATIVE', 'CALL', 'REVOKE']))
      yield `${name} counts almost nothing: class lists neither TRANSFER nor an APPROVE`
    else if (of === 'token' && match.class?.has('CALL') === false)
      yield `${name} allows unknown functions: class does not list CALL`
    for (const one of functions ?? [])
      if (isKnown(one)) yield `${name}.functions lists 0x${one}, but its amount is still limited`
    if (of === 'native' && match.class !== null && !match.class.has('NATIVE'))
      yield `${name} omits transactions without calldata: class does not list NATIVE`
    if (perCall !== null && period !== null && perCall > period.amount)
      yield `${name}.perCall can never be reached: periodAmount is less`
    if (period !== null && (of === 'native' || of === 'fees') && !per.includes('chainId') && match.chains?.size !== 1)
      yield `${name} adds up different currencies: put chainId into per, or name one chain`
    if (period !== null && per.length === SCOPES.length - 3) yield `${name} has one meter for all users`
  }
}

const isOnly = <T>(set: ReadonlySet<T>, these: readonly T[]): boolean => [...set].every((one) => these.includes(one))
