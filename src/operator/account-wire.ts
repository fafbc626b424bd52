import Type from 'typebox'
import { Address, answers, NoQuery } from '../http/wire.ts'
import { answersWith, Nullable, shared } from './wire.ts'

const ADDRESS = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'

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
const Account = Type.Object(
  {
    userId: Type.String({ description: 'Id of the user; of the account that the identity was added to, if it was' }),
    address: Address,
    isNew: Type.Boolean({ description: 'Created by this request' }),
  },
  { title: 'Account', examples: [{ userId: 'DISCORD-80351110224678912', address: ADDRESS, isNew: true }] },
)
export const createAccount = {
  ...shared,
  operationId: 'createAccount',
  summary: 'Create an account for someone who has not signed in yet',
  description:
    'Its owner gets exactly this account at the first sign-in. The same request again returns the same account.',
  querystring: NoQuery,
  body: NewAccount,
  ...answersWith(201, Account, 413, 415),
}

const FreezableAccount = Type.Object(
  {
    userId: Type.String(),
    frozenAt: Nullable(Type.String({ description: 'When it was frozen' })),
  },
  { title: 'FreezableAccount', examples: [{ userId: 'GITHUB-583231', frozenAt: '2026-01-31T12:00:00.000Z' }] },
)
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
  ...answers(Type.Array(FreezableAccount)),
}
export const freeze = {
  ...ofOneAccount,
  operationId: 'freezeAccount',
  summary: 'Freeze an account',
  description:
    'It sends nothing: writes answer 403 `account_frozen`, and the signer refuses its tokens, everywhere within seconds. Its owner is signed out everywhere, may sign in again to view it, and cannot change the ways to sign in.',
  ...answers(FreezableAccount, 404, 413, 415),
}
export const unfreeze = {
  ...ofOneAccount,
  operationId: 'unfreezeAccount',
  summary: 'Unfreeze an account',
  description: 'Within seconds. Its owner signs in again.',
  ...answers(FreezableAccount, 404, 413, 415),
}
const StoppedLane = Type.Object(
  {
    userId: Type.String(),
    address: Address,
    chainId: Type.Integer(),
    nonce: Type.Integer({ description: 'The nonce that a foreign transaction used' }),
    hash: Nullable(Type.String({ description: 'The transaction that used it, if it is known' })),
    reason: Type.String({ description: '`foreign_nonce`: someone else holds the key of the account' }),
    stoppedAt: Type.String(),
    resumeAskedAt: Nullable(
      Type.String({ description: 'When an operator resumed it; it takes effect within seconds' }),
    ),
  },
  {
    title: 'StoppedAccount',
    examples: [
      {
        userId: 'GITHUB-583231',
        address: ADDRESS,
        chainId: 11_155_111,
        nonce: 7,
        hash: `0x${'5e'.repeat(32)}`,
        reason: 'foreign_nonce',
        stoppedAt: '2026-01-31T12:00:00.000Z',
        resumeAskedAt: null,
      },
    ],
  },
)
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
  ...answers(
    Type.Object(
      {
        userId: Type.String(),
        browsers: Type.Integer({ description: 'How many browsers were signed in' }),
        applications: Type.Integer({ description: 'How many sign-ins of applications worked' }),
      },
      { title: 'SignedOut', examples: [{ userId: 'GITHUB-583231', browsers: 1, applications: 2 }] },
    ),
    404,
    413,
    415,
  ),
}
