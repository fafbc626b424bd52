import type { Fees } from '../../chain/fees.ts'
import type { Recalled } from '../../signer/wire.ts'
import type { Attempt } from '../intent.ts'

/** An attempt as the signer's ledger tells it. */
export function toAttempt(recalled: Recalled): Attempt {
  const { raw, hash, gas, kind } = recalled
  return { raw, hash, gas: BigInt(gas), fees: readFees(recalled), isCancel: kind === 'cancel' }
}

function readFees({ gasPrice, maxFeePerGas, maxPriorityFeePerGas }: Recalled): Fees {
  if (gasPrice !== undefined) return { type: 'legacy', gasPrice: BigInt(gasPrice) }
  return { type: 'eip1559', maxFeePerGas: BigInt(maxFeePerGas!), maxPriorityFeePerGas: BigInt(maxPriorityFeePerGas!) }
}
