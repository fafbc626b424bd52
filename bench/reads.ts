/**
 * `npm run bench:reads [-- --seconds=1 --rounds=4 --memory=50000]`: what a read costs, everything in one run, because
 * only ratios of one run mean something. A node, the plain service, the program and this load generator share the
 * machine. Prints tables, writes nothing. `--memory` is the number of distinct calls and signatures in the last part;
 * 1000000 for the long form. On the cluster of TEST_DATABASE_URL, else on a throw-away PostgreSQL with its own settings
 * where its binaries are, and then with a second replica too; else on the embedded database.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { keccak256 } from 'viem/utils'
import { openNode } from '../src/chain/rpc/node.ts'
import { deploy } from '../src/devnet/deploy.ts'
import type { Hex } from '../src/ids.ts'
import { httpClients } from './http-clients.ts'
import { load, type Outcome, type Request } from './load.ts'
import { nodeCosts } from './node-costs.ts'
import { partsOf } from './parts.ts'
import { cpuMillis, startNode, startPlainService, startProgram, type Person, type Started } from './place.ts'
import { openStage } from './stage.ts'

const { values: flags } = parseArgs({
  options: {
    seconds: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '4' },
    memory: { type: 'string', default: '50000' },
  },
})
const seconds = Number(flags.seconds)
const rounds = Number(flags.rounds)
const CONNECTIONS = [1, 32, 128]
const HOLDERS = 2_000
const USERS = 1_000
const REPEATED = 100
const READ = '/v1/contracts/method/read'

const stage = await openStage()
const processes: { pid: number }[] = []
const urlsOf = (of: readonly Started[]): string[] => of.map(({ url }) => url)
const cpuOf = (of: readonly { pid: number }[]) => of.reduce((sum, { pid }) => sum + cpuMillis(pid), 0)
try {
  const node = begun(await startNode())
  const [anything] = await deploy(node.url, ['Yes'])
  const { erc20 } = node.contracts
  await giveTokens(node.url, erc20)
  const plain = begun(await startPlainService(node.url))
  const program = begun(await startProgram(node.url))
  // It has a signer of its own, which no read asks.
  const replicas =
    stage.cluster === null
      ? null
      : [program, begun(await startProgram(node.url, { settings: program.replicaSettings }))]
  const people = await program.people(Array.from({ length: USERS }, (_, index) => `bench-${index}`))
  const one = people[0]!

  // Distinct over the whole run, the first of them holders.
  let addresses = 0
  const nextAddress = () => addressOf(addresses++)
  const askRaw = (method: string, params: unknown[]): Request => ({
    method: 'POST',
    path: '/',
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const call = (address: Hex, abi = 'balanceOf(address) public view returns (uint256)', contract = erc20) =>
    JSON.stringify({ address: contract, abi, args: [address] })
  const read = (body: string): Request => ({ method: 'POST', path: READ, headers: bearer(one), body })

  const rows: Row[] = [
    row('raw eth_call', node, () => askRaw('eth_call', [{ to: erc20, data: balanceOf(nextAddress()) }, 'latest'])),
    row('raw eth_getBalance', node, () => askRaw('eth_getBalance', [nextAddress(), 'latest'])),
    row('plain service', plain, () => ({ method: 'POST', path: '/read', body: call(nextAddress()) })),
    row('read, all different', program, () => read(call(nextAddress()))),
    row('read, repeating', program, (number) => read(call(addressOf(number % REPEATED)))),
    row('balance, one user', program, () => ({
      method: 'GET',
      path: `/v1/users/${one.userId}/balance`,
      headers: bearer(one),
    })),
    row(`token, ${USERS} users`, program, (number) => {
      const person = people[number % USERS]!
      return { method: 'GET', path: `/v1/users/${person.userId}/balance/${erc20}`, headers: bearer(person) }
    }),
    ...(replicas === null
      ? []
      : [
          row('two replicas, different', replicas, () => read(call(nextAddress()))),
          row('two replicas, repeating', replicas, (number) => read(call(addressOf(number % REPEATED)))),
        ]),
  ]
  await warmUp()
  const others = await shareOfOthers(stage.cluster?.cpuMillis ?? (() => 0), () => measure(rows))
  printRates(rows)
  console.log(
    `Meanwhile ${(others * 100).toFixed(0)} % of the machine's time went to processes that are no part of this.`,
  )
  printGoals(rows)

  await printParts('read, all different', () => read(call(nextAddress())))
  await printParts('read, repeating', (number) => read(call(addressOf(number % REPEATED))))
  await printNodeCosts()
  await printHttpClients()
  await printMemory(Number(flags.memory))

  /** Every path is compiled, every token was checked once. */
  async function warmUp(): Promise<void> {
    for (const { of, next } of rows) await load(urlsOf(of), { connections: 8, seconds: 0.5, warmUpSeconds: 0 }, next)
    let number = 0
    const everyone = rows.find(({ name }) => name.startsWith('token'))!.next
    await load(program.url, { connections: 8, seconds: 2, warmUpSeconds: 0 }, () => everyone(number++))
  }

  async function printParts(name: string, next: (number: number) => Request): Promise<void> {
    let outcome: Outcome | null = null
    const cpu = cpuMillis(program.pid)
    const profile = await program.profile(async () => {
      outcome = await load(program.url, { connections: 32, seconds: 3, warmUpSeconds: 0 }, next)
    })
    const micros = ((cpuMillis(program.pid) - cpu) * 1_000) / (outcome!.rate * 3)
    console.log(`\nCPU of the program per request, ${name}, 32 connections: ${micros.toFixed(0)} µs, profiler included`)
    for (const { part, share } of partsOf(profile)) {
      console.log(
        `  ${part.padEnd(34)} ${(share * micros).toFixed(1).padStart(6)} µs  ${(share * 100).toFixed(0).padStart(3)} %`,
      )
    }
  }

  async function printNodeCosts(): Promise<void> {
    console.log('\nCPU of the node and of the asking process per balanceOf, one after another')
    for (const { way, rate, nodeMicros, ownMicros } of await nodeCosts(node, erc20)) {
      console.log(
        `  ${way.padEnd(34)} ${nodeMicros.toFixed(1).padStart(6)} µs  ${ownMicros.toFixed(1).padStart(6)} µs  ${rate.toFixed(0).padStart(8)}/s`,
      )
    }
  }

  async function printHttpClients(): Promise<void> {
    console.log('\nCPU of the asking process per request to the node, by HTTP client (docs/decisions/0055)')
    for (const { load: of, client, rate, micros } of await httpClients(node.url, erc20)) {
      console.log(
        `  ${of.padEnd(28)} ${client.padEnd(24)} ${micros.toFixed(1).padStart(8)} µs  ${rate.toFixed(0).padStart(8)}/s`,
      )
    }
  }

  /** Each call another address and another signature: nothing may stay behind. */
  async function printMemory(calls: number): Promise<void> {
    console.log(`\nMemory of the program over ${calls} distinct calls with distinct signatures`)
    let made = 0
    let failures = 0
    const stages = [0.1, 0.4, 0.7, 1]
    for (const stage of stages) {
      while (made < calls * stage) {
        const outcome = await load(program.url, { connections: 64, seconds: 0.5, warmUpSeconds: 0 }, () =>
          read(call(nextAddress(), `f${made++}(address owner) external view returns (uint256 held)`, anything!)),
        )
        failures += outcome.failures
      }
      // The answers of the last block leave with the next one.
      await wait(1_500)
      await load(program.url, { connections: 1, seconds: 0.1, warmUpSeconds: 0 }, () => read(call(nextAddress())))
      const { heapUsed, external, rss } = await program.memory()
      console.log(
        `  after ${String(made).padStart(8)}: heap ${megabytes(heapUsed)}, outside ${megabytes(external)}, resident ${megabytes(rss)}`,
      )
    }
    if (failures > 0) console.log(`  ${failures} of them failed`)
  }
} finally {
  await stage.end()
}

function begun<T extends Started>(thing: T): T {
  processes.push(thing)
  return stage.begun(thing)
}

type Row = {
  name: string
  of: readonly Started[]
  next: (number: number) => Request
  /** by connections, one entry per round */
  outcomes: Map<number, (Outcome & { cpuMicros: number })[]>
}

function row(name: string, of: Started | readonly Started[], next: (number: number) => Request): Row {
  return { name, of: [of].flat(), next, outcomes: new Map(CONNECTIONS.map((connections) => [connections, []])) }
}

/** In turn, so that whatever else the machine does hits all of them alike. */
async function measure(rows: Row[]): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (const connections of CONNECTIONS) {
      for (const { of, next, outcomes, name } of rows) {
        const cpu = cpuOf(of)
        const outcome = await load(urlsOf(of), { connections, seconds, warmUpSeconds: 0.2 }, next)
        const cpuMicros = ((cpuOf(of) - cpu) * 1_000) / (outcome.rate * (seconds + 0.2))
        if (outcome.failures > 0)
          console.log(`${name}: ${outcome.failures} failures, the first: ${outcome.firstFailure}`)
        outcomes.get(connections)!.push({ ...outcome, cpuMicros })
      }
    }
  }
}

/** Of the round in which it was fastest: whatever else the machine does only slows down. */
function best(row: Row, connections: number, of: 'rate' | 'p50' | 'p99' | 'cpuMicros'): number {
  return row.outcomes.get(connections)!.toSorted((a, b) => b.rate - a.rate)[0]![of]
}

function printRates(rows: Row[]): void {
  console.log(
    `\nRequests per second, p50 and p99 in ms, CPU of the server per request in µs; the best of ${rounds} rounds`,
  )
  console.log(`${''.padEnd(24)}${CONNECTIONS.map((connections) => `${connections} connections`.padStart(32)).join('')}`)
  for (const one of rows) {
    const cells = CONNECTIONS.map((connections) => {
      const [rate, p50, p99, cpu] = (['rate', 'p50', 'p99', 'cpuMicros'] as const).map((of) =>
        best(one, connections, of),
      )
      return `${rate!.toFixed(0).padStart(10)}${p50!.toFixed(2).padStart(8)}${p99!.toFixed(2).padStart(8)}${cpu!.toFixed(0).padStart(6)}`
    })
    console.log(one.name.padEnd(24) + cells.join(''))
  }
}

function printGoals(rows: Row[]): void {
  const of = (name: string) => rows.find((one) => one.name === name)!
  const [raw, rawBalance, plain] = [of('raw eth_call'), of('raw eth_getBalance'), of('plain service')]
  const [different, repeating, balance] = [of('read, all different'), of('read, repeating'), of('balance, one user')]
  const ratio = (a: Row, b: Row, connections: number) => best(a, connections, 'rate') / best(b, connections, 'rate')
  const lateness = (a: Row, b: Row, connections: number) => best(a, connections, 'p99') / best(b, connections, 'p99')
  const line = (text: string, value: number, isMet: boolean) =>
    console.log(`  ${text.padEnd(70)} ${value.toFixed(2).padStart(6)}  ${isMet ? 'met' : 'MISSED'}`)
  console.log('\nGoals')
  const fast = ratio(different, raw, 32)
  line('all different / raw eth_call, 32 connections: at least 0.6', fast, fast >= 0.6)
  for (const [connections, goal] of [
    [1, 2],
    [32, 4],
    [128, 4],
  ] as const) {
    const value = ratio(different, plain, connections)
    line(`all different / plain service, ${connections} connections: at least ${goal}`, value, value >= goal)
  }
  for (const connections of CONNECTIONS) {
    const value = ratio(repeating, raw, connections)
    line(`repeating / raw eth_call, ${connections} connections: at least 1`, value, value >= 1)
  }
  for (const connections of CONNECTIONS) {
    const value = lateness(different, raw, connections)
    line(`p99 of all different / p99 of raw eth_call, ${connections} connections: under 4`, value, value < 4)
  }
  const two = rows.find(({ name }) => name === 'two replicas, repeating')
  if (two !== undefined) {
    for (const connections of CONNECTIONS.slice(1)) {
      const value = ratio(two, raw, connections)
      line(`two replicas, repeating / raw eth_call, ${connections} connections: at least 1`, value, value >= 1)
    }
  }
  for (const connections of CONNECTIONS) {
    console.log(
      `  balance of one user / raw eth_getBalance, ${connections} connections`.padEnd(73) +
        ratio(balance, rawBalance, connections).toFixed(2).padStart(6),
    )
  }
}

/** What share of all cores others used: a run beside busy ones says little. Linux only. */
async function shareOfOthers(databaseMillis: () => number, work: () => Promise<void>): Promise<number> {
  const before = machineMillis()
  const mine = () => cpuOf([...processes, process]) + databaseMillis()
  const own = mine()
  await work()
  const after = machineMillis()
  return (after.busy - before.busy - (mine() - own)) / (after.all - before.all)
}

/** proc(5), /proc/stat: user nice system idle iowait irq softirq steal, in ticks of 10 ms */
function machineMillis(): { busy: number; all: number } {
  const ticks = readFileSync('/proc/stat', 'utf8').split('\n')[0]!.split(/ +/).slice(1, 9).map(Number)
  const all = ticks.reduce((sum, one) => sum + one)
  return { busy: (all - ticks[3]! - ticks[4]!) * 10, all: all * 10 }
}

/** Balances in the token's own storage, which is quicker than two thousand mints. */
async function giveTokens(nodeUrl: string, token: Hex): Promise<void> {
  const { ask, close } = openNode(nodeUrl)
  const calls = Array.from({ length: HOLDERS }, (_, index) => {
    // Slot 0 of OpenZeppelin's ERC20 is the mapping of balances; docs.soliditylang.org, "Layout of State Variables".
    const slot = keccak256(`0x${addressOf(index).slice(2).padStart(64, '0')}${'0'.repeat(64)}`)
    return { method: 'anvil_setStorageAt', params: [token, slot, `0x${(index + 1).toString(16).padStart(64, '0')}`] }
  })
  for (let at = 0; at < calls.length; at += 100) await ask(calls.slice(at, at + 100), { timeoutMs: 30_000 })
  close()
}

function addressOf(number: number): Hex {
  return `0x${(number + 1).toString(16).padStart(40, 'b')}`
}

function balanceOf(address: Hex): Hex {
  return `0x70a08231${address.slice(2).padStart(64, '0')}`
}

function bearer({ token }: Person): string {
  return `authorization: Bearer ${token}\r\n`
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_048_576).toFixed(0)} MB`
}
