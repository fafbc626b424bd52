import type { Hex } from '../src/ids.ts'
import { toHex } from '../src/hex.ts'
import { fromWord } from '../src/store/bytes.ts'
import type { Db } from '../src/store/db.ts'
import type { ScriptedBlock } from './nodes/scripted-chain.ts'

/**
 * What the table of transfers must hold for a chain, a line for each row, made from what the test wrote down and not
 * from any log.
 * @param accounts  account ids by address
 */
export function expectedTransfers(blocks: ScriptedBlock[], accounts: Record<Hex, string>): string[] {
  const rows: string[] = []
  for (const block of blocks) {
    let logIndex = 0
    for (const transaction of block.transactions.filter(({ reverted }) => !reverted)) {
      for (const transfer of transaction.transfers) {
        const index = logIndex++
        for (const [place, { id, value }] of transfer.items.entries()) {
          const sides: [Hex, number][] = transfer.from === transfer.to ? [[transfer.from, 2]] : [[transfer.from, 1], [transfer.to, 0]] // prettier-ignore
          for (const [address, direction] of sides) {
            if (accounts[address] === undefined) continue
            const isSpam = value === 0n && transaction.from !== address
            rows.push(
              [
                ...[accounts[address], block.number, index, place, direction, transfer.type.slice(3), transfer.token],
                ...[transfer.from, transfer.to, id, value, transaction.hash, block.hash, block.timestamp, isSpam],
              ].join(' '),
            )
          }
        }
      }
    }
  }
  return rows.toSorted()
}

/** The table of transfers of tokens in the same form. */
export async function storedTransfers(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('transfers').selectAll().where('token_type', '<>', 1).execute()
  return rows
    .map((row) =>
      [
        ...[row.account_id, row.block_number, row.log_index, row.batch_index, row.direction, row.token_type],
        ...[toHex(row.token), toHex(row.sender), toHex(row.recipient)],
        ...[row.token_id === null ? null : fromWord(row.token_id), fromWord(row.value), toHex(row.hash)],
        ...[toHex(row.block_hash), row.mined_at.getTime() / 1_000, row.is_spam],
      ].join(' '),
    )
    .toSorted()
}
