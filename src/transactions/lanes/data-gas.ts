import type { Chain } from '../../chain/network.ts'
import { isAbsent, readObject, readQuantity } from '../../chain/rpc/answers.ts'
import { InvalidResponse } from '../../chain/rpc/failures.ts'
import { RpcError } from '../../chain/rpc/rpc.ts'
import type { Hex } from '../../ids.ts'
import { keccak } from '../../keccak.ts'
import { slot } from '../../state.ts'
import { toHex } from '../../hex.ts'
import { readGas } from './limits.ts'
import { OTHER, SOMEONE } from '../nobody.ts'
import { BYTE, bytesOf } from './operation-gas.ts'
import type { Operation } from '../operation.ts'

/** milliseconds for which the gas per byte is current; an older value is used while it is refreshed */
const BELIEVED_MS = 60_000
/** gas units of one transaction with operations: EIP-7825 caps transactions at 2^24 */
const MAX_PACKED_GAS = 12_000_000n
/** bytes of a transaction per operation in addition to its calls: signature, authorization, dispatcher arguments */
const AROUND = 400
const BYTES = 512
/** gas units of a plain transaction on Ethereum */
const TRANSACTION = 21_000n
/** Sample of incompressible bytes, for estimates. */
const DATA: Hex = toHex(
  Buffer.concat(Array.from({ length: BYTES / 32 }, (_, index) => keccak(Buffer.from(`data ${index}`)))),
)

/**
 * Highest share of a block's gas for one transaction: one that fills a whole block would have to wait for an empty one.
 */
const SHARE_OF_BLOCK = { of: 9n, in: 10n }

type Learned = {
  perByte: bigint
  /** gas limit of a block, gas units; null if the node does not report it */
  blockGas: bigint | null
}

const known = slot('gas that a network takes for data, and in a block', (_chain: Chain) => ({
  learned: null as Learned | null,
  asked: null as Promise<Learned> | null,
  at: Number.NEGATIVE_INFINITY,
}))

/**
 * Returns the gas units that a network charges for an operation's bytes beyond Ethereum's own charge. Roll-ups such as
 * Arbitrum bill the parent chain's cost as gas. The value is refreshed once a minute; only the first call waits for it.
 * @throws RpcUnavailable
 */
export async function dataGas(chain: Chain, operation: Pick<Operation, 'calls'>): Promise<bigint> {
  const { perByte } = await learn(chain)
  return perByte * bytesFor(operation)
}

async function learn(chain: Chain): Promise<Learned> {
  const state = known.of(chain)
  if (state.asked === null && chain.clock.ticks() - state.at > BELIEVED_MS) {
    state.asked = ask(chain)
      .then((learned) => {
        Object.assign(state, { learned, at: chain.clock.ticks() })
        return learned
      })
      .finally(() => {
        state.asked = null
      })
    state.asked.catch(() => {})
  }
  return state.learned ?? state.asked!
}

/** Returns the gas units of `dataGas` as last learned, without asking a node; 0 if unknown. */
export const knownDataGas = (chain: Chain, operation: Pick<Operation, 'calls'>): bigint =>
  (known.of(chain).learned?.perByte ?? 0n) * bytesFor(operation)

/** Returns the highest gas limit of a transaction with operations, given the block gas limit as far as known. */
export function mostPackedGas(chain: Chain): bigint {
  const blockGas = known.of(chain).learned?.blockGas ?? null
  const most = blockGas === null ? MAX_PACKED_GAS : (blockGas * SHARE_OF_BLOCK.of) / SHARE_OF_BLOCK.in
  return most < MAX_PACKED_GAS ? most : MAX_PACKED_GAS
}

const bytesFor = (operation: Pick<Operation, 'calls'>): bigint => BigInt(bytesOf(operation) + AROUND)

async function ask(chain: Chain): Promise<Learned> {
  const [perByte, blockGas] = await Promise.all([askPerByte(chain), askBlockGas(chain)])
  return { perByte, blockGas }
}

async function askBlockGas({ rpc }: Chain): Promise<bigint | null> {
  try {
    const block = readObject(await rpc.call('eth_getBlockByNumber', ['latest', false]), 'a block')
    return isAbsent(block.gasLimit) ? null : readQuantity(block.gasLimit, 'gas limit of a block')
  } catch (error) {
    if (error instanceof RpcError || error instanceof InvalidResponse) return null
    throw error
  }
}

async function askPerByte(chain: Chain): Promise<bigint> {
  const { rpc } = chain
  try {
    const taken = readGas(await rpc.call('eth_estimateGas', [{ from: OTHER, to: SOMEONE, data: DATA }, 'latest']))
    const more = taken - TRANSACTION - BYTE * BigInt(BYTES)
    return more <= 0n ? 0n : (more + BigInt(BYTES) - 1n) / BigInt(BYTES)
  } catch (error) {
    // The node responds but does not estimate. This is no loss: each transaction's gas is estimated before it is sent.
    if (error instanceof RpcError) return known.of(chain).learned?.perByte ?? 0n
    throw error
  }
}
