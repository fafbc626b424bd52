import { keccak256 } from 'viem'
import { explorerAt, type Chain } from '../../src/chain/network.ts'
import { openExpensiveCalls } from '../../src/chain/rpc/expensive-calls.ts'
import { RpcError } from '../../src/chain/rpc/rpc.ts'
import { bloomOf } from '../../src/follower/bloom.ts'
import type { Hex } from '../../src/ids.ts'
import { openedHead } from '../opened.ts'
import { quantity, run, type Frame, type Holdings, type LedgerLog, type LedgerTransaction } from './ledger.ts'

type Mined = LedgerTransaction & { hash: Hex; status: boolean; logs: (LedgerLog & { logIndex: Hex })[]; trace: Frame }
type LedgerBlock = {
  number: number
  hash: Hex
  parentHash: Hex
  baseFee: bigint
  miner: Hex
  withdrawals: { address: Hex; gwei: bigint }[]
  transactions: Mined[]
  /** after it */
  held: Holdings
}

/** A chain with what everybody holds at each of its blocks, behind the `Rpc` of a node that keeps all states. */
export type LedgerChain = {
  chain: Chain
  blocks: LedgerBlock[]
  mine(of: { transactions: LedgerTransaction[]; miner: Hex; withdrawals: LedgerBlock['withdrawals'] }): void
  lose(depth: number): void
  /** what is held after the newest block */
  held(key: string): bigint
}

export const BASE_FEE = 7n

/** @param tells  how internal transfers are told: by the node's traces, by logs of the chain (EIP-7708), or not at all */
export function ledgerChain({
  genesis,
  tells,
}: {
  genesis: Holdings
  tells: 'traces' | 'logs' | 'nothing'
}): LedgerChain {
  const known = new Map<Hex, LedgerBlock>()
  let salt = 0
  const script: LedgerChain = {
    chain: {
      ...{ chainId: 31337, name: 'devnet', symbol: 'ETH', coin: 'Ether', decimals: 18, finality: 12 },
      ...{ feeCapWei: 10n ** 12n, verification: 'bloom', gas: 'self', explorer: explorerAt(''), faucet: null },
      ...openedHead(),
      rpc: {
        call: async (method, params) => structuredClone(respond(method, params)) as never,
        batch: async (calls) =>
          calls.map(({ method, params }) => {
            try {
              return structuredClone(respond(method, params))
            } catch (error) {
              if (error instanceof RpcError) return error
              throw error
            }
          }),
        expensive: openExpensiveCalls(),
        close: () => {},
      },
    },
    blocks: [],
    mine: ({ transactions, miner, withdrawals }) => {
      const parent = script.blocks.at(-1)
      const held: Holdings = new Map(parent?.held ?? genesis)
      let logIndex = 0
      const mined = transactions.map((transaction) => {
        const { status, logs, trace } = run(held, transaction, {
          baseFee: BASE_FEE,
          miner,
          logsNative: tells === 'logs',
        })
        const placed = logs.map((log) => ({ ...log, logIndex: quantity(logIndex++) }))
        return { ...transaction, hash: hashOf(`transaction ${salt++}`), status, logs: placed, trace }
      })
      for (const { address, gwei } of withdrawals)
        held.set(`native ${address}`, (held.get(`native ${address}`) ?? 0n) + gwei * 1_000_000_000n)
      const block: LedgerBlock = {
        ...{
          number: (parent?.number ?? -1) + 1,
          hash: hashOf(`block ${salt++}`),
          parentHash: parent?.hash ?? hashOf(''),
        },
        ...{ baseFee: BASE_FEE, miner, withdrawals, transactions: mined, held },
      }
      known.set(block.hash, block)
      script.blocks.push(block)
    },
    lose: (depth) => void script.blocks.splice(script.blocks.length - depth, depth),
    held: (key) => script.blocks.at(-1)!.held.get(key) ?? 0n,
  }

  function respond(method: string, params: unknown[]): unknown {
    switch (method) {
      case 'eth_chainId':
        return quantity(script.chain.chainId)
      case 'eth_getBlockByNumber': {
        const newest = script.blocks.length - 1
        const number =
          params[0] === 'latest' ? newest : params[0] === 'finalized' ? Math.max(0, newest - 12) : Number(params[0])
        const block = script.blocks[number]
        return block === undefined ? null : blockAnswer(block, params[1] === true)
      }
      case 'eth_getBlockByHash': {
        const block = known.get(params[0] as Hex)
        return block === undefined ? null : blockAnswer(block, params[1] === true)
      }
      case 'eth_getBlockReceipts':
        return receiptAnswers(known.get(params[0] as Hex)!)
      case 'debug_traceBlockByHash':
        if (tells !== 'traces')
          throw new RpcError(-32601, `the method ${method} does not exist/is not available`, undefined)
        return known.get(params[0] as Hex)!.transactions.map(({ hash, trace }) => ({ txHash: hash, result: trace }))
      case 'eth_getBalance':
        return quantity(at(params[1]).held.get(`native ${params[0] as Hex}`) ?? 0n)
      case 'eth_call':
        return call(params[0] as { to: Hex; data: Hex }, at(params[1]).held)
      case 'eth_getLogs':
        return logAnswers(params[0] as { fromBlock: Hex; toBlock: Hex; topics: (Hex | Hex[] | null)[] })
      default:
        throw new RpcError(-32601, 'Method not found', undefined)
    }
  }

  function at(block: unknown): LedgerBlock {
    const found =
      typeof block === 'string' ? script.blocks[Number(block)] : known.get((block as { blockHash: Hex }).blockHash)
    if (found === undefined) throw new RpcError(-32000, 'header not found', undefined)
    return found
  }

  function logAnswers({
    fromBlock,
    toBlock,
    topics: wanted,
  }: {
    fromBlock: Hex
    toBlock: Hex
    topics: (Hex | Hex[] | null)[]
  }) {
    return script.blocks.slice(Number(fromBlock), Number(toBlock) + 1).flatMap((block) =>
      block.transactions.flatMap(({ hash, logs }, index) =>
        logs
          .map((log) => ({
            ...log,
            ...{
              transactionHash: hash,
              transactionIndex: quantity(index),
              blockHash: block.hash,
              blockNumber: quantity(block.number),
            },
          }))
          .filter(
            ({ topics }) =>
              topics.length >= wanted.length &&
              wanted.every((one, place) => one === null || [one].flat().includes(topics[place]!)),
          ),
      ),
    )
  }

  script.mine({ transactions: [], miner: `0x${'0'.repeat(40)}`, withdrawals: [] })
  return script
}

const hashOf = (text: string): Hex => keccak256(new TextEncoder().encode(text))

function call({ to, data }: { to: Hex; data: Hex }, held: Holdings): Hex {
  const owner = `0x${data.slice(34, 74)}`
  const answer = (amount: bigint | undefined): Hex => `0x${(amount ?? 0n).toString(16).padStart(64, '0')}`
  if (data.startsWith('0x70a08231')) return answer(held.get(`${to} ${owner}`))
  if (data.startsWith('0x00fdd58e')) return answer(held.get(`${to} ${BigInt(`0x${data.slice(74)}`)} ${owner}`))
  if (data.startsWith('0x18160ddd')) return answer(held.get(to))
  throw new RpcError(3, 'execution reverted', '0x')
}

function blockAnswer(block: LedgerBlock, isWhole: boolean) {
  const { number, hash, parentHash, baseFee, miner, withdrawals, transactions } = block
  const logs = transactions.flatMap((one) => one.logs.map((log) => ({ ...log, logIndex: Number(log.logIndex) })))
  return {
    ...{
      number: quantity(number),
      hash,
      parentHash,
      miner,
      timestamp: quantity(1_767_225_600 + Math.floor(number / 2)),
    },
    ...{ baseFeePerGas: quantity(baseFee), logsBloom: `0x${bloomOf(logs).toString('hex')}`, transactionsRoot: hash },
    withdrawals: withdrawals.map(({ address, gwei }, index) => ({
      ...{ index: quantity(index), validatorIndex: '0x1' },
      address,
      amount: quantity(gwei),
    })),
    transactions: transactions.map((one) =>
      isWhole
        ? {
            ...{ type: one.minted > 0n ? '0x7e' : '0x2', hash: one.hash, from: one.from, to: one.to, nonce: '0x0' },
            ...{ value: quantity(one.value), input: '0x', gasPrice: quantity(one.price) },
            ...(one.minted > 0n ? { mint: quantity(one.minted) } : {}),
          }
        : one.hash,
    ),
  }
}

function receiptAnswers(block: LedgerBlock) {
  let gas = 0n
  return block.transactions.map((one) => ({
    ...{ type: '0x2', blockHash: block.hash, transactionHash: one.hash, from: one.from, to: one.to },
    ...{
      status: one.status ? '0x1' : '0x0',
      gasUsed: quantity(one.gasUsed),
      cumulativeGasUsed: quantity((gas += one.gasUsed)),
    },
    ...{
      effectiveGasPrice: quantity(one.price),
      contractAddress: one.to === null ? one.created : null,
      logs: one.logs,
    },
    ...(one.l1Fee > 0n ? { l1Fee: quantity(one.l1Fee) } : {}),
    ...(one.blobGas > 0n ? { blobGasUsed: quantity(one.blobGas), blobGasPrice: '0x3' } : {}),
  }))
}
