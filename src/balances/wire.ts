import Type from 'typebox'
import { answers, BigNumber, NoQuery, UserIdParam } from '../http/wire.ts'

const entry = {
  balance: Type.String({ description: 'Integer amount in the smallest unit', examples: ['25000000000000000'] }),
  balanceBn: BigNumber,
  formatted: Type.String({ description: 'Exact, scaled by decimals', examples: ['0.025'] }),
  symbol: Type.String(),
  name: Type.String(),
  network: Type.String({ description: 'Lower-case' }),
  chainId: Type.Integer(),
}

/** 2.2. The native coin gives `decimals` as a number, a token as a string of digits. */
export const NativeEntry = Type.Object({ ...entry, decimals: Type.Integer(), tokenAddress: Type.Null() })
export const TokenEntry = Type.Object({ ...entry, decimals: Type.String(), tokenAddress: Type.String() })
/** Either of the two, where both stand side by side. */
export const AnyEntry = Type.Object({
  ...entry,
  decimals: Type.Union([Type.Integer(), Type.String()]),
  tokenAddress: Type.Union([Type.String(), Type.Null()]),
})

export const BalancesQuery = Type.Object(
  {
    limit: Type.Optional(
      Type.String({
        pattern: '^([1-9]|[1-9]\\d|1\\d\\d|200)$',
        description: 'Tokens asked for a page, 1 to 200, default 100',
      }),
    ),
    cursor: Type.Optional(
      Type.String({ maxLength: 200, pattern: '^[A-Za-z0-9_-]+$', description: '`X-Next-Cursor` of the page before' }),
    ),
  },
  { additionalProperties: false },
)

const shared = { tags: ['Balances'], security: [{ bearer: [] }], querystring: NoQuery }
export const nativeBalance = {
  ...shared,
  summary: 'Balance of the native coin',
  params: Type.Object({ userId: UserIdParam }),
  ...answers(
    Type.Record(Type.String(), NativeEntry, { description: 'One entry, keyed by the coin’s symbol' }),
    502,
    504,
  ),
}
export const tokenBalance = {
  ...shared,
  summary: 'Balance of a token',
  params: Type.Object({
    userId: UserIdParam,
    tokenAddress: Type.String({ maxLength: 100, description: 'Token contract address' }),
  }),
  ...answers(
    Type.Record(Type.String(), TokenEntry, { description: 'One entry, keyed by the lower-case token address' }),
    422,
    502,
    504,
  ),
}
export const balances = {
  ...shared,
  querystring: BalancesQuery,
  summary: 'Balances of the native coin and all tokens',
  description:
    'The coin, and every ERC-20 token and ERC-721 collection that the history has seen in the account and of which it holds something, all at the block in `X-Block-Number`. Each entry is what the balance of that coin or token alone answers. A page asks `limit` tokens and shows those that are there; `Link` and `X-Next-Cursor` lead to the next, the coin is on the first. `X-Unanswered-Tokens` counts tokens of the page that gave no balance and are left out. `X-Indexed-To-Block` tells how far the history reaches. ERC-1155 balances exist by token id only: see the history.',
  params: Type.Object({ userId: UserIdParam }),
  ...answers(
    Type.Record(Type.String(), AnyEntry, {
      description: 'Entries keyed by the coin’s symbol, then by lower-case token addresses in ascending order',
    }),
    502,
    504,
  ),
}
