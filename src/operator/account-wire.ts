import Type, { type Static } from 'typebox'
import { PAGED, sends } from '../http/openapi-headers.ts'
import { Address, answers, Hash, Limit, NoQuery, Nullable } from '../http/wire.ts'
import { SignedOut } from '../oauth/wire.ts'
import { StoppedLane } from '../transactions/lane-wire.ts'
import { State } from '../transactions/wire.ts'
import { ExportState, FreezeState, PeopleCounts, Person, Pregenerated } from '../users/wire.ts'
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

const cursor = Type.Optional(Type.String({ maxLength: 2_048, description: 'From `X-Next-Cursor` of the page before' }))

export const PeopleQuery = Type.Object(
  {
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 320,
        description:
          'A user id or an address as a whole, or how a username or an e-mail address begins, in any case of letters',
      }),
    ),
    limit: Type.Optional(Limit(50)),
    cursor,
  },
  { additionalProperties: false },
)
export const listPeople = {
  ...shared,
  operationId: 'listPeople',
  ...sends(...PAGED),
  summary: 'People, newest first',
  description:
    'All of this installation, those among them who have not signed in yet. Usernames and e-mail addresses are what providers said last: to look someone up, never to decide whose an account is.',
  querystring: PeopleQuery,
  ...answers(Type.Array(Person)),
}
export const countPeople = {
  ...shared,
  operationId: 'countPeople',
  summary: 'How many people there are',
  description: 'In all, and by provider. Counted at each request.',
  querystring: NoQuery,
  ...answers(PeopleCounts),
}
const userParam = Type.Object({ userId: Type.String({ maxLength: 1_000, description: 'Id of the user' }) })
export const readPerson = {
  ...shared,
  operationId: 'readPerson',
  summary: 'Get a person',
  description: 'By any of their ways to sign in.',
  querystring: NoQuery,
  params: userParam,
  ...answers(Person, 404),
}

export const AccountTransactionsQuery = Type.Object(
  {
    network: Type.Optional(
      Type.String({ maxLength: 200, description: 'Name of the network; required where there are several' }),
    ),
    limit: Type.Optional(Limit(50)),
    cursor,
  },
  { additionalProperties: false },
)
const AccountTransaction = Type.Object(
  {
    id: Type.String(),
    clientId: Type.String({ description: 'Application that sent it; empty where that is not known' }),
    state: State,
    hash: Hash,
    explorerUrl: Nullable(Type.String({ description: 'null where the network has no explorer' })),
    to: Address,
    value: Type.String({ description: 'wei' }),
    abi: Type.String({ description: 'As the application gave it; empty where it gave none' }),
    fee: Nullable(Type.String({ description: 'wei; null before it is mined, and where a sponsor paid' })),
    blockNumber: Nullable(Type.Integer()),
    sentAt: Type.String(),
  },
  {
    title: 'AccountTransaction',
    examples: [
      {
        id: 'tx_8f0c7e1e-2f1b-8c55-9d3a-0d1c5f4c2b7a',
        clientId: 'shop',
        state: 'FINALIZED',
        hash: `0x${'5e'.repeat(32)}`,
        explorerUrl: `https://sepolia.etherscan.io/tx/0x${'5e'.repeat(32)}`,
        to: '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
        value: '0',
        abi: 'transfer(address to, uint256 amount) public',
        fee: '75000000000000',
        blockNumber: 7_654_321,
        sentAt: '2026-01-31T12:00:00.000Z',
      },
    ],
  },
)
export type AccountTransaction = Static<typeof AccountTransaction>
export const listAccountTransactions = {
  ...shared,
  operationId: 'listAccountTransactions',
  ...sends(...PAGED),
  summary: 'What was sent from an account, newest first',
  description: 'On one network, by every application. Calldata is not shown.',
  querystring: AccountTransactionsQuery,
  params: userParam,
  ...answers(Type.Array(AccountTransaction), 404),
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
    'Requests under way: the newest 500, the oldest first; `X-Total-Count` is how many there are (docs/operate/key-export.md).',
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
