/**
 * A node for `bench:backfill`, in a process of its own. It has no blocks: what it answers follows from the numbers that it is asked for.
 * Says its URL over the channel to its parent, and on `count` how many rows the accounts have.
 * Environment: BLOCKS, ACCOUNTS.
 */
import { TRANSFER_TOPIC } from '../src/abi/transfers.ts'
import { serveRpc } from '../test/nodes/rpc-server.ts'

const BLOCKS = Number(process.env.BLOCKS)
const ACCOUNTS = Number(process.env.ACCOUNTS)
const FIRST = 0x1000_0000
/** transfers that each account sends; every second one to another of ours */
const SENT = 7
const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, '0')
const hashOf = (number: number): string => `0x${hex(number + 1, 16).repeat(4)}`
const topicOf = (address: number): string => `0x${hex(address, 64)}`

type Move = { block: number; logIndex: number; from: number; to: number }

/** By sender and by recipient, each in the order of blocks. */
const [sent, received] = [new Map<number, Move[]>(), new Map<number, Move[]>()]
const put = (map: Map<number, Move[]>, key: number, move: Move) => {
  const some = map.get(key)
  if (some === undefined) map.set(key, [move])
  else some.push(move)
}
let rows = 0
const taken = new Map<number, number>()
for (let account = 0; account < ACCOUNTS; account++) {
  for (let index = 0; index < SENT; index++) {
    const block = 1 + ((account * 7_919 + index * 104_729 + account * index) % (BLOCKS - 1))
    const logIndex = taken.get(block) ?? 0
    taken.set(block, logIndex + 1)
    const isOurs = index % 2 === 0
    const to = isOurs ? (account + 1 + index) % ACCOUNTS : 0x7000_0000 + account
    const move = { block, logIndex, from: FIRST + account, to: isOurs ? FIRST + to : to }
    put(sent, move.from, move)
    put(received, move.to, move)
    rows += isOurs && move.to !== move.from ? 2 : 1
  }
}

const logOf = ({ block, logIndex, from, to }: Move) => ({
  address: `0x${hex(0x7000 + (block % 50), 40)}`,
  topics: [TRANSFER_TOPIC, topicOf(from), topicOf(to)],
  data: `0x${hex(1 + block, 64)}`,
  ...{ blockNumber: `0x${block.toString(16)}`, blockHash: hashOf(block), logIndex: `0x${logIndex.toString(16)}` },
  ...{ transactionHash: `0x${hex(block, 32)}${hex(logIndex, 32)}`, transactionIndex: '0x0', removed: false },
})

function logs({ fromBlock, toBlock, topics }: { fromBlock: string; toBlock: string; topics: unknown[] }): object[] {
  const [from, to] = [Number(fromBlock), Number(toBlock)]
  const [, senders, recipients] = topics as [unknown, string[] | null, string[] | null | undefined]
  const map = Array.isArray(senders) ? sent : received
  const asked = Array.isArray(senders) ? senders : (recipients ?? [])
  // The third filter is about ERC-1155, of which there is none.
  if (topics.length > 3) return []
  return asked
    .flatMap((topic) => map.get(Number(topic)) ?? [])
    .filter(({ block }) => block >= from && block <= to)
    .map(logOf)
}

function answer(method: string, [first]: unknown[]): string {
  if (method === 'eth_getLogs') return JSON.stringify(logs(first as never))
  if (method === 'eth_getBlockByNumber') {
    const number = Number(first)
    const header = { number: first, hash: hashOf(number), parentHash: hashOf(number - 1), timestamp: `0x${(1_500_000_000 + number * 12).toString(16)}` } // prettier-ignore
    return JSON.stringify({ ...header, baseFeePerGas: '0x7' })
  }
  // Tokens are asked what they are called: nothing.
  return '"0x"'
}

const { url } = await serveRpc({ answer: ({ method, params }) => answer(method, params) })
process.send!({ url })
process.on('message', () => process.send!({ rows }))
process.on('disconnect', () => process.exit())
