import { readNumber } from '../../chain/rpc/answers.ts'
import type { Chain } from '../../chain/network.ts'
import type { Hex } from '../../ids.ts'

/**
 * Returns the number of mined transactions of an account at a block.
 * @throws RpcError | RpcUnavailable
 */
export const countAt = async ({ rpc }: Chain, from: Hex, tag: string): Promise<number> =>
  readNumber(await rpc.call('eth_getTransactionCount', [from, tag]), 'count of transactions')
