import type { Amount } from '../../http/amount.ts'
import type { Hex, UserId } from '../../ids.ts'
import type { Texts } from '../../texts/en.ts'

/** What other slices know of an account and can do with it: passed in, because this one may not import them. */
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
  /** every one of the history, with what looks like spam and fees, newest first */
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
  /** from the signer's log, on every network */
  readSignatures(owner: AccountOwner, page: { cursor?: string | undefined }): Promise<Listed<ShownSignature>>
  /** null where there is no chain to send on */
  sending: AccountSending | null
}

export type AccountOwner = { accountId: string; userId: UserId; address: Hex }
export type Direction = 'in' | 'out' | 'all'
/** @throws invalid_cursor  for a cursor that belongs to another list */
type PageAsked = { limit: number; cursor?: string | undefined }
export type Listed<T> = { entries: T[]; nextCursor: string | null }

/** `isSpam`: the token calls itself something that spam does. */
export type ShownBalance = Amount & { name: string; token: Hex | null; isSpam: boolean }

/** A collectible. */
export type ShownCollectible = { tokenType: 'ERC721' | 'ERC1155'; token: Hex; tokenId: bigint; count: bigint; name: string; symbol: string; isSpam: boolean } // prettier-ignore

/**
 * From which block on native currency is listed whole, and what contracts pay out of it; null: it is not. Before the first only what was sent
 * between accounts of this installation is listed.
 */
export type CoinCoverage = { from: number | null; internalFrom: number | null }

/** How native currency came or went, where it was not the value of a transaction. */
type CoinKind = 'FEE' | 'MINT' | 'INTERNAL' | 'WITHDRAWAL' | 'REWARD'

export type ShownTransfer = {
  direction: 'IN' | 'OUT' | 'SELF'
  amount: Amount
  /** of a collectible */
  tokenId: string | null
  /** a name, or an address */
  other: string
  at: Date
  explorerUrl: string
  coinKind?: CoinKind | undefined
  /** what the account paid for the transaction, where that stands with it */
  fee?: Amount | undefined
}

/** Native currency that moved, as the history has it: `from` or `to` is the address zero of fees and of what no account sent. */
export type NativeRecord = {
  kind: CoinKind | 'VALUE'
  direction: ShownTransfer['direction']
  amount: Amount
  from: string
  to: string
  at: Date
  blockNumber: number
  /** of the transaction; of a withdrawal or a reward, of the block */
  hash: string
  explorerUrl: string
  /** how many more of this block the amount stands for, too */
  omitted: number
}

/** What was sent from the account, by an application or by its owner. */
export type SentTransaction = {
  id: string
  clientId: string
  /** null where the application is gone */
  application: string | null
  state: keyof Texts['account']['states']
  /** what was called, by its name where the application said it; null for a mere payment */
  called: string | null
  to: string
  value: Amount
  /** null before it is mined */
  fee: Amount | null
  explorerUrl: string
  sentAt: Date
}

/** What a transaction sends, where it is a transfer. */
export type ShownMove = {
  /** null of a single collectible */
  amount: Amount | null
  /** what it is called: a symbol or a name */
  thing: string
  tokenId: bigint | null
  /** whose account it is, where it is one of this installation */
  to: { address: Hex; name: string | null }
}

export type ShownCall = {
  to: string
  /** null where the network is served no more */
  value: Amount | null
  /** whether it calls a contract, and the function's name or first bytes */
  called: string | null
}

/** One signature, whatever application asked for it. */
export type ShownSignature = {
  /** number of its record in the signer's log */
  record: number
  signedAt: Date
  chainId: number
  kind: 'send' | 'replace' | 'cancel' | 'operation' | 'authorization'
  /** one, but several of an operation, which are done together, and none of an authorization */
  calls: ShownCall[]
  /** code that may act for the account by this */
  delegate: string | null
  /** null of what has none */
  nonce: number | null
  hash: Hex
  explorerUrl: string | null
  /** JSON, as `verify-log --proof` takes it */
  proof: string
}

/** A transfer as the form says it, the texts not yet read; the words are those of `POST /v1/tokens/transfers`. */
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
  /** what is sent, as it calls itself */
  thing: { name: string; symbol: string }
  /** at most */
  fee: Amount
  /** who gets it: `address` is null while there is no account */
  recipient: { address: Hex | null; userId: UserId | null; name: string | null }
}

export type Sender = AccountOwner & { sessionUid: string }

export type AccountSending = {
  /** Everything but the signature. @throws what a transfer is refused with */
  rehearse(sender: Sender, chainId: number, order: TransferForm): Promise<Rehearsed>
  /** Once per key. @returns the id of the transaction */
  send(sender: Sender, chainId: number, order: TransferForm, key: string): Promise<string>
  /** What became of it, after a moment for the next block, and what it moves; null when nobody sent it. */
  look(
    owner: AccountOwner,
    chainId: number,
    id: string,
  ): Promise<{ sent: SentTransaction; move: ShownMove | null } | null>
}
