import Type from 'typebox'
import { sends } from '../http/openapi-headers.ts'
import { answers, NoQuery } from '../http/wire.ts'
import { SignedOut } from '../oauth/wire.ts'
import { StoppedLane } from '../transactions/lane-wire.ts'
import { ExportState, FreezeState, Pregenerated } from '../users/wire.ts'
import { answersWith, shared } from './wire.ts'

export const NewAccount = Type.Object(
  {
    provider: Type.String({ maxLength: 100, description: 'Upper-case name of the identity provider' }),
    providerUserId: Type.String({
      maxLength: 500,
      description: 'The provider’s immutable id of the person; never a name, an e-mail address or a login',
    }),
  },
  {
    title: 'NewAccount',
    additionalProperties: false,
    examples: [{ provider: 'DISCORD', providerUserId: '80351110224678912' }],
  },
)
export const createAccount = {
  ...shared,
  operationId: 'createAccount',
  summary: 'Create an account for someone who has not signed in yet',
  description:
    'Its owner gets exactly this account at the first sign-in. The same request again returns the same account.',
  querystring: NoQuery,
  body: NewAccount,
  ...answersWith(201, Pregenerated, 413, 415),
}

const ofOneAccount = {
  ...shared,
  querystring: NoQuery,
  params: Type.Object({ userId: Type.String({ maxLength: 1_000, description: 'Id of the user' }) }),
}
export const listFrozen = {
  ...shared,
  operationId: 'listFrozenAccounts',
  summary: 'Frozen accounts',
  description: 'All of them, longest frozen first.',
  querystring: NoQuery,
  ...answers(Type.Array(FreezeState)),
}
export const freeze = {
  ...ofOneAccount,
  operationId: 'freezeAccount',
  summary: 'Freeze an account',
  description:
    'It sends nothing: writes answer 403 `account_frozen`, and the signer refuses its tokens, everywhere within seconds. Its owner is signed out everywhere, may sign in again to view it, and cannot change the ways to sign in.',
  ...answers(FreezeState, 404, 413, 415),
}
export const unfreeze = {
  ...ofOneAccount,
  operationId: 'unfreezeAccount',
  summary: 'Unfreeze an account',
  description: 'Within seconds. Its owner signs in again.',
  ...answers(FreezeState, 404, 413, 415),
}
export const listStopped = {
  ...shared,
  operationId: 'listStoppedAccounts',
  summary: 'Stopped accounts',
  description:
    'Accounts of which a nonce was used by a transaction that this service did not make. Their writes answer 503 `account_stopped` until an operator resumes them. The longest stopped first.',
  querystring: NoQuery,
  ...answers(Type.Array(StoppedLane)),
}
export const resumeAccount = {
  ...ofOneAccount,
  operationId: 'resumeAccount',
  summary: 'Resume a stopped account',
  description:
    'On every network where it is stopped, at the next round of the network’s keeper: with the first unused nonce. If another foreign transaction uses one, it is stopped again.',
  ...answers(Type.Array(StoppedLane), 404, 413, 415),
}
export const signOut = {
  ...ofOneAccount,
  operationId: 'signOutAccount',
  summary: 'Sign a user out everywhere',
  description:
    'Every browser and every application with all its tokens, everywhere within seconds. What the person allowed stays allowed.',
  ...answers(SignedOut, 404, 413, 415),
}
export const listExports = {
  ...shared,
  operationId: 'listKeyExports',
  summary: 'Keys that people have requested',
  description:
    'Requests under way: the newest 500, the oldest first; `X-Total-Count` is how many there are (docs/guides/leaving.md).',
  querystring: NoQuery,
  ...sends('X-Total-Count'),
  ...answers(Type.Array(ExportState), 503),
}
export const cancelExport = {
  ...ofOneAccount,
  operationId: 'cancelKeyExport',
  summary: 'Cancel the request for a key',
  description: 'Nothing leaves; the person may request it again. Without a request it does nothing.',
  ...answers(ExportState, 404, 413, 415, 503),
}
