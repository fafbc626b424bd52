/**
 * A node for `bench:history`, in a process of its own: a chain of blocks with token transfers, every answer made
 * before the first question. Says its URL over the channel to its parent.
 * Environment: BLOCKS, TRANSFERS of a block, PER_TRANSACTION transfers of a transaction, PARTIES who transfer; TRACES: with traces of four frames for
 * each transaction, which then runs code. Asked for `counts`, says calls and bytes since it was asked last.
 */
import { bloomOf } from '../src/follower/bloom.ts'
import { serveRpc } from '../test/nodes/rpc-server.ts'
import { addressOf, scriptedChain } from '../test/nodes/scripted-chain.ts'
import { signerAt } from '../test/scripted-transactions.ts'
import { randomOf } from '../test/random.ts'

const BLOCKS = Number(process.env.BLOCKS)
const PER_TRANSACTION = Number(process.env.PER_TRANSACTION)
const TRANSACTIONS = Math.ceil(Number(process.env.TRANSFERS) / PER_TRANSACTION)
const PARTIES = Number(process.env.PARTIES)

const HAS_TRACES = process.env.TRACES !== undefined

const random = randomOf(7)
const script = scriptedChain()
const senders = Array.from({ length: 100 }, (_, index) => signerAt(index))
const party = () => addressOf(0x1000_0000 + random(PARTIES))
const answers = new Map<string, string>()
const logLists: string[] = ['']

for (let number = 0; number <= BLOCKS; number++) {
  if (number > 0) {
    const transactions = Array.from({ length: TRANSACTIONS }, () => ({
      // A transaction of one of our accounts that we did not send would have to be asked for: there are none in life.
      from: senders[random(senders.length)]!,
      ...(HAS_TRACES ? { gasUsed: 60_000 } : {}),
      transfers: Array.from({ length: PER_TRANSACTION }, () => ({
        ...{ type: 'ERC20' as const, token: addressOf(0x7000 + random(50)), from: party(), to: party() },
        items: [{ id: null, value: BigInt(random(1_000_000_000)) * 10n ** 12n }],
      })),
    }))
    script.mine(...transactions)
  }
  const { hash } = script.blocks[number]!
  const place = { blockHash: hash, blockNumber: `0x${number.toString(16)}`, removed: false }
  const receipts = script.respond('eth_getBlockReceipts', [hash]) as Receipt[]
  const whole = receipts.map((receipt, index) => ({
    ...{ ...receipt, ...place, logsBloom: `0x${bloomOf(receipt.logs).toString('hex')}` },
    transactionIndex: `0x${index.toString(16)}`,
    logs: receipt.logs.map((log) => ({
      ...log,
      ...place,
      transactionHash: receipt.transactionHash,
      transactionIndex: `0x${index.toString(16)}`,
    })),
  }))
  answers.set(`receipts ${hash}`, JSON.stringify(whole))
  if (HAS_TRACES) answers.set(`traces ${hash}`, JSON.stringify(script.blocks[number]!.transactions.map(traceOf)))
  logLists[number] = JSON.stringify(whole.flatMap(({ logs }) => logs)).slice(1, -1)
  for (const isWhole of [false, true])
    answers.set(`block ${isWhole} ${hash}`, JSON.stringify(script.respond('eth_getBlockByHash', [hash, isWhole])))
  answers.set(`number ${number}`, JSON.stringify(script.respond('eth_getBlockByNumber', [number, false])))
}
/** As geth gives them, of a transaction that calls a contract, which calls three. */
function traceOf({ hash, from }: { hash: string; from: string }) {
  const [gas, gasUsed, input, output] = [
    '0x186a0',
    '0xea60',
    `0x${'a9059cbb'.padEnd(136, '1')}`,
    `0x${'1'.padStart(64, '0')}`,
  ]
  const frame = (to: number, value: string) => ({ from: addressOf(0xc0), gas, gasUsed, to: addressOf(to), input, output, value, type: 'CALL' }) // prettier-ignore
  const calls = [frame(0xd0, '0x1'), frame(0xd1, '0x0'), frame(0xd2, '0x2')]
  return { txHash: hash, result: { ...frame(0xc0, '0x3'), from, calls } }
}
type Receipt = { transactionHash: string; logs: Parameters<typeof bloomOf>[0] extends Iterable<infer L> ? L[] : never }

function answer(method: string, params: unknown[]): string {
  const [first] = params
  if (method === 'eth_getBlockReceipts') return answers.get(`receipts ${first as string}`)!
  if (method === 'eth_getBlockByHash') return answers.get(`block ${params[1] === true} ${first as string}`)!
  if (method === 'eth_getBlockByNumber') return answers.get(`number ${first === 'latest' ? BLOCKS : first === 'finalized' ? Math.max(0, BLOCKS - 64) : Number(first)}`)! // prettier-ignore
  if (HAS_TRACES && method === 'debug_traceBlockByHash') return answers.get(`traces ${first as string}`)!
  if (method === 'eth_getLogs') {
    const { fromBlock, toBlock } = first as { fromBlock: string; toBlock: string }
    return `[${logLists.slice(Number(fromBlock), Number(toBlock) + 1).filter((list) => list !== '').join()}]` // prettier-ignore
  }
  return '"0x"'
}

const counts = { calls: 0, bytes: 0 }
const { url } = await serveRpc({
  answer: ({ method, params }) => {
    const told = answer(method, params)
    counts.calls++
    counts.bytes += told.length
    return told
  },
})
process.on('message', () => {
  process.send!({ ...counts })
  Object.assign(counts, { calls: 0, bytes: 0 })
})
const bytes = [...answers.values()].reduce((sum, one) => sum + one.length, 0)
process.send!({ url, bytes })
process.on('disconnect', () => process.exit())
