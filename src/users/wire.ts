import Type from 'typebox'
import { Address, answers, NoQuery, UserIdParam } from '../http/wire.ts'

const user = {
  id: Type.String({ description: '`<PROVIDER>-<provider_user_id>`', examples: ['DEV-alice'] }),
  provider: Type.String({ description: 'Upper-case name of the identity provider' }),
  username: Type.String({ description: 'Display name at the provider' }),
  address: Address,
  imageSrc: Type.Union([Type.String(), Type.Null()], {
    description: 'Avatar image address; null where the provider gives none',
  }),
}

/** 2.1. */
export const User = Type.Object(user)

/** The caller's own user, with what the token is good for. */
export const Me = Type.Object({
  ...user,
  network: Type.String({ description: 'Lower-case name of the application’s network' }),
  chainId: Type.Integer(),
  scopes: Type.Array(Type.String()),
  linked: Type.Array(Type.String(), { description: 'Ids of all identities of this account, the first one first' }),
})

const shared = { tags: ['Users'], security: [{ bearer: [] }], querystring: NoQuery }
export const readUser = {
  ...shared,
  summary: 'Profile of a user',
  params: Type.Object({ userId: UserIdParam }),
  ...answers(User),
}
export const UsersQuery = Type.Object(
  {
    username: Type.Optional(Type.String({ minLength: 1, maxLength: 255, description: 'Exact name; users only' })),
    provider: Type.Optional(Type.String({ maxLength: 32, description: 'Beside `username`: provider of the identity' })),
    limit: Type.Optional(
      Type.String({
        pattern: '^([1-9]|[1-9]\\d|1\\d\\d|200)$',
        description: '1 to 200, default 50; applications only',
      }),
    ),
    cursor: Type.Optional(Type.String({ maxLength: 512, description: 'Applications only' })),
  },
  { additionalProperties: false },
)
export const listUsers = {
  ...shared,
  summary: 'People of the application',
  description:
    'With the token of a user and the permission `users:directory`: people who signed in to the same application, allowed being found there and have exactly the name `username`, at most 20, 10 look-ups a minute. With the token of an application and `users:read`: everybody who allowed that, the newest first, paged by `X-Next-Cursor`.',
  querystring: UsersQuery,
  ...answers(Type.Array(User)),
}
export const readMe = { ...shared, summary: 'Profile of the signed-in user', ...answers(Me) }
