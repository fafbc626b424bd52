import { createHash } from 'node:crypto'
import { editsAt } from './operators.ts'
import type { Edit } from './sql.ts'
import { parse, placeOf, walk, type Node } from './syntax.ts'

/** A program with one small mistake: `from` at this place became `to`. */
export type Mutant = Edit & {
  /** stays the same while the function around it is the same there */
  id: string
  file: string
  line: number
  /** the line of the program it stands in, trimmed */
  code: string
  /** `from → to`, in one line */
  change: string
}

/** Every mistake that the rules of operators.ts and sql.ts know of in a file, in the file's order. */
export function mutantsOf(file: string, text: string): Mutant[] {
  const tree = parse(file, text)
  if (tree === null) throw new Error(`${file} is no TypeScript`)
  const found: { edit: Edit; around: readonly Node[] }[] = []
  walk(tree, (node, around) => {
    for (const edit of editsAt(node, around, text))
      found.push({ edit: shielded(edit, around), around: [...around, node] })
  })
  const seen = new Map<string, number>()
  return found
    .filter(({ edit }) => parse(file, mutate(text, edit)) !== null)
    .toSorted((a, b) => a.edit.start - b.edit.start || a.edit.end - b.edit.end)
    .map(({ edit, around }) => {
      const change = `${oneLine(text.slice(edit.start, edit.end))} → ${oneLine(edit.text)}`
      const name = [file, placeOf(around), edit.kind, change].join('\n')
      const count = seen.get(name) ?? 0
      seen.set(name, count + 1)
      const id = createHash('sha256').update(`${name}\n${count}`).digest('hex').slice(0, 8)
      const lineStart = text.lastIndexOf('\n', edit.start - 1) + 1
      const code = text.slice(lineStart, text.indexOf('\n', edit.start)).trim()
      return { ...edit, id, file, line: text.slice(0, edit.start).split('\n').length, code, change }
    })
}

export const mutate = (text: string, { start, end, text: replaced }: Edit): string =>
  text.slice(0, start) + replaced + text.slice(end)

/** Without semicolons a statement that begins with a parenthesis would be the end of the one before it. */
function shielded(edit: Edit, around: readonly Node[]): Edit {
  const begins = around.some(({ type, start }) => type === 'ExpressionStatement' && start === edit.start)
  return begins && edit.text.startsWith('(') ? { ...edit, text: `;${edit.text}` } : edit
}

const oneLine = (text: string): string => {
  const short = text.replace(/\s+/g, ' ').trim()
  return short === '' ? '∅' : short.length > 90 ? `${short.slice(0, 88)} …` : short
}
