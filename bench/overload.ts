/**
 * `npm run bench:overload [-- --seconds=10 --times=3,10 --only=writes,mixed,reads,noisy,weights,slow --proxy]`: what is still answered
 * within a second when more arrives than can be done, against the peak of a closed loop in the same run. Node, database,
 * program and this load generator share the machine, so what it costs to refuse is taken from what is served. Every accepted
 * write is looked for on the chain. With `--proxy` what is too much comes through HAProxy, the peak does not. On the cluster of TEST_DATABASE_URL, else on a throw-away PostgreSQL where its
 * binaries are, else on the embedded database. Prints tables, writes nothing.
 */
import { connect } from 'node:net'
import { parseArgs } from 'node:util'
import type { Hex } from '../src/ids.ts'
import { addressOfUser, fund } from './fund.ts'
import { startHaproxy } from './haproxy.ts'
import { load, type Request } from './load.ts'
import { watchChain } from './mined.ts'
import { openLoad, type OpenOutcome } from './open-load.ts'
import { cpuMillis, startNode, startProgram, type Person } from './place.ts'
import { openStage } from './stage.ts'

const { values: flags } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    times: { type: 'string', default: '3,10' },
    only: { type: 'string', default: 'writes,mixed,reads,noisy,weights,slow' },
    connections: { type: 'string', default: '2000' },
    proxy: { type: 'boolean', default: false },
  },
})
const seconds = Number(flags.seconds)
const connections = Number(flags.connections)
const TIMES = flags.times.split(',').map(Number)
const parts = new Set(flags.only.split(','))
const ACCOUNTS = 100
const APPLICATIONS = 10
/** of a mixed load, one request in so many is a write */
const WRITE_IN = 5
const RECIPIENT = 'b0b'.padStart(40, '0')
const BLOCK_GAS = '300000000'

const stage = await openStage()
try {
  const node = stage.begun(await startNode({ flags: ['--gas-limit', BLOCK_GAS] }))
  const { erc20 } = node.contracts
  const program = stage.begun(await startProgram(node.url, { settings: { MAX_PENDING_WRITES: '1000000' } }))
  const proxy = flags.proxy ? await startHaproxy(program.url) : null
  if (proxy !== null) stage.begun(proxy)
  const target = (proxy ?? program).url
  const oracle = await watchChain(node.url, numberOf)
  stage.begun({ end: oracle.stop })
  const names = (application: number) =>
    Array.from({ length: ACCOUNTS / APPLICATIONS }, (_, index) => `bench-${application}-${index}`)
  const applications: Person[][] = []
  for (let number = 0; number < APPLICATIONS; number++)
    applications.push(await program.people(names(number), `bench-${number}`))
  /** two applications of ten people that ask as much as each other */
  const weighed: Person[][] = []
  if (parts.has('weights'))
    for (const weight of [1, 2])
      weighed.push(await program.people(names(APPLICATIONS + weight), `bench-weight-${weight}`, weight))
  const people = applications.flat()
  const addresses = [...people, ...weighed.flat()].map(({ userId, token }) => addressOfUser(program.url, userId, token))
  await fund(node.url, erc20, await Promise.all(addresses))

  let numbers = 0
  const accepted = new Set<number>()
  const post = (path: string, body: object, { token }: Person): Request => ({
    ...{ method: 'POST', path, body: JSON.stringify(body), headers: `authorization: Bearer ${token}\r\n` },
  })
  const write = (number: number, of = people) =>
    post(
      '/v1/contracts/method/write',
      { address: erc20, abi: 'transfer(address to, uint256 amount)', args: [`0x${RECIPIENT}`, String(number)] },
      of[number % of.length]!,
    )
  let distinct = 0
  const read = (of = people) => {
    const holder = `0x${(++distinct).toString(16).padStart(40, '0')}`
    const abi = 'balanceOf(address account) public view returns (uint256)'
    return post('/v1/contracts/method/read', { address: erc20, abi, args: [holder] }, of[distinct % of.length]!)
  }
  const KINDS: Record<string, (number: number) => boolean> = {
    writes: () => true,
    mixed: (number) => number % WRITE_IN === 0,
    reads: () => false,
  }
  const begun = new Map<number, number>()
  const nextOf = (isWrite: (number: number) => boolean) => (number: number) => {
    if (!isWrite(number)) return read()
    begun.set(number, numbers)
    return write(numbers++)
  }
  /** of a mixed load: what is let in is no longer the mix that arrives */
  const good = { writes: 0, reads: 0 }
  const note = (number: number, status: number, tookMs = 0) => {
    const mine = begun.get(number)
    begun.delete(number)
    if (mine !== undefined && status === 200) accepted.add(mine)
    if (status === 200 && tookMs <= 1_000) good[mine === undefined ? 'reads' : 'writes']++
  }
  const noteClosed = (number: number, status: number) => note(number, status)
  const goodOnes = () => {
    const shown = `${Math.round(good.writes / seconds)} + ${Math.round(good.reads / seconds)}`
    good.writes = good.reads = 0
    return shown
  }

  const rows: string[][] = []
  for (const [kind, isWrite] of Object.entries(KINDS)) {
    if (!parts.has(kind)) continue
    // The first seconds of a process are its compiler's.
    await load(program.url, { connections: 64, seconds: 3 }, nextOf(isWrite), noteClosed)
    goodOnes()
    const peak = await load(program.url, { connections: 128, seconds }, nextOf(isWrite), noteClosed)
    rows.push([
      kind,
      'peak, closed loop, 128',
      `${Math.round(peak.rate)}`,
      goodOnes(),
      '',
      ms(peak.p50),
      ms(peak.p99),
      '',
      '',
      '',
      '',
    ])
    await settle(kind)
    for (const times of TIMES) {
      const before = [cpuMillis(program.pid), ownCpuMillis()] as const
      const outcome = await openLoad(target, { rate: peak.rate * times, connections, seconds }, nextOf(isWrite), note)
      const cpu = [cpuMillis(program.pid) - before[0], ownCpuMillis() - before[1]].map((one) =>
        (one / seconds / 10).toFixed(0),
      )
      rows.push(
        rowOf(kind, `${times} ×`, outcome, { peak: peak.rate, good: goodOnes(), cpu: `${cpu[0]} / ${cpu[1]} %` }),
      )
      if (outcome.firstOther !== null) console.log(`${kind} ${times} ×: another answer: ${outcome.firstOther}`)
      await settle(kind)
    }
    const { heapUsed, rss } = await program.memory()
    console.log(`${kind}: heap ${mb(heapUsed)}, resident ${mb(rss)}`)
  }
  print(['', 'load', 'within 1 s, /s', 'writes + reads', 'of peak', 'p50', 'p99', 'refused /s', 'refusals p50 / p99', 'no connection free', 'CPU server / load'], rows) // prettier-ignore

  if (parts.has('noisy')) {
    const peak = (await load(program.url, { connections: 128, seconds }, () => read())).rate
    const table: string[][] = []
    for (const noise of [1, 10]) {
      // Nine ask for six hundredths of the peak each, the tenth for as much, or for ten times as much as a tenth.
      const quiet = peak * 0.06
      const noisy = noise === 1 ? quiet : peak
      const counts = applications.map(() => ({ asked: 0, good: 0 }))
      const whose = new Map<number, number>()
      await openLoad(
        target,
        { rate: quiet * 9 + noisy, connections, seconds },
        (number) => {
          const draw = Math.random() * (quiet * 9 + noisy)
          const application = draw < noisy ? 0 : 1 + Math.floor(Math.random() * 9)
          whose.set(number, application)
          counts[application]!.asked++
          return read(applications[application])
        },
        (number, status, took) => {
          if (status === 200 && took <= 1_000) counts[whose.get(number)!]!.good++
          whose.delete(number)
        },
      )
      const share = counts.map(({ asked, good }) => good / asked)
      table.push([`${noise} ×`, percent(share[0]!), percent(Math.min(...share.slice(1)))])
    }
    print(['one application of ten asks', 'of its own answered within 1 s', 'of the worst other'], table)
  }

  if (parts.has('weights')) {
    const table: string[][] = []
    for (const kind of ['reads', 'writes']) {
      const isWrite = kind === 'writes'
      const asked = (of: Person[]) => (isWrite ? write(numbers++, of) : read(of))
      const peak = (await load(program.url, { connections: 128, seconds }, () => asked(weighed.flat()))).rate
      for (const times of TIMES) {
        const served = [0, 0]
        await openLoad(
          target,
          { rate: peak * times, connections, seconds },
          (number) => asked(weighed[number % 2]!),
          (number, status, took) => {
            if (status === 200 && took <= 1_000) served[number % 2]!++
          },
        )
        const [one, two] = served.map((count) => count / seconds) as [number, number]
        table.push([kind, `${times} ×`, `${Math.round(one)}`, `${Math.round(two)}`, (two / one).toFixed(2)])
      }
    }
    print(['half of what is asked by each of two', 'load', 'weight 1: within 1 s, /s', 'weight 2', 'ratio'], table)
  }

  if (parts.has('slow')) {
    const before = await load(program.url, { connections: 64, seconds }, () => read())
    const host = new URL(program.url)
    const sockets = Array.from({ length: 5_000 }, (_, index) => {
      const socket = connect(Number(host.port), host.hostname)
      socket.on('error', () => {})
      const head =
        'POST /oauth/token HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n'
      socket.write(index % 2 === 0 ? head : `${head}content-length: 100\r\n\r\n`)
      return socket
    })
    const drip = setInterval(() => sockets.forEach((socket) => socket.writable && socket.write('a')), 1_000)
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    const during = await load(program.url, { connections: 64, seconds }, () => read())
    clearInterval(drip)
    for (const socket of sockets) socket.destroy()
    print(['reads, closed loop, 64', '/s', 'p99', 'not 200'], [
      ['alone', `${Math.round(before.rate)}`, ms(before.p99), `${before.failures}`],
      ['beside 5,000 slow sockets', `${Math.round(during.rate)}`, ms(during.p99), `${during.failures}`],
    ]) // prettier-ignore
  }

  async function settle(kind: string): Promise<void> {
    const missing = await oracle.settle(accepted)
    const doubled = [...oracle.mined].filter(([, count]) => count > 1).length
    if (kind !== 'reads')
      console.log(`${kind}: ${accepted.size} writes accepted so far, ${missing.length} lost, ${doubled} doubled`)
  }
} finally {
  await stage.end()
}

function rowOf(
  kind: string,
  name: string,
  outcome: OpenOutcome,
  { peak, good: goodOnes, cpu }: { peak: number; good: string; cpu: string },
): string[] {
  const { offered, good, p50, p99, refused, refusedP50, refusedP99, queued, unanswered, others } = outcome
  return [
    kind,
    `${name}: ${Math.round(offered)} /s${unanswered + others === 0 ? '' : `, ${others} other, ${unanswered} unanswered`}`,
    `${Math.round(good)}`,
    goodOnes,
    percent(good / peak),
    ...[ms(p50), ms(p99), `${Math.round(refused)}`, `${ms(refusedP50)} / ${ms(refusedP99)}`, `${queued}`, cpu],
  ]
}

/** The number of a transfer of the benchmark, its amount. */
function numberOf(input: Hex): number | null {
  return input.length === 138 && input.slice(34, 74) === RECIPIENT ? Number(BigInt(`0x${input.slice(74)}`)) : null
}

function ownCpuMillis(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

function ms(value: number): string {
  return Number.isNaN(value) ? '–' : value < 10 ? value.toFixed(1) : String(Math.round(value))
}
function mb(bytes: number): string {
  return `${Math.round(bytes / 1_048_576)} MB`
}
function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`
}
function print(head: string[], rows: string[][]): void {
  if (rows.length === 0) return
  for (const row of [head, head.map(() => '---'), ...rows]) console.log(`| ${row.join(' | ')} |`)
  console.log('')
}
