import type { Chain } from '../../chain/network.ts'
import type { Hex } from '../../ids.ts'
import { slot } from '../../state.ts'

/** transactions sent together; as many as `chain/rpc/batch.ts` puts into one JSON-RPC batch */
const MAX_TOGETHER = 50

type PendingBroadcast = { from: Hex; raw: Hex; resolve: (answer: unknown) => void; reject: (error: unknown) => void }
type Queue = {
  waiting: PendingBroadcast[]
  /** accounts with transactions in flight */ busy: Set<Hex>
  isScheduled: boolean
}

const queues = slot('bytes on their way to a node', (_chain: Chain): Queue => ({
  waiting: [],
  busy: new Set(),
  isScheduled: false,
}))

/**
 * Sends signed bytes to a node, for each account in the order of the calls. A node may reject a nonce that arrives
 * before a lower one, or set it aside.
 * One batch includes several transactions of an account. Later ones wait until that batch is done; other accounts do
 * not wait.
 * @returns the node's response, not validated: a correct node returns the hash of these bytes
 * @throws the node's error for these bytes, RpcError | RpcUnavailable
 */
export function sendInTurn(chain: Chain, { from, raw }: { from: Hex; raw: Hex }): Promise<unknown> {
  const queue = queues.of(chain)
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  queue.waiting.push({ from, raw, resolve, reject })
  if (!queue.isScheduled) {
    queue.isScheduled = true
    setImmediate(() => start(chain, queue))
  }
  return promise
}

function start(chain: Chain, queue: Queue): void {
  queue.isScheduled = false
  for (;;) {
    const wave: PendingBroadcast[] = []
    const later: PendingBroadcast[] = []
    for (const one of queue.waiting) (wave.length < MAX_TOGETHER && !queue.busy.has(one.from) ? wave : later).push(one)
    queue.waiting = later
    if (wave.length === 0) return
    void send(chain, queue, wave)
  }
}

async function send(chain: Chain, queue: Queue, wave: PendingBroadcast[]): Promise<void> {
  for (const { from } of wave) queue.busy.add(from)
  await Promise.all(
    wave.map(({ raw, resolve, reject }) => chain.rpc.call('eth_sendRawTransaction', [raw]).then(resolve, reject)),
  )
  for (const { from } of wave) queue.busy.delete(from)
  if (queue.waiting.length > 0 && !queue.isScheduled) start(chain, queue)
}
