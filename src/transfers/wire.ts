import Type, { type Static } from 'typebox'
import { sends, WRITTEN } from '../http/openapi-headers.ts'
import { Address, answers, BigNumber, either, GivenReference, Hash, Reference } from '../http/wire.ts'
import type { UserId } from '../ids.ts'
import { SENT, State, WaitQuery, withAccepted } from '../transactions/wire.ts'
import { DryRun, DryRunAnswer, GAS_AND_FEE, KeyHeaders, WhyReverted, WriteStatus } from '../transactions/write-wire.ts'

const empty = 'An empty string counts as absent.'
const TOKEN = '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238'

/** The recipient is given in exactly one way. */
export const TransferRequest = Type.Object(
  {
    tokenType: Type.Union([
      Type.Literal('NATIVE'),
      Type.Literal('ERC20'),
      Type.Literal('ERC721'),
      Type.Literal('ERC1155'),
    ]),
    tokenAddress: Type.Optional(
      Type.String({ maxLength: 100, description: `Token contract; omitted for NATIVE. ${empty}`, examples: [TOKEN] }),
    ),
    amount: Type.Optional(
      Type.String({
        maxLength: 200,
        pattern: String.raw`^((\d*\.)?\d+)?$`,
        description: `Exact amount in whole units of the token or native currency; number of units for ERC1155; omitted for ERC721. ${empty}`,
        examples: ['1.5'],
      }),
    ),
    tokenId: Type.Optional(
      Type.String({
        pattern: String.raw`^\d{0,78}$`,
        description: `Token id of an ERC721 or ERC1155, decimal digits. ${empty}`,
        examples: [''],
      }),
    ),
    toAddress: Type.Optional(Type.String({ maxLength: 100, description: `Recipient by address. ${empty}` })),
    toUserId: Type.Optional(
      Type.String({
        maxLength: 300,
        description: `Recipient by user id. The user does not need to have signed in before. ${empty}`,
        examples: ['DISCORD-80351110224678912'],
      }),
    ),
    toUserProviderType: Type.Optional(
      Type.String({
        pattern: '^[A-Z0-9_]{0,32}$',
        description: `With \`toUserUsername\`: provider of the user. ${empty}`,
      }),
    ),
    toUserUsername: Type.Optional(
      Type.String({
        maxLength: 255,
        description: `Recipient by name. Exactly one user must have had this name at the last sign-in. ${empty}`,
      }),
    ),
    reference: Reference,
    dryRun: DryRun,
  },
  {
    title: 'TransferRequest',
    additionalProperties: false,
    examples: [
      { tokenType: 'ERC20', tokenAddress: TOKEN, amount: '1.5', toUserId: 'DISCORD-80351110224678912' },
      { tokenType: 'NATIVE', amount: '.01', toUserProviderType: 'GITHUB', toUserUsername: 'octocat' },
    ],
  },
)

const Recipient = Type.Object(
  {
    userId: Type.Union([Type.Unsafe<UserId>(Type.String()), Type.Null()], {
      description: 'User id as requested; null for an address',
    }),
    address: Type.Union([Address, Type.Null()], {
      description: 'Recipient address; null in a dry run for a user without an account',
    }),
    hasSignedIn: Type.Union([Type.Boolean(), Type.Null()], { description: 'null for an address' }),
  },
  { title: 'Recipient' },
)
export type Recipient = Static<typeof Recipient>

const inEach = {
  status: WriteStatus,
  recipient: Recipient,
  amount: Type.Object(
    { value: Type.String({ description: 'Decimal digits' }), valueBn: BigNumber },
    { description: 'Amount in the smallest unit' },
  ),
}
const EXAMPLE = {
  status: 'SUCCESS',
  recipient: {
    userId: 'DISCORD-80351110224678912',
    address: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
    hasSignedIn: false,
  },
  amount: { value: '1500000', valueBn: { type: 'BigNumber', hex: '0x16e360' } },
}

const TransferAnswer = Type.Object(
  {
    ...inEach,
    hash: Hash,
    explorerUrl: Type.String({ description: 'Block explorer URL of the transaction' }),
    id: Type.String({ description: 'Id for `GET /v1/transactions/:id`, which returns the state' }),
    state: State,
    reference: GivenReference,
    revert: WhyReverted,
  },
  {
    title: 'TransferAnswer',
    examples: [
      {
        ...EXAMPLE,
        hash: `0x${'5e'.repeat(32)}`,
        explorerUrl: `https://sepolia.etherscan.io/tx/0x${'5e'.repeat(32)}`,
        id: 'tx_8f0c7e1e-2f1b-8c55-9d3a-0d1c5f4c2b7a',
        state: 'SUBMITTED',
        reference: 'order-1042',
      },
    ],
  },
)
export type TransferAnswer = Static<typeof TransferAnswer>

const { gas, fee, rule, approval } = DryRunAnswer.properties
const RehearsedTransfer = Type.Object(
  { ...inEach, gas, fee, rule, approval },
  {
    title: 'RehearsedTransfer',
    description: GAS_AND_FEE,
    examples: [
      {
        ...EXAMPLE,
        gas: SENT.gasLimit,
        fee: { type: 'BigNumber', hex: '0x6d23ad5f8000' },
        rule: 'default',
        approval: 'not_required',
      },
    ],
  },
)
export type RehearsedTransfer = Static<typeof RehearsedTransfer>

export const transfer = {
  tags: ['Transfers'],
  operationId: 'transferTokens',
  ...sends(...WRITTEN),
  summary: 'Send native currency or tokens to a user or an address',
  description:
    'Sends from the account of the signed-in user. Simulation, idempotency and waiting work as for a contract write. If the recipient has not signed in yet, an account is created in advance. This works only by user id, for at most 20 new users per day. Limit by name: 10 transfers per minute, including dry runs for a user id.',
  headers: KeyHeaders,
  body: TransferRequest,
  querystring: WaitQuery,
  ...withAccepted(answers(either(TransferAnswer, RehearsedTransfer), 409, 413, 415, 422, 502, 504), TransferAnswer),
}
