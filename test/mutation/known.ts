import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './copy.ts'
import type { Mutant } from './mutants.ts'

/**
 * A survivor that somebody looked at. `equivalent`: no caller can tell it from the program. `costs`: what it changes is
 * a cost and no answer (an order of work, a cache, a batch's size). `accepted`: it could be told apart, and the reason
 * says why no test does.
 */
export type Known = {
  file: string
  /** the line of the program, trimmed */
  code: string
  /** one change of the line, or several for the same reason */
  change: string | string[]
  verdict: 'equivalent' | 'costs' | 'accepted'
  reason: string
}

const PATH = 'test/mutation/known.json'

export const readKnown = (): Known[] => JSON.parse(readFileSync(join(ROOT, PATH), 'utf8')) as Known[]

export const isAbout = (known: Known, { file, code, change }: Pick<Mutant, 'file' | 'code' | 'change'>): boolean =>
  known.file === file && known.code === code && [known.change].flat().includes(change)

/** Entries that name no mutant any more: the line was changed, and whoever changed it has to look again. */
export const staleOf = (known: readonly Known[], mutants: readonly Mutant[]): string[] =>
  known.flatMap((one) =>
    [one.change]
      .flat()
      .filter((change) => !mutants.some((mutant) => isAbout({ ...one, change }, mutant)))
      .map((change) => `${one.file}: ${one.code}: ${change}`),
  )
