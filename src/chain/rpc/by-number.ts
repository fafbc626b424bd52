import { BoundedMap } from '../../bounded-map.ts'
import { quantityOf, type Hex } from '../../ids.ts'
import { readHeader } from './answers.ts'
import { RpcError, RpcUnavailable } from './failures.ts'
import type { AskNode, Call } from './json-rpc.ts'

/** blocks whose number is remembered */
const MAX_REMEMBERED = 1_000
/** Methods whose block parameter may be a hash by EIP-1898. */
const PINNED = /^eth_(call|getBalance|getCode|getTransactionCount|getStorageAt)$/

/**
 * Pins reads to a block's hash on nodes that accept only numbers (without EIP-1898: ganache 7, EthereumJS). In one
 * request to one node, the block of that number is requested before and after the reads.
 * The results count only if the block has the wanted hash both times. Otherwise the block counts as unknown, as a node
 * with EIP-1898 would report it, and the read is repeated.
 * @param source.askOneNode  sends a batch whose results have to be consistent
 * @param isNeeded  whether any node of the network accepts only numbers
 */
export function pinnedByNumber(
  source: { ask: AskNode; askOneNode: AskNode },
  isNeeded: () => boolean,
): { ask: AskNode; askOneNode: AskNode } {
  const numbers = new BoundedMap<Hex, number>(MAX_REMEMBERED)

  async function learn(hashes: Hex[], options: { timeoutMs: number }): Promise<void> {
    const answers = await source.askOneNode(
      hashes.map((hash) => ({ method: 'eth_getBlockByHash', params: [hash, false] })),
      options,
    )
    for (const [index, answer] of answers.entries()) {
      if (answer instanceof RpcUnavailable) throw answer
      if (answer === null || answer instanceof RpcError) continue
      const { hash, number } = readHeader(answer)
      if (hash !== hashes[index]) continue
      numbers.set(hash, number)
    }
  }

  async function askPinned(calls: readonly Call[], options: { timeoutMs: number }): Promise<unknown[]> {
    const hashes = [...new Set(calls.flatMap((call) => pinOf(call) ?? []))]
    const unknown = hashes.filter((hash) => !numbers.has(hash))
    if (unknown.length > 0) await learn(unknown, options)
    const known = hashes.filter((hash) => numbers.has(hash))
    const checks = known.map((hash) => ({
      method: 'eth_getBlockByNumber',
      params: [quantityOf(numbers.get(hash)!), false],
    }))
    const isAsked = calls.map((call) => {
      const hash = pinOf(call)
      return hash === null || numbers.has(hash)
    })
    const reads = calls.filter((_, index) => isAsked[index]).map((call) => atNumber(call, numbers))
    const answers = await source.askOneNode([...checks, ...reads, ...checks], options)
    const [before, after] = [answers.slice(0, known.length), answers.slice(known.length + reads.length)]
    const canonical = new Set(
      known.filter((hash, index) => isBlock(before[index], hash) && isBlock(after[index], hash)),
    )
    let next = known.length
    return calls.map((call, index) => {
      const answer = isAsked[index] === true ? answers[next++] : null
      const hash = pinOf(call)
      return hash === null || canonical.has(hash) ? answer : new RpcError(-32001, 'unknown block', undefined)
    })
  }

  const wrap =
    (ask: AskNode): AskNode =>
    (calls, options) =>
      isNeeded() && calls.some((call) => pinOf(call) !== null) ? askPinned(calls, options) : ask(calls, options)
  return { ask: wrap(source.ask), askOneNode: wrap(source.askOneNode) }
}

/** Returns the hash of the block that a call is pinned to. */
function pinOf({ method, params }: Call): Hex | null {
  if (!PINNED.test(method)) return null
  for (const param of params)
    if (typeof param === 'object' && param !== null && 'blockHash' in param) return param.blockHash as Hex
  return null
}

const atNumber = (call: Call, numbers: ReadonlyMap<Hex, number>): Call => {
  const hash = pinOf(call)
  if (hash === null) return call
  const isPin = (param: unknown) => typeof param === 'object' && param !== null && 'blockHash' in param
  return { ...call, params: call.params.map((param) => (isPin(param) ? quantityOf(numbers.get(hash)!) : param)) }
}

const isBlock = (answer: unknown, hash: Hex): boolean =>
  typeof answer === 'object' && answer !== null && (answer as { hash?: unknown }).hash === hash
