import type { App } from '../../app.ts'
import type { Block } from '../../chain/rpc/block.ts'
import type { Chain } from '../../chain/network.ts'
import type { BlockProof, Log, Ours, Receipt } from '../../follower/block.ts'
import type { Hex } from '../../ids.ts'
import { slot } from '../../state.ts'

/** A block whose transactions can be checked. */
export type Provable = Block & { prove(ours: Ours): Promise<ProvenBlock> }
type ProvenBlock = Pick<BlockProof, 'nonces' | 'doubt'> & { receipts: ReadonlyMap<Hex, MinedOutcome> }

/** How a transaction ended; `logs` are those of its proven receipt. */
export type MinedOutcome = Pick<Receipt, 'status' | 'gasUsed' | 'effectiveGasPrice'> & { logs?: readonly Log[] }

/** whether the operator was notified of a network that its blocks cannot be checked */
const doubted = slot('doubts that were reported', (_chain: Chain) => ({ isReported: false }))

/**
 * Checks what the node says of these transactions, for which it may be asked once more, and tells the operator once of a
 * network where that cannot be done.
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
