import Type, { type Static } from 'typebox'
import { sends, WRITTEN } from '../http/openapi-headers.ts'
import { Address, answers, BigNumber, either, Hash } from '../http/wire.ts'
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
      Type.String({ maxLength: 100, description: `Token contract; none for NATIVE. ${empty}`, examples: [TOKEN] }),
    ),
    amount: Type.Optional(
      Type.String({
        maxLength: 200,
        pattern: String.raw`^((\d*\.)?\d+)?$`,
        description: `In whole units of the token or native currency, exactly; number of units of an ERC1155; none for an ERC721. ${empty}`,
        examples: ['1.5'],
      }),
    ),
    tokenId: Type.Optional(
      Type.String({
        pattern: String.raw`^\d{0,78}$`,
        description: `Of an ERC721 or ERC1155, decimal digits. ${empty}`,
        examples: [''],
      }),
    ),
    toAddress: Type.Optional(Type.String({ maxLength: 100, description: `Recipient by address. ${empty}` })),
    toUserId: Type.Optional(
      Type.String({
        maxLength: 300,
        description: `Recipient by user id, even before they have signed in. ${empty}`,
        examples: ['DISCORD-80351110224678912'],
      }),
    ),
    toUserProviderType: Type.Optional(
      Type.String({ pattern: '^[A-Z0-9_]{0,32}$', description: `With \`toUserUsername\`: its provider. ${empty}` }),
    ),
    toUserUsername: Type.Optional(
      Type.String({
        maxLength: 255,
        description: `Recipient by name: the only person who had it when they last signed in. ${empty}`,
      }),
    ),
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
      description: 'Recipient address; null in a dry run for someone who has no account yet',
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
    { description: 'Amount, in the smallest unit' },
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
    explorerUrl: Type.String({ description: 'Block-explorer address of the transaction' }),
    id: Type.String({ description: 'GET /v1/transactions/:id returns its state' }),
    state: State,
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
      },
    ],
  },
)
export type TransferAnswer = Static<typeof TransferAnswer>

const { gas, fee, rule } = DryRunAnswer.properties
const RehearsedTransfer = Type.Object(
  { ...inEach, gas, fee, rule },
  {
    title: 'RehearsedTransfer',
    description: GAS_AND_FEE,
    examples: [{ ...EXAMPLE, gas: SENT.gasLimit, fee: { type: 'BigNumber', hex: '0x6d23ad5f8000' }, rule: 'default' }],
  },
)
export type RehearsedTransfer = Static<typeof RehearsedTransfer>

export const transfer = {
  tags: ['Transfers'],
  operationId: 'transferTokens',
  ...sends(...WRITTEN),
  summary: 'Send native currency or tokens to a person or an address',
  description:
    'From the signed-in user; simulation, idempotency and waiting as for a contract write. For someone who has not signed in yet an account is created in advance, which is theirs at their first sign-in: only by their id at the provider, at most 20 people a day. By name at most 10 a minute, dry runs for a user id included.',
  headers: KeyHeaders,
  body: TransferRequest,
  querystring: WaitQuery,
  ...withAccepted(answers(either(TransferAnswer, RehearsedTransfer), 409, 413, 415, 422, 502, 504), TransferAnswer),
}
