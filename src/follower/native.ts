import { isAbsent, readAddress, readHash, readObject, readQuantity } from '../chain/rpc/answers.ts'
import { InvalidResponse } from '../chain/rpc/failures.ts'
import { encodeRlp } from '../rlp.ts'
import type { Hex } from '../ids.ts'
import type { BlockNative, SentNative } from './block.ts'
import { bytes, quantity } from './fields.ts'
import { computeBlock, readTransactions } from './strict.ts'
import { listRoot } from './trie.ts'

const GWEI = 1_000_000_000n

/** Reads a block's native currency. Returns {} if it is unreadable, because no write depends on it. */
export function nativeOf(answer: unknown): { native?: BlockNative } {
  try {
    return { native: readNativeOf(answer) }
  } catch (error) {
    if (error instanceof InvalidResponse) return {}
    throw error
  }
}

/**
 * Reads a block's native currency.
 * @param answer  a block as the node sends it, with whole transactions or with hashes
 * @throws InvalidResponse
 */
export function readNativeOf(answer: unknown): BlockNative {
  const block = readObject(answer, 'a block')
  const transactions = readTransactions(block)
  const withdrawals = isAbsent(block.withdrawals) ? [] : block.withdrawals
  if (!Array.isArray(withdrawals)) throw new InvalidResponse('the block has no list of withdrawals')
  return {
    miner: isAbsent(block.miner) ? null : readAddress(block.miner, 'miner'),
    withdrawals: withdrawals.map((one: unknown) => {
      const { address, amount } = readObject(one, 'a withdrawal')
      return {
        address: readAddress(address, 'address of a withdrawal'),
        value: readQuantity(amount, 'amount of a withdrawal') * GWEI,
      }
    }),
    sent: transactions.every((one) => typeof one === 'object') ? transactions.map(readSentNative) : null,
  }
}

function readSentNative(answer: unknown): SentNative {
  const { hash, from, to, value, gasPrice, maxFeePerGas, mint } = readObject(answer, 'a whole transaction')
  return {
    hash: readHash(hash, 'hash of a transaction'),
    from: readAddress(from, 'sender of a transaction'),
    to: isAbsent(to) ? null : readAddress(to, 'recipient'),
    value: readQuantity(value, 'value of a transaction'),
    // If a fee cap is present, `gasPrice` only repeats the receipt's price, and no hash covers it.
    gasPrice: isAbsent(gasPrice) || !isAbsent(maxFeePerGas) ? null : readQuantity(gasPrice, 'gas price'),
    minted: isAbsent(mint) ? 0n : readQuantity(mint, 'what a deposit mints'),
  }
}

/**
 * Verifies values, withdrawals and some senders of a whole block against its hash, if header and transactions are
 * Ethereum's. Otherwise they are not verified.
 * @param answer  the block with whole transactions, as the node sends it
 * @throws InvalidResponse  if they contradict the hash
 */
export function checkNative(answer: unknown, hash: Hex, { isOurs }: { isOurs: (address: Hex) => boolean }): void {
  const block = readObject(answer, 'a block')
  const computed = tryCompute(block)
  if (computed?.hash !== hash) return
  checkWithdrawals(block)
  if (computed.transactionsRoot !== String(block.transactionsRoot).toLowerCase())
    throw new InvalidResponse('the transactions have another root than the block names')
  for (const [index, { from }] of readTransactions(block).map(readSentNative).entries()) {
    const sent = computed.sent[index]!
    if (sent.isSigned && isOurs(from) && sent.from() !== from)
      throw new InvalidResponse('a transaction has another sender')
  }
}

function tryCompute(block: Record<string, unknown>) {
  try {
    return computeBlock(block, [])
  } catch (error) {
    if (error instanceof InvalidResponse) return null
    throw error
  }
}

/** EIP-4895: the root is over each withdrawal as rlp([index, validator, address, gwei]). */
function checkWithdrawals({ withdrawals, withdrawalsRoot }: Record<string, unknown>): void {
  if (!Array.isArray(withdrawals) || withdrawals.length === 0) return
  const encoded = withdrawals.map((one: unknown) => {
    const { index, validatorIndex, address, amount } = readObject(one, 'a withdrawal')
    return encodeRlp([quantity(index), quantity(validatorIndex), bytes(address), quantity(amount)])
  })
  if (`0x${listRoot(encoded).toString('hex')}` !== String(withdrawalsRoot).toLowerCase())
    throw new InvalidResponse('the withdrawals have another root than the block names')
}
