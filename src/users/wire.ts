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
export const readMe = { ...shared, summary: 'Profile of the signed-in user', ...answers(Me) }
