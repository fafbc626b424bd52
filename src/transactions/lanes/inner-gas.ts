import { BoundedMap } from '../../bounded-map.ts'
import { readObject, readQuantity } from '../../chain/rpc/answers.ts'
import { isMissingMethod } from '../../chain/rpc/errors.ts'
import { InvalidResponse } from '../../chain/rpc/failures.ts'
import type { Chain } from '../../chain/network.ts'
import { RpcError } from '../../chain/rpc/rpc.ts'
import { quantityOf, type Hex } from '../../ids.ts'
import { slot } from '../../state.ts'
import { MAX_GAS } from './limits.ts'

/** A call as `eth_simulateV1` takes it, without its gas. */
export type SimulatedCall = { from: Hex; to: Hex; data: Hex; value?: Hex }

const MAX_REMEMBERED = 10_000

/** Functions that take as much gas as they are estimated, by what they are named by here. */
const even = slot('functions that need no more gas than they are estimated', (_chain: Chain) => ({
  functions: new BoundedMap<string, true>(MAX_REMEMBERED),
  isAsked: true,
}))

/**
 * What to take for the estimate of a call. A node finds the least gas with which a call succeeds. One that continues where a call within it
 * fails succeeds with less than it is to have: an inner call gets 63 of 64 parts of what is left (EIP-150), and runs out of gas unseen. So
 * each function is simulated once with its limit and once with as much as any may have: where it uses more then, it is given a third above
 * that, which is enough for 18 calls within each other.
 * @param estimate  gas units, as the node says
 * @param limit     gas units, as the call would have by that
 * @param functions what is called; of one that was found even before nothing is asked
 * @returns         at least the estimate; the estimate where the node does not simulate
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
  // Some read how much is left, and do a little more or less for it.
  if (most * 20n <= least * 21n) {
    known.functions.set(functions, true)
    return estimate
  }
  const wanted = (most * 4n) / 3n
  return wanted > MAX_GAS ? MAX_GAS : wanted
}

/** @returns gas units used with each limit; undefined where it fails, or the node does not say */
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
