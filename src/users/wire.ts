import Type, { type Static } from 'typebox'
import { PAGED, sends } from '../http/openapi-headers.ts'
import { Address, answers, Limit, NoQuery, Nullable, UserIdParam } from '../http/wire.ts'

const user = {
  id: Type.String({ description: '`<PROVIDER>-<provider_user_id>`', examples: ['DEV-alice'] }),
  provider: Type.String({ description: 'Upper-case name of the identity provider' }),
  username: Type.String({ description: 'Display name at the provider' }),
  address: Address,
  imageSrc: Type.Union([Type.String(), Type.Null()], {
    description: 'URL of the avatar image; null if the provider has none',
  }),
}

const ALICE = {
  id: 'GITHUB-583231',
  provider: 'GITHUB',
  username: 'octocat',
  address: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  imageSrc: 'https://avatars.githubusercontent.com/u/583231',
}

/** User object, paragraph 2.1 of the specification. */
const User = Type.Object(user, { title: 'User', examples: [ALICE] })
export type UserProfile = Static<typeof User>

/** The caller's own user, with the permissions of the token. */
export const Me = Type.Object(
  {
    ...user,
    network: Type.String({ description: 'Lower-case name of the application’s network' }),
    chainId: Type.Integer(),
    scopes: Type.Array(Type.String()),
    linked: Type.Array(Type.String(), {
      description: 'Ids of all identities of this account, starting with the first identity',
    }),
    exportedAt: Nullable(
      Type.String({
        description:
          'Time at which the user exported the key of the account. Since then, the key and its nonces may be used elsewhere',
      }),
    ),
  },
  {
    title: 'Me',
    examples: [
      {
        ...ALICE,
        network: 'sepolia',
        chainId: 11_155_111,
        scopes: ['wallet:read'],
        linked: ['GITHUB-583231'],
        exportedAt: null,
      },
    ],
  },
)
export type Me = Static<typeof Me>

const shared = { tags: ['Users'], querystring: NoQuery }
export const readUser = {
  ...shared,
  operationId: 'readUser',
  summary: 'Profile of a user',
  description:
    'Returns the profile of the signed-in user. With `users:directory`, also returns users of the same application who consented to be found. With the token of an application and `users:read`, returns users who consented to that permission.',
  params: Type.Object({ userId: UserIdParam }),
  ...answers(User),
}
export const UsersQuery = Type.Object(
  {
    username: Type.Optional(
      Type.String({ minLength: 1, maxLength: 255, description: 'Exact name; only with a user token' }),
    ),
    provider: Type.Optional(Type.String({ maxLength: 32, description: 'With `username`: provider of the identity' })),
    limit: Type.Optional(Limit(50, 'Applications only: users of a page')),
    cursor: Type.Optional(Type.String({ maxLength: 512, description: 'Only with the token of an application' })),
  },
  { additionalProperties: false },
)
export const listUsers = {
  ...shared,
  operationId: 'listUsers',
  ...sends(...PAGED),
  summary: 'Users of the application',
  description:
    'With a user token and `users:directory`: users of the same application who consented to be found and whose name is exactly `username`. At most 20 users, and 10 requests per minute. With the token of an application and `users:read`: all users who consented to that permission, newest first, paged by `X-Next-Cursor`.',
  querystring: UsersQuery,
  ...answers(Type.Array(User)),
}
export const readMe = {
  ...shared,
  operationId: 'readMe',
  summary: 'Profile of the signed-in user',
  description: 'Includes the network of the application and the permissions of the token.',
  ...answers(Me),
}

/** An account that was created before its user's first sign-in, as the operator sees it. */
export const Pregenerated = Type.Object(
  {
    userId: Type.String({
      description: 'Id of the user. If the identity was added to another account, the id of that account',
    }),
    address: Address,
    isNew: Type.Boolean({ description: 'true if this request created the account' }),
  },
  { title: 'Account', examples: [{ userId: 'DISCORD-80351110224678912', address: ALICE.address, isNew: true }] },
)
export type Pregenerated = Static<typeof Pregenerated>

/** An account that was frozen or unfrozen, as the operator sees it. */
export const FreezeState = Type.Object(
  {
    userId: Type.String(),
    frozenAt: Nullable(Type.String({ description: 'Time of the freeze' })),
  },
  { title: 'FreezableAccount', examples: [{ userId: 'GITHUB-583231', frozenAt: '2026-01-31T12:00:00.000Z' }] },
)
export type FreezeState = Static<typeof FreezeState>

/** The state of a key export, as the operator sees it. */
export const ExportState = Type.Object(
  {
    userId: Type.String(),
    state: Type.Union([Type.Literal('none'), Type.Literal('waiting'), Type.Literal('ready'), Type.Literal('damaged')], {
      description:
        '`damaged`: the record in the signer’s log was altered. The key cannot be exported, and the request can be cancelled',
    }),
    askedAt: Nullable(Type.String({ description: 'Time of the request; null without a request' })),
    readyAt: Nullable(Type.String({ description: 'Time at which the delay ends, by the clock of the signer' })),
    lapsesAt: Nullable(Type.String({ description: 'Time at which an unused request ends' })),
    exportedAt: Nullable(Type.String({ description: 'Time of the last export of the key' })),
  },
  {
    title: 'KeyExport',
    examples: [
      {
        userId: 'GITHUB-583231',
        state: 'waiting',
        askedAt: '2026-01-31T12:00:00.000Z',
        readyAt: '2026-02-01T12:00:00.000Z',
        lapsesAt: '2026-02-08T12:00:00.000Z',
        exportedAt: null,
      },
    ],
  },
)
export type ExportState = Static<typeof ExportState>

/** A user as the operator sees them. */
export const Person = Type.Object(
  {
    userId: Type.String({ description: 'Id of the user, permanent' }),
    address: Nullable(Address),
    createdAt: Type.String({ description: 'Time at which the account was created' }),
    frozenAt: Nullable(Type.String()),
    exportedAt: Nullable(Type.String({ description: 'Time of the last export of the key' })),
    identities: Type.Array(
      Type.Object(
        {
          userId: Type.String({ description: 'User id of the account with this identity' }),
          username: Type.String({
            description: 'Latest value of the provider, as for `email`; not used for any decision',
          }),
          email: Nullable(Type.String()),
          signedInAt: Nullable(
            Type.String({ description: 'Time of the last sign-in; null if the user has never signed in' }),
          ),
        },
        { title: 'PersonIdentity' },
      ),
    ),
  },
  {
    title: 'Person',
    description: '`address` is null if the signer has not attested it',
    examples: [
      {
        userId: 'GITHUB-583231',
        address: ALICE.address,
        createdAt: '2026-01-31T12:00:00.000Z',
        frozenAt: null,
        exportedAt: null,
        identities: [
          {
            userId: 'GITHUB-583231',
            username: 'octocat',
            email: 'octocat@example.org',
            signedInAt: '2026-01-31T12:00:00.000Z',
          },
        ],
      },
    ],
  },
)
export type Person = Static<typeof Person>

const count = (description: string) => Type.Integer({ minimum: 0, description })
/** The numbers of users. */
export const PeopleCounts = Type.Object(
  {
    accounts: count('User accounts, without sponsors'),
    signedIn: count('Accounts whose user has signed in'),
    frozen: count('Frozen accounts'),
    providers: Type.Array(
      Type.Object(
        {
          provider: Type.String(),
          identities: count('Identities at this provider; an account may have several'),
          signedIn: count('Identities that were used to sign in'),
        },
        { title: 'ProviderCount' },
      ),
    ),
  },
  {
    title: 'PeopleCounts',
    examples: [
      { accounts: 2, signedIn: 1, frozen: 0, providers: [{ provider: 'GITHUB', identities: 2, signedIn: 1 }] },
    ],
  },
)
export type PeopleCounts = Static<typeof PeopleCounts>
