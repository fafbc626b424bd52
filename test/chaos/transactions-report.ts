import { checkOf } from './transactions-oracle.ts'
import type { RunReport } from './transactions-run.ts'

/** One run in a few lines, for people. */
export function describe({
  seed,
  replicas,
  verdict,
  kills,
  points,
  missed,
  faults,
  database,
  refusals,
  changes,
  seconds,
}: RunReport): string {
  const { writes, mined, cancels, lost, doubled, wrong, gaps, unanswered, settledMs, settledBlocks, problems } = verdict
  const pairs = (counts: Record<string, number>) =>
    Object.entries(counts)
      .map(([what, count]) => `${what} ${count}`)
      .join(', ')
  return [
    `seed ${seed}, ${replicas} replica(s): ${writes} writes, ${mined} mined, lost ${lost}, doubled ${doubled}, wrong hash ${wrong}, gaps ${gaps}, unanswered ${unanswered}; ${cancels} nonces filled; settled in ${(settledMs / 1_000).toFixed(1)} s and ${settledBlocks} blocks; ${seconds} s in all`,
    `  killed: server ${kills.server}, signer ${kills.signer}; at points: ${pairs(points)}${missed.length > 0 ? `; not reached: ${missed.join(', ')}` : ''}`,
    `  node: ${pairs(faults)}`,
    `  database: terminated ${database.terminated}, torn before commit ${database.tornBefore}, after ${database.tornAfter}, crashed ${database.crashed}`,
    `  compared with the chain: ${verdict.rows} rows, ${verdict.attempts} attempts, ${verdict.transfers} transfers`,
    `  refused: ${pairs(refusals)}; asked besides: ${pairs(changes)}`,
    ...[...Map.groupBy(problems, checkOf)].flatMap(([check, some]) => [
      `  ${check}: ${some.length}`,
      ...some.slice(0, 5).map((problem) => `    ${problem}`),
    ]),
  ].join('\n')
}

/** Why a run did not prove anything, or null. A point that nobody was killed at was not proven either. */
export function failureOf({ verdict, missed }: RunReport): string | null {
  if (verdict.problems.length > 0) return `${verdict.problems.length} problems, the first: ${verdict.problems[0]}`
  return missed.length > 0 ? `nobody was killed at ${missed.join(', ')}` : null
}
