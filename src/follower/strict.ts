import { quantityOf, type Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { isAbsent, readAddress, readHash, readNumber, readObject } from '../chain/rpc/answers.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Block } from '../chain/rpc/block.ts'
import { encodeRlp, type Rlp } from '../rlp.ts'
import { readLog } from './answers.ts'
import { bloomOf } from './bloom.ts'
import type { Log, Receipt } from './block.ts'
import { bytes, list, quantity } from './fields.ts'
import { isEthereums, readSent, typeOf, withType, type EncodedTransaction } from './transaction.ts'
import { listRoot } from './trie.ts'
import { toHex } from '../hex.ts'

/** A block computed from what it holds: if it is the block that was asked for, these are in its header. */
export type ComputedBlock = { hash: Hex; transactionsRoot: Hex; receiptsRoot: Hex; sent: EncodedTransaction[] }

/**
 * Encodes a block as Ethereum does.
 * @param block  with whole transactions, as the node sends it
 * @throws InvalidResponse  also for networks whose headers, transactions or receipts are not Ethereum's
 */
export function computeBlock(block: unknown, receipts: readonly unknown[]): ComputedBlock {
  const foreign = [...readTransactions(block), ...receipts]
    .map((one) => typeOf(readObject(one, 'a transaction')))
    .find((type) => !isEthereums(type))
  if (foreign !== undefined)
    throw new InvalidResponse(
      `blocks can be checked with the types 0 to 4 of Ethereum, not with ${quantityOf(foreign)}`,
    )
  const sent = readTransactions(block).map(readSent)
  const hash = headerHash(readObject(block, 'a block'))
  return { hash, transactionsRoot: transactionsRoot(sent), receiptsRoot: receiptsRoot(receipts), sent }
}

/**
 * Checks a block against its own hash: transactions and receipts against the roots in the header, the header against
 * the hash. What passes was in the block, whatever node says it: no transaction and nothing of a log can be missing,
 * added, moved or changed.
 * @throws InvalidResponse
 */
export function checkRoots(block: unknown, computed: ComputedBlock): void {
  const header = readObject(block, 'a block')
  if (computed.hash !== lower(header.hash)) throw new InvalidResponse('the header has another hash')
  if (computed.transactionsRoot !== lower(header.transactionsRoot))
    throw new InvalidResponse('the transactions have another root than the block names')
  if (computed.receiptsRoot !== lower(header.receiptsRoot))
    throw new InvalidResponse('the receipts have another root than the block names')
}

/**
 * The receipts of a block with everything that their root does not hold taken from the transactions, which are matched
 * by their place: a receipt has no hash, sender, recipient, price or gas of its own in it.
 * @param answers  the same receipts as the node sent them
 * @param isSenderChecked  whether sender, and the contract created, are to be compared; by the place in the block
 * @throws InvalidResponse  when the node said otherwise
 */
export function checkReceipts(
  sent: EncodedTransaction[],
  { receipts, baseFee }: Block & { receipts: Receipt[] },
  { answers, isSenderChecked }: { answers: readonly unknown[]; isSenderChecked: (index: number) => boolean },
): Receipt[] {
  if (sent.length !== receipts.length) throw new InvalidResponse('receipts are missing')
  let before = 0
  return receipts.map((receipt, index) => {
    const answer = readObject(answers[index], 'a receipt')
    const after = readNumber(answer.cumulativeGasUsed, 'cumulative gas used')
    const right: Receipt = {
      ...receipt,
      ...derive(sent[index]!, { baseFee, isSenderChecked: isSenderChecked(index) }),
      gasUsed: after - before,
    }
    before = after
    // Some nodes leave these two out.
    if (isAbsent(answer.effectiveGasPrice)) receipt = { ...receipt, effectiveGasPrice: right.effectiveGasPrice }
    if (isAbsent(answer.contractAddress)) receipt = { ...receipt, contractAddress: right.contractAddress }
    for (const name of PROVEN) {
      if (receipt[name] !== right[name]) throw new InvalidResponse(`a receipt has another ${name} than its transaction`)
    }
    return right
  })
}

const PROVEN = ['transactionHash', 'from', 'to', 'gasUsed', 'effectiveGasPrice', 'contractAddress'] as const

function derive(
  sent: EncodedTransaction,
  { baseFee, isSenderChecked }: { baseFee: bigint | null; isSenderChecked: boolean },
) {
  const from = isSenderChecked ? sent.from() : null
  return {
    ...(sent.isSigned ? { transactionHash: sent.hash } : {}),
    ...(from === null ? {} : { from, contractAddress: sent.contractAddress() }),
    to: sent.to,
    effectiveGasPrice: sent.priceAt(baseFee),
  }
}

/** What a node says of a transaction beside its bytes: the hash and the sender, which have to be those of the bytes. */
export function checkTransaction(
  sent: EncodedTransaction,
  answer: unknown,
  { isSenderChecked }: { isSenderChecked: boolean },
): void {
  if (!sent.isSigned) return
  const said = readObject(answer, 'a whole transaction')
  if (readHash(said.hash, 'hash of a transaction') !== sent.hash)
    throw new InvalidResponse('a transaction has another hash')
  if (isSenderChecked && readAddress(said.from, 'sender of a transaction') !== sent.from())
    throw new InvalidResponse('a transaction has another sender')
}

/** The whole transactions of a block. @throws InvalidResponse */
export const readTransactions = (block: unknown): readonly unknown[] => list(readObject(block, 'a block').transactions)

/** The root of a block's transactions. */
export const transactionsRoot = (sent: readonly { encoded: Buffer }[]): Hex =>
  toHex(listRoot(sent.map(({ encoded }) => encoded)))

/** The root of a block's receipts as the node sends them. @throws InvalidResponse */
export function receiptsRoot(receipts: readonly unknown[]): Hex {
  return toHex(listRoot(receipts.map(encodeReceipt)))
}

function encodeReceipt(answer: unknown): Buffer {
  const receipt = readObject(answer, 'a receipt')
  const type = typeOf(receipt)
  if (!isEthereums(type)) throw new InvalidResponse(`the receipt has the unknown type ${quantityOf(type)}`)
  const logs = logsOf(receipt)
  const body = encodeRlp([
    // Before Byzantium (EIP-658) a state root stood in the place of the status.
    typeof receipt.root === 'string' && receipt.status === undefined ? bytes(receipt.root) : quantity(receipt.status),
    quantity(receipt.cumulativeGasUsed),
    bloomOf(logs),
    logs.map(({ address, topics, data }): Rlp => [bytes(address), topics.map(bytes), bytes(data)]),
  ])
  return withType(type, body)
}

const logsOf = (answer: unknown): Log[] => {
  const { logs } = readObject(answer, 'a receipt')
  if (!Array.isArray(logs)) throw new InvalidResponse('a receipt has no list of logs')
  return logs.map(readLog)
}

/** Fields of a header in the order of their encoding; those of later forks end the list where they are absent. */
const FIELDS: readonly [name: string, read: (value: unknown) => Buffer][] = [
  ['parentHash', bytes],
  ['sha3Uncles', bytes],
  ['miner', bytes],
  ['stateRoot', bytes],
  ['transactionsRoot', bytes],
  ['receiptsRoot', bytes],
  ['logsBloom', bytes],
  ['difficulty', quantity],
  ['number', quantity],
  ['gasLimit', quantity],
  ['gasUsed', quantity],
  ['timestamp', quantity],
  ['extraData', bytes],
  ['mixHash', bytes],
  ['nonce', bytes],
]
const LATER_FIELDS: typeof FIELDS = [
  // London, EIP-1559
  ['baseFeePerGas', quantity],
  // Shanghai, EIP-4895
  ['withdrawalsRoot', bytes],
  // Cancun, EIP-4844 and 4788
  ['blobGasUsed', quantity],
  ['excessBlobGas', quantity],
  ['parentBeaconBlockRoot', bytes],
  // Prague, EIP-7685
  ['requestsHash', bytes],
]

/** Hash of a header as the node sends it. @throws InvalidResponse */
export function headerHash(header: Record<string, unknown>): Hex {
  const isThere = ([name]: (typeof FIELDS)[number]) => !isAbsent(header[name])
  const count = LATER_FIELDS.findLastIndex(isThere) + 1
  const later = LATER_FIELDS.slice(0, count)
  // Each fork added behind what there was. With a gap, a value would be under another's name and hash to the same.
  if (!later.every(isThere)) throw new InvalidResponse('the header leaves out a field between others')
  const fields = [...FIELDS, ...later].map(([name, read]) => read(header[name]))
  return toHex(keccak(encodeRlp(fields)))
}

const lower = (value: unknown): string => String(value).toLowerCase()
