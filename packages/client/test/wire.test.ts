import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Static } from 'typebox'
import type { WireApproval } from '../../../src/approvals/wire.ts'
import type { AnyEntry, Nft } from '../../../src/balances/wire.ts'
import type { EventType, WireEvent } from '../../../src/events/wire.ts'
import type { Entry } from '../../../src/history/wire.ts'
import type { Problem as WireProblem } from '../../../src/http/wire.ts'
import type * as signatures from '../../../src/signatures/wire.ts'
import type { WireSignature } from '../../../src/transactions/read/signatures-wire.ts'
import type * as transactions from '../../../src/transactions/wire.ts'
import type { SubmittedTransaction as WireSubmitted } from '../../../src/transactions/wire.ts'
import type { DryRunAnswer, WriteAnswer } from '../../../src/transactions/write-wire.ts'
import type * as transfers from '../../../src/transfers/wire.ts'
import type * as users from '../../../src/users/wire.ts'
import type * as client from '../src/index.ts'

/** A wire shape with its big-number objects as bigints, and its open lists of words as text. */
type Plain<T> = T extends { type: 'BigNumber'; hex: string }
  ? bigint
  : T extends `0x${string}` | undefined
    ? T
    : T extends object
      ? { [K in keyof T]: Plain<T[K]> }
      : T

/** Both have the same fields, as optional, of types that fit each other. A word of an enumeration counts as text where the client keeps the list open. */
type Fits<Wire, Ours> = [Plain<Wire>] extends [Ours] ? (Same<keyof Wire, keyof Ours> extends true ? Optional<Wire, Ours> : 'other fields') : 'other types' // prettier-ignore
type Same<A, B> = [A, B] extends [B, A] ? true : false
type Optional<Wire, Ours> = Same<OptionalKeys<Wire>, OptionalKeys<Ours>> extends true ? true : 'optional otherwise'
type OptionalKeys<T> = { [K in keyof T]-?: object extends Pick<T, K> ? K : never }[keyof T]

const holds = <_ extends true>(): void => {}

test('each type of the client is the shape that the service writes', () => {
  // A difference is an error of the compiler: `npm run check`.
  holds<Fits<Static<typeof WireProblem>, client.Problem>>()
  holds<Fits<NonNullable<Static<typeof WireProblem>['revert']>, client.Revert>>()
  holds<Same<EventType, client.FeedEvent['type']>>()
  holds<Same<keyof WireEvent, keyof client.FeedEvent>>()
  holds<Fits<users.UserProfile, client.User>>()
  holds<Fits<users.Me, client.Me>>()
  holds<Fits<Omit<Static<typeof AnyEntry>, 'balance' | 'balanceBn' | 'decimals'> & { value: bigint; decimals: number }, client.Balance>>() // prettier-ignore
  holds<Fits<Omit<Static<typeof Nft>, 'balance' | 'balanceBn'> & { value: bigint }, client.Nft>>()
  type Amount = Omit<Entry['amount'], 'value' | 'valueBn' | 'formatted'> & { value: bigint }
  holds<Fits<Omit<Entry, 'amount'> & { amount: Amount }, client.Transfer>>()
  holds<Fits<Amount, client.Transfer['amount']>>()
  holds<Fits<transactions.Transaction, client.Transaction>>()
  holds<Fits<NonNullable<transactions.Transaction['receipt']>, NonNullable<client.Transaction['receipt']>>>()
  holds<Same<transactions.Transaction['state'], client.TransactionState>>()
  holds<Fits<transactions.WireOperation, client.Operation>>()
  holds<Fits<transactions.WireTransaction, client.SimulatedTransaction>>()
  holds<Fits<Static<typeof WireSubmitted>, client.SubmittedTransaction>>()
  holds<Fits<transactions.GasPayer, client.GasPayer>>()
  holds<Fits<transfers.Recipient, client.Recipient>>()
  holds<Fits<NonNullable<DryRunAnswer['limits']>[number], client.RuleLimit>>()
  holds<Fits<Omit<DryRunAnswer, 'status' | 'explorerUrl' | 'response' | 'outputs'> & { result: unknown }, client.WriteSimulation>>() // prettier-ignore
  holds<Fits<Pick<WriteAnswer, 'hash' | 'explorerUrl' | 'state' | 'reference'>, client.Submission>>()
  holds<Fits<signatures.SignAnswer, client.Signed>>()
  holds<Fits<signatures.SignDryRunAnswer, client.SignSimulation>>()
  holds<Same<signatures.SignAnswer['class'], client.MessageClass>>()
  holds<Fits<signatures.OwnSignature, client.OwnSignature>>()
  holds<Fits<signatures.Verified, client.Verification>>()
  holds<Fits<WireApproval, client.Approval>>()
  holds<Same<WireApproval['state'], client.Approval['state']>>()
  holds<Fits<WireSignature, client.LogEntry>>()
  assert.ok(true)
})

test('a signature types the arguments and the result of its function', () => {
  type Of<S extends string> = client.ResultOf<client.FunctionOf<S>>
  type Args<S extends string> = client.ContractCall<S>['args']
  type Exactly<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
  holds<Exactly<Of<'balanceOf(address) public view returns (uint256)'>, bigint>>()
  holds<Exactly<Of<'function decimals() external view returns (uint8);'>, bigint>>()
  holds<Exactly<Of<'ping() view'>, undefined>>()
  holds<Same<Of<'at() view returns (uint256 x, string y)'>, { x: bigint; y: string }>>()
  holds<Same<Of<'at() view returns (uint256, bool)'>, readonly [bigint, boolean]>>()
  holds<Same<Of<'all() view returns (tuple(address to, uint256[] parts)[] list)'>, readonly { to: `0x${string}`; parts: readonly bigint[] }[]>>() // prettier-ignore
  holds<Same<NonNullable<Args<'mint(address to, uint256 amount)\nerror Full(uint256 cap)'>>, readonly [`0x${string}`, bigint]>>() // prettier-ignore
  holds<Same<Of<string>, unknown>>()
  assert.ok(true)
})
