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

const shared = { tags: ['Balances'], security: [{ bearer: [] }], querystring: NoQuery }
export const nativeBalance = {
  ...shared,
  summary: 'Balance of the native coin',
  params: Type.Object({ userId: UserIdParam }),
  ...answers(Type.Record(Type.String(), NativeEntry, { description: 'One entry, keyed by the coin’s symbol' }), 502, 504),
}
export const tokenBalance = {
  ...shared,
  summary: 'Balance of a token',
  params: Type.Object({ userId: UserIdParam, tokenAddress: Type.String({ maxLength: 100, description: 'Token contract address' }) }),
  ...answers(Type.Record(Type.String(), TokenEntry, { description: 'One entry, keyed by the lower-case token address' }), 422, 502, 504),
}
