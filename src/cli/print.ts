import type { Shell } from './shell.ts'

/** Formats a table: columns as wide as their widest cell, separated by two spaces, with titles in capitals. */
export function table(titles: string[], rows: string[][]): string {
  const widths = titles.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]!.length)))
  const line = (cells: string[]) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd()
  return [titles.map((title) => title.toUpperCase()), ...rows].map(line).join('\n')
}

/**
 * Formats facts, one per line. Further lines of a fact are indented under the first. A fact that is null is omitted.
 */
export function facts(pairs: [name: string, value: string | string[] | null][]): string {
  const shown = pairs.filter((pair): pair is [string, string | string[]] => pair[1] !== null)
  const width = Math.max(...shown.map(([name]) => name.length))
  return shown
    .flatMap(([name, value]) => {
      const lines = typeof value === 'string' ? [value] : value.length === 0 ? ['none'] : value
      return lines.map((line, index) => `  ${(index === 0 ? name : '').padEnd(width)}  ${line}`)
    })
    .join('\n')
}

/** The option of every command with a text result. */
export type JsonOption = { json?: boolean }

/** Prints a result to standard output: JSON for programs, otherwise text. */
export function print({ console }: Shell, { json }: JsonOption, value: unknown, text: string): void {
  console.log(json === true ? JSON.stringify(value, null, 2) : text)
}
