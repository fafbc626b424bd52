import { keccak256, parseTransaction, recoverTransactionAddress, type TransactionSerialized } from 'viem'
import { WRITE_ROUTE } from '../../src/contracts/write.ts'
import { accountIdOf, transactionIdOf, type Hex } from '../../src/ids.ts'
import { toHex } from '../../src/hex.ts'
import { fromWord } from '../../src/store/bytes.ts'
import type { TransactionState } from '../../src/store/column-values.ts'
import { readTransitions } from '../../src/transactions/read/transitions.ts'
import type { MinedTx } from './transactions-chain.ts'
import { doesNothing } from './transactions-client.ts'
import { nameOfRow, slotOf, type AttemptRow, type Evidence, type Row, type Tell } from './transactions-evidence.ts'

/** Every row of the service against the canonical chain, and every transaction of an account against the rows. */
export async function judgeRows(evidence: Evidence, tell: Tell): Promise<void> {
  const { rows, attempts, byHash, world } = evidence
  const known = new Set<Hex>()
  for (const row of rows) {
    const own = attempts.get(row.id) ?? []
    for (const attempt of own) {
      known.add(toHex(attempt.hash))
      await judgeBytes(row, attempt, tell)
    }
    judgeRow(evidence, row, own, tell)
    judgeTransitions(evidence, row, tell)
  }
  for (const { hash, from, nonce } of byHash.values())
    if (!known.has(hash) && !world.foreign.has(hash))
      tell('invented', `${hash} (nonce ${nonce} of ${from}) is mined, and no row has it`)
  judgeKeys(evidence, tell)
}

/** uses of one key that are looked for: each before the last came to nothing, or was over for a day */
const MAX_USES = 16

/** What was asked for with a key stands under the id of that key: a repeat that burns a nonce of its own is seen here. */
function judgeKeys({ rows, writes }: Evidence, tell: Tell): void {
  const known = new Set(
    writes.flatMap(({ account: { name }, key }) => {
      const scope = { accountId: accountIdOf('DEV', name), clientId: 'demo', route: WRITE_ROUTE, key }
      return Array.from({ length: MAX_USES }, (_, use) => transactionIdOf(scope, use))
    }),
  )
  for (const row of rows)
    if (row.request_hash !== null && !known.has(row.id))
      tell('invented', `${nameOfRow(row)} was asked for with a key, and its id is of none`)
}

/** The stored bytes are what their hash says, of this row, and at the terms that stand beside them. */
async function judgeBytes(row: Row, attempt: AttemptRow, tell: Tell): Promise<void> {
  const [raw, hash, from] = [toHex(attempt.raw!), toHex(attempt.hash), toHex(row.sender)]
  const name = `the attempt ${hash} of ${nameOfRow(row)}`
  if (keccak256(raw) !== hash) return tell('hashes', `${name} is not the hash of its bytes`)
  const tx = parseTransaction(raw)
  const signer = await recoverTransactionAddress({ serializedTransaction: raw as TransactionSerialized })
  const effect = { to: (tx.to?.toLowerCase() as Hex) ?? null, data: tx.data ?? '0x', value: tx.value ?? 0n }
  if (signer.toLowerCase() !== from) tell('hashes', `${name} is signed by ${signer}`)
  if ((tx.nonce ?? 0) !== row.nonce || tx.chainId !== row.chain_id)
    tell('hashes', `${name} has nonce ${tx.nonce} on chain ${tx.chainId}`)
  const isRows = effect.to === toHex(row.target) && effect.data === toHex(row.data) && effect.value === fromWord(row.value) // prettier-ignore
  if (attempt.is_cancel ? !doesNothing(from, effect) : !isRows)
    tell('hashes', `${name} does something else than ${attempt.is_cancel ? 'a cancel' : 'its row'}`)
  const isSame =
    tx.gas === BigInt(attempt.gas_limit) &&
    (tx.maxFeePerGas ?? tx.gasPrice) === fromWord(attempt.max_fee) &&
    // The library leaves out a tip of nothing.
    (attempt.max_priority_fee === null || (tx.maxPriorityFeePerGas ?? 0n) === fromWord(attempt.max_priority_fee))
  if (!isSame) tell('hashes', `${name} has other gas or fees than are stored with it`)
}

/** State, hash, block, receipt and finality are what the chain shows at the row's nonce. */
function judgeRow(evidence: Evidence, row: Row, attempts: AttemptRow[], tell: Tell): void {
  const { bySlot, receipts, chain, world } = evidence
  const name = nameOfRow(row)
  const mined = bySlot.get(slotOf(toHex(row.sender), row.nonce))
  if (mined === undefined) return judgeOpen(evidence, row, tell)
  const receipt = receipts.get(mined.hash)!
  const own = attempts.find(({ hash }) => toHex(hash) === mined.hash)
  const isFinal = mined.block.number <= chain.head.number - world.finality
  if (own === undefined) return judgeReplaced(evidence, row, mined, tell)
  const expected = stateOf({ isCancel: own.is_cancel, succeeded: receipt.succeeded, isFinal })
  if (isFinal !== row.is_final)
    tell('finality', `${name} is${row.is_final ? '' : ' not'} final in block ${mined.block.number} of ${chain.head.number}`) // prettier-ignore
  else if (row.state !== expected) tell('state', `${name} is ${row.state}, the chain says ${expected}`)
  if (row.hash === null || toHex(row.hash) !== mined.hash)
    tell('hashes', `${name} has ${row.hash === null ? 'no hash' : toHex(row.hash)}, mined is ${mined.hash}`)
  if (row.is_cancel !== own.is_cancel) tell('state', `${name} says that it is ${row.is_cancel ? 'a' : 'no'} cancel`)
  judgeBlock(row, mined, tell)
  const { gas_used, effective_gas_price, succeeded } = row
  if (succeeded !== receipt.succeeded) tell('receipt', `${name} says succeeded: ${succeeded}`)
  if (gas_used === null || BigInt(gas_used) !== receipt.gasUsed)
    tell('receipt', `${name} used ${gas_used} gas, the receipt says ${receipt.gasUsed}`)
  if (effective_gas_price === null || fromWord(effective_gas_price) !== receipt.effectiveGasPrice)
    tell('receipt', `${name} paid ${effective_gas_price === null ? null : fromWord(effective_gas_price)} a gas, the receipt says ${receipt.effectiveGasPrice}`) // prettier-ignore
}

function stateOf(of: { isCancel: boolean; succeeded: boolean; isFinal: boolean }): TransactionState {
  if (of.isCancel) return 'CANCELLED'
  if (!of.succeeded) return 'REVERTED'
  return of.isFinal ? 'FINALIZED' : 'MINED'
}

function judgeBlock(row: Row, { block }: MinedTx, tell: Tell): void {
  if (row.block_number !== block.number || row.block_hash === null || toHex(row.block_hash) !== block.hash)
    tell('block', `${nameOfRow(row)} is in block ${row.block_number}, the chain has it in ${block.number} ${block.hash}`) // prettier-ignore
}

/** Of a nonce that the chain has not used: open, or a mere place. */
function judgeOpen({ rows }: Evidence, row: Row, tell: Tell): void {
  const isHighest = !rows.some(({ sender, nonce }) => toHex(sender) === toHex(row.sender) && nonce > row.nonce)
  if (row.state === 'VACANT' && isHighest) return
  const isOpen = row.state === 'BOUND' || row.state === 'SUBMITTED' || row.state === 'VACANT'
  tell(isOpen ? 'late' : 'invented', `${nameOfRow(row)} is ${row.state}, and the chain has nothing at its nonce`)
}

/** A nonce that something else has used: only what the harness itself sent past the service, and final before FAILED. */
function judgeReplaced({ chain, world }: Evidence, row: Row, mined: MinedTx, tell: Tell): void {
  const name = nameOfRow(row)
  if (!world.foreign.has(mined.hash)) return tell('invented', `${name} is replaced by ${mined.hash}, and no row has it`)
  const isFinal = mined.block.number <= chain.head.number - world.finality
  if (row.state !== 'REPLACED' && !(row.state === 'FAILED' && isFinal))
    tell('state', `${name} is ${row.state}, and its nonce was used by ${mined.hash}`)
  if (row.is_final !== isFinal) tell('finality', `${name} is ${row.state} and says final: ${row.is_final}`)
  if (row.state === 'REPLACED') judgeBlock(row, mined, tell)
  if (row.gas_used !== null || row.succeeded !== null) tell('receipt', `${name} has a receipt that is not its own`)
}

const OWN_IN_BLOCK = ['MINED', 'REVERTED', 'CANCELLED'] as const
const IN_BLOCK = [...OWN_IN_BLOCK, 'REPLACED'] as const
/**
 * What may follow what in the `transitions` of a row; docs/reference/states.md has the same, with what makes it. `START` is before
 * the first; a raised fee is SUBMITTED once more, and so is what a block lost.
 */
export const LEGAL: Record<string, readonly string[]> = {
  START: ['SUBMITTED', 'REPLACED', 'FAILED'],
  BOUND: ['SUBMITTED', 'REPLACED', 'FAILED'],
  SUBMITTED: ['SUBMITTED', ...IN_BLOCK, 'FAILED'],
  MINED: ['SUBMITTED', 'FINALIZED'],
  REVERTED: ['SUBMITTED', 'FINALIZED'],
  CANCELLED: ['SUBMITTED', 'FINALIZED'],
  REPLACED: ['BOUND', 'SUBMITTED', 'FINALIZED'],
  // A node may have been wrong about it; a block is not.
  FAILED: OWN_IN_BLOCK,
  FINALIZED: [],
}

/** The steps of a row are in an order that can be, and end where the row stands. Their times are put in order when read. */
function judgeTransitions({ attempts }: Evidence, row: Row, tell: Tell): void {
  const name = nameOfRow(row)
  const own = new Set((attempts.get(row.id) ?? []).map(({ hash }) => toHex(hash)))
  // A nonce above ours that somebody else used is only held: nothing was ever done with it.
  if (own.size === 0 && row.state === 'REPLACED') return
  const steps = readTransitions(row.transitions, attempts.get(row.id) ?? [])
  const said = steps.map(({ state }) => state).join(', ')
  let before: string = 'START'
  for (const { state, hash, blockNumber } of steps) {
    if (!LEGAL[before]?.includes(state)) tell('transitions', `${name}: ${before} became ${state} in ${said}`)
    const isInBlock = (IN_BLOCK as readonly string[]).includes(state)
    if (isInBlock !== (blockNumber !== undefined)) tell('transitions', `${name}: ${state} names block ${blockNumber}`)
    if (state !== 'REPLACED' && hash !== undefined && !own.has(hash as Hex))
      tell('transitions', `${name}: ${state} names ${hash}, which is none of its own`)
    if (isInBlock && own.size > 0 && hash === undefined) tell('transitions', `${name}: ${state} names no hash`)
    before = state
  }
  const isPlace = row.state === 'BOUND' || row.state === 'VACANT'
  const last = steps.at(-1)
  // What failed or was cancelled keeps its state when it is final.
  const [end, settled] = last?.state === 'FINALIZED' ? [steps.at(-2), true] : [last, false]
  const expected = settled && end?.state === 'MINED' ? 'FINALIZED' : end?.state
  if (!isPlace && expected !== row.state) tell('transitions', `${name} is ${row.state} after ${said}`)
  if (settled !== row.is_final && row.state !== 'FAILED')
    tell('transitions', `${name} is${row.is_final ? '' : ' not'} final after ${said}`)
  if (end?.blockNumber !== undefined && end.blockNumber !== row.block_number)
    tell('transitions', `${name} is in block ${row.block_number} after one that names ${end.blockNumber}`)
  if (row.hash !== null && end?.hash !== undefined && end.state !== 'REPLACED' && end.hash !== toHex(row.hash))
    tell('transitions', `${name} has ${toHex(row.hash)} after one that names ${end.hash}`)
}
