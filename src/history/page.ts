import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { toHex } from '../hex.ts'
import { knownTokensOf } from '../tokens/known.ts'
import { FORM_NUMBERS } from '../tokens/moved.ts'
import type { HistoryPosition } from './query.ts'
import { DIRECTION } from './rows.ts'
import { ENTRY_TYPE_NUMBERS, selectTransfers, selectUnlike, type StoredTransfer } from './select.ts'
import { judgeTransfers, type JudgedFor, type PlacedTransfer } from './spam-facts.ts'
import type { Spam } from './spam.ts'

/** maximum number of rows read for one page, however many of them are spam */
const MAX_LOOKED_AT = 1_000

/** A row with its verdict; `spam` is null if it is not spam. */
export type JudgedRow = { row: StoredTransfer; spam: Spam | null }

type JudgedPage = {
  shown: JudgedRow[]
  /** position after which the next page begins; null: this is the last page */
  next: HistoryPosition | null
  indexedTo: number
  finalizedTo: number
}

/**
 * Selects the rows of a page that pass its filters, including the spam filter. If too many rows are spam, selects the
 * whole page again with more rows, so that all rows belong to one snapshot. After MAX_LOOKED_AT rows, the page ends
 * with fewer entries.
 */
export async function selectPage(
  app: Pick<App, 'db' | 'knownTokens' | 'telemetry'>,
  chain: Chain,
  {
    limit,
    isCovered,
    ...wanted
  }: Omit<Parameters<typeof selectTransfers>[1], 'chainId' | 'unlike'> & { isCovered: boolean },
): Promise<JudgedPage> {
  const { accountId, filters } = wanted
  const of: JudgedFor = { accountId, chainId: chain.chainId, known: knownTokensOf(app, chain), isCovered }
  const unlike = await selectUnlike(app.db, of)
  for (let size = limit + 1; ; size = size < MAX_LOOKED_AT / 4 ? size * 4 : MAX_LOOKED_AT) {
    const { rows, indexedTo, finalizedTo } = await selectTransfers(app.db, { ...wanted, chainId: chain.chainId, unlike, limit: size }) // prettier-ignore
    const judged = rows.flatMap((row) => transferOf(row) ?? [])
    const verdicts = await judgeTransfers(app.db, of, judged)
    const spamOf = new Map(judged.map(({ row }, index) => [row, verdicts[index]!]))
    const all = rows.map((row) => ({ row, spam: spamOf.get(row) ?? null }))
    const left = filters.includesSpam ? all : all.filter(({ spam }) => spam === null)
    if (left.length <= limit && rows.length === size && size < MAX_LOOKED_AT) continue
    for (const { spam } of all) for (const reason of spam?.reasons ?? []) app.telemetry.spamTransfers.inc({ reason })
    const shown = left.slice(0, limit)
    const last = left.length > limit ? shown.at(-1)!.row : rows.length === size ? rows.at(-1)! : null
    return { shown, next: last && placeOf(last), indexedTo, finalizedTo }
  }
}

const placeOf = (row: StoredTransfer): HistoryPosition => ({
  block: row.block_number,
  logIndex: row.log_index,
  batchIndex: row.batch_index,
})

/** Returns a row as a token transfer, to be judged; null for native currency, which only the chain itself reports. */
function transferOf(row: StoredTransfer): (PlacedTransfer & { row: StoredTransfer }) | null {
  const { tokenType, value } = row.moved
  if (tokenType === 'NATIVE') return null
  return {
    row,
    tokenType,
    token: toHex(row.token),
    symbol: row.symbol ?? '',
    name: row.name ?? '',
    direction: nameOf(DIRECTION, row.direction),
    value,
    // If the contract's type differs from the log's form, the stored `is_spam` was decided by a number other than the
    // amount.
    isZero: value === 0n && (row.is_spam || isReadApart(row)),
    form: row.token_type,
    hash: toHex(row.hash),
    blockNumber: row.block_number,
    logIndex: row.log_index,
  }
}

const isReadApart = ({ token_type, moved }: StoredTransfer): boolean =>
  ENTRY_TYPE_NUMBERS[moved.tokenType] !== token_type && token_type !== FORM_NUMBERS.WRAPPED

/** Returns the name of a number that the table stores. @throws Error if it is unknown */
export function nameOf<T extends string>(numbers: Record<T, number>, number: number): T {
  const name = (Object.keys(numbers) as T[]).find((key) => numbers[key] === number)
  if (name === undefined) throw new Error(`the table has the unknown value ${number}`)
  return name
}
