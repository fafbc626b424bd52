import { createHash } from 'node:crypto'
import { explainAddress } from '../abi/address.ts'
import { AppError, type FieldError } from '../errors.ts'
import { foreignCursor, readPageCursor, writeCursor } from '../http/cursor.ts'
import type { Hex } from '../ids.ts'
import type { TokenType } from '../tokens/record.ts'
import { wholeIn } from '../digits.ts'

/** The query parameters, unparsed. The schema rejects repeated ones. */
export type HistoryParameters = Partial<
  Record<
    | 'limit'
    | 'cursor'
    | 'type'
    | 'direction'
    | 'token'
    | 'counterparty'
    | 'from'
    | 'to'
    | 'fromBlock'
    | 'toBlock'
    | 'finality'
    | 'includeSpam'
    | 'include',
    string
  >
>

/** Type of an entry. Native currency is listed only on request. */
export type EntryType = TokenType | 'NATIVE'

/** The filters of a page. A cursor is valid for one set of filters. */
export type TransferFilters = {
  /** null: all token types */
  types: EntryType[] | null
  direction: 'in' | 'out' | 'all'
  token: Hex | null
  counterparty: Hex | null
  /** both inclusive, milliseconds since 1970 */
  fromTime: number | null
  toTime: number | null
  /** both inclusive */
  fromBlock: number | null
  toBlock: number | null
  isFinalOnly: boolean
  includesSpam: boolean
}

/** A position in the total order of an account's transfers. */
export type HistoryPosition = { block: number; logIndex: number; batchIndex: number }

const DEFAULT_LIMIT = 50
const MAX = 200
const TYPES: readonly string[] = ['ERC20', 'ERC721', 'ERC1155', 'NATIVE'] satisfies EntryType[]

/**
 * Parses the query of a history request.
 * @throws invalid_request  naming every parameter that is invalid or contradicts another
 */
export function readParameters(parameters: HistoryParameters): { limit: number; filters: TransferFilters } {
  const errors: FieldError[] = []
  const read = <T>(parameter: keyof HistoryParameters, parse: (text: string) => T | InvalidParameter): T | null => {
    const text = parameters[parameter]
    if (text === undefined) return null
    const value = parse(text)
    if (!(value instanceof InvalidParameter)) return value
    errors.push({ parameter, code: 'invalid', detail: value.detail })
    return null
  }
  const limit = read('limit', parseLimit) ?? DEFAULT_LIMIT
  const filters: TransferFilters = {
    types: withNative(read('type', parseTypes), read('include', oneOf('native')) !== null),
    direction: read('direction', oneOf('in', 'out', 'all')) ?? 'all',
    token: read('token', parseAddress),
    counterparty: read('counterparty', parseAddress),
    fromTime: read('from', parseTime),
    toTime: read('to', parseTime),
    fromBlock: read('fromBlock', parseBlock),
    toBlock: read('toBlock', parseBlock),
    isFinalOnly: read('finality', oneOf('finalized')) !== null,
    includesSpam: read('includeSpam', oneOf('true', 'false')) === 'true',
  }
  const { fromTime, toTime, fromBlock, toBlock } = filters
  if (fromTime !== null && toTime !== null && fromTime > toTime) errors.push(contradiction('from', 'to'))
  if (fromBlock !== null && toBlock !== null && fromBlock > toBlock) errors.push(contradiction('fromBlock', 'toBlock'))
  const first = errors[0]
  if (first !== undefined) throw new AppError('invalid_request', `${first.parameter}: ${first.detail}`, { errors })
  return { limit, filters }
}

const contradiction = (parameter: string, other: string): FieldError => ({
  parameter,
  code: 'contradiction',
  detail: `This value is later than \`${other}\`.`,
})

class InvalidParameter {
  readonly detail: string
  constructor(detail: string) {
    this.detail = detail
  }
}

function parseLimit(text: string): number | InvalidParameter {
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0
  return limit >= 1 && limit <= MAX ? limit : new InvalidParameter(`Use a whole number from 1 to ${MAX}.`)
}

/** Parses types into a fixed order without duplicates, so that equal filters have equal cursors. */
function parseTypes(text: string): EntryType[] | InvalidParameter {
  const names = text.split(',')
  if (!names.every((name) => TYPES.includes(name)))
    return new InvalidParameter(`Use one or more of ${TYPES.join(', ')}, separated by commas.`)
  return TYPES.filter((type) => names.includes(type)) as EntryType[]
}

/** Adds native currency to the types. Equivalent queries get the same list, so they get the same cursors. */
function withNative(types: EntryType[] | null, includesNative: boolean): EntryType[] | null {
  if (!includesNative) return types
  return TYPES.filter((type) => types === null || type === 'NATIVE' || types.includes(type as EntryType)) as EntryType[]
}

const oneOf =
  <T extends string>(...choices: T[]) =>
  (text: string): T | InvalidParameter =>
    choices.find((choice) => choice === text) ??
    new InvalidParameter(choices.length === 1 ? `Use only \`${choices[0]}\`.` : `Use one of ${choices.join(', ')}.`)

function parseAddress(text: string): Hex | InvalidParameter {
  const problem = explainAddress(text)
  return problem === null ? (text.toLowerCase() as Hex) : new InvalidParameter(`The address ${problem.detail}.`)
}

function parseBlock(text: string): number | InvalidParameter {
  return wholeIn(text) ?? new InvalidParameter('Use a block number in decimal digits.')
}

const TIME = /^(\d{4})-(\d\d)-(\d\d)(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/

/**
 * Parses a time. A date means its midnight in UTC; a time needs a zone. Checks the day, because Date.parse turns 30
 * February into March.
 */
function parseTime(text: string): number | InvalidParameter {
  const match = TIME.exec(text)
  const at = match === null ? Number.NaN : Date.parse(text)
  if (match === null || Number.isNaN(at))
    return new InvalidParameter(
      'Use a time such as 2026-01-31T12:00:00Z (write + as %2B) or a date such as 2026-01-31.',
    )
  const [, year, month, day] = match
  const daysOfMonth = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  if (Number(day) > daysOfMonth) return new InvalidParameter('This day does not exist.')
  return at >= FIRST_MS && at <= LAST_MS ? at : new InvalidParameter('Use a time in the years 1 to 9999.')
}

/** PostgreSQL has no year 0, and a time zone may lead to a year beyond 9999. */
const FIRST_MS = Date.parse('0001-01-01T00:00:00Z')
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z')

/**
 * Encodes the cursor after a position. It is valid only for the same account, network and filters. It never expires,
 * because it names a position in the order, not a row.
 */
export function placeCursor(scope: CursorScope, place: HistoryPosition): string {
  return writeCursor([digestOf(scope), place.block, place.logIndex, place.batchIndex])
}

export type CursorScope = { accountId: string; chainId: number; filters: TransferFilters }

const MAX_INT = 2_147_483_647

/** Decodes a cursor. @throws invalid_cursor  if it is damaged, or belongs to another user, network or filter */
export function readPlace(scope: CursorScope, cursor: string): HistoryPosition {
  const [digest, block, logIndex, batchIndex] = readPageCursor(cursor, ['string', 'number', 'number', 'number']) as [
    string,
    number,
    number,
    number,
  ]
  const isPlace = block >= 0 && isInt(logIndex) && isInt(batchIndex)
  if (isPlace && digest === digestOf(scope)) return { block, logIndex, batchIndex }
  throw foreignCursor()
}

const isInt = (number: number): boolean => number >= 0 && number <= MAX_INT

function digestOf({ accountId, chainId, filters }: CursorScope): string {
  const { types, direction, token, counterparty, fromTime, toTime, fromBlock, toBlock, isFinalOnly, includesSpam } =
    filters
  const text = JSON.stringify([
    'history',
    accountId,
    chainId,
    types,
    direction,
    token,
    counterparty,
    fromTime,
    toTime,
    fromBlock,
    toBlock,
    isFinalOnly,
    includesSpam,
  ])
  return createHash('sha256').update(text).digest('base64url').slice(0, 16)
}
