import type { App } from '../app.ts'
import type { Block } from '../chain/rpc/block.ts'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import type { Db } from '../store/db.ts'

/** A whole block with the results of its transactions, in order. All hex is lower-case. */
export type FollowedBlock = Block & {
  receipts: (Receipt | Logged)[]
  /** native currency in the block; omitted by tests that do not need it */
  native?: BlockNative
  /**
   * Verifies our transactions of the block, as far as the network and the mode allow, before any row is derived from
   * them.
   * In mode `hash`, the whole block has been verified already. Otherwise this fetches the whole block if it includes
   * others' transactions, and receipts if only logs were read.
   * @throws RpcError | RpcUnavailable | InvalidResponse
   */
  prove(ours: Ours): Promise<BlockProof>
}

/** Native currency in a block, without its receipts. Amounts in wei, all hex lower-case. */
export type BlockNative = {
  /** recipient of the priority fees; null if the node does not report it */
  miner: Hex | null
  /** EIP-4895: withdrawals of the consensus layer */
  withdrawals: { address: Hex; value: bigint }[]
  /** in block order; null if the block was received with transaction hashes only */
  sent: SentNative[] | null
}

export type SentNative = {
  hash: Hex
  from: Hex
  to: Hex | null
  value: bigint
  /** wei per gas as mined, if reported */
  gasPrice: bigint | null
  /** wei that an OP Stack deposit brings from the parent chain, even if its call fails */
  minted: bigint
}

/** Transactions of a block to verify. */
export type Ours = {
  /** signed bytes by transaction hash; the sender is known and need not be recovered */
  signed: ReadonlyMap<Hex, Buffer>
  /** hashes of transactions that our accounts sent, according to the node */
  claimed: readonly Hex[]
}

export type BlockProof = {
  /** nonces by transaction hash */
  nonces: ReadonlyMap<Hex, number>
  /** receipts by hash, at least of the requested transactions */
  receipts: ReadonlyMap<Hex, Receipt>
  /** null if the whole block matches its hash; otherwise why that cannot be verified, for the operator */
  doubt: string | null
}

export type Receipt = {
  transactionHash: Hex
  from: Hex
  /** recipient; null if the transaction created a contract */
  to: Hex | null
  /** false: reverted, without logs */
  status: boolean
  gasUsed: number
  /** wei per gas */
  effectiveGasPrice: bigint
  /** wei paid in addition to gas: for blobs (EIP-4844), or to a roll-up's parent chain */
  extraFeeWei?: bigint
  contractAddress: Hex | null
  logs: Log[]
}

/**
 * Transaction without its receipt: sender and logs. Logs prove that it succeeded; without logs its status is unknown.
 */
export type Logged = Pick<Receipt, 'transactionHash' | 'from' | 'logs'> & { status: null }

/**
 * Upper bound of log positions in a block, which no block reaches. The history uses higher positions for native
 * currency.
 */
export const LOG_PLACES = 1_000_000_000

/** `logIndex` counts through the block, below LOG_PLACES. */
export type Log = { address: Hex; topics: Hex[]; data: Hex; logIndex: number }

/** A block that waits for the history, without the data to verify it. */
export type KeptBlock = Omit<FollowedBlock, 'prove'>

/**
 * Handlers of a module for three events of the chain. Each handler runs inside the database transaction that moves the
 * cursor, so its rows and the cursor change together: use only the given `db`. If a handler throws, the follower stops
 * at this block and retries until it succeeds.
 */
export type BlockListener = Leading | Trailing

/** Runs at the follower's cursor: the next block waits for it. */
export type Leading = (EachBlock | ManyBlocks) &
  Reorganised & {
    isTrailing?: false
    /** Called when blocks up to this number are final. A development chain that lost blocks can still retract them. */
    onFinalize(db: Db, app: App, chain: Chain, throughNumber: number): Promise<void>
  }

/** Runs behind the follower, at the history's cursor and in its own transaction: the follower does not wait for it. */
export type Trailing = Reorganised & {
  isTrailing: true
  /**
   * Fetches further data to store from a node, before the transaction of `onBlocks`.
   * @throws RpcError | RpcUnavailable  the error of the first block; then the blocks are tried again
   */
  gather?(app: App, chain: Chain, blocks: readonly KeptBlock[]): Promise<Gathered>
  /** Handles the next blocks of the canonical chain, in order, in one commit. */
  onBlocks(db: Db, app: App, chain: Chain, blocks: readonly KeptBlock[]): Promise<void>
  /** Handles what was stored of the blocks after a number, up to the history's cursor, in the same commit. */
  onStored?(db: Db, chain: Chain, after: number): Promise<void>
}

export type Gathered = {
  /** number of blocks, from the first, whose data was fetched; at least one */
  count: number
  /** stores the data, inside the transaction and after `onBlocks` */
  store(db: Db): Promise<void>
}

type Reorganised = {
  /**
   * Undoes blocks from this number on, which are no longer part of the chain. Runs in the transaction that moves the
   * follower's cursor back, and the history's cursor if it had passed this number.
   */
  onRetract(db: Db, app: App, chain: Chain, fromNumber: number): Promise<void>
  /** Runs after the commit, in the process that follows. It must return immediately and never throw. */
  afterCommit?(app: App, chain: Chain): void
}

type EachBlock = {
  /** Handles the next block of the canonical chain. */
  onBlock(db: Db, app: App, chain: Chain, block: FollowedBlock): Promise<void>
}

type ManyBlocks = {
  /**
   * Handles the next blocks of the canonical chain, in order: one at the head, several per commit while catching up.
   */
  onBlocks(db: Db, app: App, chain: Chain, blocks: readonly FollowedBlock[]): Promise<void>
}
