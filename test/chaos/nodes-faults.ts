import type { Hex } from '../../src/ids.ts'
import type { Answer, Asked } from '../kit/chain.ts'
import type { Profile } from './nodes-profiles.ts'
import { refused, said, type ProfiledNode } from '../nodes/proxy.ts'

/** What happens to a node for a while. */
export type Fault = {
  name: string
  /** milliseconds that it lasts; default 600 */
  ms?: number
  /** why it cannot happen to such a node, or null */
  not?: (profile: Profile) => string | null
  start: (node: ProfiledNode, roll: () => number) => unknown
  /** what takes it away beside clearing what was set on the node */
  stop?: (node: ProfiledNode) => unknown
  /** codes that answers may have beside those of a node that fails */
  allows?: readonly string[]
  /** the follower stops below finality, says so, and goes on by the command */
  halts?: boolean
}

type Json = Record<string, unknown>
const hex = (value: number): Hex => `0x${value.toString(16)}`
const isSend = ({ method }: Asked): boolean => method === 'eth_sendRawTransaction'
const isBlock = ({ method }: Asked): boolean => /^eth_getBlockBy/.test(method)
const isReceipts = ({ method }: Asked): boolean => /Receipts?$/.test(method)
const TAGS = new Set<unknown>(['latest', 'pending'])

const notFinal = ({ finalized }: Profile): string | null =>
  finalized === 0 ? 'instant finality is not reorganised' : null
const needsProof = ({ isEthereum }: Profile): string | null =>
  isEthereum ? null : 'blocks do not hash as on Ethereum: one node is trusted (decision 11)'

/** Every request, by its number: a share of them meets the trouble. */
const everyOther = (nth: number): boolean => nth % 2 === 0

/** What a node that is so many blocks behind answers. */
async function behind(
  node: ProfiledNode,
  depth: number,
  call: Asked,
  next: (call: Asked) => Promise<Answer>,
): Promise<Answer> {
  const { method, params } = call
  const head = Math.max(0, node.head() - depth)
  const { unknownBlock } = node.profile.texts
  if (method === 'eth_blockNumber') return said(call, hex(head))
  if (isSend(call)) return next(call)
  if (method === 'eth_estimateGas') return next({ ...call, params: [params[0], hex(head)] })
  if (isBlock(call) || method === 'eth_getBlockReceipts') {
    const [at] = params
    if (TAGS.has(at)) return next({ ...call, params: [hex(head), ...params.slice(1)] })
    if (at === 'finalized') {
      const { finalized } = node.profile
      return finalized === null
        ? next(call)
        : next({ ...call, params: [hex(Math.max(0, head - finalized)), params[1]] })
    }
    const number = String(at).length === 66 ? node.numberOf(String(at)) : Number(at)
    return number !== null && number > head ? said(call, null) : next(call)
  }
  if (method === 'eth_getTransactionReceipt') {
    const answer = await next(call)
    const { blockNumber } = (answer.result ?? {}) as { blockNumber?: Hex }
    return blockNumber !== undefined && Number(blockNumber) > head ? said(call, null) : answer
  }
  if (params.some((param) => TAGS.has(param)))
    return next({ ...call, params: params.map((param) => (TAGS.has(param) ? hex(head) : param)) })
  for (const param of params) {
    if (typeof param !== 'object' || param === null || !('blockHash' in param)) continue
    const number = node.numberOf(String(param.blockHash))
    if (number !== null && number > head) return refused(call, unknownBlock)
  }
  return next(call)
}

/** A member that still has the branch that was reorganised away. */
async function onOldBranch(node: ProfiledNode, call: Asked, next: (call: Asked) => Promise<Answer>): Promise<Answer> {
  const [at] = call.params
  const newest = node.orphans.at(-1)
  if (newest === undefined || isSend(call)) return next(call)
  if (call.method === 'eth_blockNumber') return said(call, hex(newest.number))
  if (!isBlock(call)) return next(call)
  const wanted = TAGS.has(at)
    ? newest
    : node.orphans.find(({ hash, number }) => hash === at || (String(at).length < 66 && number === Number(at)))
  if (wanted === undefined) return next(call)
  const whole = call.params[1] === true
  const transactions = wanted.block.transactions as Json[]
  return said(call, { ...wanted.block, transactions: whole ? transactions : transactions.map(({ hash }) => hash) })
}

/** A method's answers are changed. */
const changed =
  (pattern: RegExp, change: (result: unknown, node: ProfiledNode) => unknown) =>
  (node: ProfiledNode): void => {
    node.onCall = async (call, next) => {
      const answer = await next(call)
      if (!pattern.test(call.method) || answer.error !== undefined || answer.result === null) return answer
      return said(call, change(structuredClone(answer.result), node))
    }
  }

const receiptsChanged = (change: (receipt: Json) => unknown) =>
  changed(/Receipts?$/, (result) => {
    for (const receipt of [result].flat() as Json[]) change(receipt)
    return result
  })

/** In receipts, and where they are asked for alone. */
const logsChanged = (change: (logs: Json[]) => Json[]) => (node: ProfiledNode) => {
  node.onCall = async (call, next) => {
    const answer = await next(call)
    if (!/^eth_getLogs$|Receipts?$/.test(call.method) || !(answer.result instanceof Object)) return answer
    if (call.method === 'eth_getLogs') return said(call, change(answer.result as Json[]))
    const dressed = (receipt: Json) => ({ ...receipt, logs: change(receipt.logs as Json[]) })
    return said(call, Array.isArray(answer.result) ? answer.result.map(dressed) : dressed(answer.result as Json))
  }
}

/** A send that the chain is not given, and what is answered instead. */
const sendsSay = (say: (call: Asked, node: ProfiledNode) => Answer) => (node: ProfiledNode) => {
  node.onCall = (call, next) => (isSend(call) ? Promise.resolve(say(call, node)) : next(call))
}

const all =
  (words: (node: ProfiledNode) => readonly [number, string]) =>
  (node: ProfiledNode): void => {
    node.onCall = async (call) => refused(call, words(node))
  }

export const FAULTS: readonly Fault[] = [
  { name: 'no fault', start: () => {} },
  // The way there.
  {
    name: 'connections refused',
    start: (node) => {
      node.onRequest = () => 'refuse'
    },
  },
  {
    name: 'every second connection refused',
    start: (node) => {
      node.onRequest = (_, nth) => (everyOther(nth) ? 'refuse' : null)
    },
  },
  {
    name: 'connection cut after the effect',
    start: (node) => {
      node.onRequest = () => 'cut'
    },
  },
  {
    name: 'HTTP 503, HTML',
    start: (node) => {
      node.onRequest = () => ({ status: 503, body: '<html>503</html>', headers: { 'content-type': 'text/html' } })
    },
  },
  {
    name: 'HTTP 429',
    start: (node) => {
      node.onRequest = () => ({
        status: 429,
        body: '{"error":"Too Many Requests"}',
        headers: { 'retry-after': '1', 'content-type': 'application/json' },
      })
    },
  },
  {
    name: 'HTTP 200, HTML',
    start: (node) => {
      node.onRequest = () => ({ status: 200, body: '<html>sign in</html>', headers: { 'content-type': 'text/html' } })
    },
  },
  {
    name: '700 ms slow',
    ms: 1_500,
    start: (node) => {
      node.onRequest = () => ({ delayMs: 700 })
    },
  },
  {
    name: 'truncated JSON',
    start: (node) => {
      node.onReply = (answers) => JSON.stringify(answers).slice(0, -3)
    },
  },
  // Its answers' shape.
  {
    name: 'wrong ids',
    start: (node) => {
      node.onReply = (answers, isBatch) => {
        const moved = answers.map((one) => ({ ...one, id: Number(one.id) + 1 }))
        return isBatch ? moved : moved[0]
      }
    },
  },
  {
    name: 'one batch member missing',
    start: (node) => {
      node.onReply = (answers, isBatch) => (isBatch ? answers.slice(1) : null)
    },
  },
  {
    name: 'one batch member twice, once wrong',
    start: (node) => {
      node.onReply = (answers, isBatch) => (isBatch ? [...answers, { ...answers[0]!, result: '0x1' }] : null)
    },
  },
  {
    name: 'batches out of order',
    start: (node) => {
      node.onReply = (answers, isBatch) => (isBatch ? answers.toReversed() : null)
    },
  },
  {
    name: 'batches refused',
    start: (node) => {
      node.onReply = (_, isBatch) =>
        isBatch ? { jsonrpc: '2.0', id: null, error: { code: -32600, message: 'batch not supported' } } : null
    },
  },
  {
    name: 'null for everything',
    start: (node) => {
      node.onCall = async (call) => said(call, null)
    },
  },
  { name: 'internal errors', start: all(({ profile }) => profile.texts.broken) },
  { name: 'rate limit', start: all(({ profile }) => profile.texts.limited) },
  {
    name: 'state not available',
    start: (node) => {
      node.onCall = async (call, next) =>
        /^eth_(call|getBalance|getCode|getTransactionCount|estimateGas)$/.test(call.method)
          ? refused(call, node.profile.texts.forgottenState)
          : next(call)
    },
  },
  // Where it is.
  {
    name: '3 blocks behind',
    start: (node) => {
      node.onCall = (call, next) => behind(node, 3, call, next)
    },
  },
  {
    name: 'load balancer, one member 3 behind',
    start: (node) => {
      node.onCall = (call, next, nth) => (everyOther(nth) ? behind(node, 3, call, next) : next(call))
    },
  },
  {
    name: 'stale head',
    ms: 1_000,
    start: (node) => {
      const at = node.head()
      node.onCall = (call, next) => behind(node, node.head() - at, call, next)
    },
  },
  {
    name: 'late receipts: null',
    start: (node) => {
      node.onCall = async (call, next) => (isReceipts(call) ? said(call, null) : next(call))
    },
  },
  {
    name: 'blocks by hash: null',
    start: (node) => {
      node.onCall = async (call, next) => (call.method === 'eth_getBlockByHash' ? said(call, null) : next(call))
    },
  },
  {
    name: 'another chain at the address',
    ms: 900,
    start: (node) => {
      let first = 4
      node.onRequest = () => (first-- > 0 ? 'refuse' : null)
      node.onCall = async (call, next) =>
        call.method === 'eth_chainId'
          ? said(call, '0x1')
          : isBlock(call) && call.params[0] === '0x0'
            ? said(call, { ...((await next(call)).result as Json), hash: `0x${'0a'.repeat(32)}` })
            : next(call)
    },
  },
  {
    name: '`finalized` fails',
    start: (node) => {
      node.onCall = async (call, next) =>
        call.params[0] === 'finalized' ? refused(call, node.profile.texts.broken) : next(call)
    },
    not: ({ finalized }) => (finalized === null ? 'no such tag' : null),
  },
  {
    name: '`finalized` goes back',
    start: (node) => {
      node.onCall = (call, next) =>
        call.params[0] === 'finalized'
          ? next({ ...call, params: [hex(Math.max(0, node.head() - 90)), false] })
          : next(call)
    },
    not: ({ finalized }) => (finalized === null ? 'no such tag' : null),
  },
  // What it says of blocks.
  {
    name: 'one receipt missing',
    start: changed(/^eth_getBlockReceipts$/, (result) => (result as unknown[]).slice(0, -1)),
    not: ({ blockReceipts }) => (blockReceipts === 'yes' ? null : 'no block receipts'),
  },
  {
    name: 'receipts with failed status',
    start: receiptsChanged((receipt) => {
      receipt.status = '0x0'
    }),
    not: needsProof,
  },
  {
    name: 'receipts with less gas',
    start: receiptsChanged((receipt) => {
      receipt.gasUsed = '0x5208'
    }),
    not: needsProof,
  },
  {
    name: 'logs left out',
    start: logsChanged(() => []),
    not: ({ verification }) => (verification === 'count' ? 'filters are empty (`count`): one node is trusted' : null),
  },
  {
    name: 'amounts in logs changed',
    start: logsChanged((logs) => logs.map((log) => ({ ...log, data: `0x${'ff'.padStart(64, '0')}` }))),
    not: needsProof,
  },
  {
    name: 'transactions left out of blocks',
    start: changed(/^eth_getBlockBy/, (result) => ({ ...(result as Json), transactions: [] })),
    not: needsProof,
  },
  // Counts, fees, estimates.
  {
    name: 'counts too high',
    not: ({ verification }) =>
      verification === 'count' ? 'headers do not hash as on Ethereum: one node is trusted (decision 48)' : null,
    start: (node) => {
      node.onCall = async (call, next) => {
        const answer = await next(call)
        return call.method === 'eth_getTransactionCount' && typeof answer.result === 'string'
          ? said(call, hex(Number(answer.result) + 5))
          : answer
      }
    },
  },
  {
    name: 'counts too low: 0',
    start: (node) => {
      node.onCall = async (call, next) => (call.method === 'eth_getTransactionCount' ? said(call, '0x0') : next(call))
    },
  },
  {
    name: 'estimates fail',
    start: (node) => {
      node.onCall = async (call, next) =>
        call.method === 'eth_estimateGas' ? refused(call, node.profile.texts.broken) : next(call)
    },
  },
  {
    name: 'gas price beyond all bounds',
    start: (node) => {
      node.onCall = async (call, next) =>
        /^eth_(gasPrice|maxPriorityFeePerGas)$/.test(call.method)
          ? said(call, `0x${(10n ** 24n).toString(16)}`)
          : next(call)
    },
    allows: ['fee_cap_reached'],
  },
  {
    name: 'base fee × 20',
    start: (node) => node.anvil.rpc('anvil_setNextBlockBaseFeePerGas', hex(20_000_000_000)),
    not: ({ hasBaseFee }) => (hasBaseFee ? null : 'no base fee'),
  },
  { name: 'clock one hour ahead', start: (node) => node.anvil.rpc('evm_increaseTime', 3_600) },
  // What becomes of what is sent.
  { name: 'sends swallowed', start: sendsSay((call) => said(call, `0x${'5a'.repeat(32)}`)) },
  {
    name: 'sends accepted, error returned',
    start: (node) => {
      node.onCall = async (call, next) => {
        const answer = await next(call)
        return isSend(call) ? refused(call, [-32000, 'request failed upstream']) : answer
      }
    },
  },
  { name: '“nonce too low” to all', start: sendsSay((call, { profile }) => refused(call, profile.texts.nonceTooLow)) },
  {
    name: '“nonce too high” to all',
    start: sendsSay((call, { profile }) => refused(call, profile.texts.nonceTooHigh)),
  },
  { name: '“already known”, forgotten', start: sendsSay((call, { profile }) => refused(call, profile.texts.known)) },
  { name: '“pool is full”', start: sendsSay((call, { profile }) => refused(call, profile.texts.poolFull)) },
  { name: '“underpriced”', start: sendsSay((call, { profile }) => refused(call, profile.texts.underpriced)) },
  { name: '“insufficient funds”', start: sendsSay((call, { profile }) => refused(call, profile.texts.poor)) },
  {
    name: 'restart, pool lost',
    start: async (node) => {
      node.hold()
      await node.forgetPool()
      node.onRequest = () => 'refuse'
    },
    stop: (node) => node.goOn(),
  },
  // The chain itself.
  { name: 'reorganised, 1', start: (node) => node.reorganise(1), not: notFinal },
  {
    name: 'reorganised, 3',
    ms: 900,
    start: async (node) => {
      await node.mine(2)
      await node.reorganise(3)
    },
    not: notFinal,
  },
  {
    name: 'reorganised, 10',
    ms: 900,
    start: async (node) => {
      await node.mine(3)
      await node.reorganise(10)
    },
    not: notFinal,
  },
  {
    name: 'members on two branches',
    ms: 900,
    start: async (node) => {
      await node.mine(2)
      await node.reorganise(2)
      node.onCall = (call, next, nth) => (everyOther(nth) ? onOldBranch(node, call, next) : next(call))
    },
    not: notFinal,
  },
  {
    name: '4 blocks lost (snapshot reverted)',
    ms: 1_500,
    start: async (node) => {
      await node.mine(3)
      node.hold()
      await node.lose(4)
    },
    stop: (node) => node.goOn(),
    not: notFinal,
  },
  {
    name: 'reorganised below finality',
    ms: 900,
    halts: true,
    start: (node) => node.reorganise((node.profile.finalized ?? 64) + 4),
  },
]
