import { encodeFunctionData, parseAbi } from 'viem'
import { openNode } from '../src/chain/rpc/node.ts'
import { rpc } from '../src/devnet/rpc.ts'
import type { Samples } from '../src/devnet/deploy.ts'
import type { Hex } from '../src/ids.ts'
import { cpuMillis, type Started } from './place.ts'

export type Cost = { way: string; rate: number; nodeMicros: number; ownMicros: number }

const COLLECTED = 50
const multicall = parseAbi([
  'function aggregate3((address target, bool allowFailure, bytes callData)[] calls) returns ((bool success, bytes returnData)[])',
  'function getEthBalance(address) view returns (uint256)',
])
const gas = '0x1c9c380'

/** What a read costs when it is asked alone, in a JSON-RPC batch of fifty, and through Multicall3 with forty-nine others. */
export async function nodeCosts(node: Started & { contracts: Samples }, erc20: Hex): Promise<Cost[]> {
  const { ask, close } = openNode(node.url)
  const { hash: blockHash } = await rpc<{ hash: Hex }>(node.url, 'eth_getBlockByNumber', 'latest', false)
  const at = { blockHash }
  const { multicall3 } = node.contracts
  const balanceOf = (number: number): Hex => `0x70a08231${number.toString(16).padStart(64, '0')}`
  const addressOf = (number: number): Hex => `0x${number.toString(16).padStart(40, 'c')}`
  const call = (to: Hex, data: Hex) => ({ method: 'eth_call', params: [{ to, data, gas }, at] })
  const together = (number: number, one: (number: number) => { target: Hex; callData: Hex }) => {
    const calls = Array.from({ length: COLLECTED }, (_, index) => ({ ...one(number + index), allowFailure: true }))
    return [call(multicall3, encodeFunctionData({ abi: multicall, functionName: 'aggregate3', args: [calls] }))]
  }
  const many = <T>(number: number, one: (number: number) => T): T[] =>
    Array.from({ length: COLLECTED }, (_, index) => one(number + index))
  const coins = (number: number) =>
    encodeFunctionData({ abi: multicall, functionName: 'getEthBalance', args: [addressOf(number)] })

  const ways: [string, number, (number: number) => { method: string; params: unknown[] }[]][] = [
    ['eth_call alone', 1, (number) => [call(erc20, balanceOf(number))]],
    ['eth_call, batch of 50', COLLECTED, (number) => many(number, (one) => call(erc20, balanceOf(one)))],
    [
      'eth_call, multicall of 50',
      COLLECTED,
      (number) => together(number, (one) => ({ target: erc20, callData: balanceOf(one) })),
    ],
    [
      'eth_getBalance, batch of 50',
      COLLECTED,
      (number) => many(number, (one) => ({ method: 'eth_getBalance', params: [addressOf(one), at] })),
    ],
    [
      'coin balance, multicall of 50',
      COLLECTED,
      (number) => together(number, (one) => ({ target: multicall3, callData: coins(one) })),
    ],
  ]
  const costs: Cost[] = []
  for (const [way, size, make] of ways) {
    let count = 0
    const cpu = cpuMillis(node.pid)
    const own = process.cpuUsage()
    const from = performance.now()
    while (performance.now() - from < 800) {
      const [answer] = await ask(make(count), { timeoutMs: 10_000 })
      if (answer instanceof Error) throw answer
      count += size
    }
    const { user, system } = process.cpuUsage(own)
    const rate = (count * 1_000) / (performance.now() - from)
    costs.push({
      way,
      rate,
      nodeMicros: ((cpuMillis(node.pid) - cpu) * 1_000) / count,
      ownMicros: (user + system) / count,
    })
  }
  close()
  return costs
}
