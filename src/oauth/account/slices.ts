import type { Amount } from '../../http/amount.ts'
import type { Hex, UserId } from '../../ids.ts'
import type { MessageClass } from '../../messages/classify.ts'
import type { Texts } from '../../texts/en.ts'

/** Data and actions of other slices for an account. They are passed in, because this slice may not import them. */
export type AccountSlices = {
  readBalances(owner: AccountOwner, chainId: number): Promise<ShownBalance[]>
  readCollectibles(owner: AccountOwner, chainId: number): Promise<ShownCollectible[]>
  readTransfers(
    owner: AccountOwner,
    chainId: number,
    page: PageAsked & { direction: Direction; includesSpam?: boolean },
  ): Promise<Listed<ShownTransfer>>
  readNativeTransfers(
    owner: AccountOwner,
    chainId: number,
    page: PageAsked & { direction: Direction },
  ): Promise<Listed<ShownTransfer> & { coverage: CoinCoverage }>
  /** all native currency entries of the history, including suspected spam and fees, newest first */
  readNativeEntries(
    owner: AccountOwner,
    chainId: number,
    page: PageAsked,
  ): Promise<Listed<NativeRecord> & { coverage: CoinCoverage }>
  readSent(
    owner: AccountOwner,
    chainId: number,
    page: PageAsked & { clientId: string | null },
  ): Promise<Listed<SentTransaction>>
  /** writes of the account and transfers by others, each once, newest first; with a direction, transfers only */
  readActivity(
    owner: AccountOwner,
    chainId: number,
    page: PageAsked & { direction: Direction; clientId: string | null },
  ): Promise<Listed<ActivityEntry> & { coverage: CoinCoverage }>
  /** the transfers of one transaction that is in a block; null if it moved nothing of the account */
  readReceipt(owner: AccountOwner, chainId: number, place: TransferPlace): Promise<ActivityEntry | null>
  /** names and facts of the addresses in an approval; at most MAX_NAMED of each */
  readKnown(owner: AccountOwner, chainId: number, of: { tokens: Hex[]; others: Hex[] }): Promise<KnownAddresses>
  /** what calls of the account would change, simulated by the network's node; null: it cannot be simulated */
  simulate(owner: AccountOwner, chainId: number, calls: readonly CallToSimulate[]): Promise<Simulated | null>
  /** messages that the user signed, for all applications */
  readMessages(owner: AccountOwner, chainId: number, page: PageAsked): Promise<Listed<OwnMessage>>
  /** from the signer's log, on every network */
  readSignatures(owner: AccountOwner, page: { cursor?: string | undefined }): Promise<Listed<ShownSignature>>
  /** null if there is no chain to send on */
  sending: AccountSending | null
}

/** Maximum number of tokens, and of other addresses, that one approval page asks about. */
export const MAX_NAMED = 20

/** Native currency, tokens and other addresses, as an approval page names them. Addresses are lower-case. */
export type KnownAddresses = {
  native: { symbol: string; decimals: number } | null
  tokens: KnownToken[]
  /** those of `others` that the user has dealt with; null: unknown */
  dealtWith: Hex[] | null
}

/** `isListed`: the symbol is the operator's; otherwise it is the token's own word. `isSpam`: its name looks like spam. */
export type KnownToken = {
  token: Hex
  symbol: string
  decimals: number
  isListed: boolean
  isSpam: boolean
  isCollection: boolean
}

/** A call of the account; `value` in wei, decimal. */
export type CallToSimulate = { to: Hex; value: string; data: Hex }

/** `changes`: at most MAX_NAMED, none if a call reverts. `omitted`: further changes. */
export type Simulated = { isReverted: boolean; changes: AssetChange[]; omitted: number }

/** What an account gains (above zero) or loses of an asset, in base units. `token`: null for native currency. */
export type AssetChange = { token: Hex | null; item: bigint | null; amount: bigint }

export type AccountOwner = { accountId: string; userId: UserId; address: Hex }
export type Direction = 'in' | 'out' | 'all'
/** @throws invalid_cursor  for a cursor that belongs to another list */
type PageAsked = { limit: number; cursor?: string | undefined }
export type Listed<T> = { entries: T[]; nextCursor: string | null }

/** `isSpam`: the token's own name looks like spam. `isCollection`: the amount counts items, which are listed one by one. */
export type ShownBalance = Amount & { name: string; token: Hex | null; isSpam: boolean; isCollection: boolean }

export type ShownCollectible = { tokenType: 'ERC721' | 'ERC1155'; token: Hex; tokenId: bigint; count: bigint; name: string; symbol: string; isSpam: boolean } // prettier-ignore

/**
 * The blocks from which native currency is listed completely, without and with payments by contracts; null: not at all.
 * Before `from`, only transfers between accounts of this installation are listed.
 */
export type CoinCoverage = { from: number | null; internalFrom: number | null }

/** The origin of native currency that was not the value of a transaction. */
type CoinKind = 'FEE' | 'MINT' | 'INTERNAL' | 'WITHDRAWAL' | 'REWARD'

export type ShownTransfer = {
  direction: 'IN' | 'OUT' | 'SELF'
  amount: Amount
  /** contract of the token or collection; null for native currency */
  token: Hex | null
  /** id of a collectible; null for anything else */
  tokenId: string | null
  /** name or address of the other account */
  other: string
  /** its address */
  otherAddress: string
  at: Date
  /** where the transaction is in the chain; null if that is not known */
  place: TransferPlace | null
  explorerUrl: string
  coinKind?: CoinKind | undefined
  /** the fee that the account paid for the transaction, if the entry includes it */
  fee?: Amount | undefined
}

/** A transaction in a block. */
export type TransferPlace = { blockNumber: number; hash: Hex }

/** One transaction in the activity: a write of the account, or (`sent` is null) transfers that someone else made. */
export type ActivityEntry = {
  at: Date
  sent: SentTransaction | null
  /** what it moved, or would move; empty: nothing, or unknown */
  transfers: ShownTransfer[]
}

/**
 * Native currency that moved, from the history. `from` or `to` is the zero address for fees and for currency that no
 * account sent.
 */
export type NativeRecord = {
  kind: CoinKind | 'VALUE'
  direction: ShownTransfer['direction']
  amount: Amount
  from: string
  to: string
  at: Date
  blockNumber: number
  /** of the transaction; for a withdrawal or a reward, of the block */
  hash: string
  explorerUrl: string
  /** number of further entries of this block that the amount includes */
  omitted: number
}

/** A transaction that an application or the user sent from the account. */
export type SentTransaction = {
  id: string
  clientId: string
  /** null if the application was deleted */
  application: string | null
  state: keyof Texts['account']['states']
  /** the called function, by its name if the application named it; null for a plain payment */
  called: string | null
  to: string
  value: Amount
  /** null before it is mined */
  fee: Amount | null
  explorerUrl: string
  sentAt: Date
}

/** A message that the user signed for an application. */
type OwnMessage = {
  id: string
  clientId: string
  kind: 'text' | 'bytes' | 'typedData'
  /** text, 0x-hex, or typed data as JSON text */
  content: string
  hash: Hex
  signature: Hex
  /** ISO 8601 */
  createdAt: string
}

export type ShownCall = {
  to: string
  /** null if the network is no longer served */
  value: Amount | null
  /** the called function, by its name or first bytes; null if no contract is called */
  called: string | null
}

/** One signature, for whichever application. */
export type ShownSignature = {
  /** number of its record in the signer's log */
  record: number
  signedAt: Date
  chainId: number
  kind: 'send' | 'replace' | 'cancel' | 'operation' | 'authorization' | 'message'
  /** one call of a transaction; all calls of an operation, which run together; empty for an authorization or a message */
  calls: ShownCall[]
  /** code that may act for the account because of this signature */
  delegate: string | null
  /** class of a message, and its text, shortened; null for other bytes and typed data */
  message: { class: MessageClass; text: string | null } | null
  /** null if it has no nonce */
  nonce: number | null
  hash: Hex
  explorerUrl: string | null
  /** JSON, as `verify-log --proof` takes it */
  proof: string
}

/**
 * A transfer as the form describes it, before its texts are parsed. The fields are those of `POST
 * /v1/tokens/transfers`.
 */
export type TransferForm = {
  tokenType: 'NATIVE' | 'ERC20' | 'ERC721' | 'ERC1155'
  tokenAddress?: string
  tokenId?: string
  amount?: string
  toAddress?: string
  toUserId?: string
  toUserProviderType?: string
  toUserUsername?: string
}

export type Rehearsed = {
  /** the asset, by its own name */
  thing: { name: string; symbol: string }
  /** maximum fee of the account; 0 if a sponsor pays */
  fee: Amount
  /** `address`: null if the recipient has no account yet */
  recipient: { address: Hex | null; userId: UserId | null; name: string | null }
}

export type Sender = AccountOwner & { sessionUid: string }

export type AccountSending = {
  /**
   * Returns the tokens that a user can send on a network where sponsors pay for nothing else; `all` elsewhere. Native
   * currency counts as a token that is not listed.
   */
  sendable(owner: AccountOwner, chainId: number): Promise<'all' | Hex[]>
  /** Makes all checks of a transfer and signs nothing. @throws the errors of a transfer */
  rehearse(sender: Sender, chainId: number, order: TransferForm): Promise<Rehearsed>
  /** Sends a transfer, once per key. @returns the id of the transaction */
  send(sender: Sender, chainId: number, order: TransferForm, key: string): Promise<string>
  /**
   * Returns the state of a transaction and what it transfers, after a short wait for the next block; null if there is
   * none.
   */
  look(owner: AccountOwner, chainId: number, id: string): Promise<ActivityEntry | null>
}
