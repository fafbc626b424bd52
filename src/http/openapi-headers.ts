type Header = { description: string; schema: { type: 'string' | 'integer'; [keyword: string]: unknown } }

const text = (description: string, example: string): Header => ({
  description,
  schema: { type: 'string', examples: [example] },
})
const count = (description: string): Header => ({ description, schema: { type: 'integer', minimum: 0 } })

/** Response headers, as described in the OpenAPI document. */
export const HEADERS = {
  'X-Request-Id': text('Id of this request in the log of the service', 'c2b7a0f4-5b1f-4c7e-9d3a-4c2b8f0c7e1e'),
  'RateLimit-Policy': text('Limit that applied (IETF httpapi draft); absent if none applied', '"reads";q=60;w=3'), // prettier-ignore
  RateLimit: text('Remaining requests, and seconds until the limit is fully available again', '"reads";r=59;t=1'),
  'Retry-After': count('Seconds after which to retry, if a retry helps'),
  'WWW-Authenticate': text('Authentication scheme and error (RFC 6750, RFC 9449); with 403 if a permission is missing', 'Bearer error="invalid_token"'), // prettier-ignore
  'Content-Language': text('Language of `userMessage`, chosen by `Accept-Language`: `en`, `de`, `fr`, `es` or `ja`', 'en'), // prettier-ignore
  'X-Block-Number': count('Block at which the state was read'),
  'X-Unanswered-Tokens': count('Tokens that returned no balance'),
  'X-Indexed-From-Block': count(
    'First block whose transfers of this user are indexed; absent if unknown. In blocks that are older than the account, transfers in old logs without indexed addresses may be missing',
  ),
  'X-Indexed-To-Block': count('Last block whose transfers are indexed; absent before the first one'),
  'X-Finalized-To-Block': count('Last final block, which cannot be reorganised; absent before the first one'),
  'X-Native-From-Block': count(
    'With native currency: first block whose transaction values, fees, withdrawals and rewards of this user are indexed. Absent if unknown or not indexed',
  ),
  'X-Native-Internal-From-Block': count(
    'With native currency: first block with internal transfers, which contracts make. Absent if neither logs nor node traces report them',
  ),
  'X-Next-Cursor': text('`cursor` of the next page; absent on the last', 'eyJiIjo3fQ'),
  Link: text('URL of the next page, `rel="next"`; absent on the last', '<https://wallet.example/v1/transactions?cursor=eyJiIjo3fQ>; rel="next"'), // prettier-ignore
  'X-Total-Count': count('Total number of entries, if the list has only the newest ones'),
  Location: text('URL of the transaction or of the created resource', '/v1/transactions/01JZ8Q2M4X7R9T3V5W6Y8Z0A1B'),
  'Idempotent-Replayed': text(
    '`true` if this is the stored response to the first request with this idempotency key; otherwise absent',
    'true',
  ),
  'Preference-Applied': text('Applied preference of `Prefer`; otherwise absent', 'wait=5'),
} as const satisfies Record<string, Header>

export type HeaderName = keyof typeof HEADERS

/** Names the headers of an operation's successful responses, besides the common ones; part of its schema. */
export const sends = (...names: HeaderName[]): { 'x-sends': HeaderName[] } => ({ 'x-sends': names })

/** Headers of every page of a list except the last. */
export const PAGED = ['X-Next-Cursor', 'Link'] as const
/** Headers of every write. */
export const WRITTEN = ['Location', 'Idempotent-Replayed', 'Preference-Applied'] as const

const ALWAYS = ['X-Request-Id'] as const
const LIMITED = ['RateLimit-Policy', 'RateLimit'] as const
/** Headers of error responses to requests whose token was valid. */
const BEHIND_THE_DOOR = [...LIMITED, 'Preference-Applied'] as const
const OF_REFUSALS: Record<number, readonly HeaderName[]> = {
  401: ['WWW-Authenticate'],
  403: ['WWW-Authenticate'],
  409: ['Retry-After'],
  429: ['Retry-After'],
  502: ['Retry-After'],
  503: ['Retry-After'],
  504: ['Retry-After'],
}

type Reference = { $ref: string }

/** Returns the headers of a successful response. `Location` is only sent with 201 and 202. */
export function headersOfSuccess(
  status: number,
  { sent, isLimited }: { sent: readonly HeaderName[]; isLimited: boolean },
): Record<string, Reference> {
  const own = sent.filter((name) => name !== 'Location' || status !== 200)
  return references([...ALWAYS, ...(isLimited ? LIMITED : []), ...own])
}

export const headersOfRefusal = (status: number): Record<string, Reference> =>
  references([
    ...ALWAYS,
    'Content-Language',
    ...(status === 401 ? [] : BEHIND_THE_DOOR),
    ...(OF_REFUSALS[status] ?? []),
  ])

const references = (names: readonly HeaderName[]): Record<string, Reference> =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
