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

/**
 * Hash and roots computed from a block's content. They equal those of the requested header if the content is authentic.
 */
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
 * Verifies a block against its own hash: transactions and receipts against the roots in the header, the header against
 * the hash. A block that passes is authentic, whichever node sent it: no transaction and no part of a log can be
 * missing, added, moved or changed.
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
 * Returns a block's receipts, with the fields that the receipts root does not cover derived from the transactions at
 * the same position: hash, sender, recipient, price and gas.
 * @param answers  the same receipts as the node sent them
 * @param isSenderChecked  whether to compare sender and created contract, by position in the block
 * @throws InvalidResponse  if the node sent other values
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
    // Some nodes omit this field and the next one.
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

/**
 * Checks a transaction's hash, and optionally its sender, as the node sent them, against its bytes.
 * @throws InvalidResponse
 */
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

/**
 * Returns the whole transactions of a block.
 * @throws InvalidResponse
 */
export const readTransactions = (block: unknown): readonly unknown[] => list(readObject(block, 'a block').transactions)

/** Returns the root of a block's transactions. */
export const transactionsRoot = (sent: readonly { encoded: Buffer }[]): Hex =>
  toHex(listRoot(sent.map(({ encoded }) => encoded)))

/**
 * Returns the root of a block's receipts as the node sends them.
 * @throws InvalidResponse
 */
export function receiptsRoot(receipts: readonly unknown[]): Hex {
  return toHex(listRoot(receipts.map(encodeReceipt)))
}

function encodeReceipt(answer: unknown): Buffer {
  const receipt = readObject(answer, 'a receipt')
  const type = typeOf(receipt)
  if (!isEthereums(type)) throw new InvalidResponse(`the receipt has the unknown type ${quantityOf(type)}`)
  const logs = logsOf(receipt)
  const body = encodeRlp([
    // Before Byzantium (EIP-658), a receipt had a state root instead of the status.
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

/** Fields of a header in the order of their encoding; fields of later forks are optional at the end. */
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

/**
 * Returns the hash of a header as the node sends it.
 * @throws InvalidResponse
 */
export function headerHash(header: Record<string, unknown>): Hex {
  const isThere = ([name]: (typeof FIELDS)[number]) => !isAbsent(header[name])
  const count = LATER_FIELDS.findLastIndex(isThere) + 1
  const later = LATER_FIELDS.slice(0, count)
  // Each fork appended fields. With a gap, a value could be sent under another field's name with the same hash.
  if (!later.every(isThere)) throw new InvalidResponse('the header leaves out a field between others')
  const fields = [...FIELDS, ...later].map(([name, read]) => read(header[name]))
  return toHex(keccak(encodeRlp(fields)))
}

const lower = (value: unknown): string => String(value).toLowerCase()
