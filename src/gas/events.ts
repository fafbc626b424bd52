import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'

/** A log; all hexadecimal digits are lower-case. */
type DispatcherLog = { address: Hex; topics: readonly Hex[]; data: Hex }

/**
 * The dispatcher's event about an id; all hexadecimal digits are lower-case.
 * - `Done`: all calls were executed.
 * - `Failed`: no call was executed, and none ever will be.
 * - `Cancelled`: no call was executed, and none ever will be, because a sponsor cancelled the operation.
 * - `Skipped`: the id was already used.
 *
 * `account` is the account of that operation, because every sponsor of a space can choose its ids; null for
 * `Cancelled`.
 */
export type OperationEvent = { space: Hex; sequence: bigint; account: Hex | null } & (
  | { kind: 'Done' | 'Cancelled' | 'Skipped' }
  | { kind: 'Failed'; reason: Hex }
)

/** Why an operation failed: an error of the delegate or the dispatcher, or the revert data of one of its calls. */
export type FailureReason =
  | { error: 'NotDelegated' | 'Expired' | 'WrongSignature' | 'Malformed' | 'UsedElsewhere' | 'OutOfGas' | 'Unknown' }
  /** `index`: the call that failed; null if Calibur does not report which of several calls failed */
  | { error: 'CallFailed'; index: number | null; data: Hex }

const topicOf = (signature: string): Hex => `0x${keccak(Buffer.from(signature)).toString('hex')}`
const selectorOf = (signature: string): Hex => topicOf(signature).slice(0, 10) as Hex

const KINDS: ReadonlyMap<string, OperationEvent['kind']> = new Map([
  [topicOf('Done(uint256,address)'), 'Done'],
  [topicOf('Failed(uint256,address,bytes)'), 'Failed'],
  [topicOf('Skipped(uint256,address)'), 'Skipped'],
  [topicOf('Cancelled(uint256)'), 'Cancelled'],
])

const NAMES = ['NotDelegated', 'Expired', 'WrongSignature', 'Malformed', 'UsedElsewhere'] as const
const REASONS = new Map<Hex, (typeof NAMES)[number]>(NAMES.map((name) => [selectorOf(`${name}()`), name]))
/** Reason that no contract reports: the id was used up for another account. */
export const USED_ELSEWHERE = selectorOf('UsedElsewhere()')
/** Errors of Calibur, mapped to this project's errors. Source: github.com/Uniswap/calibur, ICalibur */
const CALIBUR_REASONS = new Map<Hex, (typeof NAMES)[number]>([
  [selectorOf('SignatureExpired()'), 'Expired'],
  [selectorOf('InvalidSignature()'), 'WrongSignature'],
])
const CALL_FAILED = selectorOf('CallFailed(uint256,bytes)')
const CALIBUR_CALL_FAILED = selectorOf('CallFailed(bytes)')

/** Decodes the dispatcher's events from logs, in order. Ignores logs of other contracts. */
export function readEvents(dispatcher: Hex, logs: readonly DispatcherLog[]): OperationEvent[] {
  return logs.flatMap(({ address, topics, data }) => {
    const kind = address === dispatcher ? KINDS.get(topics[0] ?? '') : undefined
    const id = topics[1]
    if (kind === undefined || id === undefined) return []
    const account: Hex | null = topics[2] === undefined ? null : `0x${topics[2].slice(26)}`
    const of = { space: id.slice(0, 42) as Hex, sequence: BigInt(`0x${id.slice(42)}`), account }
    return [kind === 'Failed' ? { ...of, kind, reason: bytesIn(data, 0) } : { ...of, kind }]
  })
}

/** Decodes the reason of a `Failed` event. An empty reason means that the gas ran out. */
export function readFailure(reason: Hex): FailureReason {
  if (reason === '0x') return { error: 'OutOfGas' }
  const selector = reason.slice(0, 10) as Hex
  const own = REASONS.get(selector) ?? CALIBUR_REASONS.get(selector)
  if (own !== undefined) return { error: own }
  const fields: Hex = `0x${reason.slice(10)}`
  if (selector === CALIBUR_CALL_FAILED) return { error: 'CallFailed', index: null, data: bytesIn(fields, 0) }
  if (selector !== CALL_FAILED) return { error: 'Unknown' }
  return { error: 'CallFailed', index: Number(numberIn(fields, 0)), data: bytesIn(fields, 1) }
}

/** Returns the bytes whose offset is in a word of ABI-encoded fields, truncated at the end of the data. */
function bytesIn(data: Hex, head: number): Hex {
  const place = Number(numberIn(data, head))
  const length = Number(numberIn(data, place / 32))
  return `0x${data.slice(2 + 2 * (place + 32), 2 + 2 * (place + 32 + length))}`
}

const numberIn = (data: Hex, index: number): bigint =>
  BigInt(`0x${data.slice(2 + 64 * index, 2 + 64 * (index + 1)).padEnd(64, '0')}`)
