import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { testFiles } from '../../scripts/test-files.ts'
import { ROOT } from './copy.ts'
import type { Folder } from './folders.ts'
import { mutantsOf, type Mutant } from './mutants.ts'
import { isCapped, isCaught, lineOf, readOutcomes, type Outcome } from './report.ts'
import { sampleOf } from './run.ts'

/** The sample is a committed file: after a change of the tests the same mutants are tried again. */
const SAMPLE = join(ROOT, 'test', 'mutation', 'sample.json')
/** The outcomes that later runs are compared with. */
const BASELINE = join(ROOT, 'test', 'mutation', 'baseline.jsonl')

/** The sample has equally many mutants of each part. A file belongs to the first part that its path begins with. */
const PARTS = ['signer/policy', 'transactions/', 'signer/', 'oauth/', 'follower/', 'history/', 'http/'].map(
  (path) => `src/${path}`,
)
const partOf = (file: string): string => PARTS.find((part) => file.startsWith(part))!

/** Test files that read sources as text, or run mutants themselves. */
const RUNS_NO_SOURCE = /^(scripts|test\/(bench|house-rules|mutation|residue|words))\b/

type Drawn = Pick<Mutant, 'id' | 'file' | 'change'>

/** The sample, and every test file of the project. */
export function suite(): Folder {
  const drawn = JSON.parse(readFileSync(SAMPLE, 'utf8')) as Drawn[]
  return {
    name: 'suite',
    files: [...new Set(drawn.map(({ file }) => file))],
    tests: testFiles().filter((test) => !RUNS_NO_SOURCE.test(test)),
    only: drawn.map(({ id }) => id),
  }
}

/** Writes a sample that alternates between the parts, so that each beginning of the sample is a smaller sample. */
export function draw(count: number, seed: number): void {
  const all = PARTS.flatMap((part) => globSync(`${part}**/*.ts`, { cwd: ROOT }))
  const files = [...new Set(all)].filter((file) => !file.endsWith('.test.ts')).toSorted()
  const mutants = files.flatMap((file) => mutantsOf(file, readFileSync(join(ROOT, file), 'utf8')))
  const each = Math.ceil(count / PARTS.length)
  const parts = PARTS.map((part) => {
    const ofPart = mutants.filter(({ file }) => partOf(file) === part)
    return sampleOf(ofPart, each, seed)
  })
  const drawn = Array.from({ length: each }, (_, at) => parts.flatMap((part) => part.slice(at, at + 1)))
    .flat()
    .slice(0, count)
    .map(({ id, file, change }): Drawn => ({ id, file, change }))
  writeFileSync(SAMPLE, `${JSON.stringify(drawn, null, 1)}\n`)
}

/** Counts the outcomes by part, and lists the mutants that were caught in the baseline and are not caught in this run. */
export function compare(outcomes: readonly Outcome[]): string {
  const rows = [...PARTS, 'all'].map((part) => {
    const some = outcomes.filter(({ file }) => part === 'all' || partOf(file) === part)
    const count = (fate: Outcome['fate']) => some.filter((outcome) => outcome.fate === fate).length
    const capped = some.filter(isCapped).length
    return [
      ...[`\`${part.replace(/\/$/, '')}\``, some.length, some.filter(isCaught).length, count('timed out')],
      ...[count('survived') - capped, capped, count('not reached')],
    ]
  })
  const head = ['part', 'tried', 'caught', 'of these by time', 'survived', 'survived (cap)', 'not reached']
  // One that is missing would have lost nothing.
  if (!existsSync(BASELINE)) throw new Error(`${BASELINE} is missing`)
  const baseline = new Map(readOutcomes(BASELINE).map((outcome) => [outcome.id, outcome]))
  const lost = outcomes.filter((outcome) => {
    const before = baseline.get(outcome.id)
    return !isCaught(outcome) && before !== undefined && isCaught(before)
  })
  return [
    ...[head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`),
    `Caught in the baseline, not caught in this run: ${lost.length}`,
    ...lost.map((outcome) => `${lineOf(outcome)}; baseline: ${baseline.get(outcome.id)!.by}`),
  ].join('\n')
}
