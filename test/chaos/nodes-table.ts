import { FAULTS, type Fault } from './nodes-faults.ts'
import { PROFILES, type Profile } from './nodes-profiles.ts'

/** What a cell came to: seconds until all was settled again, its problems, or why there is none. */
export type Cell = { settledMs: number } | { problems: string[] } | { not: string }

export const keyOf = (profile: Profile, fault: Fault): string => `${profile.name} × ${fault.name}`

/** Between these lines of docs/evidence/proof.md stands what the last whole run wrote. */
export const BEGIN = '<!-- written by `npm run prove -- nodes --write` -->'
export const END = '<!-- end of what was written -->'

/** The whole as the page has it: a row for each fault, a column for each node of which all were played. */
export function tableOf(
  cells: ReadonlyMap<string, Cell>,
  { seed, minutes }: { seed: number; minutes: number },
): string {
  const columns = PROFILES.filter((profile) => FAULTS.every((fault) => cells.has(keyOf(profile, fault))))
  const reasons: string[] = []
  const letter = (reason: string): string => {
    if (!reasons.includes(reason)) reasons.push(reason)
    return `– ${String.fromCharCode(97 + reasons.indexOf(reason))}`
  }
  const rows = FAULTS.map((fault) => {
    const row = columns.map((profile) => {
      const cell = cells.get(keyOf(profile, fault))!
      if ('not' in cell) return letter(cell.not)
      return 'problems' in cell ? '**not clean**' : (cell.settledMs / 1_000).toFixed(1)
    })
    return `| ${[fault.name, ...row].join(' | ')} |`
  })
  const shown = columns.flatMap((profile) => FAULTS.map((fault) => cells.get(keyOf(profile, fault))!))
  const played = shown.filter((cell) => !('not' in cell))
  const clean = played.filter((cell) => 'settledMs' in cell)
  return [
    `\`npm run prove -- nodes --seed ${seed} --write\`, ${minutes} minutes: ${played.length} cells played, ${clean.length} clean. A number is the`,
    'seconds from the end of the fault until every write was in a block and the service reported it. A letter is the reason for no',
    'cell.',
    '',
    `| | ${columns.map(({ name }) => name).join(' | ')} |`,
    `|---|${columns.map(() => '---|').join('')}`,
    ...rows,
    '',
    ...reasons.map((reason, index) => `- ${String.fromCharCode(97 + index)}: ${reason}`),
    '',
    '| node | properties |',
    '|---|---|',
    ...columns.map(({ name, is }) => `| ${name} | ${is} |`),
  ].join('\n')
}

/** The page with the table in its place. @throws Error when it has no place for it */
export function withTable(page: string, table: string): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (begin === -1 || end < begin) throw new Error('docs/evidence/proof.md has no place for the table of nodes')
  return `${page.slice(0, begin)}${BEGIN}\n\n${table}\n\n${page.slice(end)}`
}
