import type { App } from '../../app.ts'
import type { Block } from '../../chain/rpc/block.ts'
import type { Chain } from '../../chain/network.ts'
import type { BlockProof, Log, Ours, Receipt } from '../../follower/block.ts'
import type { Hex } from '../../ids.ts'
import { slot } from '../../state.ts'

/** A block whose transactions can be verified. */
export type Provable = Block & { prove(ours: Ours): Promise<ProvenBlock> }
type ProvenBlock = Pick<BlockProof, 'nonces' | 'doubt'> & { receipts: ReadonlyMap<Hex, MinedOutcome> }

/** Outcome of a transaction; `logs` are those of its verified receipt. */
export type MinedOutcome = Pick<Receipt, 'status' | 'gasUsed' | 'effectiveGasPrice'> & { logs?: readonly Log[] }

/** whether the log already reports that the network's blocks cannot be verified */
const doubted = slot('doubts that were reported', (_chain: Chain) => ({ isReported: false }))

/**
 * Verifies the node's receipts of these transactions, with one more request if needed. Logs once per network if its
 * blocks cannot be verified.
 * @returns their nonces and receipts
 * @throws RpcError | RpcUnavailable | InvalidResponse
 */
export async function prove(app: App, chain: Chain, block: Provable, ours: Ours): Promise<Omit<ProvenBlock, 'doubt'>> {
  if (ours.signed.size + ours.claimed.length === 0) return { nonces: new Map(), receipts: new Map() }
  const { nonces, receipts, doubt } = await block.prove(ours)
  if (doubt !== null && !doubted.of(chain).isReported) {
    doubted.of(chain).isReported = true
    app.telemetry.log.warn('transactions_not_proven', { chainId: chain.chainId, block: block.number, reason: doubt })
  }
  return { nonces, receipts }
}
