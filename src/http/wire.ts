import Type, { type Static, type TObject, type TSchema } from 'typebox'
import type { ApprovalLink, ErrorCode, FieldError, Funds, Revert as ErrorRevert } from '../errors.ts'
import type { Hex } from '../ids.ts'

/**
 * Schemas that several slices share. They validate requests, filter responses and generate the OpenAPI document. The
 * return type of a verb is the `Static` of its schema: any other field would be filtered out silently.
 */

type Same<A, B> = [A, B, keyof A, keyof B] extends [B, A, keyof B, keyof A] ? unknown : never

/** Ties a schema to a type that is defined below the schemas. A field that only one of them has is a compile error. */
export const exactly =
  <Shape>() =>
  <S extends TSchema>(schema: S & Same<Static<S>, Shape>): S =>
    schema

/**
 * The caller's own text for a write. The pattern also rejects lone surrogates, because Ajv compiles patterns with the
 * flag `u`.
 */
export const Reference = Type.Optional(
  Type.String({
    minLength: 1,
    maxLength: 255,
    pattern: String.raw`^[^\u0000-\u001f\u007f-\u009f\ud800-\udfff]*$`,
    description:
      'Your own text, such as an order number: 1 to 255 characters without control characters. It is stored with the write and returned with it. It is not signed, and the user does not see it',
    examples: ['order-1042'],
  }),
)

export const Nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])

/** `reference` as responses have it. */
export const GivenReference = Type.Union([Type.String(), Type.Null()], {
  description: '`reference` of the request; null if it had none, or if the database lost it',
  examples: ['order-1042'],
})

export const Address = Type.Unsafe<Hex>(
  Type.String({
    title: 'Address',
    pattern: '^0x[0-9a-fA-F]{40}$',
    description: 'EIP-55 checksummed address',
    examples: ['0x70997970C51812dc3A010C7d01b50e0d17dc79C8'],
  }),
)

/** The same JSON as BigNumber of ethers 5. */
export const BigNumber = Type.Object(
  { type: Type.Literal('BigNumber'), hex: Type.String({ pattern: '^-?0x([0-9a-f]{2})+$' }) },
  {
    title: 'BigNumber',
    description: 'Big number as 0x-hex of even length',
    examples: [{ type: 'BigNumber', hex: '0x58d15e17628000' }],
  },
)

export const UserIdParam = Type.String({
  minLength: 1,
  maxLength: 800,
  description: '`<PROVIDER>-<provider_user_id>`, percent-encoded',
  examples: ['DEV-alice'],
})

export const Hash = Type.Unsafe<Hex>(
  Type.String({
    title: 'Hash',
    pattern: '^0x[0-9a-f]{64}$',
    description: 'Hash of a transaction or a block',
    examples: [`0x${'5e'.repeat(32)}`],
  }),
)

/** Describes a query value that is text on the wire but has another type in the OpenAPI document (http/openapi.ts). */
export const shownAs = (shown: object): { 'x-shown-as': object } => ({ 'x-shown-as': shown })

/**
 * Describes one of two bodies. The document lists both. The serializer writes any field of either: one that had to
 * choose would respond with 500 if neither matched.
 */
export const either = <A extends TObject, B extends TObject>(one: A, other: B) =>
  Type.Unsafe<Static<A> | Static<B>>({ ...withEvery(one, other), ...shownAs({ anyOf: [one, other] }) })

function withEvery(one: TObject, other: TObject): TObject {
  const properties = { ...one.properties, ...other.properties }
  for (const [name, mine] of Object.entries(one.properties)) {
    const theirs = other.properties[name]
    if (theirs === undefined || Object.is(mine, theirs)) continue
    const areObjects = Type.IsObject(mine) && Type.IsObject(theirs)
    properties[name] = areObjects ? withEvery(mine, theirs) : Type.Union([mine, theirs])
  }
  return Type.Partial(Type.Object(properties))
}

/** Describes the page size of a list. @param standard  default */
export const Limit = (standard: number, description = 'Entries of a page') =>
  Type.String({
    pattern: '^([1-9]|[1-9]\\d|1\\d\\d|200)$',
    description: `${description}, 1 to 200, default ${standard}`,
    ...shownAs({ type: 'integer', minimum: 1, maximum: 200, default: standard }),
  })

export const NoQuery = Type.Object({}, { additionalProperties: false })

/** Why a call or transaction failed, as far as the contract reports it. */
export const Revert = exactly<ErrorRevert>()(
  Type.Object(
    {
      name: Nullable(Type.String()),
      signature: Nullable(Type.String()),
      args: Type.Unsafe<unknown[] | null>(Type.Unknown()),
      selector: Nullable(Type.String()),
      data: Type.String(),
      reason: Type.String(),
    },
    { title: 'Revert', description: 'The contract’s revert reason, decoded as far as possible' },
  ),
)

/** What a dry run says of the user's approval. */
export const NeedsApproval = Type.Unsafe<'required' | 'not_required'>(
  Type.String({ enum: ['required', 'not_required'], description: 'Whether the user must approve it' }),
)

/** What is left of a limit of the signer, in a dry run. */
export const RuleLimit = Type.Object(
  {
    rule: Type.String({ description: 'Rule that sets the limit' }),
    limit: Type.String({ description: 'Limited quantity', examples: ['native.periodAmount'] }),
    amount: Type.Optional(
      Type.String({
        description:
          'Limit in decimal digits, in the smallest unit. `limit`, `used` and `left` are present only for limits per user',
      }),
    ),
    used: Type.Optional(Type.String({ description: 'Used amount, in the same unit' })),
    left: Type.Optional(Type.String({ description: 'Remaining amount before this write' })),
    resetsAt: Type.Union([Type.String(), Type.Null()], {
      description: 'Time at which the oldest use stops counting (ISO 8601); null if nothing is used',
    }),
  },
  { title: 'RuleLimit' },
)

export const Problem = Type.Object(
  {
    type: Type.String({ description: 'Documentation page of this code' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String(),
    instance: Type.String(),
    code: Type.Unsafe<ErrorCode>(Type.String({ description: 'Stable error code; see the list of errors' })),
    requestId: Type.String(),
    retryable: Type.Boolean({ description: 'true if the same request may be retried' }),
    help: Type.String({
      description:
        'Help for developers: meaning of the code, whether anything was done, and the next step. Always the same for a code',
    }),
    userMessage: Type.String({
      description:
        'Text that the application may show to the user. Always the same for a code. `Accept-Language` selects the language, and `Content-Language` has it: `en`, `de`, `fr`, `es` or `ja`',
    }),
    error: Type.String({ description: 'Same text as `detail`' }),
    errors: Type.Optional(
      Type.Array(
        exactly<FieldError>()(
          Type.Object({
            pointer: Type.Optional(Type.String()),
            parameter: Type.Optional(Type.String()),
            code: Type.String(),
            detail: Type.String(),
          }),
        ),
      ),
    ),
    funds: Type.Optional(
      exactly<Funds>()(
        Type.Object(
          { address: Type.String(), needed: Type.String(), available: Type.String() },
          {
            description:
              'For `insufficient_funds`: the account, and amounts in the smallest unit, in decimal digits. `needed` covers this write and the pending writes of the account',
          },
        ),
      ),
    ),
    resetsAt: Type.Optional(
      Nullable(
        Type.String({
          description:
            'For `gas_budget_exhausted`: time at which the budget is available again (ISO 8601). null: do not retry, an operator must raise the limit',
        }),
      ),
    ),
    resumeAt: Type.Optional(
      Type.String({
        description: 'For `cursor_expired`: cursor with which to continue after reading the present state',
      }),
    ),
    approval: Type.Optional(
      exactly<ApprovalLink>()(
        Type.Object(
          { id: Type.String(), url: Type.String(), expiresAt: Type.String() },
          {
            description:
              'For `approval_required` with an idempotency key: open `url` for the user, then repeat the request with the same key. `expiresAt`: ISO 8601',
          },
        ),
      ),
    ),
    revert: Type.Optional(Revert),
  },
  { title: 'Problem', description: 'Problem document, RFC 9457' },
)

/** Describes the responses of a route: its success and its error statuses. */
export const answers = <S extends object>(
  success: S,
  ...statuses: number[]
): { response: Record<string, unknown> } => ({
  response: {
    200: success,
    ...Object.fromEntries(
      [400, 401, 403, 429, 500, 503, ...statuses].map((status) => [
        status,
        { description: 'Problem', content: { 'application/problem+json': { schema: Problem } } },
      ]),
    ),
  },
})
