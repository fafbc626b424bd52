import { InvalidResponse } from '../chain/rpc/failures.ts'
import { wordDigits, type Hex } from '../ids.ts'
import type { KeptBlock } from '../follower/block.ts'
import type { FoundNative } from './native.ts'
import { NOBODY } from './native.ts'
import { DIRECTION, MAX_ROWS, type TransferRow } from './rows.ts'

/** `token_type` of native currency in the table; it is no type of token. */
export const NATIVE_TYPE_NUMBER = 1

/** digits of 32 bytes */
const WORD_DIGITS = 64

/**
 * Rows of transfers of native currency, one for each of our accounts that takes part.
 * @param accounts  ids by address
 * @throws InvalidResponse  where an amount is more than a balance can hold
 */
export function nativeRows(
  block: KeptBlock,
  found: readonly FoundNative[],
  accounts: ReadonlyMap<Hex, string>,
): TransferRow[] {
  const rows: TransferRow[] = []
  for (const one of found) {
    const { from, to } = one
    const sides = from === to ? ([[from, DIRECTION.SELF]] as const) : ([[from, DIRECTION.OUT], [to, DIRECTION.IN]] as const) // prettier-ignore
    for (const [address, direction] of sides) {
      const accountId = accounts.get(address)
      // Also where someone has the address zero: nobody can send from it.
      if (accountId === undefined || address === NOBODY) continue
      rows.push(rowOf(block, one, { accountId, direction }))
    }
  }
  return bounded(rows)
}

/**
 * At most so many rows of an account, block and direction; the last of them counts the others, and its value is the sum of its own
 * and theirs, so that what is stored still sums up to the balance.
 */
function bounded(rows: TransferRow[]): TransferRow[] {
  if (rows.length <= MAX_ROWS) return rows
  const sides = Map.groupBy(rows, ({ accountId, direction }) => `${accountId} ${direction}`)
  return [...sides.values()].flatMap((some) => {
    if (some.length <= MAX_ROWS) return some
    const kept = some.slice(0, MAX_ROWS)
    const sum = some.slice(MAX_ROWS - 1).reduce((all, { value }) => all + BigInt(value), 0n)
    return kept.with(-1, { ...kept.at(-1)!, omitted: some.length - MAX_ROWS, value: wordOf(sum) })
  })
}

function rowOf(
  block: KeptBlock,
  { from, to, value, hash, logIndex, batchIndex }: FoundNative,
  { accountId, direction }: { accountId: string; direction: number },
): TransferRow {
  return {
    accountId,
    blockNumber: block.number,
    logIndex,
    batchIndex,
    direction,
    tokenType: NATIVE_TYPE_NUMBER,
    token: NOBODY,
    sender: from,
    recipient: to,
    tokenId: null,
    value: wordOf(value),
    hash,
    blockHash: block.hash,
    minedAt: block.timestamp,
    isSpam: false,
    omitted: 0,
  }
}

/** Fees and traces are a node's word: one that no balance can hold would stop the history at this block. */
function wordOf(value: bigint): Hex {
  const digits = wordDigits(value)
  if (digits.length > WORD_DIGITS)
    throw new InvalidResponse('an amount of native currency is more than a balance holds')
  return `0x${digits}`
}
