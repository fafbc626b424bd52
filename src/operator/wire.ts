import Type, { type TSchema } from 'typebox'
import { Address, answers, NoQuery } from '../http/wire.ts'

const Uri = Type.String({ maxLength: 2_000 })
const Text = Type.String({ maxLength: 200 })
const Nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])

const issuer = {
  issuer: Type.String({ maxLength: 2_000, description: 'Exactly what the tokens say in `iss`' }),
  audience: Type.String({ maxLength: 300, description: 'What they must say in `aud`' }),
  jwksUri: Nullable(Type.String({ maxLength: 2_000, description: 'Where the keys are; null: found by discovery' })),
  algorithms: Type.Array(Type.String(), { maxItems: 20, description: 'Default RS256 and ES256' }),
  subjectClaim: Type.String({ maxLength: 300, description: 'Claim with the immutable id of a person, default sub' }),
  usernameClaims: Type.Array(Type.String({ maxLength: 300 }), { maxItems: 10 }),
  pictureClaim: Type.String({ maxLength: 300 }),
  maxAgeSeconds: Type.Integer({ description: 'How long ago a token may have been issued, 60 to 86400, default 3600' }),
  isReusable: Type.Boolean({ description: 'One token may be exchanged more than once; default false' }),
  allowsPrivate: Type.Boolean({ description: 'The issuer may be in your own network; default false' }),
}

/** An identity provider that an application brings (RFC 8693). */
const Issuer = Type.Object({ provider: Type.String({ description: 'First part of user ids: `APP_…`' }), ...issuer })

/** An application as its operator sees it. */
const Application = Type.Object({
  clientId: Type.String(),
  name: Type.String(),
  network: Nullable(Type.String()),
  chainId: Type.Integer(),
  kind: Type.Union([Type.Literal('public'), Type.Literal('confidential')]),
  redirectUris: Type.Array(Type.String()),
  permissions: Type.Array(Type.String()),
  allowedOrigins: Type.Array(Type.String()),
  logoUri: Nullable(Type.String()),
  liveSecrets: Type.Integer({ description: 'How many secrets are valid: 0, 1 or, while one is being replaced, 2' }),
  issuers: Type.Array(Issuer, { description: 'Identity providers of its own, whose tokens it exchanges' }),
  createdAt: Type.String(),
  suspendedAt: Nullable(Type.String()),
})

const Secret = Type.String({ description: 'Shown this once; only its hash is kept' })
const WithSecret = Type.Object({ application: Application, secret: Secret })

const Network = Type.Object({
  name: Type.String(),
  chainId: Type.Integer(),
  symbol: Type.String(),
  coin: Type.String(),
  decimals: Type.Integer(),
  explorer: Nullable(Type.Object({ tx: Type.String(), address: Type.String(), block: Type.String() })),
  finality: Type.Union([Type.Literal('finalized'), Type.Integer()]),
  multicall3: Nullable(Type.String()),
  followStrict: Nullable(Type.String({ description: '`on`, `off` or `lax`; null: as the setting FOLLOW_STRICT says' })),
  feeCapGwei: Nullable(Type.Integer({ description: 'null: as the setting FEE_CAP_GWEI says' })),
  applications: Type.Integer({ description: 'How many applications are bound to it' }),
  isServed: Type.Boolean({ description: 'This process is connected to it' }),
})

const changeable = {
  name: Type.String({ maxLength: 200, description: 'As people read it when they are asked to allow the application' }),
  redirectUris: Type.Array(Uri, { maxItems: 50, description: 'Exact; on loopback any port' }),
  permissions: Type.Array(Text, { maxItems: 20, examples: [['wallet:read', 'contracts:read']] }),
  allowedOrigins: Type.Array(Uri, { maxItems: 50, description: 'Origins whose pages may call the API' }),
  logoUri: Nullable(Uri),
}

export const NewApplication = Type.Object(
  {
    name: changeable.name,
    network: Type.String({ maxLength: 200, description: 'Name of a network of this installation; kept for ever' }),
    redirectUris: changeable.redirectUris,
    clientId: Type.Optional(Type.String({ maxLength: 200, description: 'Made from the name when left out' })),
    kind: Type.Optional(
      Type.Union([Type.Literal('public'), Type.Literal('confidential')], { description: 'Default public' }),
    ),
    permissions: Type.Optional(changeable.permissions),
    allowedOrigins: Type.Optional(changeable.allowedOrigins),
    logoUri: Type.Optional(changeable.logoUri),
  },
  { additionalProperties: false },
)

export const ApplicationChanges = Type.Partial(Type.Object(changeable), {
  additionalProperties: false,
  minProperties: 1,
})

export const ApplicationsQuery = Type.Object(
  {
    limit: Type.Optional(Type.String({ pattern: '^([1-9]\\d?|1\\d\\d|200)$', description: '1 to 200, default 200' })),
    after: Type.Optional(Type.String({ maxLength: 200, description: 'Client id that the page before ended with' })),
  },
  { additionalProperties: false },
)

export const ActionsQuery = Type.Object(
  {
    limit: Type.Optional(Type.String({ pattern: '^([1-9]\\d?|1\\d\\d|200)$', description: '1 to 200, default 200' })),
    before: Type.Optional(
      Type.String({ pattern: '^\\d{1,15}$', description: '`seq` that the page before ended with' }),
    ),
  },
  { additionalProperties: false },
)

const Changed = Nullable(Type.Record(Type.String(), Type.Unknown(), { description: 'What changed and nothing else' }))
const Action = Type.Object({
  seq: Type.Integer(),
  at: Type.String({ format: 'date-time' }),
  actor: Type.String({ description: 'Name of the token, or the user of the machine who ran a command' }),
  via: Type.Union([Type.Literal('api'), Type.Literal('command')]),
  action: Type.String(),
  target: Type.String(),
  before: Changed,
  after: Changed,
  record: Type.String({ description: 'SHA-256 over this action and the record before it, hexadecimal' }),
})

export const NewToken = Type.Object(
  { user: Type.String({ minLength: 1, maxLength: 300 }), clientId: Type.Optional(Type.String({ maxLength: 255 })) },
  { additionalProperties: false },
)

const ClientIdParams = Type.Object({ clientId: Type.String({ minLength: 1, maxLength: 300 }) })
const shared = { tags: ['Operator'], security: [{ operator: [] }] }
const ofOne = { ...shared, params: ClientIdParams, querystring: NoQuery }

export const listApplications = {
  ...shared,
  summary: 'Applications, by client id',
  querystring: ApplicationsQuery,
  ...answers(Type.Array(Application)),
}
export const listActions = {
  ...shared,
  summary: 'What operators did, the newest first',
  querystring: ActionsQuery,
  ...answers(Type.Array(Action)),
}
export const verifyActions = {
  ...shared,
  summary: 'Whether the record of what operators did is whole',
  description:
    'Walks all of it. Compare `newest` with the last `operator_acted` of your logs: a record that was written anew as a whole agrees with itself, and not with them.',
  querystring: NoQuery,
  ...answers(
    Type.Object({
      actions: Type.Integer({ description: 'Actions up to the first that is not as it was written' }),
      newest: Type.String({ description: 'Record of the last of these' }),
      firstWrong: Nullable(Type.Integer()),
    }),
  ),
}
export const createApplication = {
  ...shared,
  summary: 'Register an application',
  querystring: NoQuery,
  body: NewApplication,
  ...answersWith(201, Type.Object({ application: Application, secret: Nullable(Secret) }), 409, 413, 415),
}
export const readApplication = { ...ofOne, summary: 'An application', ...answers(Application, 404) }
export const updateApplication = {
  ...ofOne,
  summary: 'Change an application',
  description:
    'What is left out stays as it is; a list is replaced as a whole. Network, kind and client id never change.',
  body: ApplicationChanges,
  ...answers(Application, 404, 413, 415),
}
export const rotateSecret = {
  ...ofOne,
  summary: 'Another secret beside the present one',
  description: 'The present secret stays valid until the next rotation.',
  ...answers(WithSecret, 404, 413, 415),
}
export const resetSecret = {
  ...ofOne,
  summary: 'Another secret instead of all present ones',
  ...answers(WithSecret, 404, 413, 415),
}
export const suspend = {
  ...ofOne,
  summary: 'Stop an application',
  description: 'Its tokens answer 403 `application_suspended` and nobody can sign in to it, everywhere within seconds.',
  ...answers(Application, 404, 413, 415),
}
export const resume = { ...ofOne, summary: 'Let a suspended application go on', ...answers(Application, 404, 413, 415) }
const { issuer: issuerAddress, audience, ...optional } = issuer
export const NewIssuer = Type.Object(
  {
    issuer: issuerAddress,
    audience,
    ...Type.Partial(Type.Object(optional)).properties,
    isShared: Type.Optional(
      Type.Boolean({
        description:
          'The name belongs to another application already, and the same people have the same accounts in both',
      }),
    ),
  },
  { additionalProperties: false },
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
  summary: 'Let an application exchange tokens of an identity provider of its own',
  description:
    'Token exchange of RFC 8693. A provider name stays with its issuer and its subject claim for ever; what is left out has its default.',
  body: NewIssuer,
  ...answers(Application, 404, 409, 413, 415),
}
export const distrustIssuer = {
  ...ofIssuer,
  summary: 'End the trust in an issuer',
  description: 'Within seconds. Access tokens that it led to live until they expire.',
  ...answers(Application, 404),
}
export const listNetworks = { ...shared, summary: 'Networks', querystring: NoQuery, ...answers(Type.Array(Network)) }

export const NewAccount = Type.Object(
  {
    provider: Type.String({ maxLength: 100, description: 'Upper-case name of the identity provider' }),
    providerUserId: Type.String({
      maxLength: 500,
      description: 'The provider’s immutable id of the person; never a name, an e-mail address or a login',
    }),
  },
  { additionalProperties: false },
)
const Account = Type.Object({
  userId: Type.String({ description: 'Id of the user; of the account that the identity was added to, if it was' }),
  address: Address,
  isNew: Type.Boolean({ description: 'This request made it' }),
})
export const createAccount = {
  ...shared,
  summary: 'An account for someone who has not signed in yet',
  description:
    'Its owner gets exactly this account at the first sign-in. The same request again answers with the same account.',
  querystring: NoQuery,
  body: NewAccount,
  ...answersWith(201, Account, 413, 415),
}

const FreezableAccount = Type.Object({
  userId: Type.String(),
  frozenAt: Nullable(Type.String({ description: 'Since when it is frozen' })),
})
const ofOneAccount = {
  ...shared,
  querystring: NoQuery,
  params: Type.Object({ userId: Type.String({ maxLength: 1_000, description: 'Id of the user' }) }),
}
export const listFrozen = {
  ...shared,
  summary: 'Frozen accounts',
  description: 'All of them, the longest frozen first.',
  querystring: NoQuery,
  ...answers(Type.Array(FreezableAccount)),
}
export const freeze = {
  ...ofOneAccount,
  summary: 'Freeze an account',
  description:
    'It moves nothing: writes answer 403 `account_frozen`, and the signer refuses its tokens, everywhere within seconds. Its owner is signed out everywhere, may sign in again to look, and cannot change the ways to sign in.',
  ...answers(FreezableAccount, 404, 413, 415),
}
export const thaw = {
  ...ofOneAccount,
  summary: 'Let a frozen account go on',
  ...answers(FreezableAccount, 404, 413, 415),
}
const StoppedLane = Type.Object({
  userId: Type.String(),
  address: Address,
  chainId: Type.Integer(),
  nonce: Type.Integer({ description: 'The nonce that somebody else used' }),
  hash: Nullable(Type.String({ description: 'The transaction that used it, if it is known' })),
  reason: Type.String({ description: '`foreign_nonce`: somebody else holds the key of the account' }),
  stoppedAt: Type.String(),
  resumeAskedAt: Nullable(Type.String({ description: 'Since when it is to go on; it does within seconds' })),
})
export const listStopped = {
  ...shared,
  summary: 'Stopped accounts',
  description:
    'Accounts of which a nonce was used by a transaction that this service did not make. Their writes answer 503 `account_stopped` until an operator resumes them. The longest stopped first.',
  querystring: NoQuery,
  ...answers(Type.Array(StoppedLane)),
}
export const resumeAccount = {
  ...ofOneAccount,
  summary: 'Let a stopped account go on',
  description:
    'On every network where it is stopped, at the next round of the network’s keeper: with the first nonce that nobody used. If somebody else uses one again, it is stopped again.',
  ...answers(Type.Array(StoppedLane), 404, 413, 415),
}
export const signOut = {
  ...ofOneAccount,
  summary: 'Sign somebody out everywhere',
  description:
    'Every browser and every application with all its tokens, everywhere within seconds. What the person allowed stays allowed.',
  ...answers(
    Type.Object({
      userId: Type.String(),
      browsers: Type.Integer({ description: 'How many browsers were signed in' }),
      applications: Type.Integer({ description: 'How many sign-ins of applications worked' }),
    }),
    404,
    413,
    415,
  ),
}

/** The response table of a route whose success is not 200. */
function answersWith(status: number, success: object, ...others: number[]): { response: Record<string, unknown> } {
  const { 200: ok, ...problems } = answers(success, ...others).response
  return { response: { [status]: ok, ...problems } }
}
