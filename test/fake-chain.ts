import type { Chain } from '../src/chain/network.ts'
import { openExpensiveCalls } from '../src/chain/rpc/expensive-calls.ts'
import { RpcError, type Rpc } from '../src/chain/rpc/rpc.ts'
import type { Hex } from '../src/ids.ts'
import { openedHead } from './opened.ts'

const BASE_FEE = 10n
/** What a node says to a call: a value, or an error that it answers with. */
export type Says = (params: unknown[]) => unknown

/** A network whose node says what a test tells it to, and the calls that it was asked. It has no block yet. */
export function fakeChain(says: Record<string, Says>) {
  const calls: { method: string; params: unknown[] }[] = []
  const answer = (method: string, params: unknown[]): unknown => {
    calls.push({ method, params })
    if (says[method] === undefined) return new RpcError(-32601, `the method ${method} does not exist`, undefined)
    return says[method](params)
  }
  const rpc: Rpc = {
    call: (async (method: string, params: unknown[]) => {
      const said = await answer(method, params)
      if (said instanceof Error) throw said
      return said
    }) as Rpc['call'],
    batch: async (some) => some.map(({ method, params }) => answer(method, params)),
    expensive: openExpensiveCalls(),
    close: () => {},
  }
  const explorer = { tx: (hash: Hex) => hash, address: (address: Hex) => address, block: (at: number) => String(at) }
  const chain: Chain = {
    ...{ chainId: 31_337, name: 'devnet', symbol: 'ETH', coin: 'Ether', decimals: 18, finality: 'finalized' },
    ...{
      feeCapWei: 1_000n,
      verification: 'bloom',
      gas: 'self',
      explorer,
      rpc,
      ...openedHead(),
      faucet: null,
    },
  }
  return {
    chain,
    calls,
    /** parameters of the calls of a method, in order */
    asked: (method: string) => calls.filter((one) => one.method === method).map(({ params }) => params),
    /** the chain has a new block */
    mine: (number: number, baseFee: bigint | null = BASE_FEE) => {
      const hash = (at: number): Hex => `0x${at.toString(16).padStart(64, '0')}`
      chain.head.set({ number, hash: hash(number), parentHash: hash(number - 1), timestamp: number, baseFee })
    },
  }
}
