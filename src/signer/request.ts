import { Refusal } from './refusal.ts'
import { isSponsor } from './tokens/sponsor.ts'
import type { FeeFields, MarketFees, UnsignedTransaction } from './transaction.ts'
import {
  MAX_ATTESTED,
  MAX_DRAFT_BYTES,
  MAX_HELD,
  WIRE_VERSION,
  type HeldElsewhere,
  type Hex,
  type SignRequest,
} from '../signer-wire/wire.ts'
import { isAddress, canonicalAmountIn } from '../digits.ts'

/** A parsed sign request: every field is present and in range, and there are no others. */
export type SignOrder = {
  intentId: string
  accessToken: string | null
  /** the user's approval of exactly this request; null if none was shown */
  approval: string | null
  kind: SignRequest['kind']
  tx: UnsignedTransaction
  /** 32 bytes; only with a `send` */
  requestHash: Buffer | null
  /** true for the cancellation of a sponsor transaction, whose call the signer makes itself (cancel-outer.ts) */
  isOfOuter?: true
  /** for a sponsor transaction: the records of its operations, and the gas that each was signed for */
  carried?: readonly { seq: number; userId: string; gasLimit: number }[]
}

const FIELDS = new Set<string>([
  'intentId',
  'accessToken',
  'approval',
  'chainId',
  'from',
  'nonce',
  'to',
  'value',
  'data',
  'gas',
  'maxFeePerGas',
  'maxPriorityFeePerGas',
  'gasPrice',
  'kind',
  'requestHash',
] satisfies (keyof SignRequest)[])

const UINT64 = 2n ** 64n
const UINT256 = 2n ** 256n

/**
 * Parses a sign request. It coerces and ignores nothing, because an unknown field might change the meaning.
 * @throws bad_request  naming the field
 */
export function readSignRequest(request: unknown): SignOrder {
  const fields = readFields(request, FIELDS)
  const kind = fields.kind
  if (kind !== 'send' && kind !== 'replace' && kind !== 'cancel') throw bad('kind is not send, replace or cancel')
  const accessToken = fields.accessToken ?? null
  return {
    intentId: readIntentId(fields.intentId),
    accessToken: accessToken === null ? null : readAccessToken(accessToken),
    approval: readApproval(fields.approval),
    kind,
    tx: {
      chainId: readInteger('chainId', fields.chainId, 1),
      from: readAddress('from', fields.from),
      nonce: readInteger('nonce', fields.nonce, 0),
      to: isAbsent(fields.to) ? null : readAddress('to', fields.to),
      value: readAmount('value', fields.value, UINT256),
      data: readData(fields.data),
      gas: readAmount('gas', fields.gas, UINT64),
      fees: readFees(fields),
    },
    requestHash: readRequestHash(kind, fields.requestHash),
  }
}

/** Reads a token or grant, at most 8,192 characters. @throws bad_request */
export function readAccessToken(accessToken: unknown): string {
  if (typeof accessToken !== 'string' || accessToken.length > 8_192)
    throw bad('accessToken is not text of at most 8,192 characters')
  return accessToken
}

/** Reads an approval token, at most 8,192 characters; null if it is absent. @throws bad_request */
export function readApproval(approval: unknown): string | null {
  if (approval === undefined) return null
  if (typeof approval !== 'string' || approval.length > 8_192)
    throw bad('approval is not text of at most 8,192 characters')
  return approval
}

/** Reads a request hash, 32 bytes in 0x-hex, which only a `send` may have; null if it is absent. @throws bad_request */
export function readRequestHash(kind: SignRequest['kind'], text: unknown): Buffer | null {
  if (text === undefined) return null
  if (kind !== 'send') throw bad('requestHash is allowed only if kind is send')
  if (typeof text !== 'string' || !/^0x[0-9a-f]{64}$/.test(text)) throw bad('requestHash is not 32 bytes of 0x-hex')
  return Buffer.from(text.slice(2), 'hex')
}

export type RecallAsk = ({ intentId: string } | { chainId: number; address: Buffer; nonce: number }) & {
  before: number
}

/** Parses a `recall` request. @throws bad_request */
export function readRecallRequest(request: unknown): RecallAsk {
  const fields = readFields(request, new Set(['intentId', 'chainId', 'from', 'nonce', 'before']))
  const { intentId, chainId, from, nonce } = fields
  const before = fields.before === undefined ? Number.MAX_SAFE_INTEGER : readInteger('before', fields.before, 1)
  if (intentId !== undefined) {
    if (chainId !== undefined || from !== undefined || nonce !== undefined)
      throw bad('expected an intent or a nonce, not both')
    return { intentId: readIntentId(intentId), before }
  }
  return {
    before,
    chainId: readInteger('chainId', chainId, 1),
    address: readAddress('from', from),
    nonce: readInteger('nonce', nonce, 0),
  }
}

/** Parses a `recallSince` request. @throws bad_request */
export function readRecallSinceRequest(request: unknown): { after: number } {
  return { after: readInteger('after', readFields(request, new Set(['after'])).after, 0) }
}

export type ProveAsk = { seq: number; size: number | undefined } | { from: number; to: number | undefined }

/** Parses a `prove` request. @throws bad_request */
export function readProveRequest(request: unknown): ProveAsk {
  const { seq, size, from, to } = readFields(request, new Set(['seq', 'size', 'from', 'to']))
  if ((seq === undefined) === (from === undefined) || (seq === undefined ? size : to) !== undefined)
    throw bad('expected a record and a size, or two sizes')
  const limit = (name: string, value: unknown) => (value === undefined ? undefined : readInteger(name, value, 1))
  if (seq !== undefined) return { seq: readInteger('seq', seq, 1), size: limit('size', size) }
  return { from: readInteger('from', from, 0), to: limit('to', to) }
}

/** Parses a greeting. @throws signer_unavailable  if the server uses another wire version; bad_request */
export function readGreeting(request: unknown): { head: string | null } {
  // Check the version first: the fields of another version are unknown.
  const { wire } = (request ?? {}) as { wire?: unknown }
  if (wire !== WIRE_VERSION)
    throw new Refusal(
      'signer_unavailable',
      `The server uses wire version ${typeof wire === 'number' ? wire : 'unknown'} and the signer wire version ${WIRE_VERSION}. Nothing was signed. Run both programs from one release.`,
    )
  const { head } = readFields(request, new Set(['wire', 'head']))
  if (head !== null && (typeof head !== 'string' || head.length > 1_024)) throw bad('head is not a signed head')
  return { head }
}

/** Parses a `wrapped` request. @throws bad_request */
export function readAfterRequest(request: unknown): { after: number } {
  return { after: readInteger('after', readFields(request, new Set(['after'])).after, 0) }
}

/** Parses a `revocations` request. @throws bad_request */
export function readRevocationsRequest(request: unknown): { list: string } {
  const { list } = readFields(request, new Set(['list']))
  if (typeof list !== 'string') throw bad('list is not text')
  return { list }
}

/** Parses a request that names a user. @throws bad_request */
export function readCreateAccountRequest(request: unknown): { userId: string } {
  return { userId: readUserId(readFields(request, new Set(['userId'])).userId) }
}

/** Parses a `signatures` request; `chainId` is null for every network. @throws bad_request */
export function readSignaturesRequest(request: unknown): {
  userId: string
  before: number
  chainId: number | null
  intentId: string | null
} {
  const {
    userId,
    before,
    chainId,
    intentId = null,
  } = readFields(request, new Set(['userId', 'before', 'chainId', 'intentId']))
  if (intentId !== null && (typeof intentId !== 'string' || !/^[\x21-\x7e]{1,128}$/.test(intentId)))
    throw bad('intentId is not an id')
  const end = before === undefined ? Number.MAX_SAFE_INTEGER : readInteger('before', before, 1)
  const network = chainId === undefined ? null : readInteger('chainId', chainId, 1)
  return { userId: readUserId(userId), before: end, chainId: network, intentId }
}

/** Parses a `tryPolicy` request. @throws bad_request */
export function readTryPolicyRequest(request: unknown): { text: string } {
  const { text } = readFields(request, new Set(['text']))
  if (typeof text !== 'string' || Buffer.byteLength(text) > MAX_DRAFT_BYTES)
    throw bad(`text is not a policy of at most ${MAX_DRAFT_BYTES} bytes`)
  return { text }
}

/** Parses an `attest` request. @throws bad_request */
export function readAttestRequest(request: unknown): { userIds: string[] } {
  const { userIds } = readFields(request, new Set(['userIds']))
  if (!Array.isArray(userIds) || userIds.length > MAX_ATTESTED) throw bad(`expected at most ${MAX_ATTESTED} user ids`)
  return { userIds: userIds.map(readUserId) }
}

function readUserId(userId: unknown): string {
  // A provider of 32 characters, a hyphen, a subject of 255; SQLite would truncate at a NUL.
  if (typeof userId !== 'string' || !/^[A-Z0-9_]{1,32}-\P{Cc}{1,255}$/u.test(userId) || !userId.isWellFormed()) {
    throw bad('userId is not a user id')
  }
  return userId
}

/** Parses a request with an export token. @throws bad_request */
export function readExportRequest(request: unknown): { token: string } {
  const { token } = readFields(request, new Set(['token']))
  if (typeof token !== 'string' || token.length > 8_192) throw bad('token is not text of at most 8,192 characters')
  return { token }
}

/** Parses a `cancelKey` request. @throws bad_request */
export function readCancelExportRequest(request: unknown): { userId: string; by: 'person' | 'operator' } {
  const { by, ...rest } = readFields(request, new Set(['userId', 'by']))
  if (by !== 'person' && by !== 'operator') throw bad('by is not person or operator')
  return { ...readCreateAccountRequest(rest), by }
}

/** Parses a `heldElsewhere` request. @throws bad_request */
export function readHeldElsewhereRequest(request: unknown): HeldElsewhere[] {
  const { accounts } = readFields(request, new Set(['accounts']))
  if (!Array.isArray(accounts) || accounts.length > MAX_HELD) throw bad(`accounts is not a list of at most ${MAX_HELD}`)
  return accounts.map((account) => {
    const { userId, at, isBrought, statement } = readFields(
      account,
      new Set(['userId', 'at', 'isBrought', 'statement']),
    )
    if (typeof isBrought !== 'boolean') throw bad('isBrought is not true or false')
    if (typeof statement !== 'string' || !/^0x[0-9a-f]{128}$/.test(statement))
      throw bad('statement is not 64 bytes of 0x-hex')
    return { userId: readUserId(userId), at: readInteger('at', at, 0), isBrought, statement: statement as Hex }
  })
}

export type ImportedKey = { userId: string; address: Buffer; enc: Buffer; ciphertext: Buffer }

/** Parses an `importKeys` request. @throws bad_request */
export function readImportRequest(request: unknown): ImportedKey[] {
  const { keys } = readFields(request, new Set(['keys']))
  if (!Array.isArray(keys) || keys.length > 100) throw bad('keys is not a list of at most 100')
  return keys.map((key) => {
    const { userId, address, enc, ciphertext } = readFields(key, new Set(['userId', 'address', 'enc', 'ciphertext']))
    if (typeof enc !== 'string' || typeof ciphertext !== 'string') throw bad('enc and ciphertext are not text')
    return {
      ...readCreateAccountRequest({ userId }),
      address: readAddress('address', address),
      enc: Buffer.from(enc, 'base64url'),
      ciphertext: Buffer.from(ciphertext, 'base64url'),
    }
  })
}

/** Parses an `exportKeys` request. @throws bad_request */
export function readExportAllRequest(request: unknown): { recipient: string; batch: string; after: number } {
  const { recipient, batch, after } = readFields(request, new Set(['recipient', 'batch', 'after']))
  if (typeof recipient !== 'string') throw bad('recipient is not text')
  return { recipient, batch: readIntentId(batch), after: readInteger('after', after, 0) }
}

/** Parses a freeze or its lifting: `user ID`, `application ID`, `network CHAIN_ID`, `everything` or `lists`. @throws bad_request */
export function readFreezeRequest(request: unknown): { subject: string } {
  const { subject } = readFields(request, new Set(['subject']))
  const isOne = typeof subject === 'string' && /^(?:everything|lists|network [1-9]\d{0,15}|user [A-Z0-9_]{1,32}-\P{Cc}{1,255}|application [\x21-\x7e]{1,255})$/u.test(subject) // prettier-ignore
  if (!isOne || !(subject as string).isWellFormed())
    throw bad('subject is not everything, network CHAIN_ID, user ID or application ID')
  return { subject: subject as string }
}

/** Parses a `grantWithdrawal` request; its `sponsor` is the name without `SPONSOR-`. @throws bad_request */
export function readGrantRequest(request: unknown): { userId: string; chainId: number; to: Buffer; most: bigint } {
  const { sponsor, chainId, to, most } = readFields(request, new Set(['sponsor', 'chainId', 'to', 'most']))
  if (typeof sponsor !== 'string' || !isSponsor(`SPONSOR-${sponsor}`)) throw bad('sponsor is not the name of a sponsor')
  const address = readAddress('to', to)
  if (address.every((byte) => byte === 0)) throw bad('to is the zero address')
  const wei = readAmount('most', most, UINT256)
  if (wei === 0n) throw bad('most is 0')
  return { userId: `SPONSOR-${sponsor}`, chainId: readInteger('chainId', chainId, 1), to: address, most: wei }
}

/** Creates the refusal of a malformed request. `detail` completes a sentence and must not repeat values. */
export const bad = (detail: string): Refusal => new Refusal('bad_request', `The request is not valid: ${detail}.`)

const isAbsent = (to: unknown): boolean => to === undefined || to === null || to === '' || to === '0x'

/** Reads an object that may only have known fields. @throws bad_request */
export function readFields(request: unknown, known: Set<string>): Record<string, unknown> {
  if (typeof request !== 'object' || request === null || Array.isArray(request)) throw bad('expected an object')
  if (!Object.keys(request).every((key) => known.has(key))) throw bad('unknown field')
  return request as Record<string, unknown>
}

/** Reads an intent id, 1 to 128 printable ASCII characters without spaces. @throws bad_request */
export function readIntentId(intentId: unknown): string {
  if (typeof intentId !== 'string' || !/^[\x21-\x7e]{1,128}$/.test(intentId)) {
    throw bad('intentId is not 1 to 128 printable characters')
  }
  return intentId
}

/** Reads a safe integer that is at least `least`. @throws bad_request  naming the field */
export function readInteger(name: string, value: unknown, least: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < least) throw bad(`${name} is not an integer in range`)
  return value as number
}

/** Reads an amount in canonical decimal digits, below `limit`. @throws bad_request  naming the field */
export function readAmount(name: string, text: unknown, limit: bigint): bigint {
  const amount = canonicalAmountIn(text)
  if (amount === null) throw bad(`${name} is not a decimal number`)
  if (amount >= limit) throw bad(`${name} is out of range`)
  return amount
}

/** Reads an address in 0x-hex; returns 20 bytes. @throws bad_request  naming the field */
export function readAddress(name: string, text: unknown): Buffer {
  if (!isAddress(text)) throw bad(`${name} is not an address`)
  return Buffer.from(text.slice(2), 'hex')
}

/** Reads calldata in 0x-hex. @throws bad_request */
export function readData(text: unknown): Buffer {
  if (typeof text !== 'string' || !text.startsWith('0x') || text.length % 2 !== 0) throw bad('data is not 0x-hex')
  const bytes = Buffer.from(text.slice(2), 'hex')
  // Buffer.from stops at the first character that is not a hexadecimal digit.
  if (bytes.length !== text.length / 2 - 1) throw bad('data is not 0x-hex')
  return bytes
}

function readFees(fields: Record<string, unknown>): FeeFields {
  const { maxFeePerGas, maxPriorityFeePerGas, gasPrice } = fields
  if (gasPrice === undefined) return readMarketFees(fields)
  if (maxFeePerGas !== undefined || maxPriorityFeePerGas !== undefined)
    throw bad('the fees are both legacy and EIP-1559')
  return { type: 'legacy', gasPrice: readAmount('gasPrice', gasPrice, UINT256) }
}

/** Reads EIP-1559 fees, in wei per gas. @throws bad_request  naming the field */
export function readMarketFees(fields: Record<string, unknown>): MarketFees {
  const maxFeePerGas = readAmount('maxFeePerGas', fields.maxFeePerGas, UINT256)
  const maxPriorityFeePerGas = readAmount('maxPriorityFeePerGas', fields.maxPriorityFeePerGas, UINT256)
  if (maxPriorityFeePerGas > maxFeePerGas) throw bad('maxPriorityFeePerGas is above maxFeePerGas')
  return { type: 'eip1559', maxFeePerGas, maxPriorityFeePerGas }
}
