import { explorerAt, type Chain } from '../../src/chain/network.ts'
import { RpcError, RpcUnavailable, type Rpc } from '../../src/chain/rpc/rpc.ts'
import { bloomOf } from '../../src/follower/bloom.ts'
import { headerHash, receiptsRoot, transactionsRoot } from '../../src/follower/strict.ts'
import type { Hex } from '../../src/ids.ts'
import { makeTransaction, type WholeTransaction } from '../scripted-transactions.ts'
import { openedHead } from '../opened.ts'
import { openExpensiveCalls } from '../../src/chain/rpc/expensive-calls.ts'

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
export type ScriptedTransaction = {
  from: Hex
  transfers: ScriptedTransfer[]
  logs?: ScriptedLog[]
  reverted?: boolean
  /** 21,000 by default, as of one that runs no code */
  gasUsed?: number
}
export type ScriptedBlock = {
  number: number
  hash: Hex
  parentHash: Hex
  timestamp: number
  transactions: (ScriptedTransaction & WholeTransaction)[]
  /** what only a whole header has */
  header: Record<string, Hex>
}

/** What the node does wrong, until it is switched off again. */
type Faults = {
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
  /** the next so many receipt lists lack one log, name another token, or have another amount */
  missingLogs: number
  falseTopics: number
  falseAmounts: number
  /** shows a head so many blocks behind */
  lag: number
  /** limits of eth_getLogs, and whether it cuts a long list instead of refusing */
  mostBlocks: number
  mostLogs: number
  cutsSilently: boolean
}

type LogFilter = { fromBlock: Hex; toBlock: Hex; topics: (Hex | Hex[] | null)[] } | { blockHash: Hex }

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
  /** What the node answers when nothing is wrong with the way to it. @throws RpcError */
  respond(method: string, params: unknown[]): unknown
  /** Called before each answer; its promise holds the answer back. */
  onAsk: (method: string, params: unknown[]) => Promise<void> | void
  /** answers of `eth_call` and others that a test needs */
  answer: (method: string, params: unknown[]) => unknown
}

export const addressOf = (number: number): Hex => `0x${number.toString(16).padStart(40, '0')}`
const word = (value: bigint | number): string => BigInt(value).toString(16).padStart(64, '0')
const quantity = (value: bigint | number): Hex => `0x${value.toString(16)}`
const topicOf = (address: Hex): Hex => `0x${address.slice(2).padStart(64, '0')}`

const TRANSFER: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
const SINGLE: Hex = '0xc3d58168c5ae7397731d063d5bbf3d657854427343f4c083240f7aacaa2d0f62'
const BATCH: Hex = '0x4a39dc06d4c0dbc64b70af90fd698a233a518aa5d07e595d983b8c0526c8f7fb'

/**
 * A chain in memory behind the `Rpc` of a node that does as it is told. Block 0 exists.
 * @param isDevelopment  a chain with a faucet, which may lose any number of blocks
 * @param everySeconds   what its blocks say of the time between them; by default that they come as they like
 * @param miner          who makes its blocks
 */
export function scriptedChain({
  finality = 12,
  isDevelopment = false,
  everySeconds,
  miner = addressOf(0),
}: { finality?: Chain['finality']; isDevelopment?: boolean; everySeconds?: number; miner?: Hex } = {}): ScriptedChain {
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
    missingLogs: 0,
    falseTopics: 0,
    falseAmounts: 0,
    lag: 0,
    mostBlocks: Number.POSITIVE_INFINITY,
    mostLogs: Number.POSITIVE_INFINITY,
    cutsSilently: false,
  }
  let salt = 0
  const secondsAt = (number: number): number =>
    everySeconds === undefined ? 12 * (number - (number % 3 === 0 ? 1 : 0)) : number * everySeconds
  const script: ScriptedChain = {
    chain: {
      chainId: 31337,
      name: 'devnet',
      symbol: 'ETH',
      coin: 'Ether',
      decimals: 18,
      finality,
      feeCapWei: 10n ** 12n,
      verification: 'bloom',
      gas: 'self',
      explorer: explorerAt('http://localhost:4000/explorer'),
      rpc: scriptedRpc(),
      ...openedHead(),
      faucet: isDevelopment ? async () => {} : null,
    },
    blocks: [],
    faults,
    asked: new Map(),
    respond,
    onAsk: () => {},
    answer: () => {
      throw new RpcError(-32601, 'Method not found', undefined)
    },
    mine: (...transactions) => {
      const parent = script.blocks.at(-1)
      const number = (parent?.number ?? -1) + 1
      const made = transactions.map((transaction, index) => ({
        ...transaction,
        // Two transactions with the same content are two transactions.
        ...makeTransaction({ from: transaction.from, to: TARGET, nonce: salt * 1_024 + index, type: index % 5 }),
      }))
      const logs = made.flatMap(logsOf)
      const header: Record<string, Hex> = {
        ...EMPTY_HEADER,
        miner,
        parentHash: parent?.hash ?? `0x${'00'.repeat(32)}`,
        transactionsRoot: transactionsRoot(made),
        receiptsRoot: receiptsRoot(receiptAnswers({ hash: EMPTY, transactions: made })),
        logsBloom: `0x${bloomOf(logs).toString('hex')}`,
        number: quantity(number),
        timestamp: quantity(1_767_225_600 + secondsAt(number)),
        // Two blocks with the same content are two blocks.
        extraData: `0x${word(salt++)}`,
        baseFeePerGas: quantity(1_000_000_000 + number),
      }
      const block: ScriptedBlock = {
        number,
        hash: headerHash(header),
        parentHash: header.parentHash!,
        timestamp: Number(header.timestamp),
        transactions: made,
        header,
      }
      known.set(block.hash, block)
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
      expensive: openExpensiveCalls(),
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
        const logs = receipts.flatMap((receipt) => receipt.logs)
        if (logs.length > 0) tamper(receipts, logs)
        return receipts
      }
      case 'eth_chainId':
        return quantity(script.chain.chainId)
      case 'eth_getLogs':
        return logAnswers(params[0] as LogFilter)
      case 'eth_getTransactionByHash':
        for (const block of script.blocks) {
          const sent = block.transactions.find(({ hash }) => hash === params[0])
          if (sent !== undefined) return { hash: sent.hash, from: sent.from, blockHash: block.hash }
        }
        return null
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

  /** By range and topics, as nodes do it. @throws RpcError when more match than the limit allows */
  function logAnswers(filter: LogFilter): unknown[] {
    if ('blockHash' in filter) return logsOfBlock(filter.blockHash)
    const { fromBlock, toBlock, topics: wanted } = filter
    const [from, to] = [Number(fromBlock), Number(toBlock)]
    if (to - from + 1 > faults.mostBlocks)
      throw new RpcError(-32602, `eth_getLogs is limited to a ${faults.mostBlocks} range`, undefined)
    const logs = script.blocks
      .filter(({ number }) => number >= from && number <= Math.min(to, script.blocks.length - 1 - faults.lag))
      .flatMap((block) =>
        receiptAnswers(block).flatMap(({ logs: some, transactionHash }) =>
          some.map((log) => ({ ...log, transactionHash, blockHash: block.hash, blockNumber: quantity(block.number) })),
        ),
      )
      .filter(
        ({ topics }) =>
          topics.length >= wanted.length &&
          wanted.every((one, at) => one === null || [one].flat().includes(topics[at]!)),
      )
    if (logs.length <= faults.mostLogs) return logs
    if (faults.cutsSilently) return logs.slice(0, faults.mostLogs)
    throw new RpcError(-32005, `query returned more than ${faults.mostLogs} results`, undefined)
  }

  /** All logs of one block, tampered with as its receipts are. @throws RpcError where it is not known */
  function logsOfBlock(blockHash: Hex): unknown[] {
    const block = known.get(blockHash)
    if (block === undefined) throw new RpcError(-32000, 'unknown block', undefined)
    const receipts = receiptAnswers(block)
    const logs = receipts.flatMap((receipt) => receipt.logs)
    if (logs.length > 0) tamper(receipts, logs)
    return receipts.flatMap(({ logs: some, transactionHash }, index) =>
      some.map((log) => ({ ...log, transactionHash, transactionIndex: quantity(index), blockHash })),
    )
  }

  /** Receipts as an honest node never sends them; their number stays right. */
  function tamper(receipts: ReceiptAnswer[], logs: ReceiptAnswer['logs']): void {
    const victim = logs[logs.length >> 1]!
    if (take('missingLogs')) for (const receipt of receipts) receipt.logs = receipt.logs.filter((log) => log !== victim)
    if (take('falseTopics')) victim.address = addressOf(0xbad)
    if (take('falseAmounts'))
      victim.data = `${victim.data.slice(0, -2)}${victim.data.endsWith('aa') ? 'bb' : 'aa'}` as Hex
  }

  function take(fault: keyof { [F in keyof Faults as Faults[F] extends number ? F : never]: 1 }): boolean {
    if (faults[fault] === 0) return false
    faults[fault]--
    return true
  }

  script.mine()
  return script
}

const PLAIN_GAS = 21_000
/** what everybody calls */
const TARGET = addressOf(0xc0)
const EMPTY: Hex = `0x${'00'.repeat(32)}`
const EMPTY_HEADER: Record<string, Hex> = {
  ...{ sha3Uncles: EMPTY, stateRoot: EMPTY, difficulty: '0x0' },
  ...{ gasLimit: '0x1c9c380', gasUsed: '0x0', mixHash: EMPTY, nonce: '0x0000000000000000' },
}

function blockAnswer(block: ScriptedBlock, isWhole: boolean) {
  return {
    ...block.header,
    hash: block.hash,
    transactions: block.transactions.map(({ hash, answer }) => (isWhole ? answer : hash)),
  }
}

type ReceiptAnswer = ReturnType<typeof receiptAnswers>[number]

function receiptAnswers(block: Pick<ScriptedBlock, 'hash' | 'transactions'>) {
  let logIndex = 0
  let gas = 0
  return block.transactions.map((transaction, index) => ({
    type: quantity(index % 5),
    cumulativeGasUsed: quantity((gas += transaction.gasUsed ?? PLAIN_GAS)),
    blockHash: block.hash,
    transactionHash: transaction.hash,
    from: transaction.from,
    to: TARGET,
    status: transaction.reverted ? '0x0' : '0x1',
    gasUsed: quantity(transaction.gasUsed ?? PLAIN_GAS),
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
