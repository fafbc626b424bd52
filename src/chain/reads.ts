import { AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { readHeader } from './answers.ts'
import { ethCall, isUnknownBlock, type CallResult } from './call.ts'
import { newestBlock } from './fresh.ts'
import type { Block } from './head.ts'
import type { Chain } from './network.ts'
import { RpcError, RpcUnavailable, type Rpc } from './rpc.ts'

/**
 * Reads pinned to one block by its hash: a node that lags answers an error, never old data. Equal reads at the
 * newest block share one request and its answer until the next block.
 */
export type Reads = {
  block: Block
  call(request: { to: Hex; data: Hex; from?: Hex; gas?: number }): Promise<CallResult>
  balance(address: Hex): Promise<bigint>
  hasCode(address: Hex): Promise<boolean>
}

export type BlockTag = 'latest' | 'finalized' | number

const MAX_ENTRIES = 50_000
const MAX_CHARACTERS = 64_000_000
const TRIES = 4

type Generation = { hash: Hex; answers: Map<string, Promise<unknown>>; characters: number }
const generations = new WeakMap<Chain, Generation>()

/**
 * Runs `work` at one block. When the node does not know the block (it lags, or the block was reorganised away),
 * the work runs again at the block that is then the newest.
 * @throws invalid_request when a numbered block does not exist, chain_unsupported when its state is gone
 */
export async function readAt<T>(chain: Chain, tag: BlockTag, work: (reads: Reads) => Promise<T>): Promise<T> {
  if (tag !== 'latest') return readAtOld(chain, tag, work)
  for (let attempt = 1; ; attempt++) {
    const block = await newestBlock(chain, attempt === 1 ? undefined : 0)
    try {
      return await work(readsAt(chain, block, generationOf(chain, block.hash)))
    } catch (error) {
      if (!(error instanceof RpcError && isUnknownBlock(error)) || attempt === TRIES) throw error
      // Lag is short: the node is given a moment, then asked at what is newest by then.
      await new Promise((resolve) => setTimeout(resolve, 25 * attempt))
    }
  }
}

async function readAtOld<T>(chain: Chain, tag: 'finalized' | number, work: (reads: Reads) => Promise<T>): Promise<T> {
  const raw = await chain.rpc
    .call('eth_getBlockByNumber', [typeof tag === 'number' ? `0x${tag.toString(16)}` : tag, false])
    .catch((error: unknown) => {
      if (error instanceof RpcError && isUnknownBlock(error)) return null
      throw error
    })
  if (raw === null)
    throw new AppError('invalid_request', 'The chain has no such block yet.', {
      errors: [{ pointer: '/blockTag', code: 'unknown_block', detail: 'The chain has no such block yet.' }],
    })
  try {
    return await work(readsAt(chain, readHeader(raw), null))
  } catch (error) {
    if (error instanceof RpcError && isUnknownBlock(error))
      throw new AppError('chain_unsupported', 'The node no longer has the state of that block.', { cause: error })
    throw error
  }
}

function generationOf(chain: Chain, hash: Hex): Generation {
  let generation = generations.get(chain)
  if (generation?.hash !== hash) {
    generation = { hash, answers: new Map(), characters: 0 }
    generations.set(chain, generation)
  }
  return generation
}

function readsAt({ rpc }: { rpc: Rpc }, block: Block, generation: Generation | null): Reads {
  const at = { blockHash: block.hash }
  const shared = <T>(key: string, ask: () => Promise<T>): Promise<T> =>
    generation === null ? ask() : share(generation, key, ask)
  return {
    block,
    call: (request) =>
      shared(`c${request.to}${request.from ?? ''}:${request.gas ?? ''}:${request.data}`, () =>
        ethCall(rpc, { ...request, at }),
      ),
    balance: (address) =>
      shared(`b${address}`, async () => readQuantity(await rpc.call('eth_getBalance', [address, at]))),
    hasCode: (address) =>
      shared(`k${address}`, async () => /^0x./.test(String(await rpc.call('eth_getCode', [address, at])))),
  }
}

/** One request for all who want the same. A failure is not kept. A full generation keeps no more. */
function share<T>(generation: Generation, key: string, ask: () => Promise<T>): Promise<T> {
  const known = generation.answers.get(key)
  if (known !== undefined) return known as Promise<T>
  const answer = ask()
  generation.answers.set(key, answer)
  answer.then(
    (value) => {
      generation.characters += key.length + (isCallData(value) ? value.data.length : 100)
      if (generation.characters > MAX_CHARACTERS || generation.answers.size > MAX_ENTRIES)
        generation.answers.delete(key)
    },
    () => generation.answers.delete(key),
  )
  return answer
}

const isCallData = (value: unknown): value is { data: Hex } =>
  typeof value === 'object' && value !== null && 'data' in value

function readQuantity(answer: unknown): bigint {
  if (typeof answer !== 'string' || !/^0x[0-9a-f]{1,64}$/i.test(answer))
    throw new RpcUnavailable('the node answered a balance with something else than a number', { timedOut: false })
  return BigInt(answer)
}
