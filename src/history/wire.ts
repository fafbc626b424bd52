import Type, { type Static } from 'typebox'
import { PAGED, sends } from '../http/openapi-headers.ts'
import { Address, answers, BigNumber, Hash, shownAs, UserIdParam } from '../http/wire.ts'
import { spamVerdict, TOKEN_REASONS } from '../tokens/spam-wire.ts'

const Text = Type.String()

const Party = Type.Object(
  {
    username: Type.Union([Type.String(), Type.Null()]),
    platform: Type.Union([Type.String(), Type.Null()], { description: 'Provider name' }),
    address: Address,
  },
  {
    title: 'Party',
    description: '`username` and `platform` are null when the address is no user of this installation',
  },
)

const HASH = `0x${'5e'.repeat(32)}`
const RECEIVED = {
  type: 'TRANSFER',
  id: `${HASH}:12:0`,
  direction: 'IN',
  status: 'CONFIRMED',
  from: { username: null, platform: null, address: '0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC' },
  to: { username: 'octocat', platform: 'GITHUB', address: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8' },
  amount: {
    valueBn: { type: 'BigNumber', hex: '0x16e360' },
    value: '1500000',
    formatted: 1.5,
    decimals: 6,
    symbol: 'USDC',
    name: 'USD Coin',
    tokenAddress: '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
    network: 'SEPOLIA',
    chainId: 11_155_111,
  },
  tokenType: 'ERC20',
  tokenId: null,
  timestamp: '2026-01-31T12:00:00.000Z',
  hash: HASH,
  blockNumber: 7_654_321,
  blockHash: `0x${'b1'.repeat(32)}`,
  logIndex: 12,
  explorerUrl: `https://sepolia.etherscan.io/tx/${HASH}`,
}

const SPAM_REASONS = {
  zero_value: 'it moved nothing, and the user did not initiate it',
  claimed_transfer: 'the token says that the user sent it, who never used it',
  ...TOKEN_REASONS,
} as const
export type SpamReason = keyof typeof SPAM_REASONS

const SpamVerdict = spamVerdict(SPAM_REASONS, {
  title: 'TransferSpam',
  description: 'Present only with `includeSpam=true`, in entries that are hidden without it: why',
})

const Entry = Type.Object(
  {
    type: Type.Literal('TRANSFER'),
    id: Type.String({
      description:
        '`<hash>:<logIndex>:<n>`, n counts through an ERC-1155 batch and a range of ids (ERC-2309); of native currency 0 is the fee, 1 the value, 2 what a deposit minted, and from 3 on count internal transfers',
    }),
    direction: Type.Union([Type.Literal('IN'), Type.Literal('OUT'), Type.Literal('SELF')]),
    status: Type.Union([Type.Literal('CONFIRMED'), Type.Literal('FINALIZED')]),
    from: Party,
    to: Party,
    amount: Type.Object({
      valueBn: BigNumber,
      value: Type.String({ pattern: '^[0-9]+$', description: 'Smallest unit, exact' }),
      formatted: Type.Number({
        description:
          'Scaled by `decimals`; the count for ERC-721 and ERC-1155. A JSON number, so large amounts are rounded: `value` is exact',
      }),
      decimals: Type.Integer(),
      symbol: Text,
      name: Text,
      tokenAddress: Type.Union([Address, Type.Null()], {
        description: 'null for native currency, which is given on request only',
      }),
      network: Type.String({ description: 'Upper-case', examples: ['DEVNET'] }),
      chainId: Type.Integer(),
    }),
    tokenType: Type.Union(
      [Type.Literal('ERC20'), Type.Literal('ERC721'), Type.Literal('ERC1155'), Type.Literal('NATIVE')],
      {
        description:
          'What moved, as the contract says by ERC-165 and its decimals; of a contract that is several the form of the log decides. `NATIVE` only where it was asked for: `type=NATIVE` or `include=native`',
      },
    ),
    tokenId: Type.Union([Type.String({ pattern: '^[0-9]+$' }), Type.Null()]),
    timestamp: Type.String({ description: 'Time of the block, UTC', examples: ['2026-01-31T12:00:00.000Z'] }),
    hash: Hash,
    blockNumber: Type.Integer(),
    blockHash: Hash,
    logIndex: Type.Integer({
      description:
        'Of native currency, which has no log, its place behind them: 1,000,000,000 plus the place of the transaction in the block; from 2,000,000,000 on withdrawals',
    }),
    explorerUrl: Text,
    nativeKind: Type.Optional(
      Type.Union(
        [
          Type.Literal('FEE'),
          Type.Literal('VALUE'),
          Type.Literal('MINT'),
          Type.Literal('INTERNAL'),
          Type.Literal('WITHDRAWAL'),
          Type.Literal('REWARD'),
        ],
        {
          description:
            'Only with native currency. `FEE`: what a transaction of this user cost, failed or not, its part for blobs and a first layer included; `VALUE`: what a transaction sent; `MINT`: what a deposit from the first layer brought; `INTERNAL`: sent by a contract; `WITHDRAWAL` from the consensus layer and `REWARD` of the block’s maker, whose `hash` is that of the block',
        },
      ),
    ),
    omitted: Type.Optional(
      Type.Integer({
        minimum: 1,
        description:
          'Present only if a token moved more than 1,000 times for this user in one block and direction, or in one range of ids (ERC-2309): the number of further transfers that are not listed. Of native currency `amount` is then the sum of this one and those',
      }),
    ),
    spam: Type.Optional(SpamVerdict),
  },
  { title: 'Transfer', examples: [RECEIVED] },
)

export type Party = Static<typeof Party>
export type Entry = Static<typeof Entry>

const parameter = (description: string, extra: Record<string, unknown> = {}) =>
  Type.Optional(Type.String({ maxLength: 100, description, ...extra }))

const Block = { pattern: '^[0-9]{1,15}$', ...shownAs({ type: 'integer', minimum: 0 }) }

// Values are checked again when they are parsed: a pattern cannot detect that `from` is after `to`.
const Query = Type.Object(
  {
    limit: parameter('Entries of a page, 1 to 200, default 50', {
      pattern: '^[0-9]{1,3}$',
      ...shownAs({ type: 'integer', minimum: 1, maximum: 200, default: 50 }),
    }),
    cursor: parameter('`X-Next-Cursor` of the previous page; never expires', {
      maxLength: 300,
      pattern: '^[A-Za-z0-9_-]+$',
    }),
    type: parameter('`ERC20`, `ERC721`, `ERC1155` (all three by default), `NATIVE`, several separated by commas', {
      pattern: '^(ERC20|ERC721|ERC1155|NATIVE)(,(ERC20|ERC721|ERC1155|NATIVE))*$',
    }),
    direction: parameter('`in`, `out` or `all` (default); a transfer to oneself is both', {
      enum: ['in', 'out', 'all'],
    }),
    token: parameter('Address of a token contract'),
    counterparty: parameter('Address of the other side'),
    from: parameter('From this time, ISO 8601 with zone, or a date'),
    to: parameter('Up to this time, ISO 8601 with zone, or a date'),
    fromBlock: parameter('From this block', Block),
    toBlock: parameter('Up to this block', Block),
    finality: parameter('`finalized`: only transfers that can no longer be reorganised', { enum: ['finalized'] }),
    include: parameter('`native`: native currency beside the types of tokens', { enum: ['native'] }),
    includeSpam: parameter(
      '`true` shows spam too: zero-value transfers that the user did not initiate, and what `spam` gives reasons for',
      {
        enum: ['true', 'false'],
        ...shownAs({ type: 'boolean', default: false }),
      },
    ),
  },
  { additionalProperties: false },
)

/** Describes the history request and its responses. */
export const history = {
  tags: ['History'],
  operationId: 'listTransfers',
  ...sends(
    ...(['X-Indexed-From-Block', 'X-Indexed-To-Block', 'X-Finalized-To-Block'] as const),
    ...(['X-Native-From-Block', 'X-Native-Internal-From-Block'] as const),
    ...PAGED,
  ),
  summary: 'Transfers of a user',
  description:
    'Newest first by block, log index and place in a batch. `Link` and `X-Next-Cursor` lead to the next page; a page with a next one may hold fewer entries than `limit`, where many that were looked at are spam; `X-Indexed-From-Block` and `X-Indexed-To-Block` are the blocks from and up to which it is complete for this user, `X-Finalized-To-Block` the one up to which it is final. Transfers before the first may be missing, and, of blocks from before this service knew the account, those in logs of the old form of ERC-20, without indexed addresses. Native currency is listed on request (`type`, `include`), with the fees that the user paid: its entries, spam included (`includeSpam=true`), sum up to the balance, from `X-Native-From-Block` on, internal transfers from `X-Native-Internal-From-Block` on.',
  params: Type.Object({ userId: UserIdParam }),
  querystring: Query,
  ...answers(Type.Array(Entry)),
}
