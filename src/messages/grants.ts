import { callOf, PERMIT2, type EquivalentCall } from './equivalent-call.ts'
import { isUnlimitedAmount } from './unlimited.ts'

/** One payment or allowance of a signature, with the call that has the same effect. */
export type Grant = {
  kind: 'pays' | 'allows'
  /** null: native currency */
  token: Buffer | null
  /** in the smallest unit; `all`: everything that the account has of it, now and later; 0 revokes an allowance */
  amount: bigint | 'all'
  /** id of the one collectible that may be taken */
  item: bigint | null
  to: Buffer
  /** the last second (since 1970) in which it can be taken; null if there is no end */
  until: bigint | null
  call: EquivalentCall
}

export const isUnlimited = ({ amount, item }: Grant): boolean =>
  amount === 'all' || (item === null && isUnlimitedAmount(amount))

/** The latest second that a Date can represent. Source: ECMAScript, time values */
const LAST_SECOND = 8_640_000_000_000n

/** Converts an end to a number; null if there is none. An end beyond MAX_DATE is none: Permit2 stores “never” as 2^48 − 1. */
export const secondsOf = (until: bigint | null): number | null =>
  until === null || until > LAST_SECOND ? null : Number(until)

const UINT256 = 2n ** 256n - 1n
const UINT160 = 2n ** 160n - 1n
const UINT48 = 2n ** 48n - 1n
const least = (a: bigint, b: bigint): bigint => (a < b ? a : b)

/** Pays an amount of a token. */
export const pays = (token: Buffer, to: Buffer, amount: bigint, until: bigint | null = null): Grant => ({
  ...{ kind: 'pays', token, amount, item: null, to, until },
  call: callOf(token, 'transfer(address,uint256)', [to, amount]),
})

/** Allows a spender to take an amount, in the token's own contract. */
export const allows = (token: Buffer, to: Buffer, amount: bigint, until: bigint | null = null): Grant => ({
  ...{ kind: 'allows', token, amount, item: null, to, until },
  call: callOf(token, 'approve(address,uint256)', [to, least(amount, UINT256)]),
})

/** Allows a spender to take an amount, by Permit2. The largest amount that Permit2 stores means all. */
export const allowsByPermit2 = (token: Buffer, to: Buffer, amount: bigint, until: bigint): Grant => ({
  ...{ kind: 'allows', token, amount, item: null, to, until },
  call: callOf(PERMIT2, 'approve(address,address,uint160,uint48)', [token, to, least(amount, UINT160), least(until, UINT48)]), // prettier-ignore
})

/** Allows a spender to take one collectible. In calldata, an approval of id 0 looks like a revocation, so it counts as an approval of all. */
export const allowsItem = (token: Buffer, to: Buffer, item: bigint, until: bigint | null = null): Grant => ({
  ...{ kind: 'allows', token, amount: 1n, item, to, until },
  call:
    item === 0n
      ? callOf(token, 'setApprovalForAll(address,bool)', [to, 1n])
      : callOf(token, 'approve(address,uint256)', [to, item]),
})

/** Allows an operator to take all collectibles of a contract, or forbids it. */
export const allowsAll = (token: Buffer, to: Buffer, isOn: boolean, until: bigint | null = null): Grant => ({
  ...{ kind: 'allows', token, amount: isOn ? 'all' : 0n, item: null, to, until },
  call: callOf(token, 'setApprovalForAll(address,bool)', [to, isOn ? 1n : 0n]),
})

/** Allows a manager to move everything that the account has in a lending market, or forbids it. */
export const allowsMarket = (market: Buffer, to: Buffer, isOn: boolean): Grant => ({
  ...{ kind: 'allows', token: market, amount: isOn ? 'all' : 0n, item: null, to, until: null },
  call: callOf(market, 'allow(address,bool)', [to, isOn ? 1n : 0n]),
})

/** Allows a borrower to take a loan that the account owes. */
export const allowsDebt = (debtToken: Buffer, to: Buffer, amount: bigint): Grant => ({
  ...{ kind: 'allows', token: debtToken, amount, item: null, to, until: null },
  call: callOf(debtToken, 'approveDelegation(address,uint256)', [to, amount]),
})

/** Pays native currency. */
export const paysNative = (to: Buffer, amount: bigint): Grant => ({
  ...{ kind: 'pays', token: null, amount, item: null, to, until: null },
  call: { to, value: amount, data: Buffer.alloc(0) },
})
