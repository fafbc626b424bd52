import { readAddress } from '../abi/address.ts'
import { bigNumber, type BigNumber } from '../abi/bignumber.ts'
import type { Fees } from '../chain/fees.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import type { TransactionState } from '../store/rows.ts'
import type { Bound } from './intent.ts'

/** Gas prices on the wire: one of the two forms. */
export type WireFees = { maxFeePerGas: BigNumber; maxPriorityFeePerGas: BigNumber } | { gasPrice: BigNumber }

/** The submitted transaction without its signature. */
export type WireTransaction = {
  type: number
  chainId: number
  nonce: number
  from: Hex
  to: Hex
  data: Hex
  value: BigNumber
  gasLimit: BigNumber
  accessList: never[]
} & WireFees

/** What a write answers with, the first time and whenever its idempotency key is sent again. */
export type WriteAnswer = {
  status: 'SUCCESS'
  hash: Hex
  explorerUrl: string
  tx: WireTransaction & { hash: Hex }
  id: string
  state: TransactionState
}

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
    type: bound.fees.type === 'legacy' ? 0 : 2,
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
