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
    description: '`username` and `platform` are null if the address does not belong to a user of this installation',
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
  zero_value: 'the transfer moved nothing, and the user did not initiate it',
  claimed_transfer: 'the token reports a transfer by the user, but the user never used the token',
  ...TOKEN_REASONS,
} as const
export type SpamReason = keyof typeof SPAM_REASONS

export const SpamVerdict = spamVerdict(SPAM_REASONS, {
  title: 'TransferSpam',
  description: 'Reasons why the entry is hidden without `includeSpam=true`; otherwise absent',
})

const Entry = Type.Object(
  {
    type: Type.Literal('TRANSFER'),
    id: Type.String({
      description:
        '`<hash>:<logIndex>:<n>`. `n` is the position in an ERC-1155 batch or a range of ids (ERC-2309). For native currency: 0 fee, 1 value, 2 minted deposit, 3 and above internal transfers',
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
          'Scaled by `decimals`; for ERC-721 and ERC-1155 the count. A JSON number, so large amounts are rounded. `value` is exact',
      }),
      decimals: Type.Integer(),
      symbol: Text,
      name: Text,
      tokenAddress: Type.Union([Address, Type.Null()], {
        description: 'null for native currency, which is listed on request only',
      }),
      network: Type.String({ description: 'Name of the network, in upper case', examples: ['DEVNET'] }),
      chainId: Type.Integer(),
    }),
    tokenType: Type.Union(
      [Type.Literal('ERC20'), Type.Literal('ERC721'), Type.Literal('ERC1155'), Type.Literal('NATIVE')],
      {
        description:
          'Kind of asset, from ERC-165 and the decimals of the contract. If a contract is of several kinds, the form of the log decides. `NATIVE` only with `type=NATIVE` or `include=native`',
      },
    ),
    tokenId: Type.Union([Type.String({ pattern: '^[0-9]+$' }), Type.Null()]),
    timestamp: Type.String({ description: 'Time of the block, UTC', examples: ['2026-01-31T12:00:00.000Z'] }),
    hash: Hash,
    blockNumber: Type.Integer(),
    blockHash: Hash,
    logIndex: Type.Integer({
      description:
        'Index of the log in the block. Native currency has no log: 1,000,000,000 plus the index of the transaction; 2,000,000,000 and above for withdrawals',
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
            'Only for native currency. `FEE`: fee of a transaction, also of a failed one, including blob and layer 1 fees. `VALUE`: value of a transaction. `MINT`: deposit from layer 1. `INTERNAL`: transfer by a contract. `WITHDRAWAL`: from the consensus layer. `REWARD`: of the block proposer. The last two have the hash of the block as `hash`',
        },
      ),
    ),
    omitted: Type.Optional(
      Type.Integer({
        minimum: 1,
        description:
          'Number of further transfers that are not listed. Present only above 1,000 transfers of one token per user, block and direction, or in one range of ids (ERC-2309). For native currency, `amount` is the sum of all of them',
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

// Values are checked again when parsed, because a pattern cannot detect that `from` is after `to`.
export const HistoryQuery = Type.Object(
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
    counterparty: parameter('Address of the counterparty'),
    from: parameter('Earliest time, ISO 8601 with zone, or a date'),
    to: parameter('Latest time, ISO 8601 with zone, or a date'),
    fromBlock: parameter('First block', Block),
    toBlock: parameter('Last block', Block),
    finality: parameter('`finalized`: only transfers that can no longer be reorganised', { enum: ['finalized'] }),
    include: parameter('`native`: list native currency in addition to the token types', { enum: ['native'] }),
    includeSpam: parameter(
      '`true` includes spam: zero-value transfers that the user did not initiate, and entries with `spam`',
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
    'Newest first, by block, log index and position in a batch. `Link` and `X-Next-Cursor` lead to the next page. If many entries are spam, a page that has a next page may contain fewer entries than `limit`. The list is complete for this user from `X-Indexed-From-Block` to `X-Indexed-To-Block`, and final up to `X-Finalized-To-Block`. Earlier transfers may be missing. For blocks that are older than the account, so may transfers in old ERC-20 logs without indexed addresses. Native currency is listed on request (`type`, `include`), with the fees that the user paid. With `includeSpam=true`, the entries of native currency add up to the change in balance since `X-Native-From-Block`. Internal transfers are listed since `X-Native-Internal-From-Block`.',
  params: Type.Object({ userId: UserIdParam }),
  querystring: HistoryQuery,
  ...answers(Type.Array(Entry)),
}
