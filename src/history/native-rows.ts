import { InvalidResponse } from '../chain/rpc/failures.ts'
import { wordDigits, type Hex } from '../ids.ts'
import type { KeptBlock } from '../follower/block.ts'
import type { FoundNative } from './native.ts'
import { NOBODY } from './native.ts'
import { DIRECTION, MAX_ROWS, type TransferRow } from './rows.ts'

/** `token_type` of native currency in the table; it is no token type of the API. */
export const NATIVE_TYPE_NUMBER = 1

/** hexadecimal digits of 32 bytes */
const WORD_DIGITS = 64

/**
 * Builds the rows for native currency transfers, one per participating account of ours.
 * @param accounts  account ids by address
 * @throws InvalidResponse  if an amount is larger than a balance can be
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
      // Skip the zero address even if an account claims it: nobody can send from it.
      if (accountId === undefined || address === NOBODY) continue
      rows.push(rowOf(block, one, { accountId, direction }))
    }
  }
  return bounded(rows)
}

/**
 * Limits the rows per account, block and direction. The last row counts the omitted rows, and its value includes their
 * values, so that the rows still sum up to the balance.
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

/**
 * Encodes an amount. A node's fees and traces are unverified, and an impossible amount would stop the history at this
 * block. @throws InvalidResponse  if the amount is impossible
 */
function wordOf(value: bigint): Hex {
  const digits = wordDigits(value)
  if (digits.length > WORD_DIGITS)
    throw new InvalidResponse('an amount of native currency is more than a balance holds')
  return `0x${digits}`
}
