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
      description: 'Immutable id of the user at the provider; never a name, an e-mail address or a login',
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
  summary: 'Create an account for a user who has not signed in yet',
  description:
    'The user gets exactly this account at the first sign-in. Repeating the request returns the same account.',
  querystring: NoQuery,
  body: NewAccount,
  ...answersWith(201, Pregenerated, 413, 415),
}

const cursor = Type.Optional(Type.String({ maxLength: 2_048, description: '`X-Next-Cursor` of the previous page' }))

export const PeopleQuery = Type.Object(
  {
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 320,
        description:
          'Whole user id or address, or beginning of a username or e-mail address; letter case is ignored. Finds at most 1,000 usernames and 1,000 e-mail addresses, in alphabetical order',
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
  summary: 'List users, newest first',
  description:
    'Lists all users of this installation, including users who have not signed in yet. Usernames and e-mail addresses are the latest values of the providers. Use them to search, never to decide who owns an account.',
  querystring: PeopleQuery,
  ...answers(Type.Array(Person)),
}
export const countPeople = {
  ...shared,
  operationId: 'countPeople',
  summary: 'Count users',
  description: 'Counts users in total and by provider, at each request.',
  querystring: NoQuery,
  ...answers(PeopleCounts),
}
const userParam = Type.Object({ userId: Type.String({ maxLength: 1_000, description: 'Id of the user' }) })
export const readPerson = {
  ...shared,
  operationId: 'readPerson',
  summary: 'Get a user',
  description: 'Accepts the user id of any identity of the user.',
  querystring: NoQuery,
  params: userParam,
  ...answers(Person, 404),
}

export const AccountTransactionsQuery = Type.Object(
  {
    network: Type.Optional(
      Type.String({ maxLength: 200, description: 'Name of the network; required if there are several' }),
    ),
    limit: Type.Optional(Limit(50)),
    cursor,
  },
  { additionalProperties: false },
)
const AccountTransaction = Type.Object(
  {
    id: Type.String(),
    clientId: Type.String({ description: 'Application that sent the transaction; empty if unknown' }),
    state: State,
    hash: Hash,
    explorerUrl: Nullable(Type.String({ description: 'null if the network has no explorer' })),
    to: Address,
    value: Type.String({ description: 'Value sent, wei' }),
    abi: Type.String({ description: 'ABI of the called function; empty if the application sent none' }),
    fee: Nullable(
      Type.String({ description: 'Fee in wei; null before the transaction is mined, and if a sponsor paid' }),
    ),
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
  summary: 'List the transactions of an account, newest first',
  description: 'Lists the transactions of all applications on one network, without calldata.',
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
  summary: 'List frozen accounts',
  description: 'Lists all frozen accounts, longest frozen first.',
  querystring: NoQuery,
  ...answers(Type.Array(FreezeState)),
}
export const freeze = {
  ...ofOneAccount,
  operationId: 'freezeAccount',
  summary: 'Freeze an account',
  description:
    'Writes return 403 `account_frozen`, and the signer rejects the tokens of the account, on all servers within seconds. The user is signed out everywhere. The user may sign in again to view the account, but cannot add or remove identities.',
  ...answers(FreezeState, 404, 413, 415),
}
export const unfreeze = {
  ...ofOneAccount,
  operationId: 'unfreezeAccount',
  summary: 'Unfreeze an account',
  description: 'Takes effect within seconds. The user must sign in again.',
  ...answers(FreezeState, 404, 413, 415),
}
export const listStopped = {
  ...shared,
  operationId: 'listStoppedAccounts',
  summary: 'List stopped accounts',
  description:
    'Lists accounts with a foreign transaction: one that this service did not create but that used a nonce of the account. Their writes return 503 `account_stopped` until an operator resumes the account. Longest stopped first.',
  querystring: NoQuery,
  ...answers(Type.Array(StoppedLane)),
}
export const resumeAccount = {
  ...ofOneAccount,
  operationId: 'resumeAccount',
  summary: 'Resume a stopped account',
  description:
    'Resumes the account within seconds on every network where it is stopped, with the first unused nonce. If another foreign transaction appears, the account is stopped again.',
  ...answers(Type.Array(StoppedLane), 404, 413, 415),
}
export const signOut = {
  ...ofOneAccount,
  operationId: 'signOutAccount',
  summary: 'Sign a user out everywhere',
  description:
    'Signs the user out of every browser and every application, with all tokens, on all servers within seconds. Consents remain valid.',
  ...answers(SignedOut, 404, 413, 415),
}
export const listExports = {
  ...shared,
  operationId: 'listKeyExports',
  summary: 'List requests to export a key',
  description:
    'Lists the newest 500 open requests, oldest first. `X-Total-Count` is the total number (docs/operate/key-export.md).',
  querystring: NoQuery,
  ...sends('X-Total-Count'),
  ...answers(Type.Array(ExportState), 503),
}
export const cancelExport = {
  ...ofOneAccount,
  operationId: 'cancelKeyExport',
  summary: 'Cancel a request to export a key',
  description: 'The key is not exported, and the user may request it again. Without a request, nothing happens.',
  ...answers(ExportState, 404, 413, 415, 503),
}
