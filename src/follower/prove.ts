import { readAddress, readNumber, readObject } from '../chain/rpc/answers.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import type { Block } from '../chain/rpc/block.ts'
import type { Verification } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import type { Ours, BlockProof, Receipt } from './block.ts'
import {
  checkReceipts,
  checkRoots,
  checkTransaction,
  computeBlock,
  headerHash,
  readTransactions,
  receiptsRoot,
  transactionsRoot,
  type ComputedBlock,
} from './strict.ts'
import { isEthereums, readRaw, readSent, typeOf, type EncodedTransaction } from './transaction.ts'

/** Block and receipts as the node sent them, with whole transactions. */
export type Answers = { block: unknown; receipts: readonly unknown[] }

type BlockWithReceipts = Block & { receipts: Receipt[] }

/**
 * Whether this process could verify a network's blocks so far, in a mode that does not require it. `doubts`:
 * consecutive blocks that could not be verified.
 */
export type Provability = { wasProven: boolean; doubts: number }

/** attempts, over half a minute, at a block that cannot be verified although earlier blocks of the network could */
const PATIENCE = 20

/**
 * Verifies a whole block against its hash.
 * @throws InvalidResponse
 */
export function proveAll(answers: Answers, read: BlockWithReceipts): { receipts: Receipt[]; proof: BlockProof } {
  const computed = computeBlock(answers.block, answers.receipts)
  // No network has unsigned transactions; only development nodes let a caller impersonate an account.
  if (computed.sent.some(({ isSigned }) => !isSigned)) throw new InvalidResponse('nobody has signed a transaction')
  return compare(answers, read, { computed, isSenderChecked: () => true })
}

/**
 * Verifies a block like `proveAll`, if the network's headers and transactions are Ethereum's. Verifies senders only for
 * transactions that the node reports as ours.
 * On other networks, and in mode `count`, verifies only that hash, sender and nonce of our transactions match their
 * bytes.
 * @throws InvalidResponse
 */
export function proveSome(
  answers: Answers,
  read: BlockWithReceipts,
  { ours, verification, provability }: { ours: Ours; verification: Verification; provability: Provability },
): BlockProof {
  if (verification === 'count') return { ...trust(answers, read, ours), doubt: null }
  const { computed, doubt } = tryCompute(answers, read.hash)
  if (computed !== null) {
    const claimed = new Set(ours.claimed)
    const isSenderChecked = (index: number) => claimed.has(read.receipts[index]!.transactionHash)
    const { proof } = compare(answers, read, { computed, isSenderChecked })
    Object.assign(provability, { wasProven: true, doubts: 0 })
    return proof
  }
  takeDoubt(provability, doubt)
  return { ...trust(answers, read, ours), doubt }
}

/**
 * Records that a block cannot be verified. The cause may be a lying node, or a network that changed its rules.
 * @throws InvalidResponse  while the block is to be fetched again
 */
export function takeDoubt(provability: Provability, doubt: string): void {
  if (provability.wasProven && provability.doubts++ < PATIENCE) throw new InvalidResponse(doubt)
  Object.assign(provability, { wasProven: false, doubts: 0 })
}

/**
 * Returns why a block with whole transactions cannot be verified, whatever its receipts are; null if it can be
 * verified.
 */
export function doubtOf(block: unknown, hash: Hex): string | null {
  return tryCompute({ block, receipts: [] }, hash).doubt
}

/**
 * Verifies a block in which we signed every transaction, from our own bytes. The node then need not send whole
 * transactions, which costs it more than everything else. If this returns null, the caller fetches the whole block.
 * @param block  without its transactions
 * @returns null if it includes others' transactions, if nothing is proven, or if anything differs
 */
export function proveOwn(
  { block, receipts }: Answers,
  read: BlockWithReceipts,
  { ours: { signed }, verification, provability }: { ours: Ours; verification: Verification; provability: Provability },
): BlockProof | null {
  const raws = read.receipts.flatMap(({ transactionHash }) => signed.get(transactionHash) ?? [])
  if (verification === 'count' || raws.length < read.receipts.length) return null
  try {
    const sent = raws.map(readRaw)
    const hash = headerHash(readObject(block, 'a block'))
    const roots = { transactionsRoot: transactionsRoot(sent), receiptsRoot: receiptsRoot(receipts) }
    checkRoots(block, { hash, ...roots, sent })
    const proven = checkReceipts(sent, read, { answers: receipts, isSenderChecked: () => false })
    Object.assign(provability, { wasProven: true, doubts: 0 })
    return { nonces: new Map(sent.map((one) => [one.hash, one.nonce])), receipts: byHash(proven), doubt: null }
  } catch (error) {
    if (error instanceof InvalidResponse) return null
    throw error
  }
}

type Comparison = { computed: ComputedBlock; isSenderChecked: (index: number) => boolean }

function compare(
  answers: Answers,
  read: BlockWithReceipts,
  { computed, isSenderChecked }: Comparison,
): { receipts: Receipt[]; proof: BlockProof } {
  const { sent } = computed
  checkRoots(answers.block, computed)
  for (const [index, answer] of readTransactions(answers.block).entries())
    checkTransaction(sent[index]!, answer, { isSenderChecked: isSenderChecked(index) })
  const receipts = checkReceipts(sent, read, { answers: answers.receipts, isSenderChecked })
  const nonces = new Map(receipts.map(({ transactionHash }, index) => [transactionHash, sent[index]!.nonce]))
  return { receipts, proof: { nonces, receipts: byHash(receipts), doubt: null } }
}

type Recomputation = { computed: ComputedBlock; doubt: null } | { computed: null; doubt: string }

function tryCompute({ block, receipts }: Answers, hash: Hex): Recomputation {
  try {
    const computed = computeBlock(block, receipts)
    if (computed.hash === hash) return { computed, doubt: null }
    return { computed: null, doubt: 'the header has another hash than Ethereum would give it' }
  } catch (error) {
    if (!(error instanceof InvalidResponse)) throw error
    return { computed: null, doubt: error.message }
  }
}

function trust(answers: Answers, read: BlockWithReceipts, ours: Ours): Pick<BlockProof, 'nonces' | 'receipts'> {
  return { nonces: readNonces(answers, read, ours), receipts: byHash(read.receipts) }
}

const byHash = (receipts: readonly Receipt[]): Map<Hex, Receipt> =>
  new Map(receipts.map((receipt) => [receipt.transactionHash, receipt]))

/**
 * Returns the nonces of our transactions, after checking, as far as possible, that hash, sender and nonce match their
 * bytes.
 * @throws InvalidResponse
 */
export function readNonces(
  { block }: Pick<Answers, 'block'>,
  { receipts }: { receipts: readonly Pick<Receipt, 'transactionHash' | 'from'>[] },
  { signed, claimed }: Ours,
): Map<Hex, number> {
  const ours = new Set([...signed.keys(), ...claimed])
  const nonces = new Map<Hex, number>()
  for (const [index, answer] of readTransactions(block).entries()) {
    const { transactionHash, from } = receipts[index]!
    if (!ours.has(transactionHash)) continue
    const said = readObject(answer, 'a whole transaction')
    if (readAddress(said.from, 'sender of a transaction') !== from)
      throw new InvalidResponse('a receipt has another from than its transaction')
    // The signer signs no transaction types of other networks.
    if (signed.has(transactionHash) && !isEthereums(typeOf(said)))
      throw new InvalidResponse('a transaction that was signed here has another type')
    const sent = tryReadSent(answer)
    if (sent !== null) checkTransaction(sent, answer, { isSenderChecked: claimed.includes(transactionHash) })
    nonces.set(transactionHash, readNumber(said.nonce, 'nonce of a transaction'))
  }
  return nonces
}

/** Returns null for a transaction that is not encoded like Ethereum's. */
function tryReadSent(answer: unknown): EncodedTransaction | null {
  try {
    return readSent(answer)
  } catch (error) {
    if (error instanceof InvalidResponse) return null
    throw error
  }
}
