import type { Hex } from '../ids.ts'
import { NATIVE_TRANSFER_LOGGER, TRANSFER_TOPIC, type EventLog } from './transfers.ts'

/**
 * Returns whether the chain itself wrote a log for a native currency transfer (EIP-7708). No contract can write such a
 * log.
 */
export const isNativeLog = ({ address, topics }: EventLog): boolean =>
  address.toLowerCase() === NATIVE_TRANSFER_LOGGER && topics[0]?.toLowerCase() === TRANSFER_TOPIC

/** Decodes such a log, in wei and lower case. Returns null for any other or malformed log. Never throws. */
export function decodeNativeLog(log: EventLog): { from: Hex; to: Hex; value: bigint } | null {
  const [, from, to] = log.topics
  if (!isNativeLog(log) || from === undefined || to === undefined) return null
  if (!/^0x[0-9a-f]{64}$/i.test(log.data)) return null
  return { from: addressIn(from), to: addressIn(to), value: BigInt(log.data) }
}

const addressIn = (topic: Hex): Hex => `0x${topic.slice(-40).toLowerCase()}`
