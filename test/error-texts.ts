import { calledAs, parse, walk, type Node } from './mutation/syntax.ts'

/** A literal text of a refusal. `isSentence`: it is the whole text, not a part of one. */
export type ErrorText = { line: number; text: string; isSentence: boolean }

/** Errors that go to a client, or over the signer's socket to one. */
const ERRORS = new Set(['AppError', 'Refusal', 'SignerRefused', 'PageError'])
/** Functions that make the text of a refusal from a text that they are given. */
const WRITERS =
  /^(?:abiError|addProblem|bad|damaged|denied|doubt|dpopRefusal|fail|invalid\w+|reason|refusal|refuse|refuseGiven|tooLate|unavailable|unknown|wrong)$/

/** The literal texts of refusals in a source: what stands for a value is an ellipsis. */
export function errorTextsIn(file: string, source: string): ErrorText[] {
  const found = new Map<number, ErrorText>()
  const take = (node: Node | undefined, isWhole: boolean): void => {
    if (node === undefined) return
    if (node.type === 'ConditionalExpression') {
      take(node.consequent as Node, isWhole)
      take(node.alternate as Node, isWhole)
    }
    const text = textOf(node)
    if (text === null || !/[a-z]{2}.* /i.test(text)) return
    const line = source.slice(0, node.start).split('\n').length
    found.set(node.start, { line, text, isSentence: isWhole && /[.!?]$/.test(text) && !text.startsWith('…') })
  }
  walk(parse(file, source)!, (node) => {
    const values = node.arguments as Node[] | undefined
    if (node.type === 'NewExpression' && ERRORS.has((node.callee as { name?: string }).name ?? ''))
      take(values![1], true)
    if (node.type === 'CallExpression' && WRITERS.test(calledAs(node))) for (const value of values!) take(value, false)
    const name = ((node.id ?? node.key) as { name?: string } | undefined)?.name
    if (node.type === 'VariableDeclarator' && name === 'detail')
      take((node.init ?? undefined) as Node | undefined, true)
    if (node.type === 'Property' && (name === 'detail' || name === 'reason')) take(node.value as Node, false)
  })
  return [...found.values()]
}

function textOf(node: Node): string | null {
  if (node.type === 'Literal') return typeof node.value === 'string' ? node.value : null
  if (node.type !== 'TemplateLiteral') return null
  return (node.quasis as { value: { cooked: string } }[]).map(({ value }) => value.cooked).join('…')
}
