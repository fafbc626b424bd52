import type { App } from '../app.ts'
import type { Block } from '../chain/rpc/block.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import type { Db } from '../store/db.ts'

/** A whole block: what every transaction did, in the order of the block. All hex is lower-case. */
export type FollowedBlock = Block & {
  receipts: (Receipt | Logged)[]
  /** what it says of native currency; left out by what makes blocks for tests of something else */
  native?: BlockNative
  /**
   * Before anything is decided upon some of its transactions: checks them as far as the network and the mode let it.
   * In `hash` nothing is left to be checked or asked; otherwise the node is asked for the block once more, whole, where
   * others' transactions are in it, and for the receipts where only logs are there.
   * @throws RpcError | RpcUnavailable | InvalidResponse
   */
  prove(ours: Ours): Promise<BlockProof>
}

/** What a block says of native currency beside its receipts. Amounts in wei, all hex lower-case. */
export type BlockNative = {
  /** who gets what is offered on top of the base fee; null where the node does not say */
  miner: Hex | null
  /** EIP-4895: what the consensus layer pays out */
  withdrawals: { address: Hex; value: bigint }[]
  /** by their place; null where the block came with hashes only */
  sent: SentNative[] | null
}

export type SentNative = {
  hash: Hex
  from: Hex
  to: Hex | null
  value: bigint
  /** wei per gas as mined, where it is said */
  gasPrice: bigint | null
  /** what an OP Stack deposit brings from the first layer, whatever becomes of its call */
  minted: bigint
}

/** Transactions of a block. */
export type Ours = {
  /** the bytes of what we signed, by their hash: by that it is known who sent them, which need not be recovered */
  signed: ReadonlyMap<Hex, Buffer>
  /** hashes of what the node says our accounts sent */
  claimed: readonly Hex[]
}

export type BlockProof = {
  /** of the transactions, by their hashes */
  nonces: ReadonlyMap<Hex, number>
  /** of ours at least, by their hashes: how they ended */
  receipts: ReadonlyMap<Hex, Receipt>
  /** null when all of the block agrees with its hash; otherwise why that cannot be said, for the operator */
  doubt: string | null
}

export type Receipt = {
  transactionHash: Hex
  from: Hex
  /** null when a contract was created */
  to: Hex | null
  /** false: reverted, and it has no logs */
  status: boolean
  gasUsed: number
  /** wei per gas */
  effectiveGasPrice: bigint
  /** wei that it paid beside gas and price, where it did: for blobs (EIP-4844), and to a roll-up's first layer */
  extraFeeWei?: bigint
  contractAddress: Hex | null
  logs: Log[]
}

/** What is known of a transaction without its receipt: who sent it, and what it logged. Whether it succeeded is not, unless it did. */
export type Logged = Pick<Receipt, 'transactionHash' | 'from' | 'logs'> & { status: null }

/** Places that logs have in a block. No block has as many: behind them the history places native currency. */
export const LOG_PLACES = 1_000_000_000

/** `logIndex` counts through the block, below LOG_PLACES. */
export type Log = { address: Hex; topics: Hex[]; data: Hex; logIndex: number }

/** A block as it is kept for who comes behind: what it was proven by is not. */
export type KeptBlock = Omit<FollowedBlock, 'prove'>

/**
 * What a slice does with the chain, a stream of three events. Each runs inside the database transaction that moves
 * the cursor, so its rows and the cursor change together or not at all: use only the `db` given. An error stops
 * the follower at this block until it passes.
 */
export type BlockListener = Leading | Trailing

/** At the follower's cursor: the next block waits for it. */
export type Leading = (EachBlock | ManyBlocks) &
  Reorganised & {
    isTrailing?: false
    /** Blocks up to this number can no longer be retracted (on a development chain that lost blocks they still are). */
    onFinalize(db: Db, app: App, chain: Chain, throughNumber: number): Promise<void>
  }

/** Behind the follower, at the history's cursor and in a transaction of its own: nobody waits for it. */
export type Trailing = Reorganised & {
  isTrailing: true
  /**
   * Before the transaction of `onBlocks`: asks a node for what else is to be stored of blocks.
   * @throws RpcError | RpcUnavailable  what went wrong with the first; then the blocks are tried again
   */
  gather?(app: App, chain: Chain, blocks: readonly KeptBlock[]): Promise<Gathered>
  /** The next blocks of the canonical chain, in order, which share a commit. */
  onBlocks(db: Db, app: App, chain: Chain, blocks: readonly KeptBlock[]): Promise<void>
}

export type Gathered = {
  /** How many of the blocks it is, from the first: those before the first that went wrong. At least one. */
  count: number
  /** what is done inside the transaction, behind `onBlocks` */
  store(db: Db): Promise<void>
}

type Reorganised = {
  /**
   * Blocks from this number on are no longer part of the chain. Others may follow in their place. In the transaction that moves
   * the follower's cursor back, and with it the history's where that is as far.
   */
  onRetract(db: Db, app: App, chain: Chain, fromNumber: number): Promise<void>
  /** After the commit, in the process that follows. Must return immediately and never throw. */
  afterCommit?(app: App, chain: Chain): void
}

type EachBlock = {
  /** The next block of the canonical chain. */
  onBlock(db: Db, app: App, chain: Chain, block: FollowedBlock): Promise<void>
}

type ManyBlocks = {
  /** The next blocks of the canonical chain, in order: one at its head, several that share a commit while catching up. */
  onBlocks(db: Db, app: App, chain: Chain, blocks: readonly FollowedBlock[]): Promise<void>
}
