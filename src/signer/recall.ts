import type { Held, Ledger } from './ledger.ts'
import { readRecallRequest } from './request.ts'
import { hex, toSigned } from './sign.ts'
import { MAX_FRAME_BYTES, type Recalled } from './wire.ts'

// Generous: the names of the fields, and numbers of 78 digits.
const FRAME_OVERHEAD = 256
const ATTEMPT_OVERHEAD = 1_024

/**
 * Verb `recall`: what was signed for an intent, or for a nonce, newest first. After a crash the server finds here the
 * bytes that it had asked for and not stored; after a restore of its database, whose a transaction on the chain is.
 * Needs no token: they were given away before. Stops at what one frame holds: the
 * server stores each attempt before it asks for the next, so only the newest can be unknown to it.
 */
export function recall(ledger: Ledger, request: unknown): { attempts: Recalled[] } {
  const asked = readRecallRequest(request)
  const attempts: Recalled[] = []
  let room = MAX_FRAME_BYTES - FRAME_OVERHEAD
  for (const held of 'intentId' in asked ? ledger.ofIntent(asked.intentId) : ledger.attempts(asked).toReversed()) {
    room -= held.raw.length * 2 + ATTEMPT_OVERHEAD
    if (room < 0) break
    attempts.push(toRecalled(held))
  }
  return { attempts }
}

function toRecalled(held: Held): Recalled {
  const { intentId, chainId, address, gas, feeType, max, priority } = held
  const fees =
    feeType === 'legacy'
      ? { gasPrice: max.toString() }
      : { maxFeePerGas: max.toString(), maxPriorityFeePerGas: priority.toString() }
  const terms = { chainId, from: hex(address), gas: gas.toString(), ...fees }
  return { ...toSigned(held), stored: true, intentId, ...terms }
}
