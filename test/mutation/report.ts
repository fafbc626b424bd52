import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './copy.ts'
import { folderNames, type Folder } from './folders.ts'
import { isAbout, readKnown } from './known.ts'
import type { Mutant } from './mutants.ts'
import type { Fate } from './run.ts'

/** What one run over a folder found. */
export type Result = {
  folder: string
  generated: number
  tried: number
  /** null when every mutant was tried */
  seed: number | null
  killed: number
  timedOut: number
  survivors: (Pick<Mutant, 'id' | 'file' | 'line' | 'kind' | 'code' | 'change'> & { isReached: boolean })[]
}

export function resultOf(
  { name }: Folder,
  { all, fates, seed, isSample }: { all: Mutant[]; fates: Fate[]; seed: number; isSample: boolean },
): Result {
  const count = (fate: Fate['fate']) => fates.filter((one) => one.fate === fate).length
  return {
    folder: name,
    generated: all.length,
    tried: fates.length,
    seed: isSample ? seed : null,
    killed: count('killed'),
    timedOut: count('timed out'),
    survivors: fates
      .filter(({ fate }) => fate === 'survived' || fate === 'not reached')
      .map(({ mutant: { id, file, line, kind, code, change }, fate }) => ({
        ...{ id, file, line, kind, code, change },
        isReached: fate === 'survived',
      }))
      .toSorted((a, b) => (a.file < b.file ? -1 : a.file > b.file ? 1 : a.line - b.line)),
  }
}

const percent = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(1)} %`

export const sumUp = ({ folder, generated, tried, killed, timedOut, survivors }: Result): string =>
  `${folder}: ${percent(killed + timedOut, tried)} of ${tried} of ${generated} mutants killed (${timedOut} by time), ${survivors.length} survived`

const BEGIN = '<!-- results: written by npm run mutate -- --write -->'
const END = '<!-- end of results -->'

/** Puts the results of all folders into docs/mutation.md, between its two marks. */
export function writePage(out: string): void {
  const results = folderNames
    .map((name) => join(out, `${name.replace('/', '-')}.json`))
    .filter((file) => existsSync(file))
    .map((file) => JSON.parse(readFileSync(file, 'utf8')) as Result)
  const page = join(ROOT, 'docs', 'mutation.md')
  const [before, rest] = readFileSync(page, 'utf8').split(BEGIN)
  const after = rest?.split(END)[1]
  if (after === undefined) throw new Error(`${page} has lost the marks of its results`)
  writeFileSync(page, `${before}${BEGIN}\n\n${table(results)}\n\n${survivorsOf(results)}\n\n${END}${after}`)
}

function table(results: Result[]): string {
  const rows = results.map(({ folder, generated, tried, seed, killed, timedOut, survivors }) => [
    `\`${folder}\``,
    generated,
    seed === null ? 'all' : `${tried}, seed ${seed}`,
    killed,
    timedOut,
    survivors.length,
    percent(killed + timedOut, tried),
  ])
  const head = ['folder', 'mutants', 'tried', 'killed', 'killed by time', 'survived', 'score']
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n')
}

function survivorsOf(results: Result[]): string {
  const known = readKnown()
  return results
    .map(({ folder, survivors }) => {
      const lines = survivors.map((survivor) => {
        const why = known.find((one) => isAbout(one, survivor))
        const told = why === undefined ? 'not explained' : `${why.verdict}: ${why.reason}`
        return `- ${survivor.file.split('/').at(-1)}:${survivor.line} ${code(survivor.change)}: ${told}`
      })
      return `### Survivors of ${folder}\n\n${lines.join('\n') || 'None.'}`
    })
    .join('\n\n')
}

/** As code in Markdown, whatever backticks it holds. */
const code = (text: string): string => (text.includes('`') ? `\`\` ${text} \`\`` : `\`${text}\``)
