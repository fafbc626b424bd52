import type { Chain } from '../../chain/network.ts'
import { revertDataOf } from '../../chain/rpc/errors.ts'
import { quantityOf, type Hex } from '../../ids.ts'
import { slot } from '../../state.ts'
import type { OuterAuthorization } from '../../store/column-values.ts'
import { delegatedCode } from '../sponsors/delegation.ts'
import { MAX_GAS, readGas } from './limits.ts'
import type { Operation } from '../operation.ts'
import { AUTHORIZATION, outerGas } from './operation-gas.ts'

/** milliseconds for which a network that needs no more gas than Ethereum is not asked again */
const BELIEVED_MS = 60_000

const asEthereum = slot('networks that take no more gas than Ethereum', (_chain: Chain) => ({
  chatelaine: { until: 0 },
  calibur: { until: 0 },
}))

/**
 * A sponsor's transaction; all its operations are for the same account code. `isRepacked`: another transaction included
 * some of them, and did not execute them.
 */
type AskedOuter = { from: Hex; to: Hex; data: Hex; operations: readonly Operation[]; isRepacked: boolean }

/**
 * Returns the gas limit of a sponsor's transaction: Ethereum's upper bound, or the node's estimate if that is higher.
 * An estimate of many operations is expensive for a node: 20 runs of each. After an estimate within the bound, the
 * network is not asked again for a minute.
 * The operations were simulated before. A transaction with a delegation or with repacked operations is still executed
 * once with that gas limit.
 * @throws OuterReverts, RpcError, RpcUnavailable
 */
export async function outerGasOf(chain: Chain, outer: AskedOuter): Promise<bigint> {
  const { operations, isRepacked } = outer
  const least = atMost(outerGas(operations))
  const belief = asEthereum.of(chain)[operations[0]!.delegate]
  const delegating = operations.filter(({ authorizationNonce }) => authorizationNonce !== null)
  if (chain.clock.ticks() < belief.until) {
    if (delegating.length === 0 && !isRepacked) return least
    if (await runs(chain, outer, least)) return least
  }
  belief.until = 0
  const wanted = ((await estimate(chain, outer)) * 11n) / 10n + AUTHORIZATION * BigInt(delegating.length)
  if (wanted > least) return atMost(wanted)
  belief.until = chain.clock.ticks() + BELIEVED_MS
  return least
}

/**
 * Returns whether the transaction succeeds with this gas limit. The dispatcher reverts the whole transaction if the gas
 * does not cover the limit that an account signed.
 */
async function runs({ rpc }: Chain, { operations, ...call }: AskedOuter, gas: bigint): Promise<boolean> {
  try {
    await rpc.call('eth_call', [{ ...callOf(call), gas: quantityOf(gas) }, 'latest', codesOf(operations)])
    return true
  } catch (error) {
    if (revertDataOf(error) === undefined) throw error
    return false
  }
}

async function estimate({ rpc }: Chain, { operations, ...call }: AskedOuter): Promise<bigint> {
  try {
    return readGas(await rpc.call('eth_estimateGas', [callOf(call), 'latest', codesOf(operations)]))
  } catch (error) {
    if (revertDataOf(error) === undefined) throw error
    throw new OuterReverts()
  }
}

const callOf = ({ from, to, data }: Omit<AskedOuter, 'operations'>) => ({ from, to, data })

/** Returns state overrides that give delegating accounts their code. */
const codesOf = (operations: readonly Operation[]) =>
  Object.fromEntries(
    operations.flatMap((one) =>
      one.authorizationNonce === null ? [] : [[one.from, { code: delegatedCode(one.delegate) }]],
    ),
  )

/** Thrown if the whole transaction would revert. */
export class OuterReverts extends Error {}

const atMost = (gas: bigint): bigint => (gas > MAX_GAS ? MAX_GAS : gas)

/**
 * Returns the gas limit plus the gas of authorizations that it does not cover yet: those of accounts that already
 * delegate, included in case a reorganisation undoes the delegation.
 */
export function withAuthorizations(gas: bigint, authorizations: OuterAuthorization[], operations: Operation[]): bigint {
  const counted = new Set(operations.flatMap((one) => (one.authorizationNonce === null ? [] : [one.from])))
  return atMost(gas + AUTHORIZATION * BigInt(authorizations.filter(({ from }) => !counted.has(from)).length))
}
