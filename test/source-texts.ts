import { calledAs, parse, walk, type Node } from './mutation/syntax.ts'

/** A text in a source, with its line. */
export type SourceText = { line: number; text: string }

/** Functions that make a schema or a header from a description. */
const DESCRIBERS = /^(?:count|digest|parameter|text|wei)$/

/** The descriptions and summaries of a source that end up in the OpenAPI document. An ellipsis replaces a value. */
export function descriptionsIn(file: string, source: string): SourceText[] {
  const found: SourceText[] = []
  const take = (node: Node | undefined): void => {
    const text = node === undefined ? null : literalOf(node)
    if (text !== null) found.push({ line: source.slice(0, node!.start).split('\n').length, text })
  }
  walk(parse(file, source)!, (node) => {
    const name = ((node.key ?? {}) as { name?: string }).name
    if (node.type === 'Property' && (name === 'description' || name === 'summary')) take(node.value as Node)
    if (node.type === 'CallExpression' && DESCRIBERS.test(calledAs(node))) take((node.arguments as Node[])[0])
  })
  return found
}

/** The doc comments of exported names, without their names in code. */
export const docCommentsIn = (source: string): SourceText[] =>
  [...source.matchAll(/\/\*\*((?:(?!\*\/)[^])*)\*\/\n(?=export )/g)].flatMap(({ 1: comment, index }) =>
    comment!
      .replaceAll(/^\s*\* ?/gm, '')
      .replaceAll(/`[^`\n]+`/g, '`code`')
      .split(/\n\s*\n|\n(?=[-@]|Owns: |Does not own: |Tables: )/)
      .map((part) => ({
        line: source.slice(0, index).split('\n').length,
        text: part.replaceAll(/\s+/g, ' ').trim(),
      })),
  )

/** All texts of a language, by path. Functions of texts get an ellipsis for each value. */
export function textsOf(texts: unknown, path = ''): [path: string, text: string][] {
  if (typeof texts === 'string') return [[path, texts]]
  if (typeof texts === 'function') return textsOf((texts as (...values: string[]) => unknown)('…', '…', '…'), path)
  if (Array.isArray(texts) && texts.some((part) => typeof part !== 'string'))
    return [[path, texts.map((part) => (typeof part === 'string' ? part : part.strong)).join('')]]
  return Object.entries(texts as object).flatMap(([key, value]) => textsOf(value, `${path}.${key}`))
}

function literalOf(node: Node): string | null {
  if (node.type === 'Literal') return typeof node.value === 'string' ? node.value : null
  if (node.type !== 'TemplateLiteral') return null
  return (node.quasis as { value: { cooked: string } }[]).map(({ value }) => value.cooked).join('…')
}
