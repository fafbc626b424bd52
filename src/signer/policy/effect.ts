import { effectOfCall, isKnown, type CallClass, type CallEffect, type JudgedCall } from './calldata.ts'
import type { Classified, MessageClass } from '../../messages/classify.ts'

/** The effect of what is judged, a transaction, a call of an operation or a message, as rules and limits see it. */
export type Effect = CallEffect & {
  chainId: number
  /** the called contract, and the verifying contract of a message; 40 lower-case hexadecimal digits each */
  to: readonly string[]
  /** wei */
  value: bigint
  /** the calldata; empty for a message without calls */
  data: Buffer
  /** the hosts that a sign-in message is for, and the `encodeType` of typed data; empty for everything else */
  domains: readonly string[]
  types: readonly string[]
  /** a contract that may move its tokens by what is judged, in an amount that is not counted; null if there is none */
  uncounted: string | null
}

/** Determines the effect of a call. */
export function effectOf(call: JudgedCall): Effect {
  const effect = effectOfCall(call)
  const { chainId, value, data } = call
  const to = call.to.toString('hex')
  const isCounted = effect.selector === null || isKnown(effect.selector)
  return { ...effect, chainId, to: [to], value, data, domains: [], types: [], uncounted: isCounted ? null : to }
}

/** The classes of messages whose calls do not tell everything; payments and allowances are their calls. */
const OWN_CLASSES: Readonly<Record<MessageClass, CallClass | null>> = {
  login: 'LOGIN',
  text: 'TEXT',
  payment: null,
  allowance: null,
  order: 'ORDER',
  vote: 'VOTE',
  power: 'POWER',
  other: 'OTHER_MESSAGE',
  opaque: 'OPAQUE',
}

/** The classes of what a message does beyond its class. An `allow` that does not list them does not name the message. */
const EXTRA_CLASSES: Readonly<Record<NonNullable<Classified['extra']>, CallClass>> = {
  resources: 'LOGIN_RESOURCES',
  long: 'LONG_LIVED',
}

/** Every class that only messages have. */
export const MESSAGE_CLASSES: ReadonlySet<CallClass> = new Set(
  ['MESSAGE' as const, ...Object.values(OWN_CLASSES), ...Object.values(EXTRA_CLASSES)].filter((name) => name !== null),
)

/** Messages without calls that may move tokens of their verifying contract all the same. */
const UNCOUNTED: ReadonlySet<MessageClass> = new Set(['payment', 'allowance', 'order', 'power', 'other', 'opaque'])

/**
 * Determines the effects of a message: one for each call that it has the effect of, or one if there are none. Each is judged as a
 * write of its own.
 */
export function effectsOfMessage(
  message: Pick<Classified, 'class' | 'type' | 'hosts' | 'extra' | 'verifyingContract' | 'calls'>,
  { chainId, from }: { chainId: number; from: Buffer },
): Effect[] {
  const verifier = message.verifyingContract === null ? [] : [message.verifyingContract.toString('hex')]
  const own = OWN_CLASSES[message.class]
  const extra = message.extra === null ? null : EXTRA_CLASSES[message.extra]
  const classes = [own, extra, 'MESSAGE' as const].filter((name) => name !== null)
  const named = {
    domains: message.hosts,
    types: message.type === null ? [] : [message.type],
  }
  if (message.calls.length === 0) {
    const uncounted = UNCOUNTED.has(message.class) ? (verifier[0] ?? null) : null
    const nothing = { selector: null, token: null, value: 0n, data: Buffer.alloc(0), recipients: verifier }
    return [{ ...nothing, ...named, chainId, classes, to: verifier, uncounted }]
  }
  return message.calls.map((call) => {
    const effect = effectOf({ chainId, from, ...call })
    const to = [...new Set([...effect.to, ...verifier])]
    return { ...effect, ...named, to, classes: [...effect.classes, ...classes] }
  })
}
