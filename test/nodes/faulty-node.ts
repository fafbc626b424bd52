import http from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import type { Hex } from '../../src/ids.ts'
import { startAnvil, type Answer, type Anvil, type Asked } from '../kit/chain.ts'
import { ACCOUNT_FULL, poolOver, type Offered, type Pool } from '../chaos/pool.ts'

/** What goes wrong with a whole HTTP request; `dropped`: the connection ends without an answer. */
const REQUEST_FAULTS = ['refused', '503', 'dropped-before', 'dropped-after', 'slow'] as const
/**
 * What goes wrong with one call. `error-after`: done, and an error says it was not. `swallowed`: a broadcast is said to
 * be taken and is forgotten. `lagging`: the answer of a node a few blocks behind. `mined-too-low`: mined before its
 * sender hears `nonce too low`.
 */
const CALL_FAULTS = ['error', 'error-after', 'swallowed', 'lagging', 'mined-too-low', 'wrong-chain'] as const
const READ_FAULTS = ['error', 'lagging', 'wrong-chain'] as const

type Fault = (typeof REQUEST_FAULTS)[number] | (typeof CALL_FAULTS)[number]

/** Chance of each fault, 0 to 1: of a request, or of a call in it. */
export type Weather = Partial<Record<Fault, number>>

export const BAD_WEATHER: Weather = {
  refused: 0.01,
  '503': 0.01,
  'dropped-before': 0.01,
  'dropped-after': 0.02,
  slow: 0.02,
  error: 0.005,
  'error-after': 0.05,
  swallowed: 0.03,
  lagging: 0.02,
}

export type FaultyNode = {
  /** where servers ask */
  url: string
  anvil: Anvil
  pool: Pool
  /** faults so far, by kind; and blocks, reorganisations, wiped pools */
  counts: Record<string, number>
  weather(weather: Weather | null): void
  /** a fault for every call of a method until it is taken away with null */
  script(method: string, fault: Fault | null): void
  mine(blocks?: number): Promise<void>
  /** nothing is mined, reorganised or wiped while the work goes on */
  still<T>(work: () => Promise<T>): Promise<T>
  /** another branch of the same length instead of the newest blocks; with `putBack` their transactions are in the pool again */
  reorganise(depth: number, options: { putBack: boolean }): Promise<void>
  /** the node forgets its pool */
  wipe(): Promise<void>
  /** base fee of every block from now on, wei; null lets it fall by itself */
  spike(baseFee: bigint | null): void
  /** the dearest base fee that a block ever had, on any branch, and the dearest tip that was ever named, wei */
  dearest(): { baseFee: bigint; tip: bigint }
  stop(): Promise<void>
}

type MinedBlock = { baseFeePerGas: Hex; transactions: { from: Hex; nonce: Hex }[] }
/** transactions that are quickly asked for after every block; more are asked for every so many blocks */
const FEW = 100
const SYNC_EVERY = 20
/** How far behind a lagging answer is, blocks. */
const LAG = 3

/** A node that misbehaves as told, by chance from `roll`, in front of a real chain; it keeps geth's rules. */
export async function startFaultyNode(roll: () => number): Promise<FaultyNode> {
  const anvil = await startAnvil()
  const pool = poolOver(anvil)
  const counts: Record<string, number> = {}
  const scripted = new Map<string, Fault>()
  const sockets = new Set<Socket>()
  let weather: Weather = {}
  let baseFee: bigint | null = null
  // The first block of a development chain costs as much.
  let dearest = { baseFee: 1_000_000_000n, tip: 0n }
  let turn: Promise<unknown> = Promise.resolve()

  const count = (what: string) => {
    counts[what] = (counts[what] ?? 0) + 1
  }
  const draw = (faults: readonly Fault[]): Fault | null => {
    for (const fault of faults) if (roll() < (weather[fault] ?? 0)) return fault
    return null
  }
  /** What changes the chain happens one after the other. */
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const mine = turn.then(work, work)
    turn = mine.catch(() => {})
    return mine
  }

  const server = http.createServer((request, response) => {
    void serve(request, response).catch(() => response.destroy())
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })

  async function serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const asked = JSON.parse(await text(request)) as Asked | Asked[]
    const calls = Array.isArray(asked) ? asked : [asked]
    const told = calls.map(({ method }) => scripted.get(method)).find((fault) => isRequestFault(fault))
    const fault = told ?? draw(REQUEST_FAULTS)
    if (fault !== null && fault !== undefined) count(fault)
    if (fault === 'refused' || fault === 'dropped-before') return void response.destroy()
    if (fault === '503') return void response.writeHead(503).end('{"error":"overloaded"}')
    if (fault === 'slow') await pause(50 + roll() * 450)
    const answers = await answerAll(calls)
    if (fault === 'dropped-after') return void response.destroy()
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(Array.isArray(asked) ? answers : answers[0]))
  }

  /** Plain reads travel on in one batch; a call with a fault, or a broadcast, goes alone. */
  async function answerAll(calls: Asked[]): Promise<Answer[]> {
    const plain: Asked[] = []
    const own = new Map<number, Promise<Answer>>()
    for (const [index, call] of calls.entries()) {
      const told = scripted.get(call.method)
      const isSend = call.method === 'eth_sendRawTransaction'
      if (isSend) count('broadcasts')
      const fault = told !== undefined && !isRequestFault(told) ? told : draw(isSend ? CALL_FAULTS : READ_FAULTS)
      if (isSend) own.set(index, send(call, fault))
      else if (fault === null) plain.push(call)
      else own.set(index, misanswer(call, fault))
    }
    const answered = await anvil.ask(plain)
    for (const [index, { result }] of answered.entries())
      if (plain[index]!.method === 'eth_maxPriorityFeePerGas' && BigInt(result as Hex) > dearest.tip)
        dearest = { ...dearest, tip: BigInt(result as Hex) }
    return Promise.all(calls.map((_call, index) => own.get(index) ?? Promise.resolve(answered.shift()!)))
  }

  async function misanswer(call: Asked, fault: Fault): Promise<Answer> {
    if (fault === 'error') {
      count(fault)
      return refuse(call, -32603, 'internal error')
    }
    if (fault === 'wrong-chain' && (call.method === 'eth_chainId' || call.method === 'net_version')) {
      count(fault)
      return { jsonrpc: '2.0', id: call.id, result: call.method === 'eth_chainId' ? '0x1' : '1' }
    }
    if (fault === 'lagging' && /Receipts?$/.test(call.method)) {
      count(fault)
      return { jsonrpc: '2.0', id: call.id, result: null }
    }
    if (fault === 'lagging' && (call.method === 'eth_blockNumber' || call.params.includes('latest'))) {
      count(fault)
      const behind = `0x${Math.max(0, Number(await anvil.rpc<Hex>('eth_blockNumber')) - LAG).toString(16)}`
      if (call.method === 'eth_blockNumber') return { jsonrpc: '2.0', id: call.id, result: behind }
      const params = call.params.map((param) => (param === 'latest' ? behind : param))
      return (await anvil.ask([{ ...call, params }]))[0]!
    }
    return (await anvil.ask([call]))[0]!
  }

  async function send(call: Asked, fault: Fault | null): Promise<Answer> {
    // Whoever asks whether a node has the method sends bytes that are none.
    const offered = await pool.read(call.params[0] as Hex).catch(() => null)
    if (offered === null) return (await anvil.ask([call]))[0]!
    if (fault === 'error') {
      count('error')
      return refuse(call, -32603, 'internal error')
    }
    if (fault === 'swallowed') {
      count('swallowed')
      return { jsonrpc: '2.0', id: call.id, result: offered.hash }
    }
    const answer = await take(call, offered)
    if (fault === 'error-after') {
      count('error-after')
      return refuse(call, -32000, 'request failed upstream')
    }
    if (fault === 'mined-too-low') {
      count('mined-too-low')
      await mine(1)
      return refuse(call, -32000, `nonce too low: next nonce ${offered.nonce + 1}, tx nonce ${offered.nonce}`)
    }
    return answer
  }

  async function take(call: Asked, offered: Offered): Promise<Answer> {
    const refusal = pool.refusal(offered)
    if (refusal !== null && !(refusal === ACCOUNT_FULL && (await isNext(offered)))) {
      count(refusal)
      return refuse(call, -32000, refusal)
    }
    const [answer] = await anvil.ask([call])
    if (answer!.error === undefined) pool.took(offered)
    else if (/already imported/.test(answer!.error.message)) {
      pool.took(offered)
      count('already known')
      return refuse(call, -32000, 'already known')
    }
    return answer!
  }

  /** However many of an account wait, the one that the chain is at is let in: by reth as such, by geth as executable. */
  async function isNext({ from, nonce }: Offered): Promise<boolean> {
    return Number(await anvil.rpc<Hex>('eth_getTransactionCount', from, 'latest')) === nonce
  }

  function mine(blocks = 1): Promise<void> {
    return inTurn(async () => {
      for (let block = 0; block < blocks; block++) {
        if (baseFee !== null) await anvil.rpc('anvil_setNextBlockBaseFeePerGas', `0x${baseFee.toString(16)}`)
        await anvil.rpc('evm_mine')
        count('blocks')
        const { baseFeePerGas, transactions } = await anvil.rpc<MinedBlock>('eth_getBlockByNumber', 'latest', true)
        if (BigInt(baseFeePerGas) > dearest.baseFee) dearest = { ...dearest, baseFee: BigInt(baseFeePerGas) }
        pool.mined(transactions)
      }
      // What anvil throws out by itself is not in any block.
      if (pool.size() < FEW || counts.blocks! % SYNC_EVERY < blocks) {
        await pool.sync()
        for (let stuck = await pool.unstick(); stuck > 0; stuck--) count('held back by anvil')
      }
    })
  }

  function reorganise(depth: number, { putBack }: { putBack: boolean }): Promise<void> {
    return inTurn(async () => {
      const head = Number(await anvil.rpc<Hex>('eth_blockNumber'))
      const orphans: Hex[] = []
      for (let number = head - depth + 1; number <= head; number++) {
        const block = await anvil.rpc<{ transactions: Hex[] }>(
          'eth_getBlockByNumber',
          `0x${number.toString(16)}`,
          false,
        )
        orphans.push(...block.transactions)
      }
      await anvil.rpc('anvil_reorg', depth, [])
      count('reorganisations')
      counts['deepest reorganisation'] = Math.max(counts['deepest reorganisation'] ?? 0, depth)
      counts['orphaned'] = (counts['orphaned'] ?? 0) + orphans.length
      // geth puts them back, anvil does not.
      if (putBack) {
        const raws = orphans.flatMap((hash) => pool.offered.get(hash) ?? [])
        await anvil.ask(
          raws.map(({ raw }, id) => ({ jsonrpc: '2.0', id, method: 'eth_sendRawTransaction', params: [raw] })),
        )
      }
      await pool.sync()
    })
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    anvil,
    pool,
    counts,
    weather: (next) => {
      weather = next ?? {}
    },
    script: (method, fault) => {
      if (fault === null) scripted.delete(method)
      else scripted.set(method, fault)
    },
    mine,
    still: inTurn,
    reorganise,
    wipe: () =>
      inTurn(async () => {
        await anvil.rpc('anvil_dropAllTransactions')
        count('wiped pools')
        await pool.sync()
      }),
    spike: (next) => {
      baseFee = next
    },
    dearest: () => dearest,
    stop: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await anvil.stop()
    },
  }
}

const isRequestFault = (fault: Fault | undefined): boolean =>
  fault !== undefined && (REQUEST_FAULTS as readonly Fault[]).includes(fault)

const refuse = ({ id }: Asked, code: number, message: string): Answer => ({
  jsonrpc: '2.0',
  id,
  error: { code, message },
})
