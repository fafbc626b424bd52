/**
 * A node for `bench:lanes`, in a process of its own: takes whatever it is sent, and answers every request after
 * DELAY_MS. Says its URL over the channel to its parent and, asked there, when what it was sent had come.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { keccak } from '../src/keccak.ts'
import { serveRpc } from '../test/nodes/rpc-server.ts'

const DELAY_MS = Number(process.env.DELAY_MS)
const GWEI = 1_000_000_000n

/** when each transaction came first, milliseconds since 1970 */
let came = new Map<string, number>()
let requests = 0
/** addresses that have nothing */
let poor = new Set<string>()

function answer(method: string, params: unknown[]): string {
  const [first] = params as [string]
  if (method === 'eth_getBalance') return poor.has(first) ? '0x0' : `0x${(10n ** 18n).toString(16)}`
  if (method === 'eth_maxPriorityFeePerGas') return `0x${GWEI.toString(16)}`
  if (method === 'eth_estimateGas') return '0x5208'
  if (method !== 'eth_sendRawTransaction') throw new Error(`the node was asked ${method}`)
  const hash = `0x${keccak(Buffer.from(first.slice(2), 'hex')).toString('hex')}`
  if (!came.has(hash)) came.set(hash, Date.now())
  return hash
}

const { url } = await serveRpc({
  answer: ({ method, params }) => ({ result: answer(method, params) }),
  async interfere() {
    requests++
    await wait(DELAY_MS)
    return false
  },
})
process.send!({ url })

process.on('message', (message: { poor?: string[] }) => {
  if (message.poor !== undefined) {
    poor = new Set(message.poor)
    process.send!({ ok: true })
    return
  }
  process.send!({ came: [...came.values()], requests })
  came = new Map()
  requests = 0
})
process.on('disconnect', () => process.exit(0))
