import type { DelegateName, Hex } from '../ids.ts'

/** `value` in wei, decimal digits. */
export type OperationCallText = { to: Hex; value: string; data: Hex }

/**
 * An operation for the user's account to sign and a sponsor to send (docs/reference/gas-contracts.md), with the user's own token. The same
 * request again returns the stored signature. An intent has one operation, and an id (network, space, sequence) one intent,
 * forever.
 */
export type SignOperationRequest = {
  /** the server's operation id, of the same kind as a transaction's; no transaction has it */
  intentId: string
  accessToken: string
  /** never 0 */
  chainId: number
  /** the user's account */
  from: Hex
  /** 20 bytes: the address whose sponsors may send it */
  space: Hex
  /** the other 12 bytes of the id, decimal digits; not below `sequenceFloor` of `health` */
  sequence: string
  /** 1 to 20 calls, executed in this order or not at all */
  calls: OperationCallText[]
  /** decimal digits, below 2^32 */
  gasLimit: string
  /** the last second in which it may be executed, since 1970; at most MAX_DEADLINE_SECONDS ahead of the signer's clock */
  deadline: number
  requestHash?: Hex
  /**
   * requests an authorization (EIP-7702) of `from` to the delegate as well, which uses this nonce; nothing else is ever signed for
   * that nonce
   */
  authorizationNonce?: number
  /** the code that the account delegates to, which selects the dispatcher; absent: this project's own */
  delegate?: DelegateName
}

/** The maximum lifetime of an operation: one hour. */
export const MAX_DEADLINE_SECONDS = 3_600
export const MAX_OPERATION_CALLS = 20

/** 32 bytes each, r with leading zeros */
type SignaturePoint = { r: Hex; s: Hex; yParity: 0 | 1 }

/** An authorization as nodes accept it in `authorizationList`, with JSON numbers. */
type DelegationText = SignaturePoint & { chainId: number; address: Hex; nonce: number }

export type SignedOperationText = {
  /** EIP-712; 32 bytes */
  digest: Hex
  signature: SignaturePoint
  /** the operation in the packed form of the dispatcher's `operations`: account, sequence, …, signature, calls */
  packed: Hex
  /** absent if it was not requested */
  authorization?: DelegationText
  rule: string
  /** true if the ledger already held it */
  stored: boolean
}

/**
 * A `checkOperation` request. Without a sequence, the id is not checked. With `carried`, it also checks what `signOuter` would for
 * this operation alone.
 */
export type CheckOperationRequest = Omit<SignOperationRequest, 'sequence'> & {
  sequence?: string
  carried?: CarriedText
}

/** The sponsor's account, the maximum price in wei per gas, and the maximum cost of the whole transaction in wei; decimal digits. */
type CarriedText = { sponsor: Hex; price: string; wei: string }

/**
 * A sponsor transaction to the dispatcher, value 0. It needs no token, because the ledger must hold every operation and
 * authorization in it, byte for byte. A fault of one operation is reported as `operation_refused`, with its index in `operation`.
 */
export type SignOuterRequest = {
  intentId: string
  chainId: number
  /** an account of a user SPONSOR-… */
  from: Hex
  nonce: number
  /** `dispatch(space, operations)` as abi.encode writes it, with nothing after it */
  data: Hex
  gas: string
  maxFeePerGas: string
  maxPriorityFeePerGas: string
  /** at most one per account, each with an operation in `data`; included in this order, in a transaction of type 4 */
  authorizations: { from: Hex; nonce: number }[]
  kind: 'send' | 'replace'
  /** of all operations in `data`; absent: this project's own */
  delegate?: DelegateName
}

/**
 * A cancellation that replaces a sponsor transaction at its nonce. It calls the dispatcher to use up ids of some of its operations,
 * so that they can never be executed. Without ids it only frees the nonce. It can include the authorizations, because later
 * transactions may rely on them. Using up ids needs the token of the operations' user, once; a fee bump needs none. No other
 * cancellation of the nonce is signed.
 */
export type CancelOuterRequest = Omit<SignOuterRequest, 'data' | 'kind' | 'delegate'> & {
  /** sequences of operations in the first attempt, decimal digits; all belong to the token's user */
  sequences: string[]
  accessToken?: string
}

/** An operation that was signed, as found by its intent. */
export type RecalledOperation = Omit<SignOperationRequest, 'accessToken' | 'authorizationNonce' | 'requestHash'> &
  Omit<SignedOperationText, 'authorization' | 'stored'> & {
    /** number of its record in the ledger */
    seq: number
    /** milliseconds since 1970 by the signer's clock */
    signedAt: number
    userId: string
    clientId: string
    requestHash: Hex | null
    /** on its network: every sponsor transaction that was signed with it, oldest first */
    outers: { seq: number; intentId: string; from: Hex; nonce: number; hash: Hex }[]
  }

/** An authorization that uses, or will use, a nonce of an account. */
export type RecalledDelegation = DelegationText & { seq: number; signedAt: number; intentId: string; from: Hex }

/**
 * `from`, milliseconds since 1970: no operation is signed earlier, because operations lost in a restore may still be executed;
 * null: there is no such wait. `delegates`: the delegate codes for which operations are signed.
 */
export type OperationsHealth = {
  dispatcher: Hex
  delegate: Hex
  sequenceFloor: string
  from: number | null
  delegates: DelegateName[]
}
