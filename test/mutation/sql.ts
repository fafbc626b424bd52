/** One place in a text and what it becomes. */
export type Edit = {
  kind: string
  start: number
  end: number
  text: string
  /** what has to run for the mistake to matter, where that is not its own place */
  ranAt?: number
}

type Rule = {
  kind: string
  find: RegExp
  become: (found: string) => string | null
  where?: (before: string) => boolean
}

/** `=` compares behind these words, and sets behind `set`. */
const isCompared = (before: string): boolean => {
  const words = [...before.matchAll(/\b(set|where|and|or|on|when|having|case|from|select|not)\b/gi)]
  return !/^(set|select|from)$/i.test(words.at(-1)?.[1] ?? 'set')
}

const TURNED: Record<string, string> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '=': '<>',
  '<>': '=',
  '!=': '=',
  and: 'or',
  or: 'and',
  asc: 'desc',
  desc: 'asc',
  min: 'max',
  max: 'min',
  least: 'greatest',
  greatest: 'least',
  true: 'false',
  false: 'true',
  'is null': 'is not null',
  'is not null': 'is null',
  'left join': 'join',
  between: 'not between',
  exists: 'not exists',
  'not exists': 'exists',
}
const turn = (found: string): string | null => TURNED[found.toLowerCase().replace(/\s+/g, ' ')] ?? null

const RULES: Rule[] = [
  { kind: 'sql comparison', find: /(?<=[\s)\w?}])\s*(<=|>=|<>|!=|<|>)\s*(?=$|[\s(\w?:'$-])/g, become: turn },
  { kind: 'sql comparison', find: /(?<=^|[\s)\w?}])\s*(=)\s*(?=$|[\s(\w?:'$-])/g, become: turn, where: isCompared },
  { kind: 'sql logic', find: /\b(and|or)\b/gi, become: turn, where: (before) => !/\bbetween\s+\S+\s*$/i.test(before) },
  { kind: 'sql null', find: /\b(is (?:not )?null)\b/gi, become: turn },
  { kind: 'sql order', find: /\b(asc|desc)\b/gi, become: turn },
  { kind: 'sql order', find: /\border by [\w.]+(?= *(?:$|[)\n'`]))()/gi, become: () => ' DESC' },
  { kind: 'sql aggregate', find: /\b(min|max|least|greatest)(?=\()/gi, become: turn },
  { kind: 'sql aggregate', find: /\b(distinct )/gi, become: () => '' },
  { kind: 'sql constant', find: /\b(true|false)\b/gi, become: turn },
  { kind: 'sql join', find: /\b(left join)\b/gi, become: turn },
  { kind: 'sql between', find: /\b(between)\b/gi, become: turn },
  { kind: 'sql exists', find: /\b((?:not )?exists)(?=\s*\()/gi, become: turn },
  { kind: 'sql conflict', find: /\b(on conflict do nothing)\b/gi, become: () => '' },
  { kind: 'sql lock', find: /\b(for update(?: skip locked)?)\b/gi, become: () => '' },
  { kind: 'sql limit', find: /\b(limit (?=\$|$|\?))/gi, become: () => 'limit 1 + ' },
  {
    kind: 'sql number',
    find: /(?<![\w$?.'"]|select )(\d+)(?![\w.'"])/gi,
    become: (found) => String(Number(found) + 1),
  },
  { kind: 'sql state', find: /('[a-z_]+')/g, become: () => `'?'` },
]

/**
 * Mistakes that somebody could make in a statement: a comparison, a boundary, a null, an order, a limit, a state.
 * @param text    one piece of a statement, between two parameters
 * @param before  what of the statement stands before it
 */
export function sqlEdits(text: string, before: string): Edit[] {
  return RULES.flatMap(({ kind, find, become, where }) =>
    [...text.matchAll(new RegExp(find, `${find.flags}d`))].flatMap((match): Edit[] => {
      const [start, end] = match.indices![1]!
      const replaced = become(match[1]!)
      if (replaced === null || (where !== undefined && !where(before + text.slice(0, start)))) return []
      return [{ kind, start, end, text: replaced }]
    }),
  )
}

/** True for a text that is a statement by its first word. */
export const isStatement = (text: string): boolean => /^\s*\(?\s*(select|insert|update|delete|with)\s/i.test(text)
