import { existsSync, readFileSync } from 'node:fs'
import { isAbout, readKnown } from './known.ts'
import type { Mutant } from './mutants.ts'
import type { Fate } from './run.ts'

/** A mutant that was tried, as one line of a results file. */
export type Outcome = Pick<Mutant, 'id' | 'file' | 'line' | 'code' | 'change'> &
  Pick<Fate, 'fate' | 'by' | 'left'> & { seconds: number }

export const outcomeOf = ({ mutant: { id, file, line, code, change }, fate, by, left, ms }: Fate): Outcome => ({
  ...{ id, file, line, code, change, fate, by, left },
  seconds: Math.round(ms / 100) / 10,
})

/** @returns an empty list if the file does not exist */
export function readOutcomes(file: string): Outcome[] {
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Outcome)
}

export const isCaught = ({ fate }: Outcome): boolean => fate === 'killed' || fate === 'timed out'
export const isCapped = ({ fate, left }: Outcome): boolean => fate === 'survived' && left > 0

export const lineOf = (outcome: Outcome): string => {
  const { id, file, line, change, fate, by, seconds } = outcome
  return `${fate}${isCapped(outcome) ? ' (cap)' : ''} ${id} ${file}:${line} ${change} (${by ?? '-'}, ${seconds} s)`
}

/** Lists the survivors with the reason that known.json gives, then counts. */
export function sumUp(folder: string, generated: number, outcomes: readonly Outcome[]): string {
  const known = readKnown()
  const survivors = outcomes
    .filter((outcome) => !isCaught(outcome))
    .map((outcome) => {
      const why = known.find((one) => isAbout(one, outcome))
      return `${lineOf(outcome)}: ${why === undefined ? 'not explained' : `${why.verdict}: ${why.reason}`}`
    })
  const caught = outcomes.filter(isCaught)
  const byTime = caught.filter(({ fate }) => fate === 'timed out').length
  const percent = ((100 * caught.length) / outcomes.length).toFixed(1)
  return [
    ...survivors.toSorted(),
    `${folder}: ${percent} % of ${outcomes.length} of ${generated} mutants killed (${byTime} by time), ${survivors.length} survived`,
  ].join('\n')
}
