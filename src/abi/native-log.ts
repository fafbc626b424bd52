import type { Hex } from '../ids.ts'
import { NATIVE_TRANSFER_LOGGER, TRANSFER_TOPIC, type EventLog } from './transfers.ts'

/** A log by which the chain itself tells of native currency (EIP-7708): no contract can write one. */
export const isNativeLog = ({ address, topics }: EventLog): boolean =>
  address.toLowerCase() === NATIVE_TRANSFER_LOGGER && topics[0]?.toLowerCase() === TRANSFER_TOPIC

/** What such a log says, in wei and lower case; null for any other log, and for one that is not of that form. Never throws. */
export function decodeNativeLog(log: EventLog): { from: Hex; to: Hex; value: bigint } | null {
  const [, from, to] = log.topics
  if (!isNativeLog(log) || from === undefined || to === undefined) return null
  if (!/^0x[0-9a-f]{64}$/i.test(log.data)) return null
  return { from: addressIn(from), to: addressIn(to), value: BigInt(log.data) }
}

const addressIn = (topic: Hex): Hex => `0x${topic.slice(-40).toLowerCase()}`
