/**
 * Shapes of the API as this package returns them: each big-number object of the API is a bigint.
 * `test/wire.test.ts` checks that they match the schemas of the service.
 */

/** 0x-prefixed hexadecimal */
export type Hex = `0x${string}`

/** Problem document of an error (RFC 9457). */
export type Problem = {
  type: string
  title: string
  status: number
  detail: string
  instance: string
  code: string
  requestId: string
  retryable: boolean
  help: string
  userMessage: string
  error: string
  errors?: { pointer?: string; parameter?: string; code: string; detail: string }[]
  funds?: { address: string; needed: string; available: string }
  resetsAt?: string | null
  /** for `cursor_expired`: cursor with which to continue */
  resumeAt?: string
  approval?: { id: string; url: string; expiresAt: string }
  revert?: Revert
}

/** Reason for which a call or transaction failed, as far as the contract reports it. */
export type Revert = {
  name: string | null
  signature: string | null
  args: unknown[] | null
  selector: string | null
  data: string
  reason: string
}

/** Profile of a user. `imageSrc` is null if the provider has no picture. */
export type User = { id: string; provider: string; username: string; address: Hex; imageSrc: string | null }

/** Profile of the signed-in user. */
export type Me = User & {
  network: string
  chainId: number
  scopes: string[]
  /** ids of all identities of the account */
  linked: string[]
  exportedAt: string | null
}

/** A token that looks like spam: score 50 to 100. */
export type Spam = { score: number; reasons: string[] }

/** A balance. `value` is in the smallest unit. Symbol and name of a token come from its contract: escape them. */
export type Balance = {
  value: bigint
  decimals: number
  /** exact, in whole units, for display */
  formatted: string
  symbol: string
  name: string
  network: string
  chainId: number
  /** null: native currency */
  tokenAddress: string | null
  tokenType: 'NATIVE' | 'ERC20' | 'ERC721'
  spam?: Spam
}

/** An NFT that the user holds. `value` counts equal items; `tokenUri` comes from the contract, which anyone can write. */
export type Nft = {
  value: bigint
  tokenType: 'ERC721' | 'ERC1155'
  tokenAddress: Hex
  /** decimal */
  tokenId: string
  symbol: string
  name: string
  tokenUri: string | null
  network: string
  chainId: number
  spam?: Spam
}

/** A side of a transfer. `username` and `platform` are null if the address belongs to no user of the installation. */
export type Party = { username: string | null; platform: string | null; address: Hex }

/** An entry of the history. `amount.value` is in the smallest unit. */
export type Transfer = {
  type: 'TRANSFER'
  id: string
  direction: 'IN' | 'OUT' | 'SELF'
  status: 'CONFIRMED' | 'FINALIZED'
  from: Party
  to: Party
  amount: {
    value: bigint
    decimals: number
    symbol: string
    name: string
    /** null: native currency */
    tokenAddress: Hex | null
    network: string
    chainId: number
  }
  tokenType: 'ERC20' | 'ERC721' | 'ERC1155' | 'NATIVE'
  tokenId: string | null
  timestamp: string
  hash: Hex
  blockNumber: number
  blockHash: Hex
  logIndex: number
  explorerUrl: string
  nativeKind?: 'FEE' | 'VALUE' | 'MINT' | 'INTERNAL' | 'WITHDRAWAL' | 'REWARD'
  omitted?: number
  spam?: Spam
}

/** State of a transaction. `FINALIZED` can no longer be reorganised. */
export type TransactionState = 'SUBMITTED' | 'MINED' | 'FINALIZED' | 'REVERTED' | 'FAILED' | 'REPLACED' | 'CANCELLED'

type Fees = { maxFeePerGas?: bigint; maxPriorityFeePerGas?: bigint; gasPrice?: bigint }
type Call = { to: Hex; value: bigint; data: Hex }

/** The calls that the user signed and a sponsor sends. */
export type Operation = Call & {
  id: Hex
  from: Hex
  gasLimit: bigint
  /** seconds since 1970 */
  deadline: number
  calls?: Call[]
}

/** Payer of the gas, if it is not the account. */
export type GasPayer = { strategy: 'sponsor'; payer: Hex }

/** A transaction of the user at this application. Amounts in wei, gas in units. */
export type Transaction = Fees & {
  id: string
  state: TransactionState
  hash: Hex
  /** all hashes, newest first: each fee bump has a hash of its own */
  hashes: Hex[]
  explorerUrl: string
  network: string
  chainId: number
  nonce: number
  from: Hex
  to: Hex
  value: bigint
  data: Hex
  gasLimit: bigint
  isCancel: boolean
  isFinal: boolean
  /** the application's own text; null if none was given */
  reference: string | null
  createdAt: string
  updatedAt: string
  transitions: { state: string; at: string; hash?: Hex; blockNumber?: number }[]
  receipt: {
    blockNumber: number
    blockHash: Hex
    status: 'SUCCESS' | 'REVERTED'
    gasUsed: bigint
    effectiveGasPrice: bigint
  } | null
  revert: Revert | null
  /** reason for a wait of more than a minute */
  reason: { code: string; detail: string } | null
  operation?: Operation
  gas?: GasPayer
}

/** The unsigned transaction of a simulation. */
export type SimulatedTransaction = Fees & {
  type: number
  chainId: number
  nonce: number
  from: Hex
  to: Hex
  data: Hex
  value: bigint
  gasLimit: bigint
  accessList: unknown[]
}

/** The submitted transaction, without its signature. */
export type SubmittedTransaction = SimulatedTransaction & { hash: Hex }

/** Recipient of a transfer. `userId` and `hasSignedIn` are null for an address. */
export type Recipient = { userId: string | null; address: Hex | null; hasSignedIn: boolean | null }

/** Remaining amount of a signer limit, in decimal digits of the smallest unit. */
export type RuleLimit = {
  rule: string
  limit: string
  amount?: string
  used?: string
  left?: string
  resetsAt: string | null
}

/** Class of a message, by the effect of its signature. */
export type MessageClass = 'login' | 'text' | 'payment' | 'allowance' | 'order' | 'vote' | 'power' | 'other' | 'opaque'

/** A signature of a message. `signature` is r, s and v (27 or 28), 65 bytes. */
export type Signed = {
  id: string
  signature: Hex
  /** digest that was signed, by EIP-191 or EIP-712 */
  hash: Hex
  class: MessageClass
  /** name of the signer's rule that decided */
  rule: string
  createdAt: string
  /** the application's own text; null if none was given */
  reference: string | null
}

/** Effect of a signature, as facts. */
export type MessageSummary = {
  sentence: string
  moves: {
    kind: 'pays' | 'allows'
    token: string | null
    /** amount in the smallest unit, or `unlimited`, or `all` */
    amount: string
    item: string | null
    to: string
    /** seconds since 1970 */
    until: number | null
  }[]
  domain: string | null
  warnings: string[]
}

/** Expected effect of a signature request. */
export type SignSimulation = {
  hash: Hex
  class: MessageClass
  rule: string
  approval: 'required' | 'not_required'
  summary: MessageSummary
  limits?: RuleLimit[]
}

/** A message that the user signed for this application. */
export type OwnSignature = Signed & {
  kind: 'text' | 'bytes' | 'typedData'
  content: string
  summary: MessageSummary
}

/** Result of a signature check. `method` is null if the signature is not valid. */
export type Verification = { valid: boolean; method: 'eoa' | 'erc1271' | 'erc6492' | null; hash: Hex }

/** State of a request for the user's approval. Times are ISO 8601. */
export type Approval = {
  id: string
  state: 'waiting' | 'approved' | 'denied' | 'expired' | 'used'
  url: string
  rule: string
  createdAt: string
  expiresAt: string
  decidedAt: string | null
}

type LoggedCall = { to: Hex; value: bigint; selector: Hex | null; function: string | null }

/** An entry of the signer's own log, with its proof (`chatelaine verify-log --proof`). */
export type LogEntry = Omit<LoggedCall, 'to'> & {
  record: number
  signedAt: string
  network: string | null
  chainId: number
  kind: 'send' | 'replace' | 'cancel' | 'operation' | 'authorization' | 'message'
  to: Hex | null
  message?: { kind: 'text' | 'bytes' | 'typedData'; class: string; content: string | null }
  calls?: LoggedCall[]
  nonce: number | null
  hash: Hex
  transactionId: string | null
  clientId: string | null
  evidenceHash: string | null
  proof: { record: number; leaf: string; path: string[]; head: string }
}

/** Types of events. */
export type EventType =
  | 'transaction.submitted'
  | 'transaction.resubmitted'
  | 'transaction.mined'
  | 'transaction.reverted'
  | 'transaction.cancelled'
  | 'transaction.failed'
  | 'transaction.replaced'
  | 'transaction.retracted'
  | 'transaction.finalized'
  | 'transfer.detected'
  | 'transfer.retracted'
  | 'transfer.finalized'
  | 'approval.requested'
  | 'approval.granted'
  | 'approval.denied'
  | 'approval.expired'
  | 'signature.created'
  | 'policy.denied'
  | 'user.created'
  | 'consent.granted'
  | 'consent.changed'
  | 'grant.revoked'
  | 'account.frozen'
  | 'account.unfrozen'
  | 'account.stopped'
  | 'account.resumed'
  | 'account.low_balance'
  | 'key.exported'
  | 'webhook.test'
  | 'webhook.failed'
  | 'webhook.disabled'

type EventFacts = {
  /** the same again if the event comes again: its effect belongs under a unique index of ids */
  id: string
  /** time at which the service noted it, ISO 8601 */
  timestamp: string
  /** rises within the feed of an application, with gaps */
  sequence: number
  /** transaction, transfer, approval, signature or user that changed; events of one subject are in order */
  subject: string
  /** user whose account it concerns */
  userId: string | null
  network: string | null
  chainId: number | null
}

/** A change of a transaction. `retracts`, with `transaction.retracted`: id of the event that no longer holds. */
export type TransactionEvent = EventFacts & {
  type: Extract<EventType, `transaction.${string}`>
  data: {
    id: string
    hash: Hex | null
    state: TransactionState
    blockNumber: number | null
    blockHash: Hex | null
    reference: string | null
    retracts?: string
  }
}

/** A change of a transfer of the user's account. `value` is in the smallest unit. */
export type TransferEvent = EventFacts & {
  type: Extract<EventType, `transfer.${string}`>
  data: {
    id: string
    direction: 'IN' | 'OUT' | 'SELF'
    tokenType: 'NATIVE' | 'ERC20' | 'ERC721' | 'ERC1155'
    tokenAddress: Hex | null
    tokenId: string | null
    value: string
    from: Hex
    to: Hex
    hash: Hex
    logIndex: number
    blockNumber: number
    blockHash: Hex
    timestamp: string
    retracts?: string
  }
}

/** A write or signature that a rule of the signer denied. `count`: denials of the user by this rule since the last event. */
export type DenialEvent = EventFacts & {
  type: 'policy.denied'
  data: {
    request: 'write' | 'signature'
    rule: string | null
    detail: string
    reference: string | null
    count: number
  }
}

/** An event of the feed. Branch on `type`; ignore types that you do not know, because the service can add others. */
export type FeedEvent =
  | TransactionEvent
  | TransferEvent
  | DenialEvent
  | (EventFacts & {
      type: Exclude<EventType, TransactionEvent['type'] | TransferEvent['type'] | DenialEvent['type']>
      data: Record<string, unknown>
    })
