import http from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { keccak256 } from 'viem'
import type { Hex } from '../../src/ids.ts'
import { startAnvil, type Answer, type Anvil, type Asked } from '../kit/chain.ts'
import type { Profile, Words } from '../chaos/nodes-profiles.ts'
import { ACCOUNT_FULL, poolOver, type Pool } from '../chaos/pool.ts'

type Json = Record<string, unknown>
type Mined = { number: number; hash: Hex; block: Json; receipts: Json[] }

/** What happens to a request as a whole. `cut`: it takes effect, and the connection ends without an answer. */
type Trouble = 'refuse' | 'cut' | { delayMs: number } | { status: number; body: string; headers?: Json } | null

/** A node of a profile, in front of a real chain. What goes wrong with it is set from outside; null is nothing. */
export type ProfiledNode = {
  url: string
  profile: Profile
  anvil: Anvil
  pool: Pool
  /** whose transfers are in each block, where the profile has such; null before it is there */
  token: Hex | null
  onRequest: ((calls: Asked[], nth: number) => Trouble) | null
  /** answers a call instead of the node, which `next` asks; `nth` counts requests */
  onCall: ((call: Asked, next: (call: Asked) => Promise<Answer>, nth: number) => Promise<Answer>) | null
  /** what of the answers to a request is written */
  onReply: ((answers: Answer[], isBatch: boolean) => unknown) | null
  /** called after a block was mined and before the next one */
  onBlock: ((block: Mined) => Promise<void>) | null
  /** blocks of the canonical chain, newest last, and those that were once */
  blocks: Mined[]
  orphans: Mined[]
  head(): number
  numberOf(hash: string): number | null
  mine(blocks?: number): Promise<void>
  /** nothing is mined until it is let go on */
  hold(): void
  goOn(): void
  /** another branch, as long, instead of the newest blocks; their transactions are forgotten */
  reorganise(depth: number): Promise<void>
  /** the newest blocks are gone, and what waited */
  lose(depth: number): Promise<void>
  forgetPool(): Promise<void>
  /** what went wrong with the proxy itself, which proves nothing then */
  broken: string | null
  stop(): Promise<void>
}

const quantity = (value: number | bigint): Hex => `0x${value.toString(16)}`
const STATE = /^eth_(call|getBalance|getCode|getTransactionCount|getStorageAt|getProof|estimateGas)$/

export const refused = ({ id }: Asked, [code, message]: Words, data?: unknown): Answer => ({
  jsonrpc: '2.0',
  id,
  error: { code, message, ...(data === undefined ? {} : { data }) },
})
export const said = ({ id }: Asked, result: unknown): Answer => ({ jsonrpc: '2.0', id, result })

export async function startProfiledNode(profile: Profile): Promise<ProfiledNode> {
  const { texts } = profile
  const anvil = await startAnvil(profile.hasBaseFee ? [] : ['--hardfork', 'berlin'])
  const pool = poolOver(anvil)
  const sockets = new Set<Socket>()
  const numbers = new Map<string, number>()
  const systems = new Map<string, Mined>()
  let requests = 0
  let isHeld = false
  let isOver = false
  let turn: Promise<unknown> = Promise.resolve()
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const mine = turn.then(work, work)
    turn = mine.catch(() => {})
    return mine
  }

  const server = http.createServer((request, response) => {
    void serve(request, response).catch((error: unknown) => {
      node.broken ??= String(error)
      response.destroy()
    })
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })

  async function serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const asked = JSON.parse(await text(request)) as Asked | Asked[]
    const calls = [asked].flat()
    const nth = requests++
    const trouble = node.onRequest?.(calls, nth) ?? null
    if (trouble === 'refuse') return void response.destroy()
    if (trouble !== null && typeof trouble === 'object' && 'status' in trouble)
      return void response.writeHead(trouble.status, trouble.headers as http.OutgoingHttpHeaders).end(trouble.body)
    if (trouble !== null && typeof trouble === 'object') await pause(trouble.delayMs)
    const answers = await answerAll(calls, nth)
    if (trouble === 'cut') return void response.destroy()
    const body = node.onReply?.(answers, Array.isArray(asked)) ?? (Array.isArray(asked) ? answers : answers[0])
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  }

  /** What nothing is done to travels on in one batch. */
  async function answerAll(calls: Asked[], nth: number): Promise<Answer[]> {
    const { onCall } = node
    return Promise.all(calls.map((call) => (onCall === null ? answer(call) : onCall(call, answer, nth))))
  }

  /** As a healthy node of this profile answers. */
  async function answer(call: Asked): Promise<Answer> {
    const { method, params } = call
    if (method === 'eth_sendRawTransaction') return send(call)
    if (method === 'eth_maxPriorityFeePerGas' && (!profile.hasTip || !profile.hasBaseFee)) return missing(call)
    if (method === 'eth_getBlockReceipts' && profile.blockReceipts === 'no') return missing(call)
    if (method === 'eth_getBlockReceipts' && profile.blockReceipts === 'null') return said(call, null)
    if (method === 'eth_getBlockByNumber' && (params[0] === 'finalized' || params[0] === 'safe')) {
      if (profile.finalized === null) return refused(call, [-32602, `invalid block tag "${params[0]}"`])
      return answer({ ...call, params: [quantity(Math.max(0, node.head() - profile.finalized)), params[1]] })
    }
    if (STATE.test(method)) {
      const wrong = refusedState(call)
      if (wrong !== null) return wrong
    }
    const system = systems.get(String(params[0]))
    if (system !== undefined && /^eth_getTransaction/.test(method))
      return said(call, method === 'eth_getTransactionByHash' ? systemTransaction(system) : systemReceipt(system))
    const [raw] = await anvil.ask([call])
    return dress(call, raw!)
  }

  function refusedState(call: Asked): Answer | null {
    for (const param of call.params) {
      if (typeof param === 'object' && param !== null && 'blockHash' in param) {
        if (!profile.takesHashes) return refused(call, [-32602, 'invalid argument 1: json: cannot unmarshal object'])
        const number = numbers.get(String(param.blockHash))
        if (number !== undefined && node.head() - number >= profile.states) return refused(call, texts.forgottenState)
      }
    }
    const [at] = call.params.slice(-1)
    const isNumber = call.params.length > 1 && typeof at === 'string' && /^0x[0-9a-f]{1,12}$/i.test(at)
    return isNumber && node.head() - Number(at) >= profile.states ? refused(call, texts.forgottenState) : null
  }

  const missing = (call: Asked): Answer =>
    refused(call, [-32601, `the method ${call.method} does not exist/is not available`])

  /** The chain's answer in this client's words and shapes. */
  function dress(call: Asked, raw: Answer): Answer {
    const { method } = call
    if (raw.error !== undefined) return { ...raw, error: inItsWords(method, raw.error) }
    const { result } = raw
    if (method === 'eth_estimateGas') return said(call, quantity(BigInt(result as Hex) + BigInt(profile.extraGas)))
    if (method === 'eth_maxPriorityFeePerGas' && profile.name === 'Nitro') return said(call, '0x0')
    if (result === null || typeof result !== 'object') return raw
    if (/^eth_getBlockBy/.test(method)) return said(call, dressBlock(result as Json, call.params[1] === true))
    if (method === 'eth_getBlockReceipts') {
      const receipts = result as Json[]
      const mined = blockOf(hashOfParam(call.params[0]))
      return said(call, withSystem(receipts.map(dressReceipt), mined))
    }
    if (method === 'eth_getTransactionReceipt') return said(call, dressReceipt(result as Json))
    return raw
  }

  const hashOfParam = (param: unknown): string =>
    typeof param === 'string' && param.length < 66 ? (node.blocks.find(({ number }) => number === Number(param))?.hash ?? '') : String(param) // prettier-ignore

  const blockOf = (hash: string): Mined | null =>
    node.blocks.findLast((one) => one.hash === hash) ?? node.orphans.findLast((one) => one.hash === hash) ?? null

  const withSystem = (receipts: unknown[], mined: Mined | null): unknown[] =>
    profile.systemType === null || mined === null || mined.number === 0 ? receipts : [systemReceipt(mined), ...receipts]

  function dressBlock(block: Json, isWhole: boolean): Json {
    const mined = blockOf(String(block.hash)) ?? { number: Number(block.number), hash: block.hash as Hex, block, receipts: [] } // prettier-ignore
    const dressed: Json = { ...block }
    if (profile.systemType !== null && mined.number > 0) {
      systems.set(systemHash(mined), mined)
      const first = isWhole ? systemTransaction(mined) : systemHash(mined)
      dressed.transactions = [first, ...(block.transactions as unknown[]).map((one) => shifted(one))]
    }
    if (profile.verification === 'count') dressed.logsBloom = `0x${'00'.repeat(256)}`
    if (!profile.hasBaseFee) delete dressed.baseFeePerGas
    return dressed
  }

  const shifted = (one: unknown): unknown =>
    typeof one === 'object' && one !== null && 'transactionIndex' in one && profile.systemType !== null
      ? { ...one, transactionIndex: quantity(Number(one.transactionIndex) + 1) }
      : one
  const dressReceipt = (receipt: Json): Json => shifted(receipt) as Json
  const systemHash = ({ hash }: Mined): Hex => keccak256(hash)
  const systemTransaction = (mined: Mined): Json => ({
    ...{ hash: systemHash(mined), type: quantity(profile.systemType!), from: `0x${'de'.repeat(20)}` },
    ...{ to: `0x${'42'.repeat(20)}`, nonce: quantity(mined.number), gas: '0xf4240', gasPrice: '0x0', value: '0x0' },
    ...{ input: '0x', blockHash: mined.hash, blockNumber: quantity(mined.number), transactionIndex: '0x0' },
    ...{ sourceHash: systemHash(mined), v: '0x0', r: '0x0', s: '0x0' },
  })
  const systemReceipt = (mined: Mined): Json => ({
    ...{ transactionHash: systemHash(mined), type: quantity(profile.systemType!), transactionIndex: '0x0' },
    ...{ blockHash: mined.hash, blockNumber: quantity(mined.number), status: '0x1', contractAddress: null, logs: [] },
    ...{ from: `0x${'de'.repeat(20)}`, to: `0x${'42'.repeat(20)}`, gasUsed: '0x0', cumulativeGasUsed: '0x0' },
    ...{ effectiveGasPrice: '0x0', logsBloom: `0x${'00'.repeat(256)}` },
  })

  function inItsWords(
    method: string,
    { code, message, data }: NonNullable<Answer['error']>,
  ): NonNullable<Answer['error']> {
    const [ownCode, own] = wordsFor(method, message) ?? [code, message]
    return { code: ownCode, message: own, ...(data === undefined ? {} : { data }) }
  }

  /** anvil's texts, and the kinds that they are of */
  function wordsFor(method: string, message: string): Words | null {
    if (/already imported/.test(message)) return texts.known
    if (/nonce too low/.test(message)) return texts.nonceTooLow
    if (/replacement transaction underpriced/.test(message)) return texts.replacement
    if (/max fee per gas less than|transaction underpriced/.test(message)) return texts.underpriced
    if (/insufficient funds/i.test(message)) return texts.poor
    if (/execution reverted/.test(message)) return [texts.reverted[0], message.replace('execution reverted', texts.reverted[1])] // prettier-ignore
    if (STATE.test(method) && /not found|OutOfRange/i.test(message)) return texts.unknownBlock
    return null
  }

  async function send(call: Asked): Promise<Answer> {
    const offered = await pool.read(call.params[0] as Hex).catch(() => null)
    if (offered === null) return dress(call, (await anvil.ask([call]))[0]!)
    const refusal = pool.refusal(offered)
    if (refusal === 'already known') return refused(call, texts.known)
    if (refusal === 'replacement transaction underpriced') return refused(call, texts.replacement)
    if (refusal === ACCOUNT_FULL) return refused(call, [-32000, ACCOUNT_FULL])
    const [raw] = await anvil.ask([call])
    if (raw!.error === undefined || /already imported/.test(raw!.error.message)) pool.took(offered)
    return dress(call, raw!)
  }

  async function read(number: number): Promise<Mined> {
    const at = quantity(number)
    const [block, receipts] = await anvil.ask([
      { jsonrpc: '2.0', id: 1, method: 'eth_getBlockByNumber', params: [at, true] },
      { jsonrpc: '2.0', id: 2, method: 'eth_getBlockReceipts', params: [at] },
    ])
    const whole = block!.result as Json
    return { number, hash: whole.hash as Hex, block: whole, receipts: receipts!.result as Json[] }
  }

  async function note(mined: Mined): Promise<void> {
    numbers.set(mined.hash, mined.number)
    node.blocks.push(mined)
    pool.mined(mined.block.transactions as { from: Hex; nonce: Hex }[])
    await node.onBlock?.(mined)
  }

  /** What neither the service nor a fault knows of; an account for each, so that none waits for another's nonce. */
  async function sendStrangers(to: Hex): Promise<void> {
    const senders = await anvil.rpc<Hex[]>('eth_accounts')
    const data = `0x40c10f19${'c0c'.padStart(64, '0')}${'1'.padStart(64, '0')}`
    for (const from of senders.slice(-profile.strangers))
      await anvil.rpc('eth_sendTransaction', { from, to, data, gas: '0x186a0' })
  }

  async function mineOne(): Promise<void> {
    if (profile.strangers > 0 && node.token !== null) await sendStrangers(node.token)
    await anvil.rpc('evm_mine')
    await note(await read(node.head() + 1))
  }

  const node: ProfiledNode = {
    ...{ url: '', profile, anvil, pool, token: null, onRequest: null, onCall: null, onReply: null, onBlock: null },
    ...{ blocks: [], orphans: [], broken: null },
    head: () => node.blocks.at(-1)!.number,
    numberOf: (hash) => numbers.get(hash) ?? null,
    mine: (blocks = 1) =>
      inTurn(async () => {
        for (let block = 0; block < blocks; block++) await mineOne()
      }),
    hold: () => {
      isHeld = true
    },
    goOn: () => {
      isHeld = false
    },
    reorganise: (depth) =>
      inTurn(async () => {
        const head = node.head()
        node.orphans = node.blocks.splice(node.blocks.length - depth, depth)
        await anvil.rpc('anvil_reorg', depth, [])
        await pool.sync()
        for (let number = head - depth + 1; number <= head; number++) await note(await read(number))
      }),
    lose: (depth) =>
      inTurn(async () => {
        node.orphans = node.blocks.splice(node.blocks.length - depth, depth)
        await anvil.rpc('anvil_rollback', depth)
        await anvil.rpc('anvil_dropAllTransactions')
        await pool.sync()
      }),
    forgetPool: () =>
      inTurn(async () => {
        await anvil.rpc('anvil_dropAllTransactions')
        await pool.sync()
      }),
    stop: async () => {
      isOver = true
      await turn
      for (const socket of sockets) socket.destroy()
      server.close()
      await anvil.stop()
    },
  }
  if (profile.sharesTimes) await anvil.rpc('anvil_setBlockTimestampInterval', 0)
  for (let number = 0; number <= Number(await anvil.rpc<Hex>('eth_blockNumber')); number++) node.blocks.push(await read(number)) // prettier-ignore
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  node.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const beat = async (): Promise<void> => {
    while (!isOver) {
      await pause(profile.blockMs)
      if (!isHeld && !isOver) await node.mine().catch((error: unknown) => (node.broken ??= String(error)))
    }
  }
  void beat()
  return node
}
