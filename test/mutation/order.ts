import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Mutant } from './mutants.ts'
import type { Reach } from './reach.ts'

type Tried = { tries: number; kills: number }

/** Which test file to try first. */
export type Order = {
  sorted(reached: readonly Reach[], mutant: Pick<Mutant, 'file'>): Reach[]
  learn(test: string, mutant: Pick<Mutant, 'file'>, isKilled: boolean): void
}

export const noOrder: Order = { sorted: (reached) => [...reached], learn: () => {} }

/**
 * By the kills to be expected for a second of work. What a test file did for other mutants counts, and what it did for
 * those of the same file counts more; of one that was never tried, it is one kill of two, and more of one that lies
 * nearer. The order changes how long a
 * trial takes, and never what comes out of it but for a cap: a survivor has passed all of them.
 * @param place  a file that keeps what was learned
 */
export function learningOrder(place: string): Order {
  const tried = new Map<string, Tried>(existsSync(place) ? JSON.parse(readFileSync(place, 'utf8')) : [])
  const of = (name: string): Tried => tried.get(name) ?? { tries: 0, kills: 0 }
  const chance = (test: string, file: string): number => {
    const [all, here] = [of(test), of(`${test} ${file}`)]
    return (here.kills + (nearness(test, file) * 2 * (all.kills + 1)) / (all.tries + 2)) / (here.tries + 2)
  }
  return {
    sorted: (reached, { file }) =>
      reached.toSorted((a, b) => chance(b.test, file) / b.ms - chance(a.test, file) / a.ms),
    learn: (test, { file }, isKilled) => {
      for (const name of [test, `${test} ${file}`]) {
        const { tries, kills } = of(name)
        tried.set(name, { tries: tries + 1, kills: kills + Number(isKilled) })
      }
      writeFileSync(place, JSON.stringify([...tried]))
    },
  }
}

/** A test file named after the file, or the other way round, before one of the same folder, before any other. */
function nearness(test: string, file: string): number {
  const [ofTest, ofFile] = [test.replace(/\.test\.ts$/, ''), file.replace(/\.ts$/, '')]
  if (ofTest.startsWith(ofFile) || ofFile.startsWith(ofTest)) return 10
  return dirname(test) === dirname(file) ? 4 : 1
}
