/**
 * `npm run bench:node-calls [-- --idle=120 --pending=120 --blocks=1,12 --others=20]`: what the program asks of its node, in calls and
 * in HTTP requests, at block times of 1 and 12 seconds, with and without an address that announces new blocks, and of a node that has
 * no `eth_getBlockReceipts`. Counts, not times: a busy machine changes little. All places run side by side. On the cluster of TEST_DATABASE_URL, else on a throw-away
 * PostgreSQL where its binaries are, else on the embedded database. Prints a table, writes nothing.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { rpc } from '../src/devnet/rpc.ts'
import type { Hex } from '../src/ids.ts'
import { sendJson, type Asked } from '../test/nodes/rpc-server.ts'
import { addressOfUser, fund } from './fund.ts'
import { startNode, startProgram, type Counts, type Person, type Program } from './place.ts'
import { startPostgres } from './postgres.ts'

const { values: flags } = parseArgs({
  options: {
    idle: { type: 'string', default: '120' },
    pending: { type: 'string', default: '120' },
    blocks: { type: 'string', default: '1,12' },
    others: { type: 'string', default: '20' },
    methods: { type: 'boolean', default: false },
  },
})
const IDLE_SECONDS = Number(flags.idle)
const PENDING_SECONDS = Number(flags.pending)
/** blocks that are there before the program starts, so that it knows how often they come */
const BLOCKS_BEFORE = 80

/** transfers of tokens in a block that are nobody's here */
const OTHERS = Number(flags.others)

/** `lacks`: a method that the node does not have */
type Place = { name: string; blockSeconds: number; isSubscribed: boolean; lacks?: string }
type Cost = { what: string; calls: number; requests: number; per?: string; methods: Record<string, number> }

const places = flags.blocks.split(',').flatMap((seconds) =>
  [
    { what: '', isSubscribed: false },
    { what: ', subscribed', isSubscribed: true },
    { what: ', no block receipts', isSubscribed: false, lacks: 'eth_getBlockReceipts' },
  ].map(({ what, ...more }): Place => ({ name: `${seconds} s${what}`, blockSeconds: Number(seconds), ...more })),
)

const cluster = await startPostgres()
if (cluster !== null) process.env.TEST_DATABASE_URL = cluster.url
try {
  const costs = await Promise.all(places.map(measure))
  print(['calls / HTTP requests', ...places.map(({ name }) => name)], costs[0]!.map(({ what }, row) => [
    what,
    ...costs.map((column) => `${column[row]!.calls} / ${column[row]!.requests}`),
  ])) // prettier-ignore
  if (flags.methods)
    for (const [index, column] of costs.entries())
      for (const { what, methods } of column) console.log(`${places[index]!.name}: ${what}: ${JSON.stringify(methods)}`)
} finally {
  await cluster?.end()
}

async function measure({ blockSeconds, isSubscribed, lacks }: Place): Promise<Cost[]> {
  const started: { end(): Promise<void> }[] = []
  try {
    const node = await startNode({ blockSeconds })
    started.push(node)
    await rpc(node.url, 'anvil_mine', `0x${BLOCKS_BEFORE.toString(16)}`, `0x${blockSeconds.toString(16)}`)
    const known = lacks === undefined ? node : await startWithout(lacks, node.url)
    if (known !== node) started.push(known)
    const urls = isSubscribed ? `${node.url},${node.url.replace('http', 'ws')}` : known.url
    const settings = { MAX_PENDING_WRITES: '1000', BENCH_NETWORK: 'public' }
    const program = await startProgram(urls, { settings })
    started.push(program)
    return await costsOf(program, { url: node.url, blockSeconds, ...node.contracts })
  } finally {
    for (const { end } of started.toReversed()) await end()
  }
}

async function costsOf(
  program: Program,
  { url, blockSeconds, erc20 }: { url: string; blockSeconds: number; erc20: Hex },
): Promise<Cost[]> {
  const people = await program.people(Array.from({ length: 21 }, (_, index) => `caller-${index}`))
  const [first, ...others] = people as [Person, ...Person[]]
  await fund(
    url,
    erc20,
    await Promise.all(people.map(({ userId, token }) => addressOfUser(program.url, userId, token))),
  )
  const ask = async (path: string, body: object, { token }: Person): Promise<unknown> => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const response = await fetch(`${program.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
    return response.json()
  }
  let distinct = 0
  const read = (isRepeated: boolean) => {
    const holder = `0x${(isRepeated ? 1 : ++distinct + 1).toString(16).padStart(40, '0')}`
    const abi = 'balanceOf(address account) public view returns (uint256)'
    return ask('/v1/contracts/method/read', { address: erc20, abi, args: [holder] }, first)
  }
  const write = (person: Person, query = '') => {
    const abi = 'transfer(address to, uint256 amount)'
    return ask(`/v1/contracts/method/write${query}`, { address: erc20, abi, args: [`0x${'b0b'.padStart(40, '0')}`, '1'] }, person) // prettier-ignore
  }
  const spread = async (count: number, ms: number, work: () => Promise<unknown>) => {
    for (let done = 0; done < count; done++) await Promise.all([work(), sleep(ms / count)])
  }
  const sideBySide = async (count: number, lanes: number, work: () => Promise<unknown>) => {
    let left = count
    const lane = async () => {
      while (left-- > 0) await work()
    }
    await Promise.all(Array.from({ length: lanes }, lane))
  }
  const mined = async (work: () => Promise<unknown>) => {
    await work()
    await program.settled()
  }

  const costs: Cost[] = []
  const cost = async (what: string, work: () => Promise<unknown>, times = 1) => {
    const before = await program.counts()
    await work()
    const after = await program.counts()
    const methods = difference(before, after)
    const calls = Object.values(methods).reduce((sum, count) => sum + count, 0)
    costs.push({ what, calls: Math.round(calls * times), requests: Math.round((after.requests - before.requests) * times), methods }) // prettier-ignore
  }

  await write(first, '?wait=mined')
  await program.settled()
  await read(true)
  await cost('idle hour', () => sleep(IDLE_SECONDS * 1_000), 3_600 / IDLE_SECONDS)
  const strangers = sendOthers(url, { erc20, blockSeconds })
  // The first of them is in a block before it is counted.
  await sleep(2_000 * blockSeconds)
  await cost(`idle hour, ${OTHERS} transfers of others in each block`, () => sleep(IDLE_SECONDS * 1_000), 3_600 / IDLE_SECONDS) // prettier-ignore
  await strangers.end()
  await sleep(2_000 * blockSeconds)
  await cost('100 repeated reads over 10 s', () => spread(100, 10_000, () => read(true)))
  await cost('100 distinct reads over 10 s', () => spread(100, 10_000, () => read(false)))
  await cost('1,000 repeated reads, 50 at a time', () => sideBySide(1_000, 50, () => read(true)))
  await cost('1,000 distinct reads, 50 at a time', () => sideBySide(1_000, 50, () => read(false)))
  await cost('one write, wait=mined', () => write(first, '?wait=mined'))
  await cost('10 writes, one after the other, until mined', () => mined(() => spread(10, 10, () => write(first))))
  await cost('100 writes of one person at once, until mined', () => mined(() => sideBySide(100, 100, () => write(first)))) // prettier-ignore
  let next = 0
  const firstWrite = () => write(others[next++ % others.length]!)
  await cost('100 first writes of 20 people at once, until mined', () => mined(() => sideBySide(100, 100, firstWrite)))
  await rpc(url, 'evm_setIntervalMining', 0)
  await sleep(1_000)
  await sideBySide(50, 10, () => write(first))
  await cost(`${PENDING_SECONDS} s with 50 writes that are not mined`, () => sleep(PENDING_SECONDS * 1_000))
  costs.push({ ...costs.at(-1)!, what: '  of them eth_sendRawTransaction', calls: costs.at(-1)!.methods.eth_sendRawTransaction ?? 0, requests: 0 }) // prettier-ignore
  await rpc(url, 'evm_setIntervalMining', blockSeconds)
  return costs
}

/** A node as another is, but for one method. */
async function startWithout(method: string, url: string): Promise<{ url: string; end(): Promise<void> }> {
  const server = createServer(async (request, response) => {
    const asked = (await json(request)) as Asked | Asked[]
    const calls = [asked].flat()
    const known = calls.filter((call) => call.method !== method)
    const body = JSON.stringify(known)
    const headers = { 'content-type': 'application/json' }
    const answers =
      known.length === 0 ? [] : ((await (await fetch(url, { method: 'POST', headers, body })).json()) as unknown[])
    for (const { id } of calls.filter((call) => call.method === method))
      answers.push({ jsonrpc: '2.0', id, error: { code: -32_601, message: `the method ${method} does not exist` } })
    sendJson(response, JSON.stringify(Array.isArray(asked) ? answers : answers[0]))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    end: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Token transfers by an account of the node, so many for each block. */
function sendOthers(url: string, { erc20, blockSeconds }: { erc20: Hex; blockSeconds: number }) {
  let isOver = false
  const send = async () => {
    const [from] = await rpc<Hex[]>(url, 'eth_accounts')
    const data = `0x40c10f19${'c0c'.padStart(64, '0')}${'1'.padStart(64, '0')}`
    while (!isOver) {
      for (let sent = 0; sent < OTHERS; sent++)
        await rpc(url, 'eth_sendTransaction', { from, to: erc20, gas: '0x186a0', data })
      await sleep(1_000 * blockSeconds)
    }
  }
  const sending = send()
  return {
    end: () => {
      isOver = true
      return sending
    },
  }
}

function difference(before: Counts, after: Counts): Record<string, number> {
  return Object.fromEntries(
    Object.entries(after.rpc)
      .map(([method, count]) => [method, count - (before.rpc[method] ?? 0)] as const)
      .filter(([, count]) => count > 0),
  )
}

function print(head: string[], rows: string[][]): void {
  for (const row of [head, head.map(() => '---'), ...rows]) console.log(`| ${row.join(' | ')} |`)
}
