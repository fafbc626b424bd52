import { PERMIT2_APPROVE } from './calldata.ts'
import type { PolicyDocument, PolicyRule, RuleAmount, RuleMatch } from './document.ts'
import type { Effect } from './effect.ts'
import { headWord } from './signature.ts'

/** The input of an evaluation. */
export type PolicyQuestion = {
  effect: Effect
  /** wei: maximum cost of the transaction besides its value */
  feeWei: bigint
  userId: string
  clientId: string
}

/** The amount that a signature adds to a meter, in smallest units. `limit` is the maximum of the meter within `period` seconds. */
export type MeterCharge = { meter: string; amount: bigint; limit: bigint; period: number }

/**
 * The state of a limit; `isOwn`: no other user's transactions use it; `resetsAt`, milliseconds since 1970: when the oldest use
 * stops counting.
 */
export type LimitRoom = { rule: string; limit: string; amount: bigint; used: bigint; left: bigint; resetsAt: number | null; isOwn: boolean } // prettier-ignore

export type PolicyAnswer = PolicyConsent | PolicyRefusal
/**
 * A rejection.
 * - `told`: the reason for the caller, if `reason` would reveal what other users spend.
 * - `resetsAt`, milliseconds since 1970: when the limit of a period has more room; null if nothing in it expires; absent for other
 *   rejections.
 */
export type PolicyRefusal = { allowed: false; rule: string; reason: string; told?: string; resetsAt?: number | null }
/**
 * A consent.
 * - `rule`: the rule that allows it; null if only limits were evaluated.
 * - `isNamed`: that rule names its classes or its type.
 * - `requires`: the rule that demands the user's approval; null if none does.
 */
type PolicyConsent = {
  allowed: true
  rule: string | null
  isNamed: boolean
  requires: string | null
  charges: MeterCharge[]
  room: LimitRoom[]
}

/** Reads what a meter holds now. `isFull`: it counts as full, whatever it holds. `exists`: it was ever charged. */
export type ReadMeter = (
  meter: string,
  period: number,
) => { used: bigint; resetsAt: number | null; isFull?: boolean; exists?: boolean }

/**
 * Evaluates the first signature of a nonce. Any matching `deny` rejects it. Then every matching `limit` and `require` must be
 * satisfied, and at least one `allow` must match. The order of rules only decides which of several rejecting rules is named. It
 * charges nothing.
 */
export function evaluate(policy: PolicyDocument, question: PolicyQuestion, read: ReadMeter): PolicyAnswer {
  const applying = policy.rules.filter((rule) => matches(rule, question))
  const denied = applying.find((rule) => rule.effect === 'deny')
  if (denied !== undefined) return { allowed: false, rule: denied.name, reason: 'it is a deny rule' }
  const limited = holdLimits(applying, question, (limit) => measure(limit, question), read)
  if ('reason' in limited) return limited
  const allowing = applying.filter((rule) => rule.effect === 'allow')
  if (allowing.length === 0) return { allowed: false, rule: 'no-allow', reason: 'no rule allows it' }
  const { requires, charges } = findRequired(applying, question, read)
  const naming = allowing.find(isNaming)
  return {
    ...limited,
    ...{ allowed: true, rule: (naming ?? allowing[0]!).name, isNamed: naming !== undefined, requires },
    charges: [...limited.charges, ...charges],
  }
}

/**
 * Finds the first rule that requires the user's approval. `charges`: the recipients that each such rule does not know yet. It knows
 * them from this signature on, so only an approved write or message makes a recipient known.
 */
function findRequired(
  applying: readonly PolicyRule[],
  question: PolicyQuestion,
  read: ReadMeter,
): { requires: string | null; charges: MeterCharge[] } {
  const charges: MeterCharge[] = []
  let requires: string | null = null
  for (const rule of applying) {
    if (rule.effect !== 'require' || !isAbove(rule.above, question)) continue
    if (rule.isForNewRecipients) {
      const unknown = recipientMetersOf(rule, question).filter(
        (meter) => !read(meter, RECIPIENT_PERIOD).exists === true,
      )
      // Unreadable calldata has no recipients, and may have any.
      if (unknown.length === 0 && question.effect.recipients !== null) continue
      charges.push(...unknown.map((meter) => ({ meter, amount: 1n, limit: 1n, period: RECIPIENT_PERIOD })))
    }
    requires ??= rule.name
  }
  return { requires, charges }
}

/** seconds; only whether such a meter exists is read */
const RECIPIENT_PERIOD = 3_600

/** Names the meters of a rule that exist for known recipients, for one user on one network each. */
const recipientMetersOf = ({ name }: PolicyRule, { userId, effect }: PolicyQuestion): string[] =>
  [...new Set(effect.recipients)].map((recipient) =>
    JSON.stringify([name, 'recipient', `user ${userId}`, `chain ${effect.chainId}`, recipient]),
  )

/**
 * Evaluates a cancellation by the user. It only pays fees, whatever the nonce was for. So every limit on fees for this network,
 * application and user applies, whatever else the rule matches. A cancellation that is the first signature of its nonce counts as a
 * transaction.
 * @param dearerBy  wei that the cancellation adds to the cost of the nonce
 */
export function evaluateCancel(
  policy: PolicyDocument,
  question: PolicyQuestion,
  { dearerBy, isFirst }: { dearerBy: bigint; isFirst: boolean },
  read: ReadMeter,
): PolicyAnswer {
  const limited = holdLimits(
    policy.rules.filter((rule) => isForCaller(rule, question)),
    question,
    ({ of }) => {
      if (of === 'fees') return { call: question.feeWei, charged: dearerBy }
      return of === 'count' && isFirst ? both(1n) : null
    },
    read,
  )
  return 'reason' in limited ? limited : { ...ONLY_LIMITS, ...limited }
}

const ONLY_LIMITS = { allowed: true, rule: null, isNamed: false, requires: null } as const

/** Tells whether an allowing rule that matches names what it allows: it lists every class, or the type of a message. */
const isNaming = ({ match }: PolicyRule): boolean => match.class !== null || match.types !== null

/**
 * Evaluates a fee bump by the user. The effect was decided with the nonce's first signature, so only limits on fees apply. They are
 * charged with the wei that the attempt adds to the cost of the nonce.
 * @param dearerBy  wei
 */
export function evaluateFees(
  policy: PolicyDocument,
  question: PolicyQuestion,
  dearerBy: bigint,
  read: ReadMeter,
): PolicyAnswer {
  const applying = policy.rules.filter((rule) => rule.effect === 'limit' && matches(rule, question))
  const limited = holdLimits(
    applying,
    question,
    ({ of }) => (of === 'fees' ? { call: question.feeWei, charged: dearerBy } : null),
    read,
  )
  return 'reason' in limited ? limited : { ...ONLY_LIMITS, ...limited }
}

/**
 * The amounts of one transaction: `call` counts against `perCall`, `charged` against the period. `unreadable`: the arguments of a
 * known function are malformed. `unknown`: the function is not known, or what a message moves.
 */
type Measured = { call: bigint; charged: bigint } | 'unreadable' | 'unknown'

/** Checks the limits of rules. @param measured  null: the limit does not concern this transaction */
function holdLimits(
  rules: readonly PolicyRule[],
  { userId, clientId, effect: { chainId, selector } }: PolicyQuestion,
  measured: (limit: RuleAmount) => Measured | null,
  read: ReadMeter,
): { charges: MeterCharge[]; room: LimitRoom[] } | PolicyRefusal {
  const charges: MeterCharge[] = []
  const room: LimitRoom[] = []
  // Encoded as JSON, so that no user id can be confused with a part of another meter.
  const scopes = {
    user: `,${JSON.stringify(`user ${userId}`)}`,
    client: `,${JSON.stringify(`client ${clientId}`)}`,
    chainId: `,"chain ${chainId}"`,
  }
  for (const rule of rules) {
    if (rule.effect !== 'limit') continue
    for (const limit of rule.limits) {
      const found = measured(limit)
      if (found === null) continue
      const { name } = limit
      const isOwn = rule.per.includes('user')
      const refuse = (reason: string): PolicyRefusal => ({
        allowed: false,
        rule: rule.name,
        reason: `${name}${reason}`,
      })
      if (found === 'unreadable') return refuse(': the amount in the calldata is unreadable')
      if (found === 'unknown')
        return refuse(
          selector === null
            ? ': the amount that this message moves is unknown'
            : `.functions does not list 0x${selector}, so the amount that this function moves is unknown`,
        )
      const { call, charged } = found
      if (limit.perCall !== null && call > limit.perCall) return refuse(`.perCall is ${limit.perCall}, needed ${call}`)
      if (limit.period === null || charged === 0n) continue
      const { amount, seconds: period } = limit.period
      let meter = `["${rule.name}","${name}"`
      for (const scope of rule.per) meter += scopes[scope]
      meter += ']'
      const held = holdPeriod({ rule: rule.name, name, meter, amount, period, isOwn }, charged, read)
      if ('reason' in held) return held
      charges.push(held.charge)
      room.push(held.room)
    }
  }
  return { charges, room }
}

/** A limit within a period of seconds, and the meter that counts it; `name` is its name in refusals. */
export type PeriodLimit = { rule: string; name: string; meter: string; amount: bigint; period: number; isOwn: boolean }

/** Checks whether a limit allows an amount more; returns the charge or the rejection. */
export function holdPeriod(
  { rule, name, meter, amount, period, isOwn }: PeriodLimit,
  charged: bigint,
  read: ReadMeter,
): { charge: MeterCharge; room: LimitRoom } | PolicyRefusal {
  const { used, resetsAt, isFull = false } = read(meter, period)
  const later = () => (resetsAt === null ? '' : `, more is available from ${new Date(resetsAt).toISOString()}`)
  const refuse = (reason: string, told = reason): PolicyRefusal => ({
    allowed: false,
    rule,
    resetsAt,
    reason: `${name}.periodAmount ${reason}${later()}`,
    ...(isOwn || told === reason ? {} : { told: `${name}.periodAmount ${told}${later()}` }),
  })
  if (isFull) return refuse('counts as used after a restore that lost signatures, or may have lost them')
  if (used + charged > amount)
    return refuse(
      `is ${amount} in ${period} seconds, used ${used}, needed ${charged}`,
      'does not cover this transaction',
    )
  const room = { rule, limit: `${name}.periodAmount`, amount, used, left: amount - used, resetsAt, isOwn }
  return { charge: { meter, amount: charged, limit: amount, period }, room }
}

function measure(limit: RuleAmount, { effect, feeWei }: PolicyQuestion): Measured | null {
  if (limit.of === 'native') return both(effect.value)
  if (limit.of === 'fees') return both(feeWei)
  if (limit.of === 'count') return both(1n)
  if (limit.chainId !== effect.chainId) return null
  // Malformed calldata may still be an approval, because old contracts read missing bytes as zeros.
  if (effect.recipients === null)
    return effect.to.includes(limit.tokenAddress!) || effect.selector === PERMIT2_APPROVE ? 'unreadable' : null
  if (effect.token?.address === limit.tokenAddress) return both(effect.token.amount)
  const { selector } = effect
  if (limit.tokenAddress !== effect.uncounted) return null
  return selector !== null && limit.functions?.has(selector) === true ? null : 'unknown'
}

const both = (amount: bigint) => ({ call: amount, charged: amount })

/** Returns whether a transaction exceeds any of these amounts; true if there are none. */
function isAbove(amounts: readonly RuleAmount[], question: PolicyQuestion): boolean {
  if (amounts.length === 0) return true
  return amounts.some((amount) => {
    const found = measure(amount, question)
    return typeof found === 'string' || (found !== null && found.call > amount.perCall!)
  })
}

/**
 * Returns whether a rule applies to a transaction. A restricting rule applies as soon as any part matches or is unknown. An allowing
 * rule applies only if all parts match, so that a listed part never allows an unlisted one.
 */
function matches(rule: PolicyRule, question: PolicyQuestion): boolean {
  const { match } = rule
  const { effect } = question
  const isAll = rule.effect === 'allow'
  const fits = <T>(wanted: ReadonlySet<T> | null, found: readonly T[] | null): boolean => {
    if (wanted === null) return true
    if (found === null) return !isAll
    return isAll ? found.length > 0 && found.every((each) => wanted.has(each)) : found.some((each) => wanted.has(each))
  }
  return (
    isForCaller(rule, question) &&
    fits(match.to, effect.to) &&
    (match.functions === null || (effect.selector !== null && match.functions.has(effect.selector))) &&
    // Unreadable calldata may be of any class; to allow it, a rule must name UNREADABLE_CALL.
    fits(match.class, isAll || effect.recipients !== null ? effect.classes : null) &&
    fits(match.recipients, effect.recipients) &&
    fits(match.domains, effect.domains) &&
    fits(match.types, effect.types) &&
    match.args.every((arg) => fitsArgument(arg, effect.data, isAll))
  )
}

/** Returns whether a rule applies to this user, application and network, whatever the transaction does. */
const isForCaller = ({ match }: PolicyRule, { effect, userId, clientId }: PolicyQuestion): boolean =>
  (match.chains?.has(effect.chainId) ?? true) &&
  (match.users?.has(userId) ?? true) &&
  (match.clients?.has(clientId) ?? true)

/**
 * Returns whether an argument matches. Some contracts read a missing word, or bits outside its type, as another value, so such a word
 * may be any.
 */
function fitsArgument({ index, oneOf, spare }: RuleMatch['args'][number], data: Buffer, isAll: boolean): boolean {
  const word = headWord(index, data)
  return word === null || (word & spare) !== 0n ? !isAll : oneOf.has(word)
}
