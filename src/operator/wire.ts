import Type, { type TSchema } from 'typebox'
import { sends } from '../http/openapi-headers.ts'
import { answers, Limit, NoQuery, shownAs } from '../http/wire.ts'

const Uri = Type.String({ maxLength: 2_000 })
const Text = Type.String({ maxLength: 200 })
export const Nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])

const issuer = {
  issuer: Type.String({ maxLength: 2_000, description: 'The tokens’ `iss` claim, exactly' }),
  audience: Type.String({ maxLength: 300, description: 'The `aud` claim they must have' }),
  jwksUri: Nullable(Type.String({ maxLength: 2_000, description: 'JWKS URL; null: found by discovery' })),
  algorithms: Type.Array(Type.String(), { maxItems: 20, description: 'Default RS256 and ES256' }),
  subjectClaim: Type.String({ maxLength: 300, description: 'Claim with the immutable id of a person, default sub' }),
  usernameClaims: Type.Array(Type.String({ maxLength: 300 }), { maxItems: 10 }),
  pictureClaim: Type.String({ maxLength: 300 }),
  maxAgeSeconds: Type.Integer({ description: 'How long ago a token may have been issued, 60 to 86400, default 3600' }),
  isReusable: Type.Boolean({ description: 'One token may be exchanged more than once; default false' }),
  allowsPrivate: Type.Boolean({ description: 'The issuer may be in your own network; default false' }),
}

const ISSUER = {
  issuer: 'https://login.example.com/',
  audience: 'shop',
  jwksUri: null,
  algorithms: ['RS256', 'ES256'],
  subjectClaim: 'sub',
  usernameClaims: ['preferred_username', 'name'],
  pictureClaim: 'picture',
  maxAgeSeconds: 3_600,
  isReusable: false,
  allowsPrivate: false,
}
const SHOP = {
  clientId: 'shop',
  name: 'Shop',
  network: 'sepolia',
  chainId: 11_155_111,
  kind: 'confidential',
  redirectUris: ['https://shop.example.com/callback'],
  permissions: ['wallet:read', 'contracts:write'],
  allowedOrigins: [],
  logoUri: null,
  needsPkce: true,
  needsDpop: false,
  liveSecrets: 1,
  issuers: [{ provider: 'APP_SHOP', ...ISSUER }],
  createdAt: '2026-01-31T12:00:00.000Z',
  suspendedAt: null,
}

/** An identity provider that an application brings (RFC 8693). */
const Issuer = Type.Object(
  { provider: Type.String({ description: 'First part of user ids: `APP_…`' }), ...issuer },
  { title: 'Issuer' },
)

/** An application as its operator sees it. */
const Application = Type.Object(
  {
    clientId: Type.String(),
    name: Type.String(),
    network: Nullable(Type.String()),
    chainId: Type.Integer(),
    kind: Type.Union([Type.Literal('public'), Type.Literal('confidential')]),
    redirectUris: Type.Array(Type.String()),
    permissions: Type.Array(Type.String()),
    allowedOrigins: Type.Array(Type.String()),
    logoUri: Nullable(Type.String()),
    needsPkce: Type.Boolean({ description: 'false: it may omit PKCE if it sends a nonce' }),
    needsDpop: Type.Boolean({
      description: 'true: every access token is bound to a key of the application (RFC 9449)',
    }),
    liveSecrets: Type.Integer({ description: 'How many secrets are valid: 0, 1 or, while one is being replaced, 2' }),
    issuers: Type.Array(Issuer, { description: 'Identity providers of its own, whose tokens it exchanges' }),
    createdAt: Type.String(),
    suspendedAt: Nullable(Type.String()),
  },
  { title: 'Application', examples: [SHOP] },
)

const Secret = Type.String({
  examples: ['chs_…'],
  description: 'Shown only once; only its hash is stored',
})
const WithSecret = Type.Object({ application: Application, secret: Secret }, { title: 'ApplicationWithSecret' })

const Network = Type.Object(
  {
    name: Type.String(),
    chainId: Type.Integer(),
    symbol: Type.String(),
    coin: Type.String(),
    decimals: Type.Integer(),
    explorer: Nullable(Type.Object({ tx: Type.String(), address: Type.String(), block: Type.String() })),
    finality: Type.Union([Type.Literal('finalized'), Type.Integer()]),
    blockVerification: Nullable(
      Type.String({ description: '`hash`, `bloom` or `count`; null: as the setting BLOCK_VERIFICATION says' }),
    ),
    feeCapGwei: Nullable(Type.Integer({ description: 'null: as the setting FEE_CAP_GWEI says' })),
    applications: Type.Integer({ description: 'How many applications are bound to it' }),
    isServed: Type.Boolean({ description: 'This process is connected to it' }),
  },
  {
    title: 'Network',
    examples: [
      {
        name: 'sepolia',
        chainId: 11_155_111,
        symbol: 'ETH',
        coin: 'Ether',
        decimals: 18,
        explorer: {
          tx: 'https://sepolia.etherscan.io/tx/{hash}',
          address: 'https://sepolia.etherscan.io/address/{address}',
          block: 'https://sepolia.etherscan.io/block/{number}',
        },
        finality: 'finalized',
        blockVerification: null,
        feeCapGwei: null,
        applications: 1,
        isServed: true,
      },
    ],
  },
)

const changeable = {
  name: Type.String({
    maxLength: 200,
    description: 'Name shown to people when they are asked to allow the application',
  }),
  redirectUris: Type.Array(Uri, { maxItems: 50, description: 'Exact; on loopback any port' }),
  permissions: Type.Array(Text, { maxItems: 20, examples: [['wallet:read', 'contracts:read']] }),
  allowedOrigins: Type.Array(Uri, { maxItems: 50, description: 'Origins whose pages may call the API' }),
  logoUri: Nullable(Uri),
  needsPkce: Type.Boolean({
    description: 'Default true. false is for confidential applications whose library knows no PKCE: they send a nonce',
  }),
  needsDpop: Type.Boolean({
    description: 'Default false: a token is bound to a key where the application sends a proof. true: always',
  }),
}

export const NewApplication = Type.Object(
  {
    name: changeable.name,
    network: Type.String({ maxLength: 200, description: 'Name of a network of this installation; permanent' }),
    redirectUris: changeable.redirectUris,
    clientId: Type.Optional(Type.String({ maxLength: 200, description: 'Derived from the name if omitted' })),
    kind: Type.Optional(
      Type.Union([Type.Literal('public'), Type.Literal('confidential')], { description: 'Default public' }),
    ),
    permissions: Type.Optional(changeable.permissions),
    allowedOrigins: Type.Optional(changeable.allowedOrigins),
    logoUri: Type.Optional(changeable.logoUri),
    needsPkce: Type.Optional(changeable.needsPkce),
    needsDpop: Type.Optional(changeable.needsDpop),
  },
  {
    title: 'NewApplication',
    additionalProperties: false,
    examples: [{ name: 'Shop', network: 'sepolia', redirectUris: SHOP.redirectUris, kind: 'confidential' }],
  },
)

export const ApplicationChanges = Type.Partial(Type.Object(changeable), {
  title: 'ApplicationChanges',
  additionalProperties: false,
  minProperties: 1,
  examples: [{ permissions: ['wallet:read'] }],
})

export const ApplicationsQuery = Type.Object(
  {
    limit: Type.Optional(Limit(200)),
    after: Type.Optional(Type.String({ maxLength: 200, description: 'Client id that the page before ended with' })),
  },
  { additionalProperties: false },
)

export const ActionsQuery = Type.Object(
  {
    limit: Type.Optional(Limit(200)),
    before: Type.Optional(
      Type.String({
        pattern: '^\\d{1,15}$',
        description: '`seq` that the page before ended with',
        ...shownAs({ type: 'integer', minimum: 1 }),
      }),
    ),
  },
  { additionalProperties: false },
)

const Changed = Nullable(Type.Record(Type.String(), Type.Unknown(), { description: 'What changed, and nothing else' }))
const Action = Type.Object(
  {
    seq: Type.Integer(),
    at: Type.String({ format: 'date-time' }),
    actor: Type.String({ description: 'Name of the token, or the user of the machine who ran a command' }),
    via: Type.Union([Type.Literal('api'), Type.Literal('command')]),
    action: Type.String(),
    target: Type.String(),
    before: Changed,
    after: Changed,
    record: Type.String({ description: 'SHA-256 of this action and the record before it, hexadecimal' }),
  },
  {
    title: 'Action',
    examples: [
      {
        seq: 12,
        at: '2026-01-31T12:00:00.000Z',
        actor: 'deploy',
        via: 'api',
        action: 'suspend',
        target: 'shop',
        before: { suspendedAt: null },
        after: { suspendedAt: '2026-01-31T12:00:00.000Z' },
        record: 'b1'.repeat(32),
      },
    ],
  },
)

export const NewToken = Type.Object(
  { user: Type.String({ minLength: 1, maxLength: 300 }), clientId: Type.Optional(Type.String({ maxLength: 255 })) },
  { additionalProperties: false },
)

const ClientIdParams = Type.Object({ clientId: Type.String({ minLength: 1, maxLength: 300 }) })
export const shared = { tags: ['Operator'], security: [{ operator: [] }] }
const ofOne = { ...shared, params: ClientIdParams, querystring: NoQuery }

export const listApplications = {
  ...shared,
  operationId: 'listApplications',
  summary: 'Applications, by client id',
  description: 'Suspended ones among them. The next page begins `after` the last client id of this one.',
  querystring: ApplicationsQuery,
  ...answers(Type.Array(Application)),
}
export const listActions = {
  ...shared,
  operationId: 'listActions',
  summary: 'Actions of operators, newest first',
  description: 'By the operator API and by commands. The next page begins `before` the last `seq` of this one.',
  querystring: ActionsQuery,
  ...answers(Type.Array(Action)),
}
export const verifyActions = {
  ...shared,
  operationId: 'verifyActions',
  summary: 'Verify the record of actions of operators',
  description:
    'Reads all of it. Compare `newest` with the last `operator_acted` in your logs: a record that was rewritten as a whole is consistent with itself, but not with them.',
  querystring: NoQuery,
  ...answers(
    Type.Object(
      {
        actions: Type.Integer({ description: 'Actions up to the first that differs from what was written' }),
        newest: Type.String({ description: 'Record of the last of these' }),
        firstWrong: Nullable(Type.Integer()),
      },
      { title: 'Verification', examples: [{ actions: 12, newest: 'b1'.repeat(32), firstWrong: null }] },
    ),
  ),
}
export const createApplication = {
  ...shared,
  operationId: 'createApplication',
  ...sends('Location'),
  summary: 'Register an application',
  description: 'The secret of a confidential one is in the answer, and nowhere else.',
  querystring: NoQuery,
  body: NewApplication,
  ...answersWith(
    201,
    Type.Object({ application: Application, secret: Nullable(Secret) }, { title: 'CreatedApplication' }),
    409,
    413,
    415,
  ),
}
export const readApplication = {
  ...ofOne,
  operationId: 'readApplication',
  summary: 'Get an application',
  description: 'Including its own identity providers.',
  ...answers(Application, 404),
}
export const updateApplication = {
  ...ofOne,
  operationId: 'updateApplication',
  summary: 'Change an application',
  description:
    'Omitted fields stay as they are; a list is replaced as a whole. Network, kind and client id never change.',
  body: ApplicationChanges,
  ...answers(Application, 404, 413, 415),
}
export const rotateSecret = {
  ...ofOne,
  operationId: 'rotateSecret',
  summary: 'Issue a new secret, keeping the current one',
  description: 'The current secret stays valid until the next rotation.',
  ...answers(WithSecret, 404, 413, 415),
}
export const resetSecret = {
  ...ofOne,
  operationId: 'resetSecret',
  summary: 'Issue a new secret and revoke all current ones',
  description: 'Immediately: clients that still use the others are refused.',
  ...answers(WithSecret, 404, 413, 415),
}
export const suspend = {
  ...ofOne,
  operationId: 'suspendApplication',
  summary: 'Suspend an application',
  description: 'Its tokens answer 403 `application_suspended` and nobody can sign in to it, everywhere within seconds.',
  ...answers(Application, 404, 413, 415),
}
export const resume = {
  ...ofOne,
  operationId: 'resumeApplication',
  summary: 'Resume a suspended application',
  description: 'Within seconds; tokens that have not expired work again.',
  ...answers(Application, 404, 413, 415),
}
const { issuer: issuerAddress, audience, ...optional } = issuer
export const NewIssuer = Type.Object(
  {
    issuer: issuerAddress,
    audience,
    ...Type.Partial(Type.Object(optional)).properties,
    isShared: Type.Optional(
      Type.Boolean({
        description:
          'The provider name already belongs to another application, and both share its people and their accounts',
      }),
    ),
  },
  {
    title: 'NewIssuer',
    additionalProperties: false,
    examples: [{ issuer: ISSUER.issuer, audience: ISSUER.audience }],
  },
)
const ofIssuer = {
  ...ofOne,
  params: Type.Object({
    clientId: Type.String({ minLength: 1, maxLength: 300 }),
    provider: Type.String({ minLength: 1, maxLength: 300 }),
  }),
}
export const trustIssuer = {
  ...ofIssuer,
  operationId: 'trustIssuer',
  summary: 'Let an application exchange tokens of its own identity provider',
  description:
    'Token exchange of RFC 8693. A provider name permanently belongs to its issuer and subject claim; omitted fields have their default.',
  body: NewIssuer,
  ...answers(Application, 404, 409, 413, 415),
}
export const distrustIssuer = {
  ...ofIssuer,
  operationId: 'distrustIssuer',
  summary: 'End the trust in an issuer',
  description: 'Within seconds. Access tokens issued through it stay valid until they expire.',
  ...answers(Application, 404),
}
export const listNetworks = {
  ...shared,
  operationId: 'listNetworks',
  summary: 'Networks',
  description: 'All of this installation, including those that this process is not connected to.',
  querystring: NoQuery,
  ...answers(Type.Array(Network)),
}

/** The response table of a route whose success is not 200. */
export function answersWith(
  status: number,
  success: object,
  ...others: number[]
): { response: Record<string, unknown> } {
  const { 200: ok, ...problems } = answers(success, ...others).response
  return { response: { [status]: ok, ...problems } }
}
