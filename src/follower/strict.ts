import type { Hex } from '../ids.ts'
import { keccak } from '../keccak.ts'
import { readObject } from '../chain/answers.ts'
import { BadAnswer } from '../chain/failures.ts'
import { readLog } from './answers.ts'
import { bloomOf } from './bloom.ts'
import type { Log } from './block.ts'
import { bytesOf, encodeRlp, type Rlp } from './rlp.ts'
import { listRoot } from './trie.ts'

/** receipt types whose encoding is Ethereum's own: EIP-2718, 2930, 1559, 4844, 7702 */
const LAST_TYPE = 4

/**
 * Checks a block against its own hash: the receipts against the root in the header, the header against the hash. What
 * passes was in the block, whatever node says it: nothing of a log can be missing, added or changed.
 * @throws BadAnswer  also for networks whose headers or receipts are not Ethereum's
 */
export function checkRoots(block: unknown, receipts: readonly unknown[]): void {
  const header = readObject(block, 'a block')
  if (headerHash(header) !== String(header.hash).toLowerCase()) throw new BadAnswer('the header has another hash')
  if (receiptsRoot(receipts) !== String(header.receiptsRoot).toLowerCase()) {
    throw new BadAnswer('the receipts have another root than the block names')
  }
}

/** The root of a block's receipts as the node sends them. @throws BadAnswer */
export function receiptsRoot(receipts: readonly unknown[]): Hex {
  return hexOf(listRoot(receipts.map(encodeReceipt)))
}

function encodeReceipt(answer: unknown): Buffer {
  const receipt = readObject(answer, 'a receipt')
  const type = receipt.type === undefined || receipt.type === null ? 0 : Number(receipt.type)
  if (!(type >= 0 && type <= LAST_TYPE)) throw new BadAnswer(`the receipt has the unknown type ${type}`)
  const logs = logsOf(receipt)
  const body = encodeRlp([
    // Before Byzantium (EIP-658) a state root stood in the place of the status.
    typeof receipt.root === 'string' && receipt.status === undefined ? bytes(receipt.root) : quantity(receipt.status),
    quantity(receipt.cumulativeGasUsed),
    bloomOf(logs),
    logs.map(({ address, topics, data }): Rlp => [bytes(address), topics.map(bytes), bytes(data)]),
  ])
  return type === 0 ? body : Buffer.concat([Buffer.of(type), body])
}

const logsOf = (answer: unknown): Log[] => {
  const { logs } = readObject(answer, 'a receipt')
  if (!Array.isArray(logs)) throw new BadAnswer('a receipt has no list of logs')
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

/** Hash of a header as the node sends it. @throws BadAnswer */
export function headerHash(header: Record<string, unknown>): Hex {
  const later = LATER_FIELDS.filter(([name]) => header[name] !== undefined && header[name] !== null)
  const fields = [...FIELDS, ...later].map(([name, read]) => read(header[name]))
  return hexOf(keccak(encodeRlp(fields)))
}

function bytes(value: unknown): Buffer {
  if (typeof value !== 'string' || !/^0x([0-9a-f]{2})*$/i.test(value)) throw new BadAnswer('a field holds no bytes')
  return Buffer.from(value.slice(2), 'hex')
}

function quantity(value: unknown): Buffer {
  if (typeof value !== 'string' || !/^0x[0-9a-f]{1,64}$/i.test(value)) throw new BadAnswer('a field holds no number')
  return bytesOf(BigInt(value))
}

const hexOf = (root: Buffer): Hex => `0x${root.toString('hex')}`
