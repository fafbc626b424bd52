/** The detail of `account_frozen`, in the server and in the signer. */
export const ACCOUNT_FROZEN =
  'The operator has frozen this account. Nothing was sent. Ask the operator to unfreeze the account.'

/**
 * Every error that this service returns. A code is a promise to clients and is never renamed.
 * Title: the condition in 2 to 6 words. Help: what happened, whether anything was done, what to do next. The texts for users are in
 * `texts/user-messages-en.ts`. `docs/reference/errors.md` is generated, and a test fails if the two differ.
 */
// One line for each, so that it reads as the table it is.
// prettier-ignore
const catalogue = {
  // 400: the request cannot be read
  invalid_request: [400, 'Malformed request', 'A field is missing, or has the wrong type or shape. `errors` points to each. Nothing was done. Correct the request.'],
  invalid_json: [400, 'Body is not JSON', 'The body must be one JSON document in UTF-8, nested at most 16 levels deep. Nothing was done. Correct the body.'],
  unknown_parameter: [400, 'Unknown parameter', 'This operation does not have the query parameter or body field that `errors` names. Nothing was done. Remove that parameter or field.'],
  invalid_address: [400, 'Invalid address', 'An address is `0x` and 40 hexadecimal digits. Mixed case needs a valid EIP-55 checksum. Nothing was done. Correct the address.'],
  invalid_cursor: [400, 'Invalid cursor', 'The cursor is not from this list or query. Nothing was done. Use the `X-Next-Cursor` of the same query, or omit the cursor.'],
  invalid_user_id: [400, 'Invalid user id', 'A user id has the form `<PROVIDER>-<provider_user_id>`. Nothing was done. Correct the user id.'],
  abi_is_view: [400, 'Write of a view function', 'The ABI marks the function `view` or `pure`, so the function changes nothing. Nothing was sent. Use `/contracts/method/read`, or remove the keyword.'],
  abi_not_view: [400, 'Read needs a view function', 'A read needs a function that the ABI marks `view` or `pure`. Nothing was called. Add the keyword, or use `/contracts/method/write`.'],
  idempotency_key_invalid: [400, 'Invalid idempotency key', 'The key must be 1 to 255 printable ASCII characters. If both headers are sent, both must have the same key. Nothing was done. Correct the key.'],
  // 401, 403, 404
  invalid_token: [401, 'Invalid access token', 'The access token is missing, malformed, expired, revoked or meant for another service. Nothing was done. Use the refresh token; if it is rejected, ask the user to sign in again.'],
  invalid_dpop_proof: [401, 'Invalid DPoP proof', 'The `DPoP` header must contain one proof (RFC 9449) for this method, URI and access token, created now and used once. `detail` names the fault. Nothing was done. The access token may be valid: retry with a new proof.'],
  insufficient_scope: [403, 'Missing permission', 'The access token does not have the permission that this operation needs. Nothing was done. Request the permission at sign-in, or ask the operator to grant the permission to the application.'],
  forbidden_user: [403, 'No access to this user', 'This access token does not give access to the requested user. Nothing was done. The response is the same whether or not that user exists. Use an access token of that user.'],
  application_suspended: [403, 'Application suspended', 'The operator has suspended this application. Nothing was done. Ask the operator to resume the application.'],
  account_frozen: [403, 'Account frozen', 'The operator has frozen this account. The account can be read, but cannot send. Nothing was sent. Ask the operator to unfreeze the account.'],
  gas_not_sponsored: [403, 'Gas not sponsored', 'Sponsors do not pay for this write. The application has no gas budget, its budget is for other contracts, or the write may exceed a whole day’s budget; `detail` names the reason. Nothing was sent. Waiting does not help: ask the operator to change the budget.'],
  policy_denied: [403, 'Rejected by policy', 'A rule of the signer rejects this request; `detail` names the rule. Nothing was signed. Change the request, or ask the operator to change the rule.'],
  approval_required: [403, 'Approval required', 'The user must approve this request. Nothing was signed. Open `approval.url` for the user, then repeat the request with the same idempotency key. If there is no `approval`: send the request with an idempotency key.'],
  approval_denied: [403, 'Denied by the user', 'The user denied this request. Nothing was signed. The decision is final for this idempotency key. Use a new key only if the user starts over.'],
  export_disabled: [403, 'Key export disabled', 'The operator has not enabled key export on this installation. No key was exported. Ask the operator to enable key export.'],
  sign_in_too_old: [403, 'Recent sign-in required', 'The user must have signed in within the last 5 minutes. Nothing was done. Ask the user to sign in again.'],
  not_found: [404, 'Not found', 'The route or resource does not exist. Nothing was done. Check the path and the id.'],
  transaction_not_found: [404, 'Transaction not found', 'This application has sent no transaction with this id or hash for this user. Nothing was done. Check the id or hash.'],
  method_not_allowed: [405, 'Method not allowed', 'This path does not accept the method of the request. Nothing was done. Use a method that the `Allow` header lists.'],
  // the request as bytes
  request_timeout: [408, 'Request timeout', 'The headers must arrive within 5 seconds and the whole request within 15 seconds. Nothing was done. Send the whole request faster.'],
  idempotency_in_flight: [409, 'Request already in progress', 'Another request with this idempotency key is still in progress. This request had no effect. Retry in a moment to get the result of the other request.', true],
  conflict: [409, 'Conflicting request', 'Another request uses the same resource at the same time. This request had no effect. Retry.', true],
  export_not_ready: [409, 'Key export not ready', 'The export was not requested, was cancelled, has expired, or its delay is not over. No key was exported. Request the export, or wait for the delay.'],
  already_exists: [409, 'Already exists', 'A resource with this name exists. Nothing was done. Change that resource, or choose another name.'],
  cursor_expired: [410, 'Cursor expired', 'Events after this cursor were deleted because of their age, so continuing would skip them. Nothing was done. Read the present state from the API, then continue with the cursor in `resumeAt`.'],
  body_too_large: [413, 'Body too large', 'The body may have at most 64 KiB. Nothing was done. Send a smaller body.'],
  uri_too_long: [414, 'URI too long', 'A part of the path may have at most 4,096 characters. Nothing was done. Shorten the path.'],
  unsupported_media_type: [415, 'Unsupported media type', 'The body must be JSON. Nothing was done. Send `Content-Type: application/json`.'],
  headers_too_large: [431, 'Headers too large', 'The request line and the headers may have at most 8 KiB together. Nothing was done. Send shorter or fewer headers.'],
  misdirected_request: [421, 'Misdirected request', 'The `Host` header names a host that this server does not serve. A development server accepts only local host names; a separate authorization server serves only `AUTH_ORIGIN`. Nothing was done. Correct the host.'],
  // 422: understood but impossible
  invalid_abi: [422, 'Invalid ABI', 'The ABI must have exactly one function, as text or as JSON ABI items. `errors` has the position of the fault. Nothing was sent. Correct the ABI.'],
  invalid_argument: [422, 'Invalid argument', 'An argument does not match its ABI type; `errors[].pointer` points to each. Arguments are never coerced. Nothing was sent. Correct the argument.'],
  invalid_value: [422, 'Invalid value', '`value` must be wei in decimal digits, below 2^256. A function that is marked nonpayable accepts no value. Nothing was sent. Correct the value.'],
  invalid_data: [422, 'Invalid calldata', '`data` must be `0x` followed by an even number of hexadecimal digits, at most 32,000 bytes. Calls given by their ABI may encode to at most 98,304 bytes in total. Nothing was sent. Correct or shorten the data.'],
  invalid_gas: [422, 'Invalid gas limit', '`gas` must be decimal digits, from 21000 to 16777216, and enough for the call. Nothing was sent. Omit `gas` to use an estimate.'],
  execution_reverted: [422, 'Execution reverted', 'The contract reverted; `revert` has the decoded reason. Nothing was sent. Correct the call, or check the state of the contract.'],
  atomic_unsupported: [422, 'Batch not supported', 'All-or-nothing batches work only on networks with sponsored transactions, and only if every contract in the batch can be called through a sponsor. Nothing was sent. Send the calls one by one.'],
  invalid_message: [422, 'Invalid message', 'The message is not text that may be signed, or is a sign-in that does not belong to this application, account, network or time. `errors` points to the fault. Nothing was signed. Correct the message.'],
  invalid_typed_data: [422, 'Invalid typed data', 'The typed data is not valid EIP-712, is for another network, or may never be signed. `errors` points to the fault. Nothing was signed. Correct the typed data.'],
  no_contract: [422, 'No contract at this address', 'The address has no code on the network of the application. Nothing was sent. Check the address and the network.'],
  invalid_return_data: [422, 'Invalid return data', 'The contract returned bytes that do not match the return types in the ABI, or too many bytes. A read has no effect. Correct the ABI, or read less at once.'],
  insufficient_funds: [422, 'Insufficient funds', 'The account cannot pay the value and the highest possible fee in addition to its pending writes. `funds` has the address, the amount needed and the amount available. Nothing was sent. Fund the account, then retry.'],
  insufficient_tokens: [422, 'Insufficient tokens', 'The account holds fewer tokens than the transfer needs. `funds` has the address and both amounts, in the smallest unit. Nothing was sent. Reduce the amount.'],
  not_token_owner: [422, 'Not the token owner', 'The token id does not exist, or the token belongs to another account. Nothing was sent. Check the token id.'],
  invalid_amount: [422, 'Invalid amount', 'The amount must be greater than zero and below 2^256 of the smallest unit. For ERC-721 the amount is one; for ERC-1155 it is a whole number. Nothing was sent. Correct the amount.'],
  amount_precision: [422, 'Too many decimal places', 'The amount has more decimal places than the token or the native currency. Amounts are never rounded. Nothing was sent. Shorten the amount.'],
  decimals_unknown: [422, 'Token decimals unknown', 'The token does not report its decimals, so an amount in whole tokens cannot be converted. Nothing was sent. Use `/contracts/method/write` with an amount in the smallest unit.'],
  transfer_refused: [422, 'Transfer rejected by token', 'The token contract returned `false` from `transfer` instead of reverting. Nothing was sent. Check the rules of the token contract.'],
  invalid_recipient: [422, 'Invalid recipient', 'The recipient is the zero address or the token contract itself, where tokens are lost. Nothing was sent. Choose another recipient.'],
  unknown_recipient: [422, 'Unknown recipient', 'No user or more than one user has this name, or no account can be created in advance for this id. Nothing was sent. Use a user id or an address.'],
  not_a_token: [422, 'Not a token contract', 'The address has no code, or its code does not implement `balanceOf`. Nothing was sent. Check the address and the network.'],
  idempotency_key_reused: [422, 'Idempotency key reused', 'The idempotency key was used with a different request. This request had no effect. Use a new key for each new write.'],
  fee_cap_reached: [422, 'Fee above the cap', 'The network currently requires a higher fee per gas than the operator allows. Nothing was sent. Try again when fees are lower.'],
  not_cancellable: [422, 'Transaction cannot be changed', 'The transaction is mined, its nonce was used by another transaction, or the request would speed up a sponsored transaction. This request had no effect. Read the state of the transaction.'],
  chain_unsupported: [422, 'Not supported by node', 'The node of this network cannot serve the request, for example because it no longer has the state of an old block. Nothing was sent. Use a newer block.'],
  // 429
  rate_limited: [429, 'Too many requests', 'The request exceeds a rate limit. Nothing was done. Retry after `Retry-After` seconds.', true],
  quota_exhausted: [429, 'Application quota exhausted', 'The application has made as many requests as the operator allows in this hour, day or month. Nothing was done. Retry after `Retry-After` seconds, when the next period begins.', true],
  gas_budget_exhausted: [429, 'Gas budget exhausted', 'Sponsors cannot pay for this write now: a gas budget of the application, user or network, or a limit of the signer, is used up. Nothing was sent. Retry after `resetsAt`, the time when the budget is available again. If open writes hold the rest of the budget, `resetsAt` is the latest time at which they end, and `Retry-After` is shorter. If `resetsAt` is null, do not retry: an operator must raise the limit.', true],
  too_many_pending: [429, 'Too many pending writes', 'The account has as many unconfirmed writes as the service allows. Nothing was sent. Retry when some of these writes are mined.', true],
  // 5xx
  internal_error: [500, 'Internal server error', 'The service has a bug. A write may have been sent. Report the request id to the operator. Retry a write only with the same idempotency key.'],
  chain_unavailable: [502, 'Chain node unavailable', 'No node of the network gave a usable response. Nothing new was sent. Retry.', true],
  overloaded: [503, 'Service overloaded', 'The service has too many requests. This request had no effect. Retry after `Retry-After` seconds.', true],
  address_not_proven: [503, 'Address not attested', 'The address stored for a user does not match the address that the signer attests. Nothing was returned or sent. An operator must inspect the database.'],
  application_not_authentic: [409, 'Application record not authentic', 'The database row of the application was not written by the authorization server. The application gets no tokens and can only be suspended. Nothing was changed. An operator must review the row: `chatelaine auth-keys authenticate-rows`.'],
  identity_not_proven: [503, 'Linked identity not verified', 'The database links an identity to an account without a valid signature of the authorization server. Nobody was signed in, and nothing was returned or sent. An operator must inspect the database.'],
  account_stopped: [503, 'Account stopped', 'A transaction that this service did not create used one of the account’s nonces. Someone else may have its key, or this installation was restored. Nothing was sent. The account cannot send until an operator has reviewed and resumed it.'],
  sponsor_stopped: [503, 'Sponsor stopped', 'A transaction that this service did not create used a nonce of the sponsor, and no other sponsor can pay. Nothing was sent. Retry when that transaction is final, or when an operator has resumed the sponsor.', true],
  sponsor_empty: [503, 'No sponsor can pay', 'The network has no sponsor that can pay for this write. Either none is configured, or each one lacks funds, is frozen, or has reached a limit of the signer. Nothing was sent. An operator must act; then retry with the same idempotency key.', true],
  clocks_apart: [503, 'Clocks disagree', 'A sponsored write expires ten minutes after the time of the network or the server. By the signer’s clock, this expiry has passed or is more than an hour ahead; `detail` has the times. Nothing was signed. An operator must correct the clocks; then retry.', true],
  top_up_pending: [503, 'Top-up pending', 'A sponsor has sent the account the gas for this write, and that transfer is not mined yet. The write has not started. Retry with the same idempotency key; nothing is sent twice.', true],
  shutting_down: [503, 'Service restarting', 'The server is restarting. Nothing was done. Retry after `Retry-After` seconds.', true],
  signer_unavailable: [503, 'Signer unavailable', 'The signer did not respond, or cannot sign at the moment. A write may have been signed. Retry with the same idempotency key to get the result.', true],
  auth_unavailable: [503, 'Authorization server unavailable', 'The authorization server did not respond. Users cannot sign in, and tokens cannot be issued or refreshed. Nothing was sent. Valid access tokens still work for reads. Writes stop after about a minute (`revocations_stale`). Retry.', true],
  revocations_stale: [503, 'Revocation list outdated', 'The signer’s list of revoked tokens is too old, so the signer accepts no access token. Nothing was signed. Retry.', true],
  database_unavailable: [503, 'Database unavailable', 'The database did not respond. A write may have been sent. Retry with the same idempotency key to get the result.', true],
  provider_unavailable: [502, 'Identity provider unavailable', 'The identity provider did not respond. Nobody was signed in. Try to sign in again in a moment.', true],
  chain_timeout: [504, 'Chain node timeout', 'The node of the network did not respond in time. Nothing new was sent. Retry.', true],
  // sign-in pages
  sign_in_expired: [400, 'Sign-in expired', 'The sign-in has expired, was already completed, or was started in another browser. Nobody was signed in. Start the sign-in again in the application.'],
  sign_in_refused: [400, 'Sign-in rejected', 'The identity provider or this service rejected the sign-in. Nobody was signed in. Start the sign-in again in the application.'],
  unknown_provider: [400, 'Unknown identity provider', 'This installation has no identity provider with that name. Nobody was signed in. Choose another identity provider.'],
} as const satisfies Record<string, readonly [status: number, title: string, help: string, retryable?: true]>

export type ErrorCode = keyof typeof catalogue

/**
 * A wrong place in the input. `pointer` is a JSON pointer into the body; `parameter` names a path parameter, query
 * parameter or header.
 */
export type FieldError = { pointer?: string; parameter?: string; code: string; detail: string }

/** The decoded revert of a contract. `reason` is a readable sentence; `data` is the raw bytes as 0x-hex. */
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

/** The page on which the user decides about a request, and the time until which the user can decide (ISO 8601). */
export type ApprovalLink = { id: string; url: string; expiresAt: string }

export type ErrorExtras = {
  cause?: unknown
  errors?: FieldError[]
  revert?: Revert
  funds?: Funds
  /** value of Retry-After in seconds, default 1; only retryable codes have this header */
  retryAfter?: number
  /** for `gas_budget_exhausted`: ISO 8601 time; null: never under the present budget */
  resetsAt?: string | null
  /** for `cursor_expired`: cursor with which to continue */
  resumeAt?: string
  /** for `approval_required`, if the request has an idempotency key */
  approval?: ApprovalLink | undefined
  /** for `approval_required`: this request has asked the user, so it counts as a write */
  asksAnew?: boolean
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
  readonly resumeAt: string | undefined
  readonly approval: ApprovalLink | undefined
  readonly asksAnew: boolean
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
    this.resumeAt = extras.resumeAt
    this.approval = extras.approval
    this.asksAnew = extras.asksAnew ?? false
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
