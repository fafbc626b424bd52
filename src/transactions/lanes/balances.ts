import { BoundedMap } from '../../bounded-map.ts'
import { readQuantity } from '../../chain/rpc/answers.ts'
import type { Chain } from '../../chain/network.ts'
import type { Hex } from '../../ids.ts'
import { slot } from '../../state.ts'

/**
 * Returns an account's balance at the latest block, wei.
 * @throws RpcError, RpcUnavailable
 */
export async function balanceNow({ rpc }: Chain, from: Hex): Promise<bigint> {
  return readQuantity(await rpc.call('eth_getBalance', [from, 'latest']), 'balance of an account')
}

const MAX_BALANCES = 10_000
type BlockBalances = BoundedMap<Hex, Promise<bigint>>
const held = slot('balances at the newest block', (_chain: Chain) => ({
  blockHash: '',
  balances: new BoundedMap(MAX_BALANCES) as BlockBalances,
}))

/**
 * Returns an account's balance at the newest known block, wei. Requests it once per block, because only a block changes
 * it.
 */
export function balanceThisBlock(chain: Chain, from: Hex): Promise<bigint> {
  const block = chain.head.current()
  if (block === null) return balanceNow(chain, from)
  const known = held.of(chain)
  if (known.blockHash !== block.hash)
    Object.assign(known, { blockHash: block.hash, balances: new BoundedMap(MAX_BALANCES) })
  const { balances } = known
  const balance = balances.get(from) ?? balanceNow(chain, from)
  balances.set(from, balance)
  balance.catch(() => balances.delete(from))
  return balance
}

/**
 * Returns an account's balance at the newest known block, wei. If that is less than `needed`, asks a node again,
 * because funds may have arrived.
 * @param needed  wei
 * @throws RpcError, RpcUnavailable
 */
export async function balanceFor(chain: Chain, account: Hex, needed: bigint): Promise<bigint> {
  const known = await balanceThisBlock(chain, account)
  return known < needed ? balanceNow(chain, account) : known
}
