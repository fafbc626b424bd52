import { checksummed } from './address.ts'
import { readClass, type MessageClass, type TypedReading } from './classes.ts'
import type { EquivalentCall } from './equivalent-call.ts'
import { isUnlimited, secondsOf, type Grant } from './grants.ts'
import { typedDataInvalid } from './invalid.ts'
import { hostsOf, looksLikeLogin, problemOfLogin, readLogin } from './login.ts'
import type { MessageFacts } from './message-facts.ts'
import { textOf, type Message } from './message.ts'
import type { TypedData } from './typed-data.ts'

export type { MessageClass } from './classes.ts'
export type { MessageFacts } from './message-facts.ts'

export type Classified = {
  class: MessageClass
  /** what a signature needs if no rule of the operator names the message: the token, the user's approval, or a rule; `never`: nothing allows it */
  needs: 'token' | 'approval' | 'rule' | 'never'
  /** the reason for `never`; otherwise null */
  problem: string | null
  /** encodeType of the primary type; null for texts and bytes */
  type: string | null
  /** host of a login, in lower case */
  domain: string | null
  /** hosts that a login is for: `domain`, and the host of its URI */
  hosts: readonly string[]
  /**
   * an effect beyond the class, which needs the user's approval: a login that grants resources, or a payment or an allowance that can
   * be used for more than a day
   */
  extra: 'resources' | 'long' | null
  verifyingContract: Buffer | null
  /** true if it moves tokens, or can move them */
  moves: boolean
  calls: EquivalentCall[]
  summary: Summary
}

/** The facts that the approval page shows. Addresses have checksums; amounts are in the smallest unit. */
export type Summary = {
  sentence:
    | 'login'
    | 'text'
    | 'pay'
    | 'allow'
    | 'allow-all'
    | 'revoke'
    | 'order'
    | 'vote'
    | 'power'
    | 'other'
    | 'opaque'
  moves: {
    kind: 'pays' | 'allows'
    token: string | null
    /** decimal digits in the smallest unit, `unlimited`, or `all`: everything, now and later */
    amount: string
    /** id of the one collectible */
    item: string | null
    to: string
    /** seconds since 1970; null: no end */
    until: number | null
  }[]
  domain: string | null
  /** `recipient`: another address receives what the order buys */
  warnings: ('unlimited' | 'unknown' | 'power' | 'long' | 'no-chain' | 'other-domain' | 'recipient')[]
}

const NEEDS: Readonly<Record<MessageClass, 'token' | 'approval' | 'rule'>> = {
  login: 'token',
  text: 'approval',
  payment: 'token',
  allowance: 'token',
  order: 'approval',
  vote: 'approval',
  power: 'rule',
  other: 'approval',
  opaque: 'rule',
}
const MOVES: ReadonlySet<MessageClass> = new Set(['payment', 'allowance', 'order', 'power', 'opaque'])
/** Seconds for which a message can be used at most, if the token alone may sign it. */
const MAX_SECONDS = 86_400

/**
 * Classifies a message by what a signature of it can do.
 * @throws MessageInvalid  if it is for another network or account
 */
export function classify(message: Message, facts: MessageFacts): Classified {
  if (message.kind === 'typedData') return classifyTyped(message.typed, facts)
  const text = textOf(message)
  if (text === null) return plain('opaque', ['unknown'])
  if (!looksLikeLogin(text)) return plain('text', [])
  const login = readLogin(text)
  if (login === null)
    return never(plain('login', []), 'the text looks like a sign-in, but is not a valid sign-in message (ERC-4361)')
  const hosts = hostsOf(login)
  const wrong = problemOfLogin(login, facts)
  const found = plain('login', wrong?.isForeign === true ? ['other-domain'] : [], hosts)
  // A resource can be a permission (ERC-5573). ERC-8019 excludes such logins from automatic signing.
  const classified: Classified = login.resources.length === 0 ? found : { ...found, needs: 'approval', extra: 'resources' } // prettier-ignore
  return wrong === null ? classified : never(classified, wrong.problem)
}

const never = (classified: Classified, problem: string): Classified => ({ ...classified, needs: 'never', problem })

const plain = (
  name: 'login' | 'text' | 'opaque',
  warnings: Summary['warnings'],
  hosts: readonly string[] = [],
): Classified => ({
  ...{ class: name, needs: NEEDS[name], problem: null, type: null, domain: hosts[0] ?? null, hosts },
  ...{ extra: null, verifyingContract: null, moves: MOVES.has(name), calls: [] },
  summary: { sentence: name, moves: [], domain: hosts[0] ?? null, warnings },
})

function classifyTyped(typed: TypedData, facts: MessageFacts): Classified {
  const { chainId, verifyingContract } = typed.domain
  const reading = readClass(typed)
  const isMoving = MOVES.has(reading.class)
  if (chainId !== null && chainId !== facts.chainId)
    throw typedDataInvalid(['domain', 'chainId'], 'it is for another network')
  if (chainId === null && isMoving && !isSalt(typed, facts))
    throw typedDataInvalid(['domain', 'chainId'], 'it is missing from a message that can move funds')
  for (const { path, address } of reading.owners)
    if (!address.equals(facts.address)) throw typedDataInvalid(['message', ...path], 'it is not the account that signs')
  // Without a move it would pass every limit, and its page would be empty.
  if (reading.grants.length === 0 && NEEDS[reading.class] === 'token')
    throw typedDataInvalid(['message'], 'it allows nothing')
  const own = ownProblem(typed, facts)
  const isLong = isLonger(reading, facts)
  const isOpen = isLong || (reading.class === 'allowance' && reading.grants.some(isUnlimited))
  return {
    class: reading.class,
    needs: own !== null ? 'never' : isOpen ? 'approval' : NEEDS[reading.class],
    problem: own,
    type: typed.encodedType,
    domain: null,
    hosts: [],
    extra: isLong ? 'long' : null,
    verifyingContract,
    moves: isMoving,
    calls: reading.grants.map(({ call }) => call),
    summary: {
      sentence: sentenceOf(reading),
      moves: reading.grants.map(moveOf),
      domain: null,
      warnings: [
        ...(reading.grants.some(isUnlimited) ? (['unlimited'] as const) : []),
        ...(isLong ? (['long'] as const) : []),
        ...(reading.class === 'other' ? (['unknown'] as const) : []),
        ...(reading.class === 'power' ? (['power'] as const) : []),
        ...(chainId === null ? (['no-chain'] as const) : []),
        ...(isForOthers(reading, facts) ? (['recipient'] as const) : []),
      ],
    },
  }
}

/** Converts a grant to a move of a summary. */
export const moveOf = (grant: Grant): Summary['moves'][number] => ({
  kind: grant.kind,
  token: grant.token === null ? null : checksummed(grant.token),
  amount: grant.amount === 'all' ? 'all' : isUnlimited(grant) ? 'unlimited' : grant.amount.toString(),
  item: grant.item?.toString() ?? null,
  to: checksummed(grant.to),
  until: secondsOf(grant.until),
})

/** Returns whether the domain's salt is the network's id, as in Polygon's meta-transactions. */
const isSalt = ({ domain: { salt } }: TypedData, { chainId }: MessageFacts): boolean =>
  salt !== null && BigInt(`0x${salt.toString('hex')}`) === BigInt(chainId)

/** The operation of this project's delegate. Source: contracts/Delegate.sol */
const OPERATION =
  'Operation(address dispatcher,uint256 id,Call[] calls,uint256 gasLimit,uint256 deadline)Call(address to,uint256 value,bytes data)'

/**
 * Returns the problem if the account's own code could accept the signature as one of an operation or of other typed data; null if it
 * could not. Every domain that such code checks has the account as its contract: ours, Calibur's, and nested forms (ERC-7739).
 */
function ownProblem({ domain, encodedType, primaryType }: TypedData, { address }: MessageFacts): string | null {
  if (domain.verifyingContract?.equals(address) === true || domain.name === 'Chatelaine' || encodedType === OPERATION)
    return 'it would be an operation of the account itself'
  // ERC-7739: an account with code accepts it as the signature of its contents.
  return primaryType === 'TypedDataSign' ? 'it stands for other typed data' : null
}

const isRevocation = ({ grants }: TypedReading): boolean =>
  grants.length > 0 && grants.every(({ amount }) => amount === 0n)

/** Returns whether one of the orders gives nothing to the account that signs it. */
const isForOthers = ({ buyers }: TypedReading, { address }: MessageFacts): boolean =>
  buyers.some((ofOrder) => !ofOrder.some((buyer) => buyer.equals(address)))

/** Returns whether a signature can be used for more than a day. If an allowance has its own end (Permit2), that end counts instead. */
function isLonger(reading: TypedReading, { at }: MessageFacts): boolean {
  if (NEEDS[reading.class] !== 'token' || isRevocation(reading)) return false
  const last = BigInt(Math.floor(at / 1_000) + MAX_SECONDS)
  return reading.grants.some(({ until }) => {
    const end = until ?? reading.usableUntil
    return end === null || end > last
  })
}

function sentenceOf(reading: TypedReading): Summary['sentence'] {
  if (reading.class === 'payment') return 'pay'
  if (reading.class !== 'allowance') return reading.sentence ?? reading.class
  if (isRevocation(reading)) return 'revoke'
  return reading.grants.some(({ amount }: Grant) => amount === 'all') ? 'allow-all' : 'allow'
}
