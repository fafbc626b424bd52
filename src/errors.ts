/** Sentence that the server and the signer both use for a frozen account. */
export const ACCOUNT_FROZEN = 'The operator has frozen this account.'

/**
 * Every error that this service returns. A code is a promise to clients and is never renamed.
 * `docs/reference/errors.md` is generated from this table, and a test fails if the two differ.
 */
// One line for each, so that it reads as the table it is.
// prettier-ignore
const catalogue = {
  // 400: the request cannot be read
  invalid_request: [400, 'The request is malformed', 'A field is missing or has the wrong type or shape; `errors` points to each.'],
  invalid_json: [400, 'The body is not JSON', 'Send one JSON document in UTF-8.'],
  unknown_parameter: [400, 'Unknown parameter', 'A query parameter or a body field that this operation does not have.'],
  invalid_address: [400, 'Invalid address', 'Expected 0x and 40 hexadecimal digits; mixed case only with a valid EIP-55 checksum.'],
  invalid_cursor: [400, 'Invalid cursor', 'Use the cursor from `X-Next-Cursor` of the same query.'],
  invalid_user_id: [400, 'Invalid user id', 'A user id is `<PROVIDER>-<provider_user_id>`.'],
  abi_is_view: [400, 'A view function cannot be written to', 'Use `/contracts/method/read`, or leave `view` out.'],
  abi_not_view: [400, 'Reads need a view function', 'Add `view` (or `pure`) to the ABI, or use `/contracts/method/write`.'],
  idempotency_key_invalid: [400, 'Invalid idempotency key', 'Between 1 and 255 printable ASCII characters, the same in both headers if both are sent.'],
  // 401, 403, 404
  invalid_token: [401, 'The access token is not valid', 'It is missing, malformed, expired, revoked or meant for another service. Sign in again.'],
  invalid_dpop_proof: [401, 'Invalid DPoP proof', 'The `DPoP` header must hold one proof (RFC 9449) of this request: its method, its address, its access token, made now and used once; `detail` says what is wrong. The access token itself may be valid: retry with a new proof.'],
  insufficient_scope: [403, 'The token lacks a permission', 'The application was not granted the permission that this operation needs.'],
  forbidden_user: [403, 'Token of another user', 'A token reads and acts for its own user only. The answer is the same whether or not that user exists.'],
  application_suspended: [403, 'The application is suspended', 'The operator has suspended this application.'],
  account_frozen: [403, 'The account is frozen', 'It can be read, but sends nothing until the operator unfreezes it.'],
  gas_not_sponsored: [403, 'Sponsors do not pay for this write', 'The application has no gas budget, its budget is for other contracts, or the write may cost more than a whole day’s budget; `detail` says which. Nothing was sent. Waiting does not help: the operator changes the budget.'],
  policy_denied: [403, 'Rejected by policy', 'A rule of the signer rejects this transaction; `detail` names it.'],
  export_disabled: [403, 'Keys cannot be exported here', 'The operator of this installation has not switched on the export of keys.'],
  sign_in_too_old: [403, 'The sign-in is too old', 'This needs a sign-in of the last 5 minutes. Sign in again.'],
  not_found: [404, 'Not found', 'No such route or resource.'],
  transaction_not_found: [404, 'No such transaction', 'No transaction of this user has that id or hash.'],
  method_not_allowed: [405, 'The method is not allowed here', 'The `Allow` header lists the methods of this path.'],
  // the request as bytes
  request_timeout: [408, 'The request took too long to arrive', 'Send the headers within 5 seconds, and the body within 15.'],
  idempotency_in_flight: [409, 'A request with this idempotency key is in progress', 'Retry the same request in a moment.', true],
  conflict: [409, 'Conflict with another request', 'Another request changed the same resource at the same moment, and nothing of this one was done. Retry.', true],
  export_not_ready: [409, 'The key cannot be exported yet', 'Its export was not requested, was cancelled, has lapsed, or its delay is not over.'],
  already_exists: [409, 'Already exists', 'A resource with this name exists; change it, or choose another name.'],
  body_too_large: [413, 'The body is too large', 'At most 64 KiB.'],
  uri_too_long: [414, 'The URI is too long', 'At most 8 kB.'],
  unsupported_media_type: [415, 'The body is not JSON', 'Send `Content-Type: application/json`.'],
  headers_too_large: [431, 'The headers are too large', 'At most 8 kB.'],
  misdirected_request: [421, 'Misdirected request', 'The Host header names another service. Development mode answers only to names of this machine, a separate authorization server only to AUTH_ORIGIN.'],
  // 422: understood but impossible
  invalid_abi: [422, 'The ABI cannot be used', 'Exactly one function, as text or as a JSON ABI item; `errors` has the position.'],
  invalid_argument: [422, 'An argument does not fit its ABI type', '`errors[].pointer` points to it. Nothing is coerced.'],
  invalid_value: [422, 'The value cannot be sent', 'Wei as decimal digits, below 2^256; a function marked nonpayable takes none.'],
  invalid_data: [422, 'The data cannot be sent', '0x and an even number of hexadecimal digits, at most 32,000 bytes; of calls by their ABI at most 98,304 together, encoded.'],
  invalid_gas: [422, 'The gas limit cannot be used', 'Decimal digits, from 21000 to 16777216, and enough for the call. Without `gas` it is estimated.'],
  execution_reverted: [422, 'The contract reverted', '`revert` holds the decoded reason. Nothing was sent.'],
  atomic_unsupported: [422, 'Several calls at once are not possible here', 'Calls are done all or none only on networks where sponsors send what people sign, and to contracts that they send to. Send them one by one.'],
  no_contract: [422, 'There is no contract at this address', 'The address has no code on the application’s network.'],
  invalid_return_data: [422, 'The contract returned data of another type', 'The returned bytes do not decode as the ABI says.'],
  insufficient_funds: [422, 'Insufficient funds', 'The account holds less than the value plus the highest possible fee, in addition to what its pending writes may cost; `funds` has its address, the amount needed and the amount available.'],
  insufficient_tokens: [422, 'Insufficient tokens', '`funds` has the address, the amount needed and the amount available, in the smallest unit.'],
  not_token_owner: [422, 'The token is not yours', 'No token has this id, or it belongs to another account.'],
  invalid_amount: [422, 'The amount cannot be sent', 'Greater than zero and below 2^256 of the smallest unit; exactly one of an ERC-721 token; whole units of an ERC-1155 token.'],
  amount_precision: [422, 'The amount has too many decimal places', 'It has more than the token or the native currency. Nothing is rounded.'],
  decimals_unknown: [422, 'The token does not report its decimals', 'An amount in whole tokens cannot be converted. Send it by `/contracts/method/write`, in the smallest unit.'],
  transfer_refused: [422, 'The token rejected the transfer', 'Its `transfer` does not revert, and returns that nothing was moved.'],
  invalid_recipient: [422, 'Invalid recipient', 'The zero address, or the token itself: anything sent there is lost.'],
  unknown_recipient: [422, 'Unknown recipient', 'Nobody or more than one person has this name, or no account can be created in advance for this id.'],
  not_a_token: [422, 'Not a token contract', 'The address has no code, or does not implement `balanceOf`.'],
  idempotency_key_reused: [422, 'The idempotency key belongs to another request', 'The same key was used with another body.'],
  fee_cap_reached: [422, 'The fee would exceed the network’s cap', 'The network requires a higher fee than the operator allows.'],
  not_cancellable: [422, 'The transaction can no longer be cancelled', 'The transaction is mined, or its nonce was used by another.'],
  chain_unsupported: [422, 'The network cannot do this', 'The node of this network lacks what the request needs.'],
  // 429
  rate_limited: [429, 'Too many requests', 'Wait for `Retry-After` seconds.', true],
  quota_exhausted: [429, 'The application’s quota is used up', 'The application has made as many requests as the operator allows it in this hour, day or month. Nothing was done. The next one begins after `Retry-After` seconds.', true],
  gas_budget_exhausted: [429, 'The gas budget is used up', 'Sponsors have paid as much as the application lets them in a day, for this person or for all of them, and the account has too little of its own. Nothing was sent. `resetsAt` says when there is room again. While open writes hold the rest of the budget it is the last second by which they end, and `Retry-After` is shorter.', true],
  too_many_pending: [429, 'Too many unconfirmed writes', 'The queue of the account is full of writes that wait for blocks. Retry when some are mined.', true],
  // 5xx
  internal_error: [500, 'Internal server error', 'A bug in this service. Report the request id to the operator.'],
  chain_unavailable: [502, 'The chain node failed', 'The node could not be reached or gave no usable response. Nothing new was sent.', true],
  overloaded: [503, 'The service is busy', 'Retry after `Retry-After` seconds.', true],
  address_not_proven: [503, 'The address is not proven', 'The address that is stored for a user is not the one that the signer attests. Nothing was shown or sent. The operator has to review the database.'],
  application_not_authentic: [409, 'The application is not as it was registered', 'Its row in the database was changed, and not by the authorization server. It is given no tokens and cannot be changed, only suspended, until an operator has reviewed it: `chatelaine auth-keys authenticate-rows`.'],
  identity_not_proven: [503, 'The identity is not proven', 'The database leads an identity to an account, and the authorization server has not signed that it is so. Nobody was signed in, and nothing was shown or sent. The operator has to review the database.'],
  account_stopped: [503, 'The account is stopped', 'One of its nonces was used by a transaction that this service did not make. The operator has to review it before it sends again.'],
  sponsor_stopped: [503, 'The sponsor is stopped', 'A nonce of the sponsor was used by a transaction that this service did not make, and no other sponsor can send. Nothing was sent. It resumes when that transaction is final, or when the operator resumes it.', true],
  sponsor_empty: [503, 'No sponsor can pay', 'The sponsors of this network have too little, or it has none. The operator has to fund one. Nothing was sent. Retry with the same idempotency key.', true],
  clocks_apart: [503, 'Clocks disagree', 'A sponsored write ends ten minutes from now by the clock of the network or of the server. By the signer’s clock that is over already, or more than an hour away; `detail` has the times. Nothing was signed. The operator has to set the clocks right.', true],
  top_up_pending: [503, 'The funds for gas are on their way', 'A sponsor has sent the account what this write costs, and that is not mined yet. Nothing of the write was done. Retry with the same idempotency key: nothing is sent twice.', true],
  shutting_down: [503, 'The service is restarting', 'Retry after `Retry-After` seconds.', true],
  signer_unavailable: [503, 'The signer is not responding', 'Retry with the same idempotency key.', true],
  auth_unavailable: [503, 'The authorization server is not responding', 'Sign-in and tokens are away for a moment. Retry.', true],
  revocations_stale: [503, 'The signer does not know which tokens are revoked', 'Its newest list of revoked tokens is too old. Nothing was signed. Retry.', true],
  database_unavailable: [503, 'The database is not responding', 'Retry with the same idempotency key: it finds what became of a write.', true],
  provider_unavailable: [502, 'The identity provider is not responding', 'Try to sign in again in a moment.', true],
  chain_timeout: [504, 'The chain node took too long', 'The node did not answer in time.', true],
  // sign-in pages
  sign_in_expired: [400, 'This sign-in is no longer valid', 'Go back to the application and sign in again.'],
  sign_in_refused: [400, 'The sign-in was refused', 'Go back to the application and sign in again.'],
  unknown_provider: [400, 'Unknown identity provider', 'This installation has no identity provider with that name.'],
} as const satisfies Record<string, readonly [status: number, title: string, help: string, retryable?: true]>

export type ErrorCode = keyof typeof catalogue

/**
 * A wrong place in the input. `pointer` is a JSON pointer into the body; `parameter` names a path parameter, query
 * parameter or header.
 */
export type FieldError = { pointer?: string; parameter?: string; code: string; detail: string }

/** The decoded revert of a contract. `reason` is a sentence for people; `data` is the raw bytes as 0x-hex. */
export type Revert = {
  name: string | null
  signature: string | null
  args: unknown[] | null
  selector: string | null
  data: string
  reason: string
}

/**
 * A shortage of funds: amounts in the smallest unit, decimal digits. `needed` is a lower bound if the node reported no
 * amount.
 */
export type Funds = { address: string; needed: string; available: string }

export type ErrorExtras = {
  cause?: unknown
  errors?: FieldError[]
  revert?: Revert
  funds?: Funds
  /** value of Retry-After in seconds, default 1; only retryable codes have this header */
  retryAfter?: number
  /** for `gas_budget_exhausted`: ISO 8601 time; null: never under the present budget */
  resetsAt?: string | null
  /** authentication scheme that a 401 asks for; default Bearer */
  challenge?: 'DPoP'
}

/** An expected error: the caller receives it as a problem document. `cause` is never sent. */
export class AppError extends Error {
  readonly code: ErrorCode
  readonly errors: FieldError[] | undefined
  readonly revert: Revert | undefined
  readonly funds: Funds | undefined
  readonly retryAfter: number | undefined
  readonly resetsAt: string | null | undefined
  readonly challenge: 'DPoP' | undefined

  constructor(code: ErrorCode, detail: string, extras: ErrorExtras = {}) {
    super(detail, extras.cause === undefined ? undefined : { cause: extras.cause })
    this.name = 'AppError'
    this.code = code
    this.errors = extras.errors
    this.revert = extras.revert
    this.funds = extras.funds
    this.retryAfter = describeError(code).retryable ? (extras.retryAfter ?? 1) : undefined
    this.resetsAt = extras.resetsAt
    this.challenge = extras.challenge
  }

  /** `statusCode` and `headers` are the names that the authorization server's library reads. */
  get statusCode(): number {
    return catalogue[this.code][0]
  }

  get headers(): Record<string, string> {
    return this.retryAfter === undefined ? {} : { 'retry-after': String(this.retryAfter) }
  }
}

/** Returns the status, title and help of a code, and whether the same request may be retried. */
export function describeError(code: ErrorCode): { status: number; title: string; help: string; retryable: boolean } {
  const [status, title, help, retryable] = catalogue[code] as readonly [number, string, string, true?]
  return { status, title, help, retryable: retryable ?? false }
}

/** All codes, in catalogue order. */
export const errorCodes = Object.keys(catalogue) as ErrorCode[]

/** Returns whether a text is an error code: the signer's socket sends codes as text. */
export const isErrorCode = (text: string): text is ErrorCode => Object.hasOwn(catalogue, text)
