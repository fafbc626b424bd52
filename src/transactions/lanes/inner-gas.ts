import { BoundedMap } from '../../bounded-map.ts'
import { readObject, readQuantity } from '../../chain/rpc/answers.ts'
import { isMissingMethod } from '../../chain/rpc/errors.ts'
import { InvalidResponse } from '../../chain/rpc/failures.ts'
import type { Chain } from '../../chain/network.ts'
import { RpcError } from '../../chain/rpc/rpc.ts'
import { quantityOf, type Hex } from '../../ids.ts'
import { slot } from '../../state.ts'
import { MAX_GAS } from './limits.ts'

/** A call as `eth_simulateV1` takes it, without its gas limit. */
export type SimulatedCall = { from: Hex; to: Hex; data: Hex; value?: Hex }

const MAX_REMEMBERED = 10_000

/** Functions for which the node's estimate sufficed. */
const even = slot('functions that need no more gas than they are estimated', (_chain: Chain) => ({
  functions: new BoundedMap<string, true>(MAX_REMEMBERED),
  isAsked: true,
}))

/**
 * Returns the gas to use in place of a node's estimate. A node finds the least gas with which a call succeeds. That is
 * too little for a call that continues after an inner call fails: the inner call gets 63/64 of the remaining gas
 * (EIP-150) and may run out of gas unnoticed.
 * So each function is simulated once with its limit and once with the maximum gas. If it uses more gas with the
 * maximum, it gets a third more than that use, which is enough for 18 nested calls.
 * @param estimate  gas units, from the node
 * @param limit  gas units that the call would get from that estimate
 * @param functions  names the called functions; functions that passed before are not simulated again
 * @returns at least the estimate; the estimate if the node does not simulate
 */
export async function unstarved(
  chain: Chain,
  call: SimulatedCall,
  { estimate, limit, functions, overrides }: { estimate: bigint; limit: bigint; functions: string; overrides?: object },
): Promise<bigint> {
  const known = even.of(chain)
  if (!known.isAsked || known.functions.has(functions) || limit >= MAX_GAS) return estimate
  const [least, most] = await simulate(chain, call, [limit, MAX_GAS], overrides)
  if (least === undefined || most === undefined) return estimate
  // Allow 5 %: some functions read the remaining gas and do slightly more or less work.
  if (most * 20n <= least * 21n) {
    known.functions.set(functions, true)
    return estimate
  }
  const wanted = (most * 4n) / 3n
  return wanted > MAX_GAS ? MAX_GAS : wanted
}

/** @returns gas units used with each limit; undefined if the call fails or the node does not respond properly */
async function simulate(
  chain: Chain,
  call: SimulatedCall,
  limits: bigint[],
  stateOverrides: object = {},
): Promise<(bigint | undefined)[]> {
  const answers = await chain.rpc.batch(
    limits.map((gas) => ({
      method: 'eth_simulateV1',
      params: [{ blockStateCalls: [{ stateOverrides, calls: [{ ...call, gas: quantityOf(gas) }] }] }, 'latest'],
    })),
  )
  return answers.map((answer) => {
    if (answer instanceof RpcError && isMissingMethod(answer)) even.of(chain).isAsked = false
    if (answer instanceof Error) return undefined
    return readUsed(answer)
  })
}

function readUsed(answer: unknown): bigint | undefined {
  try {
    const [block] = answer as unknown[]
    const [result] = readObject(block, 'a simulated block').calls as unknown[]
    const { status, gasUsed } = readObject(result, 'a simulated call')
    return status === '0x1' ? readQuantity(gasUsed, 'gas of a simulated call') : undefined
  } catch (error) {
    if (error instanceof InvalidResponse || error instanceof TypeError) return undefined
    throw error
  }
}
