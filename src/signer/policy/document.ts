/**
 * signer/policy: the operator’s rules for signatures, as a document.
 * Owns: the document and its parser, the effect of a transaction, the decision, time windows, its signatures, its description.
 * Does not own: the built-in rules (`signer/rules/policy.ts`), meters in the store (`signer/rules/meters.ts`), which document is in
 *   force (`signer/rules/policy-in-force.ts`).
 */

import { canonicalAmountIn, checksumAddress, isAddress } from '../../digits.ts'
import { CALL_CLASSES, type CallClass } from './calldata.ts'
import { PolicyInvalid, readPolicyJson } from './json.ts'
import { isOneWord, readSignature } from './signature.ts'

/** A parsed policy: a set of rules in any order. Addresses are 40 lower-case hexadecimal digits. */
export type PolicyDocument = {
  version: number
  freeze: PolicyFreeze
  /** display names, by `chainId:address` */
  tokens: ReadonlyMap<string, { symbol: string; decimals: number }>
  rules: readonly PolicyRule[]
}

/** Nothing is signed for these while the document is in force. */
type PolicyFreeze = {
  users: ReadonlySet<string>
  clients: ReadonlySet<string>
  chains: ReadonlySet<number>
  everything: boolean
}

export type PolicyRule = { name: string; match: RuleMatch } & (
  | { effect: 'deny' }
  | { effect: 'allow' }
  /**
   * `tier`: the user's approval of exactly this; `above`: only for more than these amounts, for everything if empty;
   * `isForNewRecipients`: only if the user has never approved a recipient under this rule
   */
  | { effect: 'require'; tier: 'approval'; above: readonly RuleAmount[]; isForNewRecipients: boolean }
  | { effect: 'limit'; per: readonly MeterScope[]; limits: readonly RuleAmount[] }
)

/** The transactions and messages that a rule applies to; null: any. */
export type RuleMatch = {
  chains: ReadonlySet<number> | null
  to: ReadonlySet<string> | null
  recipients: ReadonlySet<string> | null
  /** selectors, 8 hexadecimal digits */
  functions: ReadonlySet<string> | null
  class: ReadonlySet<CallClass> | null
  /** hosts of sign-in messages */
  domains: ReadonlySet<string> | null
  /** `encodeType` of typed data */
  types: ReadonlySet<string> | null
  clients: ReadonlySet<string> | null
  users: ReadonlySet<string> | null
  /** words of the calldata's head, by their index; `spare`: the bits of the word that its type leaves zero */
  args: readonly { index: number; oneOf: ReadonlySet<bigint>; spare: bigint }[]
}

/** One measured quantity; smallest units, or transactions for `count`. */
export type RuleAmount = {
  of: 'native' | 'fees' | 'count' | 'token'
  /** the name in refusals and meters */
  name: string
  /** only for `token` */
  chainId: number | null
  tokenAddress: string | null
  perCall: bigint | null
  period: { amount: bigint; seconds: number } | null
  /** only for `token`: selectors of its functions that are allowed although their effect is not counted; null: none */
  functions: ReadonlySet<string> | null
}

export type MeterScope = 'user' | 'client' | 'chainId'

/** An hour, a day, 7 and 30 days. */
const PERIODS = [3_600, 86_400, 604_800, 2_592_000]
export const MAX_POLICY_BYTES = 1_048_576
const MAX_RULES = 256
const MAX_ENTRIES = 10_000
const UINT256 = 2n ** 256n

/** Names of the built-in rules, which a policy may not use, so that a refusal identifies one rule. */
export const RESERVED_RULES = new Set([
  'chain-not-listed',
  'no-contract-creation',
  'no-call-of-own-account',
  'delegate-not-listed',
  'max-total-fee',
  'default-allow',
  'no-rule',
  'no-allow',
  'max-fill-fee',
  'gas-below-first',
  'max-raise',
  'max-unattended-fee',
  'frozen',
  'top-up',
  'top-up-to',
  'top-up-data',
  'top-up-off',
  'top-up-per-user',
  'top-up-per-sponsor',
  'sponsor-withdrawal',
  'sponsor-withdrawal-send',
  'sponsor-withdrawal-to',
  'sponsor-withdrawal-data',
  'sponsor-withdrawal-once',
  'sponsor-withdrawal-most',
  'sponsored-operations',
  'sponsored-only',
  'sponsored-off',
  'sponsored-per-user',
  'sponsored-per-sponsor',
  'message-login',
  'message-payment',
  'message-allowance',
  'message-approval',
  'message-not-listed',
  'message-own-account',
])

/**
 * Parses a policy. It coerces and ignores nothing: an unknown field might be the one that was meant to forbid.
 * @throws PolicyInvalid  naming the place
 */
export function readPolicy(text: string): PolicyDocument {
  if (Buffer.byteLength(text) > MAX_POLICY_BYTES) throw new PolicyInvalid('', `it is over ${MAX_POLICY_BYTES} bytes`)
  const fields = readObject(readPolicyJson(text), '', ['version', 'freeze', 'tokens', 'rules'])
  const rules = readList(fields.rules, 'rules', MAX_RULES).map((rule, index) => readRule(rule, `rules[${index}]`))
  const names = new Map<string, number>()
  for (const [index, { name }] of rules.entries()) {
    if (names.has(name)) throw new PolicyInvalid(`rules[${index}].name`, `rules[${names.get(name)}] has this name`)
    names.set(name, index)
  }
  return {
    version: readWhole(fields.version, 'version', 1),
    freeze: readFreeze(fields.freeze),
    tokens: readTokens(fields.tokens),
    rules,
  }
}

function readFreeze(value: unknown): PolicyFreeze {
  const fields = value === undefined ? {} : readObject(value, 'freeze', ['users', 'clients', 'chains', 'everything'])
  const { everything = false } = fields
  if (typeof everything !== 'boolean') throw new PolicyInvalid('freeze.everything', 'expected true or false')
  return {
    users: readFrozen(fields.users, 'freeze.users', readUser),
    clients: readFrozen(fields.clients, 'freeze.clients', readClient),
    chains: readFrozen(fields.chains, 'freeze.chains', readChain),
    everything,
  }
}

/** Reads a freeze list, which may be empty. */
function readFrozen<T>(value: unknown, path: string, read: (value: unknown, path: string) => T): ReadonlySet<T> {
  return (Array.isArray(value) && value.length === 0 ? null : readSet(value, path, read)) ?? new Set()
}

function readTokens(value: unknown): PolicyDocument['tokens'] {
  if (value === undefined) return new Map()
  return new Map(
    Object.entries(readObject(value, 'tokens', null)).map(([key, token]) => {
      const path = `tokens["${key}"]`
      const [, chainId, address] = /^([1-9]\d{0,15}):(.*)$/.exec(key) ?? []
      if (chainId === undefined) throw new PolicyInvalid(path, 'expected a name such as 11155111:0x1c7D…')
      const name = `${chainId}:${readPolicyAddress(address, path)}`
      const fields = readObject(token, path, ['symbol', 'decimals'])
      const { symbol } = fields
      if (typeof symbol !== 'string' || !/^[\x20-\x7e]{1,32}$/.test(symbol))
        throw new PolicyInvalid(`${path}.symbol`, 'expected 1 to 32 printable characters')
      const decimals = readWhole(fields.decimals, `${path}.decimals`, 0)
      if (decimals > 255) throw new PolicyInvalid(`${path}.decimals`, 'expected at most 255')
      return [name, { symbol, decimals }]
    }),
  )
}

const MATCHERS = ['chains', 'to', 'recipients', 'functions', 'class', 'domains', 'types', 'clients', 'users', 'args']
const AMOUNTS = ['native', 'fees', 'tokens']

function readRule(value: unknown, path: string): PolicyRule {
  const { effect } = readObject(value, path, null)
  const own = {
    deny: [],
    allow: [],
    require: ['tier', 'newRecipient', ...AMOUNTS],
    limit: ['per', 'count', ...AMOUNTS],
  }
  if (typeof effect !== 'string' || !Object.hasOwn(own, effect))
    throw new PolicyInvalid(`${path}.effect`, 'expected deny, limit, require or allow')
  const fields = readObject(value, path, ['name', 'effect', ...MATCHERS, ...own[effect as keyof typeof own]])
  const rule = { name: readName(fields.name, `${path}.name`), match: readMatch(fields, path) }
  const amounts = readAmounts(fields, path)
  if (effect === 'deny') return { ...rule, effect }
  if (effect === 'allow') return { ...rule, effect }
  if (effect === 'require') {
    if (fields.tier !== 'approval') throw new PolicyInvalid(`${path}.tier`, tierFault(fields.tier))
    const [timed] = amounts.filter(({ period }) => period !== null)
    if (timed !== undefined) throw new PolicyInvalid(path, 'require takes amounts with perCall alone')
    const { newRecipient = false } = fields
    if (typeof newRecipient !== 'boolean') throw new PolicyInvalid(`${path}.newRecipient`, 'expected true or false')
    return { ...rule, effect: 'require', tier: 'approval', above: amounts, isForNewRecipients: newRecipient }
  }
  if (amounts.length === 0) throw new PolicyInvalid(path, 'a limit needs native, fees, tokens or count')
  const per = readSet(fields.per, `${path}.per`, readScope) ?? new Set()
  return { ...rule, effect: 'limit', per: SCOPES.filter((scope) => per.has(scope)), limits: amounts }
}

const tierFault = (tier: unknown): string =>
  tier === 'passkey' ? 'passkey is not available: the user approves on a page, so write approval' : 'expected approval'

export const SCOPES = ['user', 'client', 'chainId'] as const satisfies MeterScope[]

function readScope(value: unknown, path: string): MeterScope {
  const scope = SCOPES.find((one) => one === value)
  if (scope === undefined) throw new PolicyInvalid(path, 'expected user, client or chainId')
  return scope
}

function readName(value: unknown, path: string): string {
  if (typeof value !== 'string' || !/^[a-z0-9][a-z0-9-]{0,63}$/.test(value))
    throw new PolicyInvalid(path, 'expected 1 to 64 lower-case letters, digits and hyphens')
  if (RESERVED_RULES.has(value)) throw new PolicyInvalid(path, `${value} is the name of a built-in rule`)
  return value
}

function readMatch(fields: Record<string, unknown>, path: string): RuleMatch {
  const list = <T>(name: string, read: (value: unknown, path: string) => T) => readSet(fields[name], `${path}.${name}`, read) // prettier-ignore
  return {
    chains: list('chains', readChain),
    to: list('to', readPolicyAddress),
    recipients: list('recipients', readPolicyAddress),
    functions: list('functions', readFunction),
    class: list('class', readClass),
    domains: list('domains', readDomain),
    types: list('types', readType),
    clients: list('clients', readClient),
    users: list('users', readUser),
    args: readArgs(fields, path),
  }
}

function readClass(value: unknown, path: string): CallClass {
  const found = CALL_CLASSES.find((one) => one === value)
  if (found === undefined) throw new PolicyInvalid(path, `expected one of ${CALL_CLASSES.join(', ')}`)
  return found
}

/** Reads a host as it is in a sign-in message, with its port if it has one. */
function readDomain(value: unknown, path: string): string {
  if (typeof value !== 'string' || !/^[a-z0-9.-]{1,253}(?::[1-9]\d{0,4})?$/.test(value))
    throw new PolicyInvalid(path, 'expected a host in lower case, such as app.example or app.example:8443')
  return value
}

/** Reads a type as EIP-712 encodes it: the primary type, then those that it refers to in order of their names. */
function readType(value: unknown, path: string): string {
  if (typeof value !== 'string' || value.length > 4_096 || !TYPE.test(value))
    throw new PolicyInvalid(path, 'expected an encoded type (EIP-712), such as Permit(address owner,address spender)')
  return value
}

const NAME = String.raw`[A-Za-z_$][\w$]*`
const MEMBER = String.raw`${NAME}(?:\[\d*\])* ${NAME}`
const TYPE = new RegExp(String.raw`^(?:${NAME}\((?:${MEMBER}(?:,${MEMBER})*)?\))+$`)

function readFunction(value: unknown, path: string): string {
  const text = typeof value === 'string' ? value : ''
  if (/^0x[0-9a-f]{8}$/.test(text)) return text.slice(2)
  const shape = readSignature(text)
  if (shape === null)
    throw new PolicyInvalid(path, 'expected a selector (0x and 8 lower-case digits) or a signature with canonical types, such as transfer(address,uint256)') // prettier-ignore
  return shape.selector
}

/** Reads `{"0": ["0x…"]}`: allowed values of the arguments, by index, of the rule's only function. */
function readArgs(fields: Record<string, unknown>, path: string): RuleMatch['args'] {
  if (fields.args === undefined) return []
  const [only, ...others] = Array.isArray(fields.functions) ? (fields.functions as unknown[]) : []
  const shape = typeof only === 'string' && others.length === 0 ? readSignature(only) : null
  if (shape === null) throw new PolicyInvalid(`${path}.args`, 'needs functions with one signature, not a selector')
  const args = Object.entries(readObject(fields.args, `${path}.args`, null)).map(([key, values]) => {
    const at = `${path}.args["${key}"]`
    const index = /^(?:0|[1-9]\d?)$/.test(key) ? Number(key) : -1
    const type = shape.types[index]
    if (type === undefined) throw new PolicyInvalid(at, `expected the index of an argument of ${shape.signature}`)
    if (!shape.types.slice(0, index + 1).every(isOneWord) || /^int/.test(type))
      throw new PolicyInvalid(at, 'only for an address, bool, uint or bytes32 that such arguments alone precede')
    const spare = spareBits(type)
    return { index, spare, oneOf: readSet(values, at, (value, each) => readWordValue(type, spare, value, each))! }
  })
  if (args.length === 0) throw new PolicyInvalid(`${path}.args`, 'expected at least one argument')
  return args
}

const BYTES = /^bytes(\d+)$/

/** Returns the bits of a word that its type leaves zero: contracts of an old compiler ignore them, newer ones reject them. */
function spareBits(type: string): bigint {
  const [, bytes] = BYTES.exec(type) ?? []
  if (bytes !== undefined) return (UINT256 - 1n) >> BigInt(8 * Number(bytes))
  const [, uint] = /^uint(\d+)$/.exec(type) ?? []
  const bits = type === 'address' ? 160 : type === 'bool' ? 1 : Number(uint ?? 256)
  return UINT256 - (1n << BigInt(bits))
}

/** Returns a value as its word in calldata. */
function readWordValue(type: string, spare: bigint, value: unknown, path: string): bigint {
  if (type === 'address') return BigInt(`0x${readPolicyAddress(value, path)}`)
  if (type === 'bool') {
    if (typeof value !== 'boolean') throw new PolicyInvalid(path, 'expected true or false')
    return value ? 1n : 0n
  }
  const [, bytes] = BYTES.exec(type) ?? []
  if (bytes === undefined) {
    const amount = readAmount(value, path)
    if ((amount & spare) !== 0n) throw new PolicyInvalid(path, `is out of the range of ${type}`)
    return amount
  }
  if (typeof value !== 'string' || !new RegExp(`^0x[0-9a-f]{${2 * Number(bytes)}}$`).test(value))
    throw new PolicyInvalid(path, `expected 0x and ${2 * Number(bytes)} lower-case hexadecimal digits`)
  return BigInt(`0x${value.slice(2).padEnd(64, '0')}`)
}

function readAmounts(fields: Record<string, unknown>, path: string): RuleAmount[] {
  const native = (['native', 'fees', 'count'] as const)
    .filter((of) => fields[of] !== undefined)
    .map((of) => {
      const at = `${path}.${of}`
      const amount = readObject(fields[of], at, of === 'count' ? TIMED : ['perCall', ...TIMED])
      return { of, name: of, chainId: null, tokenAddress: null, functions: null, ...readLimit(amount, at) }
    })
  if (fields.tokens === undefined) return native
  const seen = new Set<string>()
  const tokens = readList(fields.tokens, `${path}.tokens`, MAX_ENTRIES).map((value, index) => {
    const at = `${path}.tokens[${index}]`
    const amount = readObject(value, at, ['chainId', 'tokenAddress', 'functions', 'perCall', ...TIMED])
    const chainId = readChain(amount.chainId, `${at}.chainId`)
    const tokenAddress = readPolicyAddress(amount.tokenAddress, `${at}.tokenAddress`)
    if (seen.has(`${chainId}:${tokenAddress}`)) throw new PolicyInvalid(at, 'this token is listed twice')
    seen.add(`${chainId}:${tokenAddress}`)
    const name = `tokens ${chainId}:0x${tokenAddress}`
    const functions = readSet(amount.functions, `${at}.functions`, readFunction)
    return { of: 'token' as const, name, chainId, tokenAddress, functions, ...readLimit(amount, at) }
  })
  return [...native, ...tokens]
}

const TIMED = ['periodAmount', 'periodDuration']

function readLimit(fields: Record<string, unknown>, path: string): Pick<RuleAmount, 'perCall' | 'period'> {
  const perCall = fields.perCall === undefined ? null : readAmount(fields.perCall, `${path}.perCall`)
  if (fields.periodAmount === undefined && fields.periodDuration === undefined) {
    if (perCall === null) throw new PolicyInvalid(path, 'expected perCall, or periodAmount with periodDuration')
    return { perCall, period: null }
  }
  const amount = readAmount(fields.periodAmount, `${path}.periodAmount`)
  const seconds = readWhole(fields.periodDuration, `${path}.periodDuration`, 1)
  if (!PERIODS.includes(seconds))
    throw new PolicyInvalid(`${path}.periodDuration`, `expected ${PERIODS.join(', ')}: an hour, a day, 7 or 30 days`)
  return { perCall, period: { amount, seconds } }
}

function readAmount(value: unknown, path: string): bigint {
  const amount = canonicalAmountIn(value)
  if (amount === null)
    throw new PolicyInvalid(path, 'expected an amount in the smallest unit: a string of decimal digits below 2^256')
  return amount
}

/**
 * Parses an address with its checksum (EIP-55), because without one a typing error is another address.
 * @returns 40 lower-case hexadecimal digits
 */
function readPolicyAddress(value: unknown, path: string): string {
  if (!isAddress(value)) throw new PolicyInvalid(path, 'expected an address, 0x and 40 hexadecimal digits')
  const right = checksumAddress(value.toLowerCase())
  if (value !== right) throw new PolicyInvalid(path, `the checksum (EIP-55) is wrong: these digits are ${right}`)
  return value.slice(2).toLowerCase()
}

const readChain = (value: unknown, path: string): number => readWhole(value, path, 1)

function readUser(value: unknown, path: string): string {
  if (typeof value !== 'string' || !/^[A-Z0-9_]{1,32}-\P{Cc}{1,255}$/u.test(value) || !value.isWellFormed())
    throw new PolicyInvalid(path, 'expected a user id, such as DISCORD-80351110224678912')
  return value
}

function readClient(value: unknown, path: string): string {
  if (typeof value !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(value))
    throw new PolicyInvalid(path, 'expected the client id of an application')
  return value
}

function readWhole(value: unknown, path: string, least: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < least)
    throw new PolicyInvalid(path, `expected a whole number of at least ${least}`)
  return value as number
}

/** Reads an object. @param known  the allowed fields; null: any */
function readObject(value: unknown, path: string, known: readonly string[] | null): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new PolicyInvalid(path, 'expected an object')
  const unknown = known === null ? undefined : Object.keys(value).find((key) => !known.includes(key))
  if (unknown !== undefined) throw new PolicyInvalid(path, `unknown field ${JSON.stringify(unknown)}`)
  return value as Record<string, unknown>
}

function readList(value: unknown, path: string, most: number): unknown[] {
  if (!Array.isArray(value)) throw new PolicyInvalid(path, 'expected a list')
  if (value.length === 0) throw new PolicyInvalid(path, 'is an empty list, which would match nothing: leave it out')
  if (value.length > most) throw new PolicyInvalid(path, `has more than ${most} entries`)
  return value
}

/** Reads a list without duplicates; null if it is absent. */
function readSet<T>(value: unknown, path: string, read: (value: unknown, path: string) => T): ReadonlySet<T> | null {
  if (value === undefined) return null
  const set = new Set<T>()
  for (const [index, each] of readList(value, path, MAX_ENTRIES).entries()) {
    const one = read(each, `${path}[${index}]`)
    if (set.has(one)) throw new PolicyInvalid(`${path}[${index}]`, 'is in the list twice')
    set.add(one)
  }
  return set
}
