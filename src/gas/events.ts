import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'

/** A log as it is read here: all hex is lower-case. */
type DispatcherLog = { address: Hex; topics: readonly Hex[]; data: Hex }

/**
 * What the dispatcher says of an id: `Done`, all calls were done; `Failed`, none was and none ever will be; `Cancelled`, the same
 * because a sponsor said so; `Skipped`, it was used before. `account` is whose operation that was: ids are anyone's whom a space lets send.
 * Null of a cancel. All in lower case.
 */
export type OperationEvent = { space: Hex; sequence: bigint; account: Hex | null } & (
  | { kind: 'Done' | 'Cancelled' | 'Skipped' }
  | { kind: 'Failed'; reason: Hex }
)

/** Why an operation failed: an error of the delegate or the dispatcher, or what one of its calls reverted with. */
export type FailureReason =
  | { error: 'NotDelegated' | 'Expired' | 'WrongSignature' | 'Malformed' | 'UsedElsewhere' | 'OutOfGas' | 'Unknown' }
  /** `index`: which call; null: Calibur does not say which of several */
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
/** No contract says it: the id was used up for another account. */
export const USED_ELSEWHERE = selectorOf('UsedElsewhere()')
/** Errors of Calibur, as ours that say the same. Source: github.com/Uniswap/calibur, ICalibur */
const CALIBUR_REASONS = new Map<Hex, (typeof NAMES)[number]>([
  [selectorOf('SignatureExpired()'), 'Expired'],
  [selectorOf('InvalidSignature()'), 'WrongSignature'],
])
const CALL_FAILED = selectorOf('CallFailed(uint256,bytes)')
const CALIBUR_CALL_FAILED = selectorOf('CallFailed(bytes)')

/** What logs say of operations, in their order; those of other contracts say nothing. */
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

/** The bytes whose place is in a word of ABI-encoded fields; cut off where the data ends. */
function bytesIn(data: Hex, head: number): Hex {
  const place = Number(numberIn(data, head))
  const length = Number(numberIn(data, place / 32))
  return `0x${data.slice(2 + 2 * (place + 32), 2 + 2 * (place + 32 + length))}`
}

const numberIn = (data: Hex, index: number): bigint =>
  BigInt(`0x${data.slice(2 + 64 * index, 2 + 64 * (index + 1)).padEnd(64, '0')}`)
