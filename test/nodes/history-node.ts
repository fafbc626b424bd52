import { RpcError } from '../../src/chain/rpc/rpc.ts'
import { bloomOf } from '../../src/follower/bloom.ts'
import type { Hex } from '../../src/ids.ts'
import { serveRpc, type Asked, type Said } from './rpc-server.ts'
import type { ScriptedBlock, ScriptedChain } from './scripted-chain.ts'

/** The node of a scripted chain as a real server, which lies and fails while it is told to. */
export type HistoryNode = {
  url: string
  /** from now on, or no more */
  isBad: boolean
  /** lies and failures so far, by kind */
  counts: Record<string, number>
  /** another branch behind the same address: a part of the requests are answered from it */
  otherFork: ScriptedBlock[] | null
  close(): Promise<void>
}

type Log = { address: Hex; topics: Hex[]; data: Hex; logIndex: Hex }
type Receipt = {
  logs: Log[]
  transactionHash: Hex
  from: Hex
  gasUsed: Hex
  cumulativeGasUsed: Hex
  effectiveGasPrice: Hex
}

/** One request in so many goes wrong as a whole, one call in so many is lied about. */
const BAD_REQUEST = 20
const BAD_CALL = 8

/**
 * @param isStrict  true: every kind of lie; false: those that can be noticed without the receipts' root
 */
export async function startHistoryNode(
  script: ScriptedChain,
  {
    random,
    isStrict,
    lies = null,
  }: {
    random: (below: number) => number
    isStrict: boolean
    /** only these, and often */
    lies?: readonly string[] | null
  },
): Promise<HistoryNode> {
  const node: HistoryNode = { url: '', isBad: false, counts: {}, otherFork: null, close: async () => {} }
  const count = (what: string) => void (node.counts[what] = (node.counts[what] ?? 0) + 1)
  const pick = <T>(list: readonly T[]): T => list[random(list.length)]!

  /** The whole request from one of the branches, sometimes with an older head. */
  function onFork<T>(work: () => T): T {
    const { blocks } = script
    const { lag } = script.faults
    try {
      if (node.otherFork !== null && random(2) === 0) {
        script.blocks = node.otherFork
        count('other fork')
      }
      if (node.isBad && random(12) === 0) {
        script.faults.lag = Math.min(random(6), script.blocks.length - 1)
        count('stale head')
      }
      return work()
    } finally {
      script.blocks = blocks
      script.faults.lag = lag
    }
  }

  function answer({ method, params }: Asked): Said {
    try {
      const result = structuredClone(script.respond(method, params))
      return {
        result: node.isBad && random(lies === null ? BAD_CALL : 4) === 0 ? lie(method, result) : result,
      }
    } catch (error) {
      if (!(error instanceof RpcError)) throw error
      return { error: { code: error.rpcCode, message: error.message } }
    }
  }

  function lie(method: string, result: unknown): unknown {
    if (lies === null && method === 'eth_getBlockByHash') {
      count('unknown block')
      return null
    }
    if (method !== 'eth_getBlockReceipts' || result === null) return result
    return falsify(result as Receipt[])
  }

  function falsify(receipts: Receipt[]): unknown {
    const kinds = lies ?? [
      'empty',
      'null',
      'partial',
      ...Object.keys(LIES),
      ...(isStrict ? Object.keys(STRICT_LIES) : []),
    ]
    const kind = pick(kinds)
    const before = digestOf(receipts)
    if (kind === 'null') return (count(kind), null)
    if (receipts.length > 0 && kind === 'empty') return (count(kind), [])
    if (receipts.length > 0 && kind === 'partial') return (count(kind), receipts.toSpliced(random(receipts.length), 1))
    const logs = receipts.flatMap((receipt) => receipt.logs)
    const change = LIES[kind] ?? STRICT_LIES[kind]
    if (logs.length === 0 || change === undefined) return receipts
    const victim = pick(logs)
    const changed = structuredClone(receipts)
    change(
      changed,
      changed.flatMap((receipt) => receipt.logs).find(({ logIndex }) => logIndex === victim.logIndex)!,
    )
    // Without the root two things pass: a filter that comes out the same, and the log after the last one.
    if (!isStrict && digestOf(changed) === before) return receipts
    count(kind)
    return changed
  }

  const { url, close } = await serveRpc({
    answer,
    interfere(_, response) {
      if (!node.isBad || random(BAD_REQUEST) !== 0) return false
      const what = pick(['dropped', '503', 'hangs', 'half'])
      count(what)
      if (what === 'dropped') response.destroy()
      if (what === '503') response.writeHead(503).end('{"error":"bad gateway"}')
      if (what === 'half') response.writeHead(200).end('[{"jsonrpc":"2.0","id":0,"resu')
      return true
    },
    around(answerAll) {
      const answers = onFork(answerAll)
      if (node.isBad && random(BAD_REQUEST) === 0 && answers.length > 1) {
        count('answer left out')
        answers.splice(random(answers.length), 1)
      }
      return node.isBad && random(BAD_REQUEST) === 0 ? answers.toReversed() : answers
    },
  })
  return Object.assign(node, { url, close })
}

/** What a follower without strict mode can see of logs: the filter, and whether the indexes count. */
function digestOf(receipts: Receipt[]): string {
  const logs = receipts.flatMap((receipt) => receipt.logs)
  const counts = logs.every(({ logIndex }, index) => Number(logIndex) === index)
  return `${bloomOf(logs).toString('hex')} ${counts}`
}

type Lie = (receipts: Receipt[], victim: Log) => void

const LIES: Record<string, Lie> = {
  'log left out': (receipts, victim) => {
    for (const receipt of receipts) receipt.logs = receipt.logs.filter((log) => log !== victim)
  },
  'log left out, the rest counted anew': (receipts, victim) => {
    for (const receipt of receipts) receipt.logs = receipt.logs.filter((log) => log !== victim)
    renumber(receipts)
  },
  'log repeated': (receipts, victim) => {
    for (const receipt of receipts) receipt.logs = receipt.logs.flatMap((log) => (log === victim ? [log, { ...log }] : [log])) // prettier-ignore
  },
  'all logs left out': (receipts) => receipts.forEach((receipt) => (receipt.logs = [])),
  'other token': (_, victim) => (victim.address = `0x${'bad0'.repeat(10)}`),
  'other party': (_, victim) => (victim.topics[1] = `0x${'00'.repeat(12)}${'bad0'.repeat(10)}`),
  'log invented': (receipts, victim) => {
    receipts[0]!.logs.push({ ...victim, address: `0x${'bad1'.repeat(10)}` })
    renumber(receipts)
  },
  'logs out of order': (receipts) => receipts.forEach((receipt) => receipt.logs.reverse()),
}

const STRICT_LIES: Record<string, Lie> = {
  'other amount': (_, victim) => (victim.data = `${victim.data.slice(0, -2)}${victim.data.endsWith('1') ? '02' : '01'}` as Hex), // prettier-ignore
  'log repeated, the rest counted anew': (receipts, victim) => {
    LIES['log repeated']!(receipts, victim)
    renumber(receipts)
  },
  'other sender': (receipts, victim) => {
    const receipt = receipts.find(({ logs }) => logs.includes(victim))!
    receipt.from = `0x${'bad2'.repeat(10)}`
  },
  'other gas and price': (receipts, victim) => {
    const receipt = receipts.find(({ logs }) => logs.includes(victim))!
    receipt.gasUsed = receipt.cumulativeGasUsed
    receipt.effectiveGasPrice = '0x1'
  },
  'logs exchanged': (receipts) => {
    const lists = receipts.map((receipt) => receipt.logs).toReversed()
    receipts.forEach((receipt, index) => (receipt.logs = lists[index]!))
    renumber(receipts)
  },
}

function renumber(receipts: Receipt[]): void {
  let index = 0
  for (const log of receipts.flatMap((receipt) => receipt.logs)) log.logIndex = `0x${(index++).toString(16)}`
}
