import type { DelegateName, Hex } from '../ids.ts'

/** `value` in wei, decimal digits. */
export type OperationCallText = { to: Hex; value: string; data: Hex }

/**
 * What a person's account is to sign for a sponsor to send (docs/gas-contracts.md), with the person's own token. The same request
 * again gives the stored signature; an intent has one operation, and an id (network, space, sequence) one intent, forever.
 */
export type SignOperationRequest = {
  /** our operation id, of the same kind as a transaction's: no transaction has it, too */
  intentId: string
  accessToken: string
  /** never 0 */
  chainId: number
  /** the person's account */
  from: Hex
  /** 20 bytes: the address whose sponsors may send it */
  space: Hex
  /** the other 12 bytes of the id, decimal digits; not below `sequenceFloor` of `health` */
  sequence: string
  /** 1 to 20, done in this order or not at all */
  calls: OperationCallText[]
  /** decimal digits, below 2^32 */
  gasLimit: string
  /** the last second in which it may be done, since 1970; at most MAX_DEADLINE_SECONDS ahead of the signer's clock */
  deadline: number
  requestHash?: Hex
  /** also the authorization (EIP-7702) of `from` to the delegate for this nonce, which takes it: nothing else is ever signed for it */
  authorizationNonce?: number
  /** the code that the account delegates to, for whose dispatcher it signs; absent: our own */
  delegate?: DelegateName
}

/** An operation lives an hour at most, however it was asked for. */
export const MAX_DEADLINE_SECONDS = 3_600
export const MAX_OPERATION_CALLS = 20

/** 32 bytes each, r with leading zeros */
type SignaturePoint = { r: Hex; s: Hex; yParity: 0 | 1 }

/** An authorization as nodes take it in `authorizationList`, numbers as numbers. */
type DelegationText = SignaturePoint & { chainId: number; address: Hex; nonce: number }

export type SignedOperationText = {
  /** EIP-712; 32 bytes */
  digest: Hex
  signature: SignaturePoint
  /** one operation as `operations` of the dispatcher has them: account, sequence, …, signature, calls */
  packed: Hex
  /** absent where none was asked for */
  authorization?: DelegationText
  rule: string
  /** the ledger already held it */
  stored: boolean
}

/** `checkOperation`: without a sequence the id is not looked at. `carried`: refused, too, is what `signOuter` would be, with it alone; absent: that is not asked. */
export type CheckOperationRequest = Omit<SignOperationRequest, 'sequence'> & {
  sequence?: string
  carried?: CarriedText
}

/** By which sponsor's account, at which highest price, wei per gas, and what its whole transaction costs at most, wei; decimal digits. */
type CarriedText = { sponsor: Hex; price: string; wei: string }

/**
 * A transaction of a sponsor to the dispatcher, value 0. No token: every operation and authorization in it is one that the ledger
 * holds, byte for byte. What is wrong with one operation is `operation_refused` and says with which (`operation` of the error).
 */
export type SignOuterRequest = {
  intentId: string
  chainId: number
  /** an account of a user SPONSOR-… */
  from: Hex
  nonce: number
  /** `dispatch(space, operations)`, as abi.encode has it, nothing behind it */
  data: Hex
  gas: string
  maxFeePerGas: string
  maxPriorityFeePerGas: string
  /** each once; of accounts whose operation is in `data`. In this order; with any it is of type 4 */
  authorizations: { from: Hex; nonce: number }[]
  kind: 'send' | 'replace'
  /** of all operations in `data`; absent: our own */
  delegate?: DelegateName
}

/**
 * In the place of a transaction that carries operations, at its nonce: a call of the dispatcher that uses ids of some of them up, so that nothing does
 * those any more, or of none, where only the nonce is to be freed. Authorizations stay: what comes after it may rely on them. Ids of operations take
 * the token of their person, once; what is raised of it takes none. Another cancel of the nonce is signed neither before nor after it.
 */
export type CancelOuterRequest = Omit<SignOuterRequest, 'data' | 'kind' | 'delegate'> & {
  /** of operations that the first attempt carries, decimal digits; all of the person whose token it is */
  sequences: string[]
  accessToken?: string
}

/** What was signed of an operation, to be found again by its intent. */
export type RecalledOperation = Omit<SignOperationRequest, 'accessToken' | 'authorizationNonce' | 'requestHash'> &
  Omit<SignedOperationText, 'authorization' | 'stored'> & {
    /** number of its record in the ledger */
    seq: number
    /** milliseconds since 1970 by the clock of the signer */
    signedAt: number
    userId: string
    clientId: string
    requestHash: Hex | null
    /** of its network: every transaction that was signed with it in it, oldest first */
    outers: { seq: number; intentId: string; from: Hex; nonce: number; hash: Hex }[]
  }

/** That an account's nonce is, or will be, used by an authorization. */
export type RecalledDelegation = DelegationText & { seq: number; signedAt: number; intentId: string; from: Hex }

/**
 * `from`, milliseconds since 1970: no operation is signed before, since a restore may have lost some that are under way; null: now.
 * `delegates`: for which code operations are signed.
 */
export type OperationsHealth = {
  dispatcher: Hex
  delegate: Hex
  sequenceFloor: string
  from: number | null
  delegates: DelegateName[]
}
