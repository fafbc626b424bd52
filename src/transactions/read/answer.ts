import { readAddress } from '../../abi/address.ts'
import { checksumAddress } from '../../digits.ts'
import type { App } from '../../app.ts'
import { bigNumber } from '../../abi/bignumber.ts'
import type { Fees } from '../../chain/fees.ts'
import type { Chain } from '../../chain/network.ts'
import type { Hex } from '../../ids.ts'
import { toHex } from '../../hex.ts'
import { toBound, type Bound } from '../intent.ts'
import { dispatcherId, toOperation, type Operation, type OperationRow } from '../operation.ts'
import type { GasPayer, WireOperation, WireTransaction } from '../wire.ts'
import type { WriteAnswer } from '../write-wire.ts'

/** Fees in responses: EIP-1559 or legacy. */
type WireFees = Pick<WireTransaction, 'maxFeePerGas' | 'maxPriorityFeePerGas' | 'gasPrice'>

export function answerOf(chain: Chain, bound: Bound, hash: Hex): WriteAnswer {
  return {
    status: 'SUCCESS',
    hash,
    explorerUrl: chain.explorer.tx(hash),
    tx: { ...wireTransaction(bound), hash },
    id: bound.id,
    state: 'SUBMITTED',
    reference: bound.reference,
  }
}

/** Returns the response of an operation. `hash` and `tx` are those of the sponsor's transaction that includes it. */
export const answerOfOperation = (
  chain: Chain,
  operation: Operation,
  { bound, hash }: { bound: Bound; hash: Hex },
): WriteAnswer => ({
  ...answerOf(chain, bound, hash),
  id: operation.id,
  reference: operation.reference,
  operation: wireOperation(operation),
  gas: payerOf(bound.from),
})

/**
 * Returns the response that an operation had, with the hash that was returned at that time.
 * @throws database_unavailable
 */
export async function toldOperation(app: App, chain: Chain, row: OperationRow, hash: Hex): Promise<WriteAnswer> {
  const outer = await app.db
    .selectFrom('transactions')
    .selectAll()
    .where('id', '=', row.outer_id!)
    .executeTakeFirstOrThrow()
  return answerOfOperation(chain, toOperation(row), { bound: toBound(outer), hash })
}

export function wireTransaction(bound: Omit<Bound, 'id' | 'accountId' | 'requestHash' | 'reference'>): WireTransaction {
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

export const payerOf = (payer: Hex): GasPayer => ({ strategy: 'sponsor', payer: checksumAddress(payer) })

/**
 * Returns an operation for the API. `to`, `value` and `data` are those of the first call; `calls` has all calls if
 * there are several.
 */
export function wireOperation(operation: Operation): WireOperation {
  const calls = operation.calls.map(({ to, value, data }) => ({
    to: checksumAddress(toHex(to)),
    value: bigNumber(value),
    data: toHex(data),
  }))
  return {
    id: dispatcherId(operation),
    from: checksumAddress(operation.from),
    ...calls[0]!,
    gasLimit: bigNumber(operation.gas),
    deadline: operation.deadline,
    ...(calls.length === 1 ? {} : { calls }),
  }
}
