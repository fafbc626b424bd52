import { effectOfCall, isKnown, PERMIT2_APPROVE, type CallEffect, type JudgedCall } from './calldata.ts'
import type { PolicyDocument, PolicyRule, RuleAmount, RuleMatch } from './document.ts'
import { headWord } from './signature.ts'

/** What is asked of a policy. */
export type PolicyQuestion = {
  call: JudgedCall
  /** wei: the most that the transaction can cost besides its value */
  feeWei: bigint
  userId: string
  clientId: string
}

/** What a signature adds to a meter; smallest units. `limit` is what the meter may hold within `period` seconds. */
export type MeterCharge = { meter: string; amount: bigint; limit: bigint; period: number }

/** How much of a limit is left; `isOwn`: nobody else's transactions use it; `resetsAt`, milliseconds since 1970: when the oldest of what is used stops counting. */
export type LimitRoom = { rule: string; limit: string; amount: bigint; used: bigint; left: bigint; resetsAt: number | null; isOwn: boolean } // prettier-ignore

export type PolicyAnswer = PolicyConsent | PolicyRefusal
/**
 * `told`: the reason for who asked, where the whole of it would say what other people use; `resetsAt`, milliseconds since 1970: when the limit
 * of a period has more room, null where nothing in it frees any, absent of what is no such limit
 */
export type PolicyRefusal = { allowed: false; rule: string; reason: string; told?: string; resetsAt?: number | null }
/** `rule`: the one that allows it; null where only limits were asked */
type PolicyConsent = { allowed: true; rule: string | null; charges: MeterCharge[]; room: LimitRoom[] }

/** What a meter holds now. `isFull`: it counts as full, whatever it holds. */
export type ReadMeter = (meter: string, period: number) => { used: bigint; resetsAt: number | null; isFull?: boolean }

/**
 * The decision about the first signature of a nonce. Any deny wins, every limit holds, then what a rule requires has to be there,
 * and without an allow nothing is signed; the order of rules means nothing but which of several that refuse is named.
 * Charges nothing.
 */
export function evaluate(policy: PolicyDocument, question: PolicyQuestion, read: ReadMeter): PolicyAnswer {
  const effect = effectOfCall(question.call)
  const applying = policy.rules.filter((rule) => matches(rule, question, effect))
  const denied = applying.find((rule) => rule.effect === 'deny')
  if (denied !== undefined) return { allowed: false, rule: denied.name, reason: 'it denies such transactions' }
  const limited = holdLimits(applying, question, (limit) => measure(limit, question, effect), read)
  if ('reason' in limited) return limited
  for (const rule of applying)
    if (rule.effect === 'require' && isAbove(rule.above, question, effect))
      return { allowed: false, rule: rule.name, reason: `it requires a ${rule.tier}, and the signer cannot ask for one yet` } // prettier-ignore
  const allowing = applying.find((rule) => rule.effect === 'allow')
  if (allowing === undefined) return { allowed: false, rule: 'no-allow', reason: 'no rule allows it' }
  return { allowed: true, rule: allowing.name, ...limited }
}

/**
 * The decision about a cancel of the person's. It does nothing but pay fees, for whatever the nonce was about: every limit of fees is
 * asked that is for this network, application and person, whatever else it names. One that is the first signature of its nonce uses
 * up a nonce as a send does, and counts as one.
 * @param dearerBy  wei
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
  return 'reason' in limited ? limited : { allowed: true, rule: null, ...limited }
}

/**
 * The decision about a raise that the person asked for: what the nonce does was
 * decided with its first signature, so only limits of fees are asked, and charged by what the attempt makes the nonce dearer.
 * @param dearerBy  wei
 */
export function evaluateFees(
  policy: PolicyDocument,
  question: PolicyQuestion,
  dearerBy: bigint,
  read: ReadMeter,
): PolicyAnswer {
  const effect = effectOfCall(question.call)
  const applying = policy.rules.filter((rule) => rule.effect === 'limit' && matches(rule, question, effect))
  const limited = holdLimits(
    applying,
    question,
    ({ of }) => (of === 'fees' ? { call: question.feeWei, charged: dearerBy } : null),
    read,
  )
  return 'reason' in limited ? limited : { allowed: true, rule: null, ...limited }
}

/**
 * What one transaction uses of a limit: against `perCall`, and of the period. `unreadable`, `unknown`: nobody can tell, of a
 * function that is known and of one that is not.
 */
type Measured = { call: bigint; charged: bigint } | 'unreadable' | 'unknown'

/** @param measured  null: the limit is not about this transaction */
function holdLimits(
  rules: readonly PolicyRule[],
  { userId, clientId, call: { chainId, data } }: PolicyQuestion,
  measured: (limit: RuleAmount) => Measured | null,
  read: ReadMeter,
): { charges: MeterCharge[]; room: LimitRoom[] } | PolicyRefusal {
  const charges: MeterCharge[] = []
  const room: LimitRoom[] = []
  // As JSON, so that no name of a person is taken for a part of another meter.
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
          `.functions does not list 0x${data.toString('hex', 0, 4)}, so the amount that this function moves is unknown`,
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

/** An amount within a period of seconds, and the meter that counts it; `name` is what a refusal calls it. */
export type PeriodLimit = { rule: string; name: string; meter: string; amount: bigint; period: number; isOwn: boolean }

/** What so much takes of a limit, or that it has no room for it. */
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
  if (isFull) return refuse('counts as used after a restore that lost nonces of this account')
  if (used + charged > amount)
    return refuse(
      `is ${amount} in ${period} seconds, used ${used}, needed ${charged}`,
      'does not cover this transaction',
    )
  const room = { rule, limit: `${name}.periodAmount`, amount, used, left: amount - used, resetsAt, isOwn }
  return { charge: { meter, amount: charged, limit: amount, period }, room }
}

function measure(limit: RuleAmount, { call, feeWei }: PolicyQuestion, effect: CallEffect): Measured | null {
  // prettier-ignore
  if (limit.of === 'native') return both(call.value)
  if (limit.of === 'fees') return both(feeWei)
  if (limit.of === 'count') return both(1n)
  if (limit.chainId !== call.chainId) return null
  // What is not whole might still be an approval to a contract that reads missing bytes as zeros.
  if (effect.recipients === null)
    return limit.tokenAddress === call.to.toString('hex') || effect.selector === PERMIT2_APPROVE ? 'unreadable' : null
  if (effect.token?.address === limit.tokenAddress) return both(effect.token.amount)
  const { selector } = effect
  if (limit.tokenAddress !== call.to.toString('hex') || selector === null || isKnown(selector)) return null
  return limit.functions?.has(selector) === true ? null : 'unknown'
}

const both = (amount: bigint) => ({ call: amount, charged: amount })

/** Whether a transaction is more than any of these amounts; true where none is given. */
function isAbove(amounts: readonly RuleAmount[], question: PolicyQuestion, effect: CallEffect): boolean {
  if (amounts.length === 0) return true
  return amounts.some((amount) => {
    const found = measure(amount, question, effect)
    return typeof found === 'string' || (found !== null && found.call > amount.perCall!)
  })
}

/**
 * Whether a rule is about a transaction. One that restricts is as soon as anything of it fits, and where that is unknown; one that
 * allows only when all of it does, so that what is listed never carries along what is not.
 */
function matches(rule: PolicyRule, question: PolicyQuestion, effect: CallEffect): boolean {
  const { match } = rule
  const { call } = question
  const isAll = rule.effect === 'allow'
  const fits = <T>(wanted: ReadonlySet<T> | null, found: readonly T[] | null): boolean => {
    if (wanted === null) return true
    if (found === null) return !isAll
    return isAll ? found.every((each) => wanted.has(each)) : found.some((each) => wanted.has(each))
  }
  return (
    isForCaller(rule, question) &&
    (match.to?.has(call.to.toString('hex')) ?? true) &&
    (match.functions === null || (effect.selector !== null && match.functions.has(effect.selector))) &&
    // What is unreadable may be of any class; to be allowed it has to be named.
    fits(match.class, isAll || effect.recipients !== null ? effect.classes : null) &&
    fits(match.recipients, effect.recipients) &&
    match.args.every((arg) => fitsArgument(arg, call.data, isAll))
  )
}

/** Whether a rule is about who asks and where, whatever the transaction does. */
const isForCaller = ({ match }: PolicyRule, { call, userId, clientId }: PolicyQuestion): boolean =>
  (match.chains?.has(call.chainId) ?? true) &&
  (match.users?.has(userId) ?? true) &&
  (match.clients?.has(clientId) ?? true)

/** What is missing, or has bits outside its type, is read by some contracts as another value: it may be any. */
function fitsArgument({ index, oneOf, spare }: RuleMatch['args'][number], data: Buffer, isAll: boolean): boolean {
  const word = headWord(index, data)
  return word === null || (word & spare) !== 0n ? !isAll : oneOf.has(word)
}
