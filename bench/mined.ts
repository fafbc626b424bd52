import { setTimeout as wait } from 'node:timers/promises'
import { rpc } from '../src/devnet/rpc.ts'
import type { Hex } from '../src/ids.ts'

/** The chain's own word on which writes it holds, by their calldata: each was given a number of its own. */
export type Oracle = {
  /** how often each number was mined so far */
  mined: Map<number, number>
  /** blocks in the order they were seen: when (performance.now, ms) and how many numbered writes they hold */
  blocks: { at: number; count: number }[]
  /** Waits until all of these are mined, or nothing was for 15 s. @returns those that are not */
  settle(numbers: ReadonlySet<number>): Promise<number[]>
  stop(): Promise<void>
}

const QUIET_MS = 15_000

/** @param numberOf  the number in a transaction's calldata, or null when it is none of the benchmark's */
export function watchChain(url: string, numberOf: (input: Hex) => number | null): Oracle {
  const mined = new Map<number, number>()
  const blocks: Oracle['blocks'] = []
  let next: number | null = null
  let isStopped = false
  const done = (async () => {
    while (!isStopped) {
      const newest = Number(await rpc<Hex>(url, 'eth_blockNumber'))
      next ??= newest + 1
      for (; next <= newest; next++) {
        const at = performance.now()
        const block = await rpc<{ transactions: { input: Hex }[] }>(
          url,
          'eth_getBlockByNumber',
          `0x${next.toString(16)}`,
          true,
        )
        let count = 0
        for (const { input } of block.transactions) {
          const number = numberOf(input)
          if (number === null) continue
          mined.set(number, (mined.get(number) ?? 0) + 1)
          count++
        }
        blocks.push({ at, count })
      }
      await wait(100)
    }
  })()
  return {
    mined,
    blocks,
    settle: async (numbers) => {
      const missing = () => [...numbers].filter((number) => !mined.has(number))
      let [left, movedAt] = [missing(), performance.now()]
      while (left.length > 0 && performance.now() - movedAt < QUIET_MS) {
        await wait(100)
        const now = missing()
        if (now.length < left.length) movedAt = performance.now()
        left = now
      }
      return left
    },
    stop: async () => {
      isStopped = true
      await done
    },
  }
}
