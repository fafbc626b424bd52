import Type from 'typebox'
import { HistoryQuery, SpamVerdict } from '../history/wire.ts'
import { PAGED, sends } from '../http/openapi-headers.ts'
import { Address, answers, BigNumber, Limit, NoQuery, shownAs, UserIdParam } from '../http/wire.ts'
import { TokenSpamVerdict } from '../tokens/spam-wire.ts'

const Native = Type.Literal('NATIVE')
const ofTokens = [Type.Literal('ERC20'), Type.Literal('ERC721')] as const
const tokenType = {
  description:
    'Kind of asset: native currency, a fungible token, or a collection, whose `balance` counts items and whose `decimals` are `"0"`. Determined from ERC-165 and the decimals of the contract; a contract that is both is `ERC20`',
}

const entry = {
  balance: Type.String({ description: 'Integer amount in the smallest unit', examples: ['25000000000000000'] }),
  balanceBn: BigNumber,
  formatted: Type.String({ description: 'Exact, scaled by decimals', examples: ['0.025'] }),
  symbol: Type.String(),
  name: Type.String(),
  network: Type.String({ description: 'Name of the network, in lower case' }),
  chainId: Type.Integer(),
}

const place = { network: 'sepolia', chainId: 11_155_111 }
const COIN = {
  balance: '25000000000000000',
  balanceBn: { type: 'BigNumber', hex: '0x58d15e17628000' },
  formatted: '0.025',
  decimals: 18,
  symbol: 'ETH',
  name: 'Ether',
  ...place,
  tokenAddress: null,
  tokenType: 'NATIVE',
}
const TOKEN = {
  balance: '1500000',
  balanceBn: { type: 'BigNumber', hex: '0x16e360' },
  formatted: '1.5',
  decimals: '6',
  symbol: 'USDC',
  name: 'USD Coin',
  ...place,
  tokenAddress: '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238',
  tokenType: 'ERC20',
}
const byAddress = { [TOKEN.tokenAddress.toLowerCase()]: TOKEN }

/**
 * Balance entries, 2.2 of the specification. `decimals` is a number for native currency and a string of digits for
 * tokens.
 */
export const NativeEntry = Type.Object(
  { ...entry, decimals: Type.Integer(), tokenAddress: Type.Null(), tokenType: Type.Literal('NATIVE', tokenType) },
  { title: 'NativeBalance', examples: [COIN] },
)
export const TokenEntry = Type.Object(
  { ...entry, decimals: Type.String(), tokenAddress: Type.String(), tokenType: Type.Union([...ofTokens], tokenType) },
  { title: 'TokenBalance', examples: [TOKEN] },
)
/** An entry of either kind, for lists with both. */
export const AnyEntry = Type.Object(
  {
    ...entry,
    decimals: Type.Union([Type.Integer(), Type.String()]),
    tokenAddress: Type.Union([Type.String(), Type.Null()]),
    tokenType: Type.Union([Native, ...ofTokens], tokenType),
    spam: Type.Optional(TokenSpamVerdict),
  },
  { title: 'Balance', examples: [TOKEN] },
)

export const BalancesQuery = Type.Object(
  {
    limit: Type.Optional(Limit(100, 'Tokens per page')),
    cursor: Type.Optional(
      Type.String({ maxLength: 200, pattern: '^[A-Za-z0-9_-]+$', description: '`X-Next-Cursor` of the previous page' }),
    ),
    includeSpam: Type.Optional(
      Type.String({
        ...shownAs({ type: 'boolean', default: true }),
        enum: ['true', 'false'],
        description: '`false` omits tokens that have `spam`',
      }),
    ),
  },
  { additionalProperties: false },
)

const shared = { tags: ['Balances'], querystring: NoQuery }
export const nativeBalance = {
  ...shared,
  operationId: 'readNativeBalance',
  ...sends('X-Block-Number'),
  summary: 'Balance of native currency',
  description: 'Returns the balance at the block in `X-Block-Number`.',
  params: Type.Object({ userId: UserIdParam }),
  ...answers(
    Type.Record(Type.String(), NativeEntry, {
      description: 'One entry, keyed by the currency’s symbol',
      examples: [{ ETH: COIN }],
    }),
    502,
    504,
  ),
}
export const tokenBalance = {
  ...shared,
  operationId: 'readTokenBalance',
  ...sends('X-Block-Number'),
  summary: 'Balance of a token',
  description: 'Returns the balance of an ERC-20 or ERC-721 contract, at the block in `X-Block-Number`.',
  params: Type.Object({
    userId: UserIdParam,
    tokenAddress: Type.String({ maxLength: 100, description: 'Token contract address' }),
  }),
  ...answers(
    Type.Record(Type.String(), TokenEntry, {
      description: 'One entry, keyed by the lower-case token address',
      examples: [byAddress],
    }),
    422,
    502,
    504,
  ),
}
export const balances = {
  ...shared,
  querystring: BalancesQuery,
  operationId: 'listBalances',
  ...sends('X-Block-Number', 'X-Unanswered-Tokens', 'X-Indexed-To-Block', ...PAGED),
  summary: 'Balances of native currency and all tokens',
  description:
    'Returns native currency, and every ERC-20 token and ERC-721 collection in the history of the account that has a balance. All balances are at the block in `X-Block-Number`. Each entry equals the single balance of that currency or token, and has `spam` if the token looks like spam. A page queries `limit` tokens and lists those with a balance. `Link` and `X-Next-Cursor` lead to the next page; native currency is on the first page. `X-Unanswered-Tokens` counts tokens of the page that returned no balance and are omitted. `X-Indexed-To-Block` is the last indexed block of the history. ERC-1155 balances exist only per token id: see the NFTs.',
  params: Type.Object({ userId: UserIdParam }),
  ...answers(
    Type.Record(Type.String(), AnyEntry, {
      description: 'Entries keyed by the currency’s symbol, then by lower-case token addresses in ascending order',
      examples: [{ ETH: COIN, ...byAddress }],
    }),
    502,
    504,
  ),
}

const NFT = {
  tokenType: 'ERC721',
  tokenAddress: '0x5FbDB2315678afecb367f032d93F642f64180aa3',
  tokenId: '42',
  balance: '1',
  balanceBn: { type: 'BigNumber', hex: '0x01' },
  symbol: 'ART',
  name: 'Art',
  tokenUri: 'ipfs://bafybeigdyrzt/42.json',
  ...place,
}

/** An NFT that an account holds, or several equal ones. */
export const Nft = Type.Object(
  {
    tokenType: Type.Union([Type.Literal('ERC721'), Type.Literal('ERC1155')]),
    tokenAddress: Address,
    tokenId: Type.String({ pattern: '^[0-9]+$' }),
    balance: Type.String({ description: 'Number of equal items; `1` for ERC-721' }),
    balanceBn: BigNumber,
    symbol: Type.String(),
    name: Type.String({ description: 'Name of the collection' }),
    tokenUri: Type.Union([Type.String(), Type.Null()], {
      description:
        'URI of the metadata, as the contract returns it; `{id}` of ERC-1155 is replaced. Anyone can write a contract: do not load it with the user’s credentials. null if there is none, or if it is longer than 4,096 bytes',
    }),
    network: entry.network,
    chainId: entry.chainId,
    spam: Type.Optional(SpamVerdict),
  },
  { title: 'Nft', examples: [NFT] },
)

export const nfts = {
  tags: ['Balances'],
  operationId: 'listNfts',
  ...sends('X-Block-Number', 'X-Indexed-From-Block', 'X-Indexed-To-Block', ...PAGED),
  summary: 'NFTs of a user',
  description:
    'Returns the ERC-721 and ERC-1155 tokens that the account holds at the block in `X-Block-Number`; those that arrived last come first. A page looks at `limit` arrivals of the history and lists those that are still there, so it may contain fewer entries. An NFT that arrived several times can be on several pages. NFTs that arrived before `X-Indexed-From-Block` are missing. `Link` and `X-Next-Cursor` lead to the next page.',
  params: Type.Object({ userId: UserIdParam }),
  querystring: Type.Pick(HistoryQuery, ['limit', 'cursor', 'token', 'includeSpam'], { additionalProperties: false }),
  ...answers(Type.Array(Nft), 502, 504),
}
