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
 * Of a cancel of what carries operations: the numbers of those that it uses up, so that nothing does them any more; none where it only frees the
 * nonce. Absent, it is a transfer of nothing.
 */
export type UsedUp = readonly number[]

/** gas units: a transaction and its calldata, the sponsor's right, a word of the bitmap; of each number its event */
const CANCEL_OUTER = 60_000n
const USED_NUMBER = 8_000n

/**
 * What a cancel by the dispatcher takes at most by the rules of Ethereum, or more where the network says so.
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
    // Its right may be gone: mined without success it uses the nonce, too.
    if (revertDataOf(error) === undefined) throw error
    return least
  }
}

/** whether a network's node has said that a transfer of nothing takes 21,000 */
const plain = slot('what a transfer of nothing takes', (_chain: Chain) => ({ isKnown: false }))

/**
 * What a transfer of nothing to oneself takes here: 21,000 on most networks, more on some and for delegated accounts. It
 * is not assumed: at less than it takes every node refuses the cancel, and the nonce stays open for good. Only where a
 * transfer is known to take 21,000 a node that is away, or talks nonsense, does not keep the nonce open.
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

/** Of nothing to oneself; where the account's own code refuses it, of nothing to nobody: mined without success it uses the nonce, too. */
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

/** an address that no code can be at: nobody knows its key, and no contract's address comes out so */
const NOBODY: Hex = '0x000000000000000000000000000000000000dead'

const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b)
