/**
 * `npm run bench:sponsored [-- --seconds=5 --rounds=3 --connections=1,128 --sponsors=2 --only=sponsor --alone=no]`: what a write costs that a sponsor
 * sends, beside one that its account pays for and beside raw sends, everything in one run. Node, database, programs and this load
 * generator share the machine; a program runs in its own turn only. On the cluster of TEST_DATABASE_URL, else on a throw-away PostgreSQL
 * with its own settings where its binaries are, else on the embedded database. Every accepted write transfers a number of its own: the
 * chain is asked by the token's events and by what the recipient holds whether each is done, and done once. Prints, writes nothing.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { setTimeout as wait } from 'node:timers/promises'
import { allowSponsor, spaceOf } from '../src/devnet/sponsor.ts'
import { rpc } from '../src/devnet/rpc.ts'
import { readGasContracts } from '../src/gas/contracts.ts'
import type { Hex } from '../src/ids.ts'
import { addressOfUser, fund } from './fund.ts'
import { load, type Outcome, type Request } from './load.ts'
import { partsOf } from './parts.ts'
import { cpuMillis, startNode, startProgram, type Counts, type Person, type Program } from './place.ts'
import { hexOf, newKey, signNext } from './presigned.ts'
import { openStage } from './stage.ts'

const { values: flags } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '1' },
    connections: { type: 'string', default: '1,128' },
    accounts: { type: 'string', default: '100' },
    sponsors: { type: 'string', default: '2' },
    only: { type: 'string', default: '' },
    alone: { type: 'string', default: 'yes' },
    profile: { type: 'string', default: '' },
  },
})
const seconds = Number(flags.seconds)
const CONNECTIONS = flags.connections.split(',').map(Number)
const ACCOUNTS = Number(flags.accounts)
const BATCH = 50
const CHAIN_ID = 31_337
const RECIPIENT: Hex = `0x${'b0b'.padStart(40, '0')}`
/** Transfer(address,address,uint256) */
const TRANSFER = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
/** Room for 8,000 transfers a block: what a block holds is no part of this. */
const BLOCK_GAS = '300000000'
/** blocks in one question for events */
const BLOCKS = 10
/** a transaction of whose kind gas and calldata are told has at least so many operations */
const FULL = 90
/** milliseconds that a client waits after a refusal */
const REFUSED_MS = 100
/** raw transfers a second that no machine of ours has reached: so many are signed ahead */
const RAW_RATE = 25_000
const QUIET_MS = 20_000
/** what is asked of a node for each block, however many writes there are */
const OF_BLOCKS = /Block|getLogs/

const stage = await openStage()
try {
  const node = stage.begun(await startNode({ flags: ['--gas-limit', BLOCK_GAS] }))
  const { erc20 } = node.contracts
  const { dispatcher, delegate, dispatcherCode, delegateCode } = readGasContracts()
  await rpc(node.url, 'anvil_setCode', dispatcher, dispatcherCode)
  await rpc(node.url, 'anvil_setCode', delegate, delegateCode)
  const keys = Array.from({ length: ACCOUNTS }, newKey)
  await fund(node.url, erc20, keys.map(({ address }) => hexOf(address))) // prettier-ignore
  const chain = await watch(node.url, erc20)
  stage.begun({ end: chain.stop })

  let numbers = 1
  const cpuNow = (program: Program | null): Record<string, number> => {
    const { user, system } = process.cpuUsage()
    return {
      node: cpuMillis(node.pid),
      server: program === null ? 0 : cpuMillis(program.pid),
      signer: program === null ? 0 : cpuMillis(program.signerPid),
      database: stage.cluster?.cpuMillis() ?? 0,
      load: (user + system) / 1_000,
    }
  }

  async function run(side: Side, connections: number, forSeconds = seconds): Promise<Phase> {
    side.prepare?.(forSeconds)
    const accepted = new Set<number>()
    const asked = new Map<number, number[]>()
    const countsBefore = await side.program?.counts()
    const [cpuBefore, machineBefore, from] = [cpuNow(side.program), machineMillis(), performance.now()]
    let refusal: string | null = null
    const outcome = await load(
      side.program?.url ?? node.url,
      { connections, seconds: forSeconds, pauseMs: REFUSED_MS },
      (index) => {
        const { mine, request } = side.next()
        asked.set(index, mine)
        return request
      },
      (index, status, text) => {
        const mine = asked.get(index)!
        asked.delete(index)
        if (status !== 200) return void (refusal ??= text().slice(-400))
        if (side.program !== null) return void accepted.add(mine[0]!)
        const answers = JSON.parse(text().split('\r\n\r\n')[1]!) as { id: number; result?: Hex }[]
        for (const { id, result } of answers) if (result !== undefined) accepted.add(mine[id]!)
      },
    )
    const until = performance.now()
    const [cpuAfter, machineAfter] = [cpuNow(side.program), machineMillis()]
    const countsAfter = await side.program?.counts()
    const own = Object.keys(cpuAfter).reduce((sum, name) => sum + cpuAfter[name]! - cpuBefore[name]!, 0)
    const lost = await chain.settle(accepted)
    const doubled = [...accepted].filter((number) => (chain.done.get(number) ?? 0) > 1)
    return {
      ...outcome,
      rate: outcome.rate * side.perRequest,
      accepted: accepted.size,
      lost: lost.length,
      doubled: doubled.length,
      refusal,
      mined: chain.rateOf(from, until),
      cpu: Object.fromEntries(
        Object.entries(cpuAfter).map(([name, millis]) => [name, ((millis - cpuBefore[name]!) * 1_000) / accepted.size]),
      ),
      counts: countsBefore === undefined ? null : perWrite(countsBefore, countsAfter!, accepted.size),
      others: (machineAfter.busy - machineBefore.busy - own) / (machineAfter.all - machineBefore.all),
    }
  }

  const signed: { raw: Hex; number: number }[] = []
  const raw: Side = {
    ...{ name: 'raw sends, batches of 50', program: null, perRequest: BATCH, connections: [4] },
    prepare: (forSeconds) => {
      while (signed.length < (forSeconds + 0.5) * RAW_RATE) {
        const number = numbers++
        const data = transferOf(number)
        signed.push({ number, raw: signNext(keys[number % ACCOUNTS]!, { chainId: CHAIN_ID, to: erc20, data }) })
      }
    },
    next: () => {
      const some = signed.splice(0, BATCH)
      const bodies = some.map(
        (one, id) => `{"jsonrpc":"2.0","id":${id},"method":"eth_sendRawTransaction","params":["${one.raw}"]}`,
      )
      return {
        mine: some.map(({ number }) => number),
        request: { method: 'POST', path: '/', body: `[${bodies.join()}]` },
      }
    },
  }

  async function start(gas: 'self' | 'sponsor'): Promise<Side> {
    const program = stage.begun(
      await startProgram(node.url, {
        settings: {
          ...{ NETWORK_GAS: gas, NETWORK_GAS_SPACE: await spaceOf(node.url), MAX_PENDING_WRITES: '1000000' },
          ...{ SIGNER_GAS_PER_USER_WEI: String(10n ** 27n), SIGNER_GAS_PER_SPONSOR_WEI: String(10n ** 27n) },
        },
      }),
    )
    if (gas === 'sponsor')
      for (let index = 0; index < Number(flags.sponsors); index++) {
        const address = await program.sponsor(`BENCH_${index}`)
        await rpc(node.url, 'anvil_setBalance', address, '0xd3c21bcecceda1000000')
        await allowSponsor(node.url, address)
      }
    const names = Array.from({ length: ACCOUNTS }, (_, index) => `${gas}-${index}`)
    const people: Person[] = await program.people(names, 'bench')
    await fund(
      node.url,
      erc20,
      await Promise.all(people.map(({ userId, token }) => addressOfUser(program.url, userId, token))),
    )
    return {
      ...{ name: gas, program, perRequest: 1, connections: CONNECTIONS },
      next: () => {
        const number = numbers++
        const { token } = people[number % ACCOUNTS]!
        const args = [RECIPIENT, String(number)]
        const body = JSON.stringify({ address: erc20, abi: 'transfer(address to, uint256 amount)', args })
        return {
          mine: [number],
          request: {
            ...{ method: 'POST', path: '/v1/contracts/method/write', body },
            headers: `authorization: Bearer ${token}\r\n`,
          },
        }
      },
    }
  }

  const results = new Map<string, Phase[]>()
  for (let round = 1; round <= Number(flags.rounds); round++) {
    for (const which of ['raw', 'self', 'sponsor'] as const) {
      if (!which.includes(flags.only)) continue
      // What was mined before is final by then, and no program that starts now reads it.
      await rpc(node.url, 'anvil_mine', '0x60')
      const side = which === 'raw' ? raw : await start(which)
      // Every path is compiled, every token was checked once, every account has a row, and its code.
      await run(side, side.program === null ? 1 : 64, side.program === null ? 0.5 : 3)
      for (const connections of side.connections) {
        const phase = await run(side, connections)
        const key = `${side.name}|${connections}`
        results.set(key, [...(results.get(key) ?? []), phase])
        report(side, connections, phase)
      }
      if (side.program !== null && round === Number(flags.rounds)) await printParts(side, side.program)
      if (side.program !== null) await stage.endEarly(side.program)
    }
  }
  if (flags.alone === 'yes') await measureAlone()
  printGoals(results, await chain.packed(dispatcher), await chain.balance())

  /** One client that writes in turns by an account that pays and by one that does not, with nothing else under way. */
  async function measureAlone(): Promise<void> {
    const sides = [await start('self'), await start('sponsor')]
    const [took, accepted] = [sides.map((): number[] => []), new Set<number>()]
    const writeBy = async (side: Side, into: number[] | null) => {
      const { mine, request } = side.next()
      const from = performance.now()
      const headers = { 'content-type': 'application/json', authorization: request.headers!.slice(15).trim() }
      const response = await fetch(`${side.program!.url}${request.path}`, {
        method: 'POST',
        headers,
        body: request.body!,
      })
      await response.text()
      if (!response.ok) return
      into?.push(performance.now() - from)
      accepted.add(mine[0]!)
    }
    for (const side of sides) for (let index = 0; index < ACCOUNTS; index++) await writeBy(side, null)
    await chain.settle(accepted)
    const until = performance.now() + 2_000 * seconds
    while (performance.now() < until) for (const [index, side] of sides.entries()) await writeBy(side, took[index]!)
    const lost = await chain.settle(accepted)
    const at = (values: number[], share: number) => values.toSorted((a, b) => a - b)[Math.floor(values.length * share)]!.toFixed(1) // prettier-ignore
    for (const [index, { name }] of sides.entries())
      console.log(
        `alone, in turns: ${name.padEnd(8)} p10 ${at(took[index]!, 0.1)}  p25 ${at(took[index]!, 0.25)}  p50 ${at(took[index]!, 0.5)}  p90 ${at(took[index]!, 0.9)} ms of ${took[index]!.length}`,
      )
    if (lost.length > 0) console.log(`  ${lost.length} of ${accepted.size} were not mined`)
    for (const { program } of sides) await stage.endEarly(program!)
  }

  async function printParts(side: Side, program: Program): Promise<void> {
    const connections = Math.max(...CONNECTIONS)
    let phase: Phase | null = null
    const profile = await program.profile(async () => {
      phase = await run(side, connections, 3)
    })
    const micros = phase!.cpu.server!
    console.log(
      `  CPU of the server per write, ${side.name}, ${connections} connections: ${micros.toFixed(0)} µs, profiler included`,
    )
    for (const { part, share } of partsOf(profile))
      console.log(`    ${part.padEnd(38)} ${(share * micros).toFixed(0).padStart(5)} µs`)
    if (flags.profile !== '') writeFileSync(`${flags.profile}-${side.name}.cpuprofile`, JSON.stringify(profile))
  }
} finally {
  await stage.end()
}

type Side = {
  name: string
  /** null: the node itself */
  program: Program | null
  connections: number[]
  perRequest: number
  prepare?: (forSeconds: number) => void
  next: () => { mine: number[]; request: Request }
}
type Phase = Outcome & {
  accepted: number
  lost: number
  doubled: number
  refusal: string | null
  mined: number
  /** µs per accepted write, by process */
  cpu: Record<string, number>
  counts: Counts | null
  /** what share of the machine went to processes that are no part of this */
  others: number
}

function transferOf(number: number): Hex {
  return `0xa9059cbb${RECIPIENT.slice(2).padStart(64, '0')}${number.toString(16).padStart(64, '0')}`
}

/** The chain's own word on which numbers were transferred, and when. While writes run it is asked for its height only. */
async function watch(url: string, token: Hex) {
  const done = new Map<number, number>()
  const blocks: { number: number; at: number; count: number }[] = []
  const byTransaction = new Map<Hex, number>()
  let next = Number(await rpc<Hex>(url, 'eth_blockNumber')) + 1
  let unread = 0
  let isStopped = false
  const watching = (async () => {
    while (!isStopped) {
      const newest = Number(await rpc<Hex>(url, 'eth_blockNumber'))
      const at = performance.now()
      for (; next <= newest; next++) blocks.push({ number: next, at, count: 0 })
      await wait(20)
    }
  })()
  const hex = (number: number) => `0x${number.toString(16)}`

  async function readOn(): Promise<void> {
    while (unread < blocks.length) {
      const some = blocks.slice(unread, unread + BLOCKS)
      const range = { fromBlock: hex(some[0]!.number), toBlock: hex(some.at(-1)!.number) }
      const topics = [TRANSFER, null, `0x${RECIPIENT.slice(2).padStart(64, '0')}`]
      const logs = await rpc<{ data: Hex; blockNumber: Hex; transactionHash: Hex }[]>(url, 'eth_getLogs', { address: token, topics, ...range }) // prettier-ignore
      for (const { data, blockNumber, transactionHash } of logs) {
        done.set(Number(data), (done.get(Number(data)) ?? 0) + 1)
        byTransaction.set(transactionHash, (byTransaction.get(transactionHash) ?? 0) + 1)
        some.find(({ number }) => number === Number(blockNumber))!.count++
      }
      unread += some.length
    }
  }

  return {
    done,
    stop: async () => {
      isStopped = true
      await watching
    },
    /** Reads blocks until all of these are done, or nothing was for a while. @returns those that are not */
    settle: async (wanted: ReadonlySet<number>): Promise<number[]> => {
      let left = Number.POSITIVE_INFINITY
      for (let movedAt = performance.now(); ; await wait(100)) {
        await readOn()
        const missing = [...wanted].filter((number) => !done.has(number))
        if (missing.length < left) movedAt = performance.now()
        left = missing.length
        if (left === 0 || performance.now() - movedAt > QUIET_MS) return missing
      }
    },
    /** transfers a second between the first and the last block of a time */
    rateOf: (from: number, until: number): number => {
      const during = blocks.filter(({ at, count }) => at >= from && at <= until + 200 && count > 0)
      const [first, last] = [during[0], during.at(-1)]
      if (during.length < 2) return Number.NaN
      return (during.slice(1).reduce((sum, { count }) => sum + count, 0) * 1_000) / (last!.at - first!.at)
    },
    /** what the recipient holds, against what it was sent */
    balance: async () => {
      const data = `0x70a08231${RECIPIENT.slice(2).padStart(64, '0')}`
      const held = BigInt(await rpc<Hex>(url, 'eth_call', { to: token, data }, 'latest'))
      return { held, sent: [...done].reduce((sum, [number, times]) => sum + BigInt(number) * BigInt(times), 0n) }
    },
    /** gas and bytes of an operation in transactions that carry many */
    packed: async (dispatcher: Hex) => {
      const full = [...byTransaction].filter(([, count]) => count >= FULL).slice(-20)
      const all = await Promise.all(
        full.map(async ([hash, count]) => {
          const { gasUsed } = await rpc<{ gasUsed: Hex }>(url, 'eth_getTransactionReceipt', hash)
          const { input, to } = await rpc<{ input: Hex; to: Hex }>(url, 'eth_getTransactionByHash', hash)
          return to === dispatcher
            ? [{ count, gas: Number(gasUsed) / count, bytes: (input.length / 2 - 1) / count }]
            : []
        }),
      )
      const largest = [...byTransaction.values()].reduce((most, count) => Math.max(most, count), 0)
      return { largest, seen: all.flat().toSorted((a, b) => a.gas - b.gas) }
    },
  }
}

/** proc(5), /proc/stat: user nice system idle iowait irq softirq steal, in ticks of 10 ms. Linux only. */
function machineMillis(): { busy: number; all: number } {
  const ticks = readFileSync('/proc/stat', 'utf8').split('\n')[0]!.split(/ +/).slice(1, 9).map(Number)
  const all = ticks.reduce((sum, one) => sum + one)
  return { busy: (all - ticks[3]! - ticks[4]!) * 10, all: all * 10 }
}

function perWrite(before: Counts, after: Counts, many: number): Counts {
  const rate = (difference: number) => difference / many
  return {
    statements: rate(after.statements - before.statements),
    commits: rate(after.commits - before.commits),
    requests: rate(after.requests - before.requests),
    rpc: Object.fromEntries(
      Object.keys(after.rpc).map((method) => [method, rate(after.rpc[method]! - (before.rpc[method] ?? 0))]),
    ),
  }
}

/** Writes per second if all cores did nothing else: what another run beside other processes can be compared by. */
function roomOf({ cpu }: Phase): number {
  return (availableParallelism() * 1_000_000) / Object.values(cpu).reduce((sum, micros) => sum + micros, 0)
}

function report(side: Side, connections: number, phase: Phase): void {
  const { rate, mined, p50, p99, lost, doubled, failures, accepted } = phase
  console.log(
    `${side.name.padEnd(25)} ${String(connections).padStart(3)} connections: ${rate.toFixed(0).padStart(5)} accepted/s ${mined.toFixed(0).padStart(5)} mined/s` +
      `  p50 ${p50.toFixed(1).padStart(6)}  p99 ${p99.toFixed(1).padStart(6)} ms  ${accepted} accepted, ${lost} lost, ${doubled} doubled, ${failures} refused`,
  )
  if (phase.refusal !== null) console.log(`    first refusal: ${phase.refusal}`)
  const micros = Object.entries(phase.cpu).map(([name, value]) => `${name} ${value.toFixed(0)}`)
  console.log(
    `    CPU, µs per write: ${micros.join(', ')}: room for ${roomOf(phase).toFixed(0)}/s; ${(phase.others * 100).toFixed(0)} % of the machine went to others`,
  )
  if (phase.counts === null) return
  const { statements, commits, requests, rpc } = phase.counts
  const all = Object.values(rpc).reduce((sum, value) => sum + value, 0)
  const calls = Object.entries(rpc)
    .filter(([, value]) => value >= 0.003)
    .map(([method, value]) => `${method} ${value.toFixed(3)}`)
  console.log(
    `    per write: ${statements.toFixed(2)} statements, ${commits.toFixed(2)} commits, ${requests.toFixed(2)} requests to the node with ${all.toFixed(3)} calls: ${calls.join(', ')}`,
  )
}

function printGoals(
  results: Map<string, Phase[]>,
  { largest, seen }: { largest: number; seen: { count: number; gas: number; bytes: number }[] },
  { held, sent }: { held: bigint; sent: bigint },
): void {
  const middle = (key: string, of: (phase: Phase) => number) => {
    const values = (results.get(key) ?? []).map(of).toSorted((a, b) => a - b)
    return values[values.length >> 1] ?? Number.NaN
  }
  const line = (text: string, value: number, isMet: boolean) =>
    console.log(`  ${text.padEnd(66)} ${value.toFixed(2).padStart(9)}  ${isMet ? 'met' : 'MISSED'}`)
  const many = Math.max(...CONNECTIONS)
  console.log('\nGoals; the median of all rounds')
  const [mine, own] = [`sponsor|${many}`, `self|${many}`]
  const [mined, room] = [middle(mine, (phase) => phase.mined), middle(mine, roomOf)]
  line(`mined/s at ${many} connections: at least 2000`, mined, mined >= 2_000)
  const ratio = mined / middle(own, (phase) => phase.mined)
  line('  / self: at least 2', ratio, ratio >= 2)
  line('  / self, by CPU', room / middle(own, roomOf), room / middle(own, roomOf) >= 2)
  line('  / raw batched sends', mined / middle('raw sends, batches of 50|4', (phase) => phase.mined), true)
  const calls = middle(mine, ({ counts }) => Object.values(counts!.rpc).reduce((sum, one) => sum + one, 0))
  line('calls to the node per write: at most 1.1', calls, calls <= 1.1)
  const apart = middle(mine, ({ counts }) => Object.entries(counts!.rpc).reduce((sum, [method, one]) => sum + (OF_BLOCKS.test(method) ? 0 : one), 0)) // prettier-ignore
  line('  but for those of blocks, whose number is that of seconds', apart, apart <= 1.1)
  const alone = middle('sponsor|1', ({ p50 }) => p50) - middle('self|1', ({ p50 }) => p50)
  line('p50 alone, more than self, ms: at most 5', alone, alone <= 5)
  const one = seen[seen.length >> 1]
  if (one !== undefined) {
    line(`gas of a transfer, ${one.count} in a transaction: at most 22600`, one.gas, one.gas <= 22_600)
    line('  bytes of calldata: at most 220', one.bytes, one.bytes <= 220)
  }
  line('most operations in a transaction', largest, true)
  const all = [...results.values()].flat()
  const wrong = all.reduce((sum, { lost, doubled }) => sum + lost + doubled, 0)
  const writes = all.reduce((sum, { accepted }) => sum + accepted, 0)
  line(`of ${writes} accepted writes not done exactly once: 0`, wrong, wrong === 0)
  line('the recipient holds what events say, difference: 0', Number(held - sent), held === sent)
}
