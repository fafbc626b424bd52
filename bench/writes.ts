/**
 * `npm run bench:writes [-- --seconds=3 --rounds=1 --only=ours]`: what a write costs, everything in one run, because
 * only ratios of one run mean something. Node, database, programs and this load generator share the machine. On the
 * cluster of TEST_DATABASE_URL, else on a throw-away PostgreSQL with its own settings where its binaries are, else on
 * the embedded database. Every accepted write is looked for on the chain by its calldata. Prints tables, writes nothing.
 */
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { rpc } from '../src/devnet/rpc.ts'
import type { Hex } from '../src/ids.ts'
import { addressOfUser, fund } from './fund.ts'
import { load, type Outcome, type Request } from './load.ts'
import { watchChain } from './mined.ts'
import { partsOf } from './parts.ts'
import {
  cpuMillis,
  startNode,
  startPlainService,
  startProgram,
  type Counts,
  type Person,
  type Program,
  type Started,
} from './place.ts'
import { hexOf, newKey, signNext } from './presigned.ts'
import { openStage } from './stage.ts'

const { values: flags } = parseArgs({
  options: {
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '1' },
    only: { type: 'string', default: '' },
    connections: { type: 'string', default: '1,32,128' },
  },
})
const seconds = Number(flags.seconds)
const rounds = Number(flags.rounds)
const CONNECTIONS = flags.connections.split(',').map(Number)
const ACCOUNTS = 100
const BATCH = 50
const CHAIN_ID = 31_337
const RECIPIENT = 'b0b'.padStart(40, '0')
/** Room for 8,000 transfers a block: what a block holds is no part of this. */
const BLOCK_GAS = '300000000'

const stage = await openStage()
try {
  const node = stage.begun(await startNode({ flags: ['--gas-limit', BLOCK_GAS] }))
  const { erc20 } = node.contracts
  const [rawKeys, plainKeys, latestKeys] = [1, 2, 3].map(() => Array.from({ length: ACCOUNTS + 1 }, newKey)) as [
    Keys,
    Keys,
    Keys,
  ]
  const keysOf = (keys: Keys) => keys.map(({ key }) => hexOf(key))
  const plain = stage.begun(await startPlainService(node.url, { keys: keysOf(plainKeys) }))
  const latest = stage.begun(await startPlainService(node.url, { keys: keysOf(latestKeys), estimatesAt: 'latest' }))
  await fund(
    node.url,
    erc20,
    [rawKeys, plainKeys, latestKeys].flat().map(({ address }) => hexOf(address)),
  )
  const oracle = await watchChain(node.url, numberOf)
  stage.begun({ end: oracle.stop })

  const signed: { raw: Hex; number: number }[] = []
  let numbers = 0
  const rawBody = (raw: Hex, id: number) =>
    `{"jsonrpc":"2.0","id":${id},"method":"eth_sendRawTransaction","params":["${raw}"]}`
  const post = (path: string, body: string, headers = ''): Request => ({ method: 'POST', path, body, headers })
  const call = (number: number) => ({
    address: erc20,
    abi: 'transfer(address to, uint256 amount)',
    args: [`0x${RECIPIENT}`, String(number)],
  })

  const raw = (name: string, size: number, connections: number): Side => ({
    ...{ name, accounts: ACCOUNTS, of: node, connections: [connections], perRequest: size },
    prepare: () => {
      while (signed.length < (seconds + 0.5) * 12_000) {
        const number = numbers++
        signed.push({
          number,
          raw: signNext(rawKeys[1 + (number % ACCOUNTS)]!, { chainId: CHAIN_ID, to: erc20, data: transferOf(number) }),
        })
      }
    },
    next: () => {
      const some = signed.splice(0, size)
      const bodies = some.map((one, id) => rawBody(one.raw, id))
      return {
        numbers: some.map(({ number }) => number),
        request: post('/', size === 1 ? bodies[0]! : `[${bodies.join()}]`),
      }
    },
  })
  const service = (name: string, of: Started, accounts: number): Side => ({
    ...{ name, accounts, of, connections: CONNECTIONS, perRequest: 1 },
    next: () => {
      const number = numbers++
      const account = accounts === 1 ? 0 : 1 + (number % accounts)
      return { numbers: [number], request: post('/write', JSON.stringify({ ...call(number), account })) }
    },
  })
  const ours = (name: string, accounts: number, { program, people }: Ours): Side => ({
    ...{ name, accounts, of: program, connections: CONNECTIONS, perRequest: 1 },
    next: () => {
      const number = numbers++
      const { token } = people[accounts === 1 ? 0 : 1 + (number % accounts)]!
      return {
        numbers: [number],
        request: post('/v1/contracts/method/write', JSON.stringify(call(number)), `authorization: Bearer ${token}\r\n`),
      }
    },
  })
  const baselines = [
    raw('raw sends, one by one', 1, 32),
    raw(`raw sends, batches of ${BATCH}`, BATCH, 4),
    service('plain, viem defaults', plain, 1),
    service('plain, viem defaults', plain, ACCOUNTS),
    service('plain, estimates at latest', latest, 1),
    service('plain, estimates at latest', latest, ACCOUNTS),
  ].filter(({ name }) => name.includes(flags.only))

  const cpuNow = ({ of }: Side): Record<string, number> => ({
    node: cpuMillis(node.pid),
    server: of === node ? 0 : cpuMillis(of.pid),
    signer: 'signerPid' in of ? cpuMillis((of as Program).signerPid) : 0,
    database: stage.cluster?.cpuMillis() ?? 0,
    load: ownCpuMillis(),
  })

  async function run(side: Side, connections: number, forSeconds = seconds): Promise<Phase> {
    side.prepare?.()
    const accepted = new Set<number>()
    const sent = new Map<number, number[]>()
    const countsBefore = await countsOf(side)
    const [cpuBefore, machineBefore, from] = [cpuNow(side), machineMillis(), performance.now()]
    let firstFailure: string | null = null
    const outcome = await load(
      side.of.url,
      { connections, seconds: forSeconds },
      (index) => {
        const { numbers, request } = side.next()
        sent.set(index, numbers)
        return request
      },
      (index, status, text) => {
        const mine = sent.get(index)!
        sent.delete(index)
        if (status !== 200) return void (firstFailure ??= text().slice(-600))
        if (side.of !== node) return void accepted.add(mine[0]!)
        const answers = [JSON.parse(text().split('\r\n\r\n')[1]!)].flat() as { id: number; result?: Hex }[]
        for (const { id, result } of answers) {
          if (result !== undefined) accepted.add(mine[side.perRequest === 1 ? 0 : id]!)
          else firstFailure ??= text().slice(-600)
        }
      },
    )
    const until = performance.now()
    const [cpuAfter, machineAfter] = [cpuNow(side), machineMillis()]
    const countsAfter = await countsOf(side)
    const own = Object.keys(cpuAfter).reduce((sum, name) => sum + cpuAfter[name]! - cpuBefore[name]!, 0)
    const lost = await oracle.settle(accepted)
    const doubled = [...accepted].filter((number) => (oracle.mined.get(number) ?? 0) > 1)
    const inside = oracle.blocks.filter(({ at, count }) => at >= from && count > 0)
    const during = inside.filter(({ at }) => at <= until + 200)
    const [first, last] = [during[0], during.at(-1)]
    const perWrite = (difference: number) => difference / accepted.size
    return {
      ...outcome,
      rate: outcome.rate * side.perRequest,
      count: accepted.size,
      lost: lost.length,
      doubled: doubled.length,
      firstFailure,
      mined:
        during.length < 2
          ? Number.NaN
          : (during.slice(1).reduce((sum, { count }) => sum + count, 0) * 1_000) / (last!.at - first!.at),
      cpu: Object.fromEntries(
        Object.entries(cpuAfter).map(([name, millis]) => [name, perWrite((millis - cpuBefore[name]!) * 1_000)]),
      ),
      counts: countsAfter === null ? null : differenceOf(countsBefore!, countsAfter, perWrite),
      others: (machineAfter.busy - machineBefore.busy - own) / (machineAfter.all - machineBefore.all),
    }
  }

  const results = new Map<string, Phase[]>()
  async function measure(sides: Side[]): Promise<void> {
    // Every path is compiled, every token was checked once, every account has a row.
    for (const side of sides) await run(side, 8, 1)
    for (const side of sides) {
      for (const connections of side.connections) {
        const phase = await run(side, connections)
        const key = `${side.name}|${side.accounts}|${connections}`
        results.set(key, [...(results.get(key) ?? []), phase])
        report(side, connections, phase)
      }
    }
  }

  for (let round = 1; round <= rounds; round++) {
    await measure(baselines)
    if (!'ours'.includes(flags.only)) continue
    // It follows the chain, which the others must not pay for: it runs for its own turn only, and what was mined
    // before is final by then, so that it does not read it.
    await rpc(node.url, 'anvil_mine', '0x60')
    const mine = await startOurs()
    await measure([ours('ours', 1, mine), ours('ours', ACCOUNTS, mine)])
    if (round === rounds) await printParts(mine)
    await stage.endEarly(mine.program)
  }
  printGoals(results)

  async function startOurs(): Promise<Ours> {
    const program = stage.begun(await startProgram(node.url, { settings: { MAX_PENDING_WRITES: '1000000' } }))
    const people = await program.people(Array.from({ length: ACCOUNTS + 1 }, (_, index) => `bench-${index}`))
    await fund(
      node.url,
      erc20,
      await Promise.all(people.map(({ userId, token }) => addressOfUser(program.url, userId, token))),
    )
    return { program, people }
  }

  async function printParts(mine: Ours): Promise<void> {
    let phase: Phase | null = null
    const profile = await mine.program.profile(async () => {
      phase = await run(ours('ours', ACCOUNTS, mine), 32)
    })
    const micros = phase!.cpu.server!
    console.log(
      `\nCPU of the server per write, ${ACCOUNTS} accounts, 32 connections: ${micros.toFixed(0)} µs, profiler included`,
    )
    for (const { part, share } of partsOf(profile))
      console.log(
        `  ${part.padEnd(38)} ${(share * micros).toFixed(0).padStart(5)} µs ${(share * 100).toFixed(0).padStart(3)} %`,
      )
  }
} finally {
  await stage.end()
}

type Keys = ReturnType<typeof newKey>[]
type Ours = { program: Program; people: Person[] }
type Side = {
  name: string
  accounts: number
  of: Started
  connections: number[]
  perRequest: number
  prepare?: () => void
  next: () => { numbers: number[]; request: Request }
}
type Phase = Outcome & {
  /** writes accepted in all, warming up included */
  count: number
  lost: number
  doubled: number
  mined: number
  /** µs per accepted write, by process */
  cpu: Record<string, number>
  /** per accepted write; null for what is not ours */
  counts: Counts | null
  /** what share of the machine went to processes that are no part of this */
  others: number
}

function transferOf(number: number): Hex {
  return `0xa9059cbb${RECIPIENT.padStart(64, '0')}${number.toString(16).padStart(64, '0')}`
}

function numberOf(input: Hex): number | null {
  const prefix = `0xa9059cbb${RECIPIENT.padStart(64, '0')}`
  return input.startsWith(prefix) ? Number(`0x${input.slice(prefix.length)}`) : null
}

async function countsOf({ of }: Side): Promise<Counts | null> {
  return 'counts' in of ? (of as Program).counts() : null
}

/** proc(5), /proc/stat: user nice system idle iowait irq softirq steal, in ticks of 10 ms. Linux only. */
function machineMillis(): { busy: number; all: number } {
  const ticks = readFileSync('/proc/stat', 'utf8').split('\n')[0]!.split(/ +/).slice(1, 9).map(Number)
  const all = ticks.reduce((sum, one) => sum + one)
  return { busy: (all - ticks[3]! - ticks[4]!) * 10, all: all * 10 }
}

function ownCpuMillis(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

function differenceOf(before: Counts, after: Counts, perWrite: (difference: number) => number): Counts {
  const methods = Object.keys(after.rpc)
  return {
    statements: perWrite(after.statements - before.statements),
    commits: perWrite(after.commits - before.commits),
    requests: perWrite(after.requests - before.requests),
    rpc: Object.fromEntries(
      methods.map((method) => [method, perWrite(after.rpc[method]! - (before.rpc[method] ?? 0))]),
    ),
  }
}

/** Writes per second if all cores did nothing else: what another run beside other processes can be compared by. */
function roomOf({ cpu }: Phase): number {
  return (availableParallelism() * 1_000_000) / Object.values(cpu).reduce((sum, micros) => sum + micros, 0)
}

function report(side: Side, connections: number, phase: Phase): void {
  const { rate, mined, p50, p99, lost, doubled, failures, count } = phase
  console.log(
    `${side.name.padEnd(28)} ${String(side.accounts).padStart(3)} accounts ${String(connections).padStart(3)} connections: ` +
      `${rate.toFixed(0).padStart(5)} accepted/s ${mined.toFixed(0).padStart(5)} mined/s  p50 ${p50.toFixed(1).padStart(6)}  p99 ${p99.toFixed(1).padStart(6)} ms` +
      `  ${count} accepted, ${lost} lost, ${doubled} doubled, ${failures} refused`,
  )
  if (phase.firstFailure !== null) console.log(`    first refusal: ${phase.firstFailure}`)
  const micros = Object.entries(phase.cpu).map(([name, value]) => `${name} ${value.toFixed(0)}`)
  console.log(
    `    CPU, µs per write: ${micros.join(', ')}: room for ${roomOf(phase).toFixed(0)}/s on ${availableParallelism()} cores; ${(phase.others * 100).toFixed(0)} % of the machine went to others`,
  )
  if (phase.counts === null) return
  const { statements, commits, requests, rpc } = phase.counts
  const calls = Object.entries(rpc)
    .filter(([, value]) => value >= 0.005)
    .map(([method, value]) => `${method} ${value.toFixed(2)}`)
  console.log(
    `    per write: ${statements.toFixed(2)} statements, ${commits.toFixed(2)} commits, ${requests.toFixed(2)} requests to the node with ${calls.join(', ')}`,
  )
}

function printGoals(results: Map<string, Phase[]>): void {
  const middle = (key: string, of: (phase: Phase) => number) => {
    const values = (results.get(key) ?? []).map(of).toSorted((a, b) => a - b)
    return values[values.length >> 1] ?? Number.NaN
  }
  const line = (text: string, value: number, isMet: boolean, room?: number) =>
    console.log(
      `  ${text.padEnd(70)} ${value.toFixed(2).padStart(8)}  ${isMet ? 'met   ' : 'MISSED'}${room === undefined ? '' : `  ${room.toFixed(2).padStart(8)}`}`,
    )
  console.log(`\nGoals, by what was mined; in the last column by CPU, which other processes change little`)
  const batched = `raw sends, batches of ${BATCH}|${ACCOUNTS}|4`
  const mined = (phase: Phase) => phase.mined
  for (const accounts of [1, ACCOUNTS]) {
    for (const connections of CONNECTIONS.filter((some) => some > 1)) {
      const mine = `ours|${accounts}|${connections}`
      const at = `${accounts} accounts, ${connections} connections`
      line(`mined/s, ${at}: at least 1000`, middle(mine, mined), middle(mine, mined) >= 1_000, middle(mine, roomOf))
      const against = (name: string, key: string, goal: number) => {
        const ratio = middle(mine, mined) / middle(key, mined)
        line(`/ ${name}, ${at}: at least ${goal}`, ratio, ratio >= goal, middle(mine, roomOf) / middle(key, roomOf))
      }
      against('raw batched sends', batched, 0.25)
      against('plain service, defaults', `plain, viem defaults|${accounts}|${connections}`, 4)
      against('plain service at latest', `plain, estimates at latest|${accounts}|${connections}`, 0.6)
    }
    const p50 = middle(`ours|${accounts}|32`, ({ p50: value }) => value)
    line(`p50 in ms, ${accounts} accounts, 32 connections: under 25`, p50, p50 < 25)
  }
  const all = [...results.values()].flat()
  const wrong = all.reduce((sum, { lost, doubled }) => sum + lost + doubled, 0)
  line('accepted writes that were not mined exactly once: 0', wrong, wrong === 0)
}
