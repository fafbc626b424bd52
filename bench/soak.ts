/**
 * `npm run bench:soak [-- --minutes=60 --share=0.8 --connections=256]`: an hour of mixed traffic, one write to four reads, that
 * arrives at a share of what a closed loop can do in the same run. A line a minute; at the end what memory and times did
 * after the first ten minutes, or the first third of a shorter run, and whether a write was lost or doubled on the chain.
 * Node, database, program and this load generator share the machine. On the cluster of TEST_DATABASE_URL, else on a throw-away
 * PostgreSQL where its binaries are, else on the embedded database. Prints tables, writes nothing.
 */
import { parseArgs } from 'node:util'
import type { Hex } from '../src/ids.ts'
import { addressOfUser, fund } from './fund.ts'
import { load, type Request } from './load.ts'
import { watchChain } from './mined.ts'
import { openLoad } from './open-load.ts'
import { residentBytes, startNode, startProgram, type Person } from './place.ts'
import { openStage } from './stage.ts'

const { values: flags } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    share: { type: 'string', default: '0.8' },
    connections: { type: 'string', default: '256' },
  },
})
const minutes = Number(flags.minutes)
const share = Number(flags.share)
const ACCOUNTS = 100
/** one request in so many is a write */
const WRITE_IN = 5
const RECIPIENT = 'b0b'.padStart(40, '0')
const PEAK_SECONDS = 15
const MINUTE_MS = 60_000
/** what is not on the chain so long after the last that came is lost */
const QUIET_MS = 30_000
/** A write's number says whether it was accepted and how often it was mined; so many bytes hold them all. */
const MAX_WRITES = 8_000_000
const ACCEPTED = 0x80

type Minute = { p50: number; p99: number; rss: number; heap: number; signer: number }

const stage = await openStage()
try {
  // The node forgets what is older than the program and the oracle look for: else it is the one that grows.
  const node = stage.begun(
    await startNode({ flags: ['--gas-limit', '300000000', '--transaction-block-keeper', '600'] }),
  )
  const { erc20 } = node.contracts
  // Tokens that live as long as the run: signing in again is not what is looked at.
  const program = stage.begun(
    await startProgram(node.url, {
      settings: { MAX_PENDING_WRITES: '1000000', ACCESS_TOKEN_SECONDS: '86400' },
    }),
  )
  const oracle = await watchChain(node.url, numberOf)
  stage.begun({ end: oracle.stop })
  const people = await program.people(Array.from({ length: ACCOUNTS }, (_, index) => `soak-${index}`))
  const addresses = people.map(({ userId, token }) => addressOfUser(program.url, userId, token))
  await fund(node.url, erc20, await Promise.all(addresses))

  const writes = new Uint8Array(MAX_WRITES)
  let numbers = 0
  let distinct = 0
  const begun = new Map<number, number>()
  const post = (path: string, body: object, { token }: Person): Request => ({
    ...{ method: 'POST', path, body: JSON.stringify(body), headers: `authorization: Bearer ${token}\r\n` },
  })
  const next = (number: number): Request => {
    if (number % WRITE_IN === 0 && numbers < MAX_WRITES - 1) {
      begun.set(number, ++numbers)
      const person = people[numbers % ACCOUNTS]!
      const args = [`0x${RECIPIENT}`, String(numbers)]
      const abi = 'transfer(address to, uint256 amount)'
      return post('/v1/contracts/method/write', { address: erc20, abi, args }, person)
    }
    const holder = `0x${(++distinct).toString(16).padStart(40, '0')}`
    const abi = 'balanceOf(address account) public view returns (uint256)'
    return post('/v1/contracts/method/read', { address: erc20, abi, args: [holder] }, people[distinct % ACCOUNTS]!)
  }
  const note = (number: number, status: number) => {
    const write = begun.get(number)
    begun.delete(number)
    if (write !== undefined && status === 200) writes[write]! |= ACCEPTED
  }

  // Blocks are read as they come, so that the node has not forgotten them and nothing waits for the end.
  let reading = Promise.resolve()
  const reader = setInterval(() => (reading = reading.then(readChain)), 2_000)
  stage.begun({ end: async () => clearInterval(reader) })
  // The first seconds of a process are its compiler's.
  await load(program.url, { connections: 64, seconds: 10 }, next, note)
  begun.clear()
  const peak = await load(program.url, { connections: 128, seconds: PEAK_SECONDS }, next, note)
  begun.clear()
  await settle()
  const rate = peak.rate * share
  console.log(`peak ${Math.round(peak.rate)}/s, p50 ${ms(peak.p50)}, p99 ${ms(peak.p99)}: ${Math.round(rate)}/s arrive for ${minutes} minutes\n`) // prettier-ignore
  row(['minute', 'answered /s', 'refused', 'other', 'p50', 'p99', 'server', 'heap', 'signer', 'node', 'load', 'loop late, p99']) // prettier-ignore
  row(Array.from({ length: 12 }, () => '---'))

  const table: Minute[] = []
  const kinds = new Map<string, number>()
  let took: number[] = []
  let [refused, others] = [0, 0]
  await program.loopDelayMs()
  let since = performance.now()
  const closeMinute = async () => {
    const sorted = Float64Array.from(took).sort()
    const counted = { refused, others, seconds: (performance.now() - since) / 1_000 }
    took = []
    refused = others = 0
    since = performance.now()
    const late = await program.loopDelayMs()
    const { heapUsed, rss } = await program.memory()
    const one = {
      p50: at(sorted, 0.5),
      p99: at(sorted, 0.99),
      rss,
      heap: heapUsed,
      signer: residentBytes(program.signerPid),
    }
    table.push(one)
    row([
      `${table.length}`, `${Math.round(sorted.length / counted.seconds)}`, `${counted.refused}`, `${counted.others}`, ms(one.p50), ms(one.p99),
      ...[rss, heapUsed, one.signer, residentBytes(node.pid), process.memoryUsage.rss()].map(mb), ms(late),
    ]) // prettier-ignore
  }
  let closing = Promise.resolve()
  const clock = setInterval(() => (closing = closing.then(closeMinute)), MINUTE_MS)
  await openLoad(
    program.url,
    { rate, connections: Number(flags.connections), seconds: minutes * 60 },
    next,
    (number, status, took_, text) => {
      note(number, status)
      if (status === 200) return void took.push(took_)
      const kind = status === 0 ? 'closed without an answer' : `${status} ${/"code":"(\w+)"/.exec(text())?.[1] ?? ''}`
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
      if (kind === '503 overloaded') refused++
      else others++
    },
  )
  clearInterval(clock)
  await closing
  const { lost, doubled, accepted } = await settle()

  const warm = Math.min(10, Math.ceil(table.length / 3))
  const later = table.slice(warm)
  const third = Math.max(1, Math.floor(later.length / 3))
  const p99 = (part: Minute[]) => part.reduce((sum, one) => sum + one.p99, 0) / part.length
  console.log(`\nafter the first ${warm} minutes, by least squares: resident ${slope(later, 'rss')}, heap ${slope(later, 'heap')}, signer ${slope(later, 'signer')}`) // prettier-ignore
  console.log(`p99 of the last third against the first: ${signed((p99(later.slice(-third)) / p99(later.slice(0, third)) - 1) * 100)} %`) // prettier-ignore
  console.log(`${accepted} writes accepted, ${lost} lost, ${doubled} doubled`)
  console.log(`answers other than 200: ${[...kinds].map(([kind, count]) => `${count} × ${kind}`).join(', ') || 'none'}`)

  async function readChain(): Promise<void> {
    await oracle.read()
    // Its own bits: a count up to 127 beside whether it was accepted.
    for (const [number, count] of oracle.mined) writes[number] = writes[number]! + Math.min(count, 3)
    oracle.mined.clear()
  }

  async function settle(): Promise<{ accepted: number; lost: number; doubled: number }> {
    let left = Number.POSITIVE_INFINITY
    for (let movedAt = performance.now(); ;) {
      await (reading = reading.then(readChain))
      let [accepted, lost, doubled] = [0, 0, 0]
      for (let number = 1; number <= numbers; number++) {
        const times = writes[number]! & ~ACCEPTED
        if (writes[number]! & ACCEPTED) {
          accepted++
          if (times === 0) lost++
        }
        if (times > 1) doubled++
      }
      if (lost < left) movedAt = performance.now()
      left = lost
      if (lost === 0 || performance.now() - movedAt > QUIET_MS) return { accepted, lost, doubled }
      await new Promise((resolve) => setTimeout(resolve, 500))
    }
  }
} finally {
  await stage.end()
}

/** What a straight line through the minutes gains in an hour, of its middle, %. */
function slope(of: Minute[], what: 'rss' | 'heap' | 'signer'): string {
  const middle = (of.length - 1) / 2
  const mean = of.reduce((sum, one) => sum + one[what], 0) / of.length
  let [above, below] = [0, 0]
  for (const [minute, one] of of.entries()) {
    above += (minute - middle) * (one[what] - mean)
    below += (minute - middle) ** 2
  }
  return below === 0 ? '–' : `${signed(((above / below) * 60 * 100) / mean)} % an hour (${mb(mean)})`
}

/** The number of a transfer of the benchmark, its amount. */
function numberOf(input: Hex): number | null {
  return input.length === 138 && input.slice(34, 74) === RECIPIENT ? Number(BigInt(`0x${input.slice(74)}`)) : null
}

function at(sorted: Float64Array, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
function ms(value: number): string {
  return value < 10 ? value.toFixed(1) : String(Math.round(value))
}
function mb(bytes: number): string {
  return `${(bytes / 1_048_576).toFixed(1)} MB`
}
function signed(value: number): string {
  return `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(1)}`
}
function row(cells: string[]): void {
  console.log(`| ${cells.join(' | ')} |`)
}
