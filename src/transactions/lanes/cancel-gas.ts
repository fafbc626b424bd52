import { revertDataOf } from '../../chain/rpc/errors.ts'
import { InvalidResponse } from '../../chain/rpc/failures.ts'
import type { Chain } from '../../chain/network.ts'
import { cancelData } from '../../gas/dispatch.ts'
import type { Hex } from '../../ids.ts'
import { slot } from '../../state.ts'
import { fromHex, toHex } from '../../hex.ts'
import type { Bound } from '../intent.ts'
import { MAX_GAS, MIN_GAS, readGas } from './limits.ts'
import { AUTHORIZATION } from './operation-gas.ts'

/**
 * Numbers of the operations that the cancellation of a sponsor's transaction uses up, so that they can never be
 * executed. If empty, the cancellation only frees the nonce. If absent, it is an empty transfer.
 */
export type UsedUp = readonly number[]

/**
 * gas units of a cancellation through the dispatcher: the transaction, the check of the sponsor's permission, and one
 * word of the bitmap; each number adds its event
 */
const CANCEL_OUTER = 60_000n
const USED_NUMBER = 8_000n

/**
 * Returns the gas limit of a cancellation through the dispatcher, gas units: Ethereum's upper bound, or the node's
 * estimate if that is higher.
 * @throws RpcError | RpcUnavailable
 */
export async function cancelOuterGas(
  { rpc, gasSpace }: Chain,
  { from, to, authorizations }: Pick<Bound, 'from' | 'to' | 'authorizations'>,
  usesUp: UsedUp,
): Promise<bigint> {
  const delegating = AUTHORIZATION * BigInt(authorizations?.length ?? 0)
  const least = CANCEL_OUTER + USED_NUMBER * BigInt(usesUp.length) + delegating
  if (gasSpace === undefined || gasSpace === null) return least
  const data = toHex(cancelData(fromHex(gasSpace), usesUp.map(BigInt)))
  try {
    const asked = readGas(await rpc.call('eth_estimateGas', [{ from, to, data }, 'latest']))
    const wanted = (asked * 5n) / 4n + delegating
    return smaller(wanted > least ? wanted : least, MAX_GAS)
  } catch (error) {
    // The sponsor may no longer have permission. The cancellation uses the nonce even if it reverts.
    if (revertDataOf(error) === undefined) throw error
    return least
  }
}

/** whether a node of the network has estimated 21,000 for an empty transfer */
const plain = slot('what a transfer of nothing takes', (_chain: Chain) => ({ isKnown: false }))

/**
 * Returns the gas limit of an empty transfer to oneself: 21,000 on most networks, more on some and for delegated
 * accounts.
 * It is estimated, because below the required gas every node rejects the cancellation and the nonce remains open
 * permanently. After one estimate of 21,000, a failing node no longer prevents a cancellation.
 * @throws RpcError | RpcUnavailable
 */
export async function cancelGas(chain: Chain, from: Hex): Promise<bigint> {
  try {
    const gas = await estimateNothing(chain, from)
    if (gas === MIN_GAS) plain.of(chain).isKnown = true
    return gas > MIN_GAS ? smaller((gas * 5n) / 4n, MAX_GAS) : MIN_GAS
  } catch (error) {
    if (plain.of(chain).isKnown) return MIN_GAS
    throw error
  }
}

/**
 * Estimates an empty transfer to oneself. If the account's code reverts it, estimates one to an address without code: a
 * reverted cancellation uses the nonce as well.
 */
async function estimateNothing({ rpc }: Chain, from: Hex): Promise<bigint> {
  const estimate = async (to: Hex) => {
    const gas = readGas(await rpc.call('eth_estimateGas', [{ from, to, value: '0x0' }, 'latest']))
    if (gas > MAX_GAS) throw new InvalidResponse('the node’s gas estimate is above what a transaction may have')
    return gas
  }
  try {
    return await estimate(from)
  } catch (error) {
    if (revertDataOf(error) === undefined) throw error
    return estimate(NOBODY)
  }
}

/** an address without code: no key for it is known, and no contract can be deployed at it */
const NOBODY: Hex = '0x000000000000000000000000000000000000dead'

const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b)
