import type { EventPage, EventsOptions } from './events.ts'
import type { AbiSource, ContractCall, FunctionOf, ResultOf } from './abi.ts'
import type { ClientError } from './errors.ts'
import type { List } from './list.ts'
import type { CallOptions, WriteOptions } from './request.ts'
import type { Submission, TransactionHandle } from './transaction.ts'
import type {
  Approval,
  Balance,
  GasPayer,
  LogEntry,
  Me,
  Nft,
  Operation,
  OwnSignature,
  Recipient,
  RuleLimit,
  Signed,
  SignSimulation,
  SimulatedTransaction,
  SubmittedTransaction,
  Transaction,
  TransactionState,
  Transfer,
  User,
  Verification,
} from './wire.ts'

export type BlockTag = 'latest' | 'finalized' | number

/** A view call. `sender`: execute it with the user as `msg.sender`. */
export type ReadCall<A extends AbiSource, N extends string = string> = ContractCall<A, N> & {
  sender?: boolean
  blockTag?: BlockTag
}

/** A write. `value` in wei; `gas` is a limit, estimated if absent. */
export type WriteCall<A extends AbiSource, N extends string = string> = ContractCall<A, N> & {
  value?: bigint
  gas?: bigint
}

/** A call without inferred types, for lists of calls. `value` in wei. */
export type BatchCall = {
  address: string
  abi: AbiSource
  functionName?: string
  args?: readonly unknown[]
  value?: bigint
}

/** A call of a batch with encoded calldata, or a payment of `value` wei. */
export type EncodedCall = { to: string; data?: string; value?: bigint }

/** Encoded calldata. `value` in wei; `abi` decodes reverts. */
export type SendRequest = { to: string; data?: string; value?: bigint; gas?: bigint; abi?: string }

/** A recipient: an address, a user id (`DISCORD-8035…`), or the name of exactly one user at a provider. */
export type To = string | { provider: string; username: string }

/**
 * A transfer: of native currency without `token`, of an ERC-721 with `tokenId`, of an ERC-1155 with `tokenId` and
 * `amount`. `amount`: decimal text in whole units (`'1.5'`), or a bigint in the smallest unit.
 */
export type TransferRequest = { to: To; token?: string; amount?: string | bigint; tokenId?: bigint | string }

/** A message: a text, or bytes as 0x-hex. */
export type MessageInput = string | { hex: string }

/** EIP-712 typed data. Integers are bigints or decimal text. */
export type TypedData = { domain?: object; types: object; primaryType: string; message: object }

/** A signature to check, with exactly one of three messages. */
export type VerifyRequest = { address: string; signature: string } & (
  | { message: string }
  | { hex: string }
  | { typedData: TypedData }
)

/** Filters of the history. `from` and `to`: ISO 8601 with a zone, or a date. */
export type HistoryFilter = {
  limit?: number
  type?: readonly Transfer['tokenType'][]
  direction?: 'in' | 'out' | 'all'
  token?: string
  counterparty?: string
  from?: string
  to?: string
  fromBlock?: number
  toBlock?: number
  finality?: 'finalized'
  /** list native currency in addition to the token types */
  include?: 'native'
  includeSpam?: boolean
}

/** Blocks between which a page of the history is complete; null: unknown. */
export type HistoryRange = {
  indexedFrom: number | null
  indexedTo: number | null
  finalizedTo: number | null
  nativeFrom: number | null
  nativeInternalFrom: number | null
}

/** A write that the service has stored. */
export type Write = TransactionHandle &
  Submission & { readonly tx: SubmittedTransaction; readonly operation?: Operation; readonly gas?: GasPayer }

/** A transfer that the service has stored. `amount` is in the smallest unit. */
export type SentTransfer = TransactionHandle & Submission & { readonly recipient: Recipient; readonly amount: bigint }

/** Expected effect of a write. `gas` in units; `fee` is the highest fee in wei, without the value. */
export type WriteSimulation<R = unknown> = {
  result: R
  gas: bigint
  fee: bigint
  rule: string
  approval: 'required' | 'not_required'
  limits?: RuleLimit[]
  tx: SimulatedTransaction
  operation?: Operation
}

/** Expected effect of a transfer. Amounts as in `WriteSimulation`; `amount` in the smallest unit. */
export type TransferSimulation = Pick<WriteSimulation, 'gas' | 'fee' | 'rule' | 'approval'> & {
  recipient: Recipient
  amount: bigint
}

/** A result of `readMany`. */
export type ReadOutcome = { result: unknown; error?: undefined } | { error: ClientError; result?: undefined }

/** Blocks of a page of NFTs: at which they were held, and between which their arrivals are indexed; null: unknown. */
export type NftsRange = { blockNumber: number | null; indexedFrom: number | null; indexedTo: number | null }

/** Facts about a page of balances. `unanswered` counts tokens of the page that did not respond. */
export type BalancesFacts = { blockNumber: number | null; unanswered: number | null; indexedTo: number | null }

/**
 * The wallet of one user at one application. Every method throws `SignedOut`, `Refused`, `InvalidInput` or `Busy`; a write
 * also `Reverted`, `ApprovalRequired` or `Unknown`.
 */
export type Client = {
  /** Reads the profile of the signed-in user, with network and permissions. With a session it is stored until the session changes. */
  me(options?: CallOptions): Promise<Me>
  /** Reads a user by id: the signed-in one, or with `users:directory` one who consented to be found. */
  user(userId: string, options?: CallOptions): Promise<User>
  /** Lists the users of the application who have exactly this name and consented to be found (`users:directory`). */
  users(filter?: { username?: string; provider?: string; limit?: number }): List<User>
  /** Reads the balance of native currency, or of an ERC-20 or ERC-721 contract. */
  balance(token?: string, options?: CallOptions): Promise<Balance & { blockNumber: number | null }>
  /** Lists native currency and all tokens with a balance, each page at one block. */
  balances(filter?: { limit?: number; includeSpam?: boolean }): List<Balance, BalancesFacts>
  /** Lists ERC-721 and ERC-1155 tokens that the user holds, those that arrived last first; each once with `for await`. */
  nfts(filter?: { limit?: number; token?: string; includeSpam?: boolean }): List<Nft, NftsRange>
  /** Lists transfers of the user, newest first. */
  history(filter?: HistoryFilter): List<Transfer, HistoryRange>
  /** Calls a view function. @returns its result, as `ResultOf` describes */
  read<const A extends AbiSource, const N extends string = string>(
    call: ReadCall<A, N>,
    options?: CallOptions,
  ): Promise<ResultOf<FunctionOf<A, N>>>
  /** Calls up to 100 view functions at one block. Each call has its own result or error. */
  readMany(
    calls: readonly (Omit<BatchCall, 'value'> & { sender?: boolean })[],
    options?: CallOptions & { blockTag?: BlockTag },
  ): Promise<{ blockNumber: number; results: ReadOutcome[] }>
  /** Calls a function of a contract from the user's account. Resolves when the transaction is stored, not when it is mined. */
  write<const A extends AbiSource, const N extends string = string>(
    call: WriteCall<A, N>,
    options?: WriteOptions,
  ): Promise<Write>
  /**
   * Executes 2 to 20 calls in order, all or none. Needs a network on which a sponsor pays for gas
   * (`atomic_unsupported`).
   */
  batch(calls: readonly (BatchCall | EncodedCall)[], options?: WriteOptions): Promise<Write>
  /** Sends calldata that the application encoded, or native currency to an address. */
  send(request: SendRequest, options?: WriteOptions): Promise<Write>
  /**
   * Sends native currency or a token to an address, or to a user who may not have signed in yet.
   * A bigint amount also needs `wallet:read`, to check the decimals of the token.
   */
  transfer(request: TransferRequest, options?: WriteOptions): Promise<SentTransfer>
  /** Simulates writes, transfers and signatures: nothing is signed or stored. */
  simulate: {
    write<const A extends AbiSource, const N extends string = string>(
      call: WriteCall<A, N>,
      options?: CallOptions,
    ): Promise<WriteSimulation<ResultOf<FunctionOf<A, N>>>>
    batch(calls: readonly (BatchCall | EncodedCall)[], options?: CallOptions): Promise<WriteSimulation>
    send(request: SendRequest, options?: CallOptions): Promise<WriteSimulation>
    transfer(request: TransferRequest, options?: CallOptions): Promise<TransferSimulation>
    signMessage(message: MessageInput, options?: CallOptions): Promise<SignSimulation>
    signTypedData(typedData: TypedData, options?: CallOptions): Promise<SignSimulation>
  }
  /** Returns the handle of a transaction of the user at this application. @param id  id, or any of its hashes */
  transaction(id: string): TransactionHandle
  /** Lists the transactions of the user at this application, newest first. */
  transactions(filter?: { limit?: number; state?: TransactionState }): List<Transaction>
  /** Signs a text, or bytes, as `personal_sign` does (EIP-191). */
  signMessage(message: MessageInput, options?: WriteOptions): Promise<Signed>
  /** Signs EIP-712 typed data, as `eth_signTypedData_v4` does. */
  signTypedData(typedData: TypedData, options?: WriteOptions): Promise<Signed>
  /** Checks a signature of any account or contract. */
  verify(request: VerifyRequest, options?: CallOptions): Promise<Verification>
  /** Lists the messages that the user signed for this application, newest first. */
  signatures(filter?: { limit?: number }): List<OwnSignature>
  /** Reads one signature of the user for this application. */
  signature(id: string, options?: CallOptions): Promise<OwnSignature>
  /** Lists all signatures of the account from the signer's log, of all applications, each with its proof. */
  signingLog(): List<LogEntry>
  /** Reads the state of a request for the user's approval. */
  approval(id: string, options?: CallOptions): Promise<Approval>
  /**
   * Reads events, and waits for more. With a user's token: events of the user at this application. With the token
   * of an application and `events:read`: all of its events. A cursor that is too old throws `CursorExpired`;
   * `resumeAt` is the cursor with which to continue.
   */
  events(options?: EventsOptions): AsyncIterable<EventPage>
}
