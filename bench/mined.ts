import { setTimeout as wait } from 'node:timers/promises'
import { rpc } from '../src/devnet/rpc.ts'
import type { Hex } from '../src/ids.ts'

/** The chain's own word on which writes it holds, by their calldata: each was given a number of its own. */
export type Oracle = {
  /** how often each number was mined, in the blocks read so far */
  mined: Map<number, number>
  /** blocks in the order they were seen: when (performance.now, ms) and how many transactions they hold */
  blocks: { number: number; at: number; count: number }[]
  /** Reads the blocks that were seen so far. */
  read(): Promise<void>
  /** Reads blocks until all of these are mined, or nothing was for 15 s. @returns those that are not */
  settle(numbers: ReadonlySet<number>): Promise<number[]>
  stop(): Promise<void>
}

const QUIET_MS = 15_000

/**
 * While writes run only the transactions of each block are counted: a whole block of a thousand costs the node as much
 * as their execution. `settle` reads the blocks.
 * @param numberOf  the number in a transaction's calldata, or null when it is none of the benchmark's
 */
export async function watchChain(url: string, numberOf: (input: Hex) => number | null): Promise<Oracle> {
  const mined = new Map<number, number>()
  const blocks: Oracle['blocks'] = []
  let next = Number(await rpc<Hex>(url, 'eth_blockNumber')) + 1
  let unread = 0
  let isStopped = false
  const done = (async () => {
    while (!isStopped) {
      const newest = Number(await rpc<Hex>(url, 'eth_blockNumber'))
      for (; next <= newest; next++) {
        const at = performance.now()
        const count = Number(await rpc<Hex>(url, 'eth_getBlockTransactionCountByNumber', `0x${next.toString(16)}`))
        blocks.push({ number: next, at, count })
      }
      await wait(50)
    }
  })()

  async function readOn(): Promise<void> {
    for (; unread < blocks.length; unread++) {
      const { number, count } = blocks[unread]!
      if (count === 0) continue
      const block = await rpc<{ transactions: { input: Hex }[] }>(
        url,
        'eth_getBlockByNumber',
        `0x${number.toString(16)}`,
        true,
      )
      for (const { input } of block.transactions) {
        const found = numberOf(input)
        if (found !== null) mined.set(found, (mined.get(found) ?? 0) + 1)
      }
    }
  }

  return {
    mined,
    blocks,
    read: readOn,
    settle: async (numbers) => {
      let left = Number.POSITIVE_INFINITY
      for (let movedAt = performance.now(); ; await wait(100)) {
        await readOn()
        const missing = [...numbers].filter((number) => !mined.has(number))
        if (missing.length < left) movedAt = performance.now()
        left = missing.length
        if (left === 0 || performance.now() - movedAt > QUIET_MS) return missing
      }
    },
    stop: async () => {
      isStopped = true
      await done
    },
  }
}
