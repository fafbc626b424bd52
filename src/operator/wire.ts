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
import { NewWithdrawal, Withdrawal } from '../transactions/sponsors/withdrawal-wire.ts'

const Secret = Type.String({
  examples: ['chs_…'],
  description: 'Shown only once; only its hash is stored',
})
const WithSecret = Type.Object({ application: Application, secret: Secret }, { title: 'ApplicationWithSecret' })

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
/** One action of an operator. `before` and `after` contain only the fields that changed; null if there was nothing. */
const OperatorAction = Type.Object(
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

export type OperatorAction = Static<typeof OperatorAction>

const VerifiedActions = Type.Object(
  {
    actions: Type.Integer({ description: 'Actions up to the first that differs from what was written' }),
    newest: Type.String({ description: 'Record of the last of these' }),
    firstWrong: Nullable(Type.Integer()),
  },
  { title: 'Verification', examples: [{ actions: 12, newest: 'b1'.repeat(32), firstWrong: null }] },
)
export type VerifiedActions = Static<typeof VerifiedActions>

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
  ...answers(Type.Array(OperatorAction)),
}
export const verifyActions = {
  ...shared,
  operationId: 'verifyActions',
  summary: 'Verify the record of actions of operators',
  description:
    'Reads all of it. Compare `newest` with the last `operator_acted` in your logs: a record that was rewritten as a whole is consistent with itself, but not with them.',
  querystring: NoQuery,
  ...answers(VerifiedActions),
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
export const readUsage = {
  ...ofOne,
  operationId: 'readApplicationUsage',
  summary: 'What an application has used of its quotas',
  description: 'In the hour, day and month that is now, over all servers. Without quotas nothing is counted.',
  ...answers(ApplicationUsage, 404),
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
    'Token exchange of RFC 8693. A provider name permanently belongs to its issuer, subject claim and place of keys; omitted fields have their default. Other keys, an issuer in your own network and people shared with another application take `chatelaine app trust-issuer` on the operator’s machine.',
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
export const createSponsor = {
  ...shared,
  operationId: 'createSponsor',
  summary: 'Create a sponsor',
  description:
    'An account that pays for the gas of people’s writes: where the gas of its network is `topup` it sends them what a write costs, where it is `sponsor` it sends what they sign. It has to be funded. The same request again returns the same account.',
  querystring: NoQuery,
  body: NewSponsor,
  ...answersWith(201, MadeSponsor, 409, 413, 415),
}
export const listSponsors = {
  ...shared,
  operationId: 'listSponsors',
  summary: 'Sponsors',
  description: 'Of all networks, by name, with what each holds.',
  querystring: NoQuery,
  ...answers(Type.Array(ListedSponsor)),
}
export const listWithdrawals = {
  ...shared,
  operationId: 'listWithdrawals',
  summary: 'Withdrawals from sponsors, newest first',
  description: 'At most 200. Grants are not shown; `id` is what the signer’s record says of one.',
  querystring: NoQuery,
  ...answers(Type.Array(Withdrawal)),
}
export const withdraw = {
  ...shared,
  operationId: 'withdraw',
  summary: 'Send funds of a sponsor back to its operator',
  description:
    'By what the signer’s own user granted (`chatelaine signer grant-withdrawal`): without that the signer signs none. A server of the API sends it within seconds. One grant is one withdrawal: the same request again is the same one, and tries one again that was refused.',
  params: Type.Object({ name: Type.String({ minLength: 1, maxLength: 200 }) }),
  querystring: NoQuery,
  body: NewWithdrawal,
  ...answers(Withdrawal, 404, 413, 415),
}
export const listNetworks = {
  ...shared,
  operationId: 'listNetworks',
  summary: 'Networks',
  description: 'All of this installation, including those that this process is not connected to.',
  querystring: NoQuery,
  ...answers(Type.Array(ListedNetwork)),
}

export const updateNetwork = {
  ...shared,
  operationId: 'updateNetwork',
  summary: 'Change a network',
  description:
    'Omitted fields stay as they are; name, chain id and nodes never change so. `sponsorPerDay` and `sponsorLow` hold in every process at once, `backfillFrom` from the next group of accounts on, everything else after its next start. The network of the settings is what they say.',
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
