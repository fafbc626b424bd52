import { parseSync } from 'oxc-parser'

/** A node of the syntax tree (ESTree with TypeScript's additions); offsets are UTF-16 units of the text. */
export type Node = { type: string; start: number; end: number; [field: string]: unknown }

/** @returns the tree, or null for a text that is no TypeScript */
export function parse(file: string, text: string): Node | null {
  const { program, errors } = parseSync(file, text, { lang: 'ts', sourceType: 'module' })
  return errors.length === 0 ? (program as unknown as Node) : null
}

/** What stands only in types, and is gone before the program runs. */
const TYPES_ONLY = /^TS(?!AsExpression$|NonNullExpression$|SatisfiesExpression$)/

/** Calls `visit` for every node that the program runs, outermost first, with the nodes around it, nearest last. */
export function walk(node: Node, visit: (node: Node, around: readonly Node[]) => void, around: Node[] = []): void {
  if (TYPES_ONLY.test(node.type) || node.type === 'ImportDeclaration') return
  visit(node, around)
  const inner = [...around, node]
  for (const field of Object.values(node)) {
    for (const child of Array.isArray(field) ? field : [field]) if (isNode(child)) walk(child, visit, inner)
  }
}

export const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string'

/** The name by which a call calls, `where` of `db.selectFrom('x').where(…)`; '' where there is none. */
export function calledAs(node: Node): string {
  const callee = node.callee as Node
  const name = callee.type === 'MemberExpression' ? (callee.property as Node) : callee
  return name.type === 'Identifier' ? String(name.name) : ''
}

/** The names of the functions and methods around a node, outermost first. */
export function placeOf(around: readonly Node[]): string {
  return around
    .flatMap((node) => {
      if (!/^(FunctionDeclaration|ClassDeclaration|VariableDeclarator|Property|MethodDefinition)$/.test(node.type))
        return []
      const name = node.id ?? node.key
      return isNode(name) && typeof name.name === 'string' ? [name.name] : []
    })
    .join('.')
}
