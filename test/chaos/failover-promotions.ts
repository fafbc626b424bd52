import { loadavg } from 'node:os'
import {
  faultsOf,
  observe,
  saidBy,
  setUp,
  type FailoverName,
  type FailoverOptions,
  type Strike,
} from './failover-run.ts'
import { judge, type Verdict } from './transactions-oracle.ts'

/** What each promotion is, in turn: two that forget, one that must not. */
const TURNS: FailoverName[] = ['lost-tail', 'wiped-pool', 'synchronous']

/** milliseconds between the writes of a client: the judge compares all of many promotions */
const PACE_MS = 600

/** A promotion of a standby under load; `load` is the machine's, as of the last minute. */
export type Promotion = Strike & { number: number; machineLoad: number }

/** Some promotions, one after the other, and what the chain says after the last. */
export type PromotionsReport = {
  promotions: Promotion[]
  verdict: Verdict
  /** what must not be, as sentences */
  problems: string[]
  seconds: number
  said: string
}

/**
 * Promotes one standby after the other under clients that never pause: the promoted server is the next primary, the old
 * one is thrown away, and a new standby is made from the new primary over the same link. The judge comes after the last.
 */
export async function runPromotions(
  { many, first = 1 }: { many: number; first?: number },
  options: FailoverOptions,
): Promise<PromotionsReport> {
  const startedAt = performance.now()
  const { seed, log = () => {} } = options
  const { stage, close } = await setUp({}, { paceMs: PACE_MS, ...options })
  const { pair, world, load, problems } = stage
  try {
    log(`promotions ${first} to ${first + many - 1}, seed ${seed}: ready`)
    const promotions: Promotion[] = []
    let from = 0
    for (let number = first; number < first + many; number++) {
      const name = TURNS[(number - 1) % TURNS.length]!
      // A standby is made of an asynchronous primary, so it is one when it is promoted.
      if (name === 'synchronous') await pair.synchronous(true)
      const isLast = number === first + many - 1
      const strike = await observe(name, stage, { from, ...(isLast ? {} : { meanwhile: () => pair.renew() }) })
      from += strike.told
      const promotion = { ...strike, number, machineLoad: loadavg()[0]! }
      promotions.push(promotion)
      problems.push(...strike.problems.map((problem) => `promotion ${number} (${name}): ${problem}`))
      log(describePromotion(promotion))
    }
    await load.stop()
    const verdict = await judge(world, load.writes, { log })
    problems.push(...faultsOf(load), ...verdict.problems)
    const seconds = Math.round((performance.now() - startedAt) / 1_000)
    const report = { promotions, verdict, problems, seconds, said: saidBy(world) }
    log(`${sentence([report])}; refused meanwhile: ${JSON.stringify(Object.fromEntries(load.refusals))}`)
    return report
  } finally {
    await close()
  }
}

function describePromotion({
  number,
  name,
  told,
  forgotten,
  backMs,
  foundMs,
  problems,
  machineLoad,
}: Promotion): string {
  const found = foundMs === 0 ? 'at the first look' : `within ${foundMs} ms`
  const end = problems.length === 0 ? '' : `; ${problems.length} PROBLEMS: ${problems[0]}`
  const at = new Date().toISOString().slice(11, 19)
  return `  ${at} ${number} ${name}: ${told} told, ${forgotten} forgotten, back after ${backMs} ms, ids found ${found}, load ${machineLoad.toFixed(1)}${end}`
}

/** All of it as rows of a table, by kind and in sum, and what the chain said; for people. */
export function describePromotions(reports: PromotionsReport[]): string {
  const all = reports.flatMap(({ promotions }) => promotions)
  const rows = [...TURNS.map((name) => [name, all.filter((one) => one.name === name)] as const), ['all', all] as const]
  const problems = reports.flatMap((report) => report.problems)
  return [
    '| promotions | | told, of them forgotten | writes back, ms: half, 9 of 10, 99 of 100, all | ids found, ms: the same |',
    '|---|---|---|---|---|',
    ...rows.map(
      ([name, some]) =>
        `| ${name} | ${some.length} | ${total(some, 'told')}, ${total(some, 'forgotten')} | ${quantiles(some.map(({ backMs }) => backMs))} | ${quantiles(some.map(({ foundMs }) => foundMs))} |`,
    ),
    sentence(reports),
    ...problems.slice(0, 20).map((problem) => `  PROBLEM ${problem}`),
    ...(problems.length > 20 ? [`  and ${problems.length - 20} more`] : []),
  ].join('\n')
}

function sentence(reports: PromotionsReport[]): string {
  const sum = (of: (verdict: Verdict) => number) => reports.reduce((total, { verdict }) => total + of(verdict), 0)
  const seconds = reports.reduce((all, report) => all + report.seconds, 0)
  const machine = quantiles(reports.flatMap(({ promotions }) => promotions.map((one) => Math.round(one.machineLoad))))
  return [
    `${sum(({ writes }) => writes)} writes: lost ${sum(({ lost }) => lost)}, doubled ${sum(({ doubled }) => doubled)}`,
    `wrong hash ${sum(({ wrong }) => wrong)}, gaps ${sum(({ gaps }) => gaps)}`,
    `unanswered ${sum(({ unanswered }) => unanswered)}; compared with the chain: ${sum(({ rows }) => rows)} rows`,
    `${sum(({ attempts }) => attempts)} attempts; ${seconds} s; load of the machine ${machine}`,
  ].join(', ')
}

const total = (some: Promotion[], what: 'told' | 'forgotten'): number => some.reduce((sum, one) => sum + one[what], 0)

function quantiles(values: number[]): string {
  const sorted = values.toSorted((a, b) => a - b)
  return [0.5, 0.9, 0.99, 1].map((part) => sorted[Math.ceil(part * sorted.length) - 1] ?? 0).join(', ')
}
