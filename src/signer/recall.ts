import type { Held, Ledger } from './ledger.ts'
import { readRecallRequest } from './request.ts'
import { hex, toSigned } from './sign.ts'
import type { Recalled } from './wire.ts'

/**
 * Verb `recall`: what was signed for an intent, newest first. After a crash the server finds here the bytes that it
 * had asked for and not stored. Needs no token: they were given away before.
 */
export function recall(ledger: Ledger, request: unknown): { attempts: Recalled[] } {
  return { attempts: ledger.ofIntent(readRecallRequest(request).intentId).map(toRecalled) }
}

function toRecalled(held: Held): Recalled {
  const { chainId, address, gas, feeType, max, priority } = held
  const fees =
    feeType === 'legacy'
      ? { gasPrice: max.toString() }
      : { maxFeePerGas: max.toString(), maxPriorityFeePerGas: priority.toString() }
  return { ...toSigned(held), stored: true, chainId, from: hex(address), gas: gas.toString(), ...fees }
}
