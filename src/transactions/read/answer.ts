import { readAddress } from '../../abi/address.ts'
import { bigNumber } from '../../abi/bignumber.ts'
import type { Fees } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import type { Hex } from '../../ids.ts'
import type { Bound } from '../intent.ts'
import type { WireTransaction } from '../wire.ts'
import type { WriteAnswer } from '../write-wire.ts'

/** Gas prices on the wire: one of the two forms. */
type WireFees = Pick<WireTransaction, 'maxFeePerGas' | 'maxPriorityFeePerGas' | 'gasPrice'>

export function answerOf(chain: Chain, bound: Bound, hash: Hex): WriteAnswer {
  return {
    status: 'SUCCESS',
    hash,
    explorerUrl: chain.explorer.tx(hash),
    tx: { ...wireTransaction(bound), hash },
    id: bound.id,
    state: 'SUBMITTED',
  }
}

export function wireTransaction(bound: Omit<Bound, 'id' | 'accountId' | 'requestHash'>): WireTransaction {
  return {
    type: bound.fees.type === 'legacy' ? 0 : (bound.authorizations?.length ?? 0) > 0 ? 4 : 2,
    chainId: bound.chainId,
    nonce: bound.nonce,
    from: readAddress(bound.from),
    to: readAddress(bound.to),
    data: bound.data,
    value: bigNumber(bound.value),
    gasLimit: bigNumber(bound.gas),
    ...wireFees(bound.fees),
    accessList: [],
  }
}

export function wireFees(fees: Fees): WireFees {
  if (fees.type === 'legacy') return { gasPrice: bigNumber(fees.gasPrice) }
  return { maxFeePerGas: bigNumber(fees.maxFeePerGas), maxPriorityFeePerGas: bigNumber(fees.maxPriorityFeePerGas) }
}
