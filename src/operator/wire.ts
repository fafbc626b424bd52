import Type, { type Static } from 'typebox'
import {
  Application,
  ApplicationChanges,
  ApplicationUsage,
  issuer,
  ISSUER,
  ListedNetwork,
  NetworkChanges,
  NewApplication,
} from '../applications/wire.ts'
import { sends } from '../http/openapi-headers.ts'
import { answers, Limit, NoQuery, Nullable, shownAs } from '../http/wire.ts'

import { ListedSponsor, MadeSponsor, NewSponsor } from '../sponsors/wire.ts'
import { TransactionChange } from '../transactions/change-wire.ts'
import { NewWithdrawal, Withdrawal } from '../transactions/sponsors/withdrawal-wire.ts'

const Secret = Type.String({
  examples: ['chs_…'],
  description: 'Shown only once; only its hash is stored',
})
const WithSecret = Type.Object({ application: Application, secret: Secret }, { title: 'ApplicationWithSecret' })

export const ApplicationsQuery = Type.Object(
  {
    limit: Type.Optional(Limit(200)),
    after: Type.Optional(Type.String({ maxLength: 200, description: 'Last client id of the previous page' })),
  },
  { additionalProperties: false },
)

export const ActionsQuery = Type.Object(
  {
    limit: Type.Optional(Limit(200)),
    before: Type.Optional(
      Type.String({
        pattern: '^\\d{1,15}$',
        description: 'Last `seq` of the previous page',
        ...shownAs({ type: 'integer', minimum: 1 }),
      }),
    ),
  },
  { additionalProperties: false },
)

const Changed = Nullable(Type.Record(Type.String(), Type.Unknown(), { description: 'Changed fields only' }))
/** One action of an operator. `before` and `after` contain only the fields that changed; null if there was nothing. */
const OperatorAction = Type.Object(
  {
    seq: Type.Integer(),
    at: Type.String({ format: 'date-time' }),
    actor: Type.String({ description: 'Name of the operator token, or system user that ran a command' }),
    via: Type.Union([Type.Literal('api'), Type.Literal('command'), Type.Literal('console')]),
    action: Type.String(),
    target: Type.String(),
    before: Changed,
    after: Changed,
    record: Type.String({ description: 'SHA-256 of this action and the previous record, hexadecimal' }),
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

export type OperatorAction = Static<typeof OperatorAction>

const VerifiedActions = Type.Object(
  {
    actions: Type.Integer({ description: 'Number of intact actions before the first altered one' }),
    newest: Type.String({ description: 'Record of the last intact action' }),
    firstWrong: Nullable(Type.Integer()),
  },
  { title: 'Verification', examples: [{ actions: 12, newest: 'b1'.repeat(32), firstWrong: null }] },
)
export type VerifiedActions = Static<typeof VerifiedActions>

export const NewToken = Type.Object(
  { user: Type.String({ minLength: 1, maxLength: 300 }), clientId: Type.Optional(Type.String({ maxLength: 255 })) },
  { additionalProperties: false },
)

export const NewOperatorRole = Type.Object(
  {
    role: Type.Union([
      Type.Literal('owner'),
      Type.Literal('operator'),
      Type.Literal('support'),
      Type.Literal('viewer'),
    ]),
  },
  { additionalProperties: false },
)

const ClientIdParams = Type.Object({ clientId: Type.String({ minLength: 1, maxLength: 300 }) })
export const shared = { tags: ['Operator'], security: [{ operator: [] }] }
const ofOne = { ...shared, params: ClientIdParams, querystring: NoQuery }

export const listApplications = {
  ...shared,
  operationId: 'listApplications',
  summary: 'List applications, by client id',
  description: 'Includes suspended applications. For the next page, set `after` to the last client id of this page.',
  querystring: ApplicationsQuery,
  ...answers(Type.Array(Application)),
}
export const listActions = {
  ...shared,
  operationId: 'listActions',
  summary: 'List operator actions, newest first',
  description:
    'Includes actions by the operator API and by commands. For the next page, set `before` to the last `seq` of this page.',
  querystring: ActionsQuery,
  ...answers(Type.Array(OperatorAction)),
}
export const verifyActions = {
  ...shared,
  operationId: 'verifyActions',
  summary: 'Verify the audit log of operator actions',
  description:
    'Reads all actions. Compare `newest` with the last `operator_acted` in your logs. If someone rewrote the whole audit log, it is consistent with itself but not with your logs.',
  querystring: NoQuery,
  ...answers(VerifiedActions),
}
export const createApplication = {
  ...shared,
  operationId: 'createApplication',
  ...sends('Location'),
  summary: 'Register an application',
  description: 'The response has the secret of a confidential application. The secret is not shown again.',
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
  description: 'Includes the identity providers of the application.',
  ...answers(Application, 404),
}
export const updateApplication = {
  ...ofOne,
  operationId: 'updateApplication',
  summary: 'Change an application',
  description:
    'Omitted fields do not change. A list is replaced as a whole. Network, kind and client id cannot be changed.',
  body: ApplicationChanges,
  ...answers(Application, 404, 413, 415),
}
export const readUsage = {
  ...ofOne,
  operationId: 'readApplicationUsage',
  summary: 'Get the quota usage of an application',
  description:
    'Returns the usage in the current hour, day and month, over all servers. Without quotas, nothing is counted.',
  ...answers(ApplicationUsage, 404),
}
export const rotateSecret = {
  ...ofOne,
  operationId: 'rotateSecret',
  summary: 'Issue a new secret in addition to the current one',
  description: 'The current secret remains valid until the next rotation.',
  ...answers(WithSecret, 404, 413, 415),
}
export const resetSecret = {
  ...ofOne,
  operationId: 'resetSecret',
  summary: 'Issue a new secret and revoke all current ones',
  description: 'Takes effect immediately. Clients with an old secret are rejected.',
  ...answers(WithSecret, 404, 413, 415),
}
export const suspend = {
  ...ofOne,
  operationId: 'suspendApplication',
  summary: 'Suspend an application',
  description:
    'Requests with its tokens return 403 `application_suspended`, and users cannot sign in to it. Takes effect on all servers within seconds.',
  ...answers(Application, 404, 413, 415),
}
export const resume = {
  ...ofOne,
  operationId: 'resumeApplication',
  summary: 'Resume a suspended application',
  description: 'Takes effect within seconds. Tokens that have not expired work again.',
  ...answers(Application, 404, 413, 415),
}
const { issuer: issuerAddress, audience, ...optional } = issuer
export const NewIssuer = Type.Object(
  {
    issuer: issuerAddress,
    audience,
    ...Type.Partial(Type.Object(optional)).properties,
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
    'Enables token exchange (RFC 8693). A provider name permanently belongs to its issuer, subject claim and JWKS URL. Omitted fields get their default. To change the JWKS URL, to use an issuer in a private network, or to share users with another application, run `chatelaine app trust-issuer`.',
  body: NewIssuer,
  ...answers(Application, 404, 409, 413, 415),
}
export const distrustIssuer = {
  ...ofIssuer,
  operationId: 'distrustIssuer',
  summary: 'Remove a trusted issuer',
  description: 'Takes effect within seconds. Access tokens that were issued through it remain valid until they expire.',
  ...answers(Application, 404),
}
export const createSponsor = {
  ...shared,
  operationId: 'createSponsor',
  summary: 'Create a sponsor',
  description:
    'Creates an account that pays for users’ gas, on networks with gas mode `topup` or `sponsor`. You must fund the account. Repeating the request returns the same account.',
  querystring: NoQuery,
  body: NewSponsor,
  ...answersWith(201, MadeSponsor, 409, 413, 415),
}
export const listSponsors = {
  ...shared,
  operationId: 'listSponsors',
  summary: 'List sponsors',
  description: 'Lists the sponsors of all networks, by name, with balances.',
  querystring: NoQuery,
  ...answers(Type.Array(ListedSponsor)),
}
export const listWithdrawals = {
  ...shared,
  operationId: 'listWithdrawals',
  summary: 'List withdrawals from sponsors, newest first',
  description: 'Lists at most 200 withdrawals. Grants are not shown; `id` is in the signer’s record of the withdrawal.',
  querystring: NoQuery,
  ...answers(Type.Array(Withdrawal)),
}
export const withdraw = {
  ...shared,
  operationId: 'withdraw',
  summary: 'Withdraw funds of a sponsor',
  description:
    'Requires a grant of the signer’s operator (`chatelaine signer grant-withdrawal`). An API server sends the withdrawal within seconds. Idempotent per grant: repeating the request retries a rejected withdrawal.',
  params: Type.Object({ name: Type.String({ minLength: 1, maxLength: 200 }) }),
  querystring: NoQuery,
  body: NewWithdrawal,
  ...answers(Withdrawal, 404, 413, 415),
}
const changeOf = {
  ...shared,
  params: Type.Object({ id: Type.String({ minLength: 1, maxLength: 200 }) }),
  querystring: NoQuery,
  ...answers(TransactionChange, 404, 409, 413, 415),
}
export const cancelTransaction = {
  ...changeOf,
  operationId: 'cancelTransactionAsOperator',
  summary: 'Request the cancellation of a pending transaction',
  description:
    'An API server sends an empty transaction with the same nonce at a higher fee within seconds. Whichever is mined first wins. Repeating the request retries a rejected one. Operations of sponsors cannot be changed here.',
}
export const speedUpTransaction = {
  ...changeOf,
  operationId: 'speedUpTransactionAsOperator',
  summary: 'Request a fee bump of a pending transaction',
  description:
    'An API server sends the same transaction at a higher fee within seconds, within the limits of the signer and the network. Each request bumps the fee once.',
}
export const listNetworks = {
  ...shared,
  operationId: 'listNetworks',
  summary: 'List networks',
  description: 'Lists all networks of this installation, including networks that this process is not connected to.',
  querystring: NoQuery,
  ...answers(Type.Array(ListedNetwork)),
}

export const updateNetwork = {
  ...shared,
  operationId: 'updateNetwork',
  summary: 'Change a network',
  description:
    'Omitted fields do not change. Name, chain id and nodes cannot be changed here. `sponsorPerDay`, `sponsorLow`, `pagesPerUser` and `pagesPerDay` take effect immediately in all processes, `backfillFrom` with the next group of accounts, all other fields after a restart. The network of the settings cannot be changed here.',
  params: Type.Object({ name: Type.String({ minLength: 1, maxLength: 200 }) }),
  querystring: NoQuery,
  body: NetworkChanges,
  ...answers(ListedNetwork, 404, 413, 415),
}

/** Returns the response table of a route whose success is not 200. */
export function answersWith(
  status: number,
  success: object,
  ...others: number[]
): { response: Record<string, unknown> } {
  const { 200: ok, ...problems } = answers(success, ...others).response
  return { response: { [status]: ok, ...problems } }
}
