import { AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { ethCall, type EthCall, type CallResult } from './rpc/call.ts'
import { readBytes, readQuantity } from './rpc/answers.ts'
import { isCode } from './code.ts'
import { isForgottenState, isUnknownBlock } from './rpc/errors.ts'
import { InvalidResponse } from './rpc/failures.ts'
import { newestBlock } from './latest-block.ts'
import type { Block } from './rpc/block.ts'
import type { Chain } from './network.ts'
import { oldBlock } from './block-at.ts'
import { RpcError, type Rpc } from './rpc/rpc.ts'
import { answersAt, findKnown, newAnswers, remember, type BlockAnswers } from './shared-answers.ts'

/**
 * Reads pinned to one block by its hash, so that a node that lags returns an error, never old data. Equal reads at the
 * newest block share one request and its result until the next block. At older blocks, only reads of one request share.
 */
export type Reads = {
  block: Block
  call(request: EthCall): Promise<CallResult>
  balance(address: Hex): Promise<bigint>
  hasCode(address: Hex): Promise<boolean>
  /** Reads code, storage or the transaction count of an account, as 0x-hex. */
  state(method: StateMethod, params: Hex[]): Promise<Hex>
  /** whether any of the reads was already made at this block before */
  isRepeated(): boolean
}

export type StateMethod = 'eth_getCode' | 'eth_getStorageAt' | 'eth_getTransactionCount'

export type BlockTag = 'latest' | 'finalized' | number

const TRIES = 4

/**
 * Runs `work` at one block. If the node does not have the block, because it lags or the block was reorganised, runs the
 * work again. Its block is then the newest one, or the one that now has the number.
 * @throws invalid_request  if a numbered block does not exist
 * @throws chain_unsupported  if its state is no longer available
 */
export async function readAt<T>(chain: Chain, tag: BlockTag, work: (reads: Reads) => Promise<T>): Promise<T> {
  let lost: Hex | null = null
  for (let attempt = 1; ; attempt++) {
    try {
      if (tag !== 'latest') {
        const old = await oldBlockOf(chain, tag)
        return await work(readsAt(chain, old, newAnswers()))
      }
      // A single "unknown block" may come from a lagging node of several behind an address.
      const again = { maxAgeMs: 0, lost: attempt > 2 ? lost : null }
      const block: Block = await newestBlock(chain, attempt === 1 ? {} : again)
      lost = block.hash
      return await work(readsAt(chain, block, answersAt(chain.memory.reads, block.hash)))
    } catch (error) {
      // A node without a block's state reports the missing state or, in some implementations, an unknown block.
      const isGone = error instanceof RpcError && (isForgottenState(error) || (isLag(error) && attempt === TRIES))
      if (tag !== 'latest' && isGone)
        throw new AppError('chain_unsupported', 'The node no longer has the state of this block. Use a newer block.', {
          cause: error,
        })
      if (!isLag(error) || attempt === TRIES) throw error
      // Lag is short: wait a moment, then ask at the newest block.
      await chain.clock.sleep(25 * attempt)
    }
  }
}

class Lags extends InvalidResponse {}

async function oldBlockOf(chain: Chain, tag: 'finalized' | number): Promise<Block> {
  const block = await oldBlock(chain, tag)
  if (block === null) throw new Lags('the node lacks a block below the newest')
  return block
}

const isLag = (error: unknown): boolean => error instanceof Lags || (error instanceof RpcError && isUnknownBlock(error))

function readsAt({ rpc }: { rpc: Rpc }, block: Block, answers: BlockAnswers): Reads {
  const at = { blockHash: block.hash }
  let isRepeated = false
  const shared = <T>(key: string, ask: () => Promise<T>): Promise<T> => {
    const known = findKnown<T>(answers, key)
    if (known === undefined) return remember(answers, key, ask())
    isRepeated = true
    return known
  }
  return {
    block,
    isRepeated: () => isRepeated,
    call: (request) =>
      shared(`c${request.to}${request.from ?? ''}:${request.value ?? ''}:${request.gas ?? ''}:${request.data}`, () =>
        ethCall(rpc, { ...request, at }),
      ),
    balance: (address) =>
      shared(`b${address}`, async () =>
        readQuantity(await rpc.call('eth_getBalance', [address, at]), 'balance of an account'),
      ),
    hasCode: (address) => shared(`k${address}`, async () => isCode(await rpc.call('eth_getCode', [address, at]))),
    state: async (method, params) => {
      // Wrap the bytes in an object: the response cache counts its size.
      const { data } = await shared(`${method}${params.join()}`, async () => ({
        data: readBytes(await rpc.call(method, [...params, at]), method),
      }))
      return data
    },
  }
}
