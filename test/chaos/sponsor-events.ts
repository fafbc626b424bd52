import { decodeErrorResult, decodeEventLog, numberToHex, parseAbi } from 'viem'
import type { Hex } from '../../src/ids.ts'
import type { Log } from './transactions-chain.ts'

/** Source: contracts/Dispatcher.sol, contracts/Delegate.sol; the last three are Calibur's */
const abi = parseAbi([
  'event SponsorSet(address indexed space, address indexed sponsor, bool allowed)',
  'event Done(uint256 indexed id, address indexed account)',
  'event Failed(uint256 indexed id, address indexed account, bytes reason)',
  'event Skipped(uint256 indexed id, address indexed account)',
  'event Cancelled(uint256 indexed id)',
  'error NotDelegated()',
  'error Expired()',
  'error WrongSignature()',
  'error Malformed()',
  'error CallFailed(uint256 index, bytes reason)',
  'error CallFailed(bytes reason)',
  'error SignatureExpired()',
  'error InvalidSignature()',
])

/** `id`: 32 bytes; `account`: whose operation it was, null of a cancel. In lower case. */
export type Said = { id: Hex; account: Hex | null } & ({ kind: 'Done' | 'Cancelled' | 'Skipped' } | { kind: 'Failed'; reason: Hex }) // prettier-ignore

/**
 * What a dispatcher says of ids, by what its contract declares: a judge that read it with `src/gas/events.ts` would believe whatever that
 * one gets wrong.
 */
export function saidBy(dispatcher: Hex, logs: readonly Log[]): Said[] {
  return logs.flatMap(({ address, topics, data }): Said[] => {
    if (address !== dispatcher) return []
    const { eventName, args } = decodeEventLog({ abi, topics: topics as [Hex, ...Hex[]], data })
    if (eventName === 'SponsorSet') return []
    const id = numberToHex(args.id, { size: 32 })
    if (eventName === 'Cancelled') return [{ id, account: null, kind: eventName }]
    const account = args.account.toLowerCase() as Hex
    return [eventName === 'Failed' ? { id, account, kind: eventName, reason: args.reason } : { id, account, kind: eventName }] // prettier-ignore
  })
}

/** What Calibur calls otherwise. */
const SAME: Readonly<Record<string, string>> = { SignatureExpired: 'Expired', InvalidSignature: 'WrongSignature' }

/** The name of the error that a reason is; `OutOfGas` of none, `Unknown` of one that neither contract declares. */
export function errorOf(reason: Hex): string {
  if (reason === '0x') return 'OutOfGas'
  try {
    const errorName: string = decodeErrorResult({ abi, data: reason }).errorName
    // It knows those of every contract, too.
    return errorName === 'Error' || errorName === 'Panic' ? 'Unknown' : (SAME[errorName] ?? errorName)
  } catch {
    return 'Unknown'
  }
}
