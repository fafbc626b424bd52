import type { Chain } from '../../chain/network.ts'
import { revertDataOf } from '../../chain/rpc/errors.ts'
import { quantityOf, type Hex } from '../../ids.ts'
import { slot } from '../../state.ts'
import type { OuterAuthorization } from '../../store/column-values.ts'
import { delegatedCode } from '../sponsors/delegation.ts'
import { MAX_GAS, readGas } from './limits.ts'
import type { Operation } from '../operation.ts'
import { AUTHORIZATION, outerGas } from './operation-gas.ts'

/** milliseconds for which a network that takes no more gas than Ethereum does is believed to stay so */
const BELIEVED_MS = 60_000

const asEthereum = slot('networks that take no more gas than Ethereum', (_chain: Chain) => ({
  chatelaine: { until: 0 },
  calibur: { until: 0 },
}))

/** A transaction of a sponsor, whose operations are for the same code. `isRepacked`: another one carried some of it, and did not do it. */
type AskedOuter = { from: Hex; to: Hex; data: Hex; operations: readonly Operation[]; isRepacked: boolean }

/**
 * At most what a transaction of a sponsor takes, by the rules of Ethereum; more where the network says so. An estimate of many operations is
 * dear for a node, 20 runs of each: a network that said for one that those rules are enough is not asked for another for a minute. What is in it was
 * rehearsed; where someone delegates, or was in a transaction before, it is run once with that gas.
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

/** Of one with too little gas for what someone in it signed nothing is done: it is reverted. */
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

/** Who delegates in it has its code in the question. */
const codesOf = (operations: readonly Operation[]) =>
  Object.fromEntries(
    operations.flatMap((one) =>
      one.authorizationNonce === null ? [] : [[one.from, { code: delegatedCode(one.delegate) }]],
    ),
  )

/** It would be reverted whole. */
export class OuterReverts extends Error {}

const atMost = (gas: bigint): bigint => (gas > MAX_GAS ? MAX_GAS : gas)

/** Authorizations of accounts that delegated already, by which they delegate again where that is reorganised away, are counted by nobody yet. */
export function withAuthorizations(gas: bigint, authorizations: OuterAuthorization[], operations: Operation[]): bigint {
  const counted = new Set(operations.flatMap((one) => (one.authorizationNonce === null ? [] : [one.from])))
  return atMost(gas + AUTHORIZATION * BigInt(authorizations.filter(({ from }) => !counted.has(from)).length))
}
