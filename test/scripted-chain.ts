import { createHash } from 'node:crypto'
import { openHead } from '../src/chain/head.ts'
import { explorerAt, type Chain } from '../src/chain/network.ts'
import { RpcError, RpcUnavailable, type Rpc } from '../src/chain/rpc.ts'
import type { Hex } from '../src/ids.ts'

/** A transfer as a test writes it down; the log is made from it, and so is what the history should say. */
export type ScriptedTransfer = {
  type: 'ERC20' | 'ERC721' | 'ERC1155'
  token: Hex
  from: Hex
  to: Hex
  /** one transfer per item; several are an ERC-1155 batch */
  items: { id: bigint | null; value: bigint }[]
}

export type ScriptedLog = { address: Hex; topics: Hex[]; data: Hex }
export type ScriptedTransaction = { from: Hex; transfers: ScriptedTransfer[]; logs?: ScriptedLog[]; reverted?: boolean }
export type ScriptedBlock = {
  number: number
  hash: Hex
  parentHash: Hex
  timestamp: number
  transactions: (ScriptedTransaction & { hash: Hex })[]
}

/** What the node does wrong, until it is switched off again. */
export type Faults = {
  isAway: boolean
  /** never answers */
  hangs: boolean
  hasNoBlockReceipts: boolean
  hasNoFinalizedTag: boolean
  /** the next so many receipt lists are empty, null, or lack one receipt */
  emptyReceipts: number
  nullReceipts: number
  partialReceipts: number
  /** the next so many blocks asked for by hash are unknown */
  nullBlocks: number
  /** shows a head so many blocks behind */
  lag: number
}

export type ScriptedChain = {
  chain: Chain
  /** the canonical chain, by number */
  blocks: ScriptedBlock[]
  faults: Faults
  /** methods asked for so far, with how often */
  asked: Map<string, number>
  mine(...transactions: ScriptedTransaction[]): ScriptedBlock
  /** Forgets the newest blocks. */
  lose(depth: number): ScriptedBlock[]
  /** Makes blocks canonical again that were lost. */
  restore(blocks: ScriptedBlock[]): void
  /** Called before each answer; its promise holds the answer back. */
  onAsk: (method: string, params: unknown[]) => Promise<void> | void
  /** answers of `eth_call` and others that a test needs */
  answer: (method: string, params: unknown[]) => unknown
}

export const addressOf = (number: number): Hex => `0x${number.toString(16).padStart(40, '0')}`
const hashOf = (text: string): Hex => `0x${createHash('sha256').update(text).digest('hex')}`
const word = (value: bigint | number): string => BigInt(value).toString(16).padStart(64, '0')
const quantity = (value: bigint | number): Hex => `0x${value.toString(16)}`
const topicOf = (address: Hex): Hex => `0x${address.slice(2).padStart(64, '0')}`

const TRANSFER: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
const SINGLE: Hex = '0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62'
const BATCH: Hex = '0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb'

/**
 * A chain in memory behind the `Rpc` of a node that does as it is told. Block 0 exists.
 * @param isDevelopment  a chain with a faucet, which may lose any number of blocks
 */
export function scriptedChain({
  finality = 12,
  isDevelopment = false,
}: { finality?: Chain['finality']; isDevelopment?: boolean } = {}): ScriptedChain {
  const known = new Map<Hex, ScriptedBlock>()
  const faults: Faults = {
    isAway: false,
    hangs: false,
    hasNoBlockReceipts: false,
    hasNoFinalizedTag: false,
    emptyReceipts: 0,
    nullReceipts: 0,
    partialReceipts: 0,
    nullBlocks: 0,
    lag: 0,
  }
  let salt = 0
  const script: ScriptedChain = {
    chain: {
      chainId: 31337,
      name: 'devnet',
      symbol: 'ETH',
      coin: 'Ether',
      decimals: 18,
      finality,
      feeCapWei: 10n ** 12n,
      multicall3: null,
      explorer: explorerAt('http://localhost:4000/explorer'),
      rpc: scriptedRpc(),
      head: openHead(() => performance.now()),
      faucet: isDevelopment ? async () => {} : null,
    },
    blocks: [],
    faults,
    asked: new Map(),
    onAsk: () => {},
    answer: () => {
      throw new RpcError(-32601, 'Method not found', undefined)
    },
    mine: (...transactions) => {
      const parent = script.blocks.at(-1)
      const number = (parent?.number ?? -1) + 1
      const hash = hashOf(`block ${number} ${salt++}`)
      const block: ScriptedBlock = {
        number,
        hash,
        parentHash: parent?.hash ?? `0x${'00'.repeat(32)}`,
        timestamp: 1_767_225_600 + number * 12,
        transactions: transactions.map((transaction, index) => ({ ...transaction, hash: hashOf(`${hash} ${index}`) })),
      }
      known.set(hash, block)
      script.blocks.push(block)
      return block
    },
    lose: (depth) => script.blocks.splice(script.blocks.length - depth, depth),
    restore: (blocks) => void script.blocks.push(...blocks),
  }

  function scriptedRpc(): Rpc {
    const one = async (method: string, params: unknown[]): Promise<unknown> => {
      script.asked.set(method, (script.asked.get(method) ?? 0) + 1)
      await script.onAsk(method, params)
      if (faults.hangs) await new Promise<never>(() => {})
      if (faults.isAway) throw new RpcUnavailable('the node could not be reached', { timedOut: false })
      return structuredClone(respond(method, params))
    }
    return {
      call: async (method, params) => (await one(method, params)) as never,
      batch: (calls) =>
        Promise.all(
          calls.map(({ method, params }) =>
            one(method, params).catch((error: unknown) => {
              if (error instanceof RpcError) return error
              throw error
            }),
          ),
        ),
      close: () => {},
    }
  }

  function respond(method: string, params: unknown[]): unknown {
    switch (method) {
      case 'eth_getBlockByNumber': {
        const newest = script.blocks.length - 1 - faults.lag
        if (params[0] === 'finalized' && faults.hasNoFinalizedTag) throw new RpcError(-32602, 'unknown tag', undefined)
        const number =
          params[0] === 'latest' ? newest : params[0] === 'finalized' ? Math.max(0, newest - 12) : Number(params[0])
        const block = number > newest ? undefined : script.blocks[number]
        return block === undefined ? null : blockAnswer(block, params[1] === true)
      }
      case 'eth_getBlockByHash': {
        if (take('nullBlocks')) return null
        const block = known.get(params[0] as Hex)
        return block === undefined ? null : blockAnswer(block, params[1] === true)
      }
      case 'eth_getBlockReceipts': {
        if (faults.hasNoBlockReceipts)
          throw new RpcError(-32601, 'the method eth_getBlockReceipts does not exist', undefined)
        const block = known.get(params[0] as Hex)
        if (block === undefined || take('nullReceipts')) return null
        const receipts = receiptAnswers(block)
        if (take('emptyReceipts')) return []
        if (take('partialReceipts')) return receipts.slice(0, -1)
        return receipts
      }
      case 'eth_getTransactionReceipt':
        for (const block of script.blocks) {
          const receipt = receiptAnswers(block).find((one) => one.transactionHash === params[0])
          if (receipt !== undefined) return receipt
        }
        return null
      default:
        return script.answer(method, params)
    }
  }

  function take(fault: 'emptyReceipts' | 'nullReceipts' | 'partialReceipts' | 'nullBlocks'): boolean {
    if (faults[fault] === 0) return false
    faults[fault]--
    return true
  }

  script.mine()
  return script
}

function blockAnswer(block: ScriptedBlock, isWhole: boolean) {
  const hasLogs = block.transactions.some((transaction) => logsOf(transaction).length > 0)
  return {
    number: quantity(block.number),
    hash: block.hash,
    parentHash: block.parentHash,
    timestamp: quantity(block.timestamp),
    baseFeePerGas: quantity(1_000_000_000 + block.number),
    logsBloom: `0x${(hasLogs ? '01' : '00').padEnd(512, '0')}`,
    transactions: block.transactions.map(({ hash, from }, index) =>
      isWhole ? { hash, from, to: addressOf(0xc0), nonce: quantity(index) } : hash,
    ),
  }
}

function receiptAnswers(block: ScriptedBlock) {
  let logIndex = 0
  return block.transactions.map((transaction) => ({
    blockHash: block.hash,
    transactionHash: transaction.hash,
    from: transaction.from,
    to: addressOf(0xc0),
    status: transaction.reverted ? '0x0' : '0x1',
    gasUsed: quantity(21_000),
    effectiveGasPrice: quantity(1_000_000_007),
    contractAddress: null,
    logs: logsOf(transaction).map((log) => ({ ...log, logIndex: quantity(logIndex++) })),
  }))
}

const logsOf = ({ transfers, logs = [], reverted }: ScriptedTransaction): ScriptedLog[] =>
  reverted ? [] : [...transfers.map(logOf), ...logs]

/** The log that a token contract writes for a transfer. */
export function logOf({ type, token, from, to, items }: ScriptedTransfer): ScriptedLog {
  const ends = [topicOf(from), topicOf(to)]
  const { id, value } = items[0]!
  if (type === 'ERC20') return { address: token, topics: [TRANSFER, ...ends], data: `0x${word(value)}` }
  if (type === 'ERC721') return { address: token, topics: [TRANSFER, ...ends, `0x${word(id!)}`], data: '0x' }
  const topics = [topicOf(addressOf(0x0b)), ...ends]
  if (items.length === 1) return { address: token, topics: [SINGLE, ...topics], data: `0x${word(id!)}${word(value)}` }
  const ids = items.map((item) => word(item.id!)).join('')
  const values = items.map((item) => word(item.value)).join('')
  const count = items.length
  return {
    address: token,
    topics: [BATCH, ...topics],
    data: `0x${word(64)}${word(96 + 32 * count)}${word(count)}${ids}${word(count)}${values}`,
  }
}
