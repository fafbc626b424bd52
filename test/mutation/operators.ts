import { isStatement, sqlEdits, type Edit } from './sql.ts'
import { calledAs, isNode, type Node } from './syntax.ts'

/**
 * Mistakes of one node. Left out: texts for people (a mutated sentence is no mistake of the program), what is only
 * logged, names of columns and methods (the database and the node refuse another one at once), and figures above 100
 * that stand for themselves in a constant: one more of a thousand milliseconds is nothing that anybody gets wrong.
 */
export function editsAt(node: Node, around: readonly Node[], text: string): Edit[] {
  if (isLogged(node, around)) return []
  const parent = around.at(-1)
  const of = (part: unknown): string => text.slice((part as Node).start, (part as Node).end)
  const whole = (kind: string, replaced: string): Edit => ({ kind, start: node.start, end: node.end, text: replaced })
  switch (node.type) {
    case 'BinaryExpression':
      return isConditionOf(parent, node)
        ? boundary(String(node.operator)).map((to) => operator(node, to, text))
        : comparisons(String(node.operator), node, text).map((to) => operator(node, to, text))
    case 'LogicalExpression':
      return node.operator === '??'
        ? [whole('default', of(node.left))]
        : [whole('guard', of(node.left)), whole('guard', of(node.right))]
    case 'UnaryExpression':
      if (node.operator === '!') return isConditionOf(parent, node) ? [] : [whole('negation', of(node.argument))]
      return []
    case 'IfStatement':
    case 'ConditionalExpression':
      return ['true', 'false'].map((to) => ({ ...whole('condition', to), ...spanOf(node.test) }))
    case 'WhileStatement':
      return [{ ...whole('condition', 'false'), ...spanOf(node.test) }]
    case 'ExpressionStatement':
      return isDirective(node)
        ? []
        : [whole('statement', /^(BlockStatement|Program|StaticBlock|SwitchCase)$/.test(parent!.type) ? '' : '{}')]
    case 'BreakStatement':
    case 'ContinueStatement':
      return [whole('statement', '{}')]
    case 'AssignmentExpression': {
      const to = { '+=': '-=', '-=': '+=' }[String(node.operator)]
      return to === undefined ? [] : [whole('arithmetic', `${of(node.left)} ${to} ${of(node.right)}`)]
    }
    case 'UpdateExpression':
      return [
        whole(
          'arithmetic',
          of(node).replace(/\+\+|--/, (found) => (found === '++' ? '--' : '++')),
        ),
      ]
    case 'Literal':
      return literal(node, around, text)
    case 'TemplateLiteral':
      return template(node, around, text)
    case 'MemberExpression':
      return node.optional === true ? [optional(node, text)] : []
    case 'CallExpression':
      return [...(node.optional === true ? [optional(node, text)] : []), ...call(node, text)]
    default:
      return []
  }
}

const spanOf = (node: unknown): { start: number; end: number } => ({
  start: (node as Node).start,
  end: (node as Node).end,
})

/** Where true and false are tried already, the opposite of a comparison is one of them. */
const isConditionOf = (parent: Node | undefined, node: Node): boolean =>
  parent !== undefined && /^(If|Conditional|While)/.test(parent.type) && parent.test === node

const isLogged = (node: Node, around: readonly Node[]): boolean =>
  [...around, node, ...(node.type === 'ExpressionStatement' ? [node.expression as Node] : [])].some(
    (each) =>
      each.type === 'CallExpression' && /\blog$/.test(memberPath((each.callee as Node).object as Node | undefined)),
  )

function memberPath(node: Node | undefined): string {
  if (node?.type === 'Identifier') return String(node.name)
  return node?.type === 'MemberExpression'
    ? `${memberPath(node.object as Node)}.${String((node.property as Node).name)}`
    : ''
}

const BOUNDARY: Record<string, string> = { '<': '<=', '<=': '<', '>': '>=', '>=': '>' }
const OPPOSITE: Record<string, string> = { '<': '>=', '<=': '>', '>': '<=', '>=': '<', '===': '!==', '!==': '===' }
const OTHER: Record<string, string> = { '+': '-', '-': '+', '*': '/', '/': '*', '%': '*', '<<': '>>', '>>': '<<', '>>>': '<<', '&': '|', '|': '&', '**': '*' } // prettier-ignore

const boundary = (operator: string): string[] => (BOUNDARY[operator] === undefined ? [] : [BOUNDARY[operator]])

function comparisons(operator: string, node: Node, text: string): string[] {
  const isText = [node.left, node.right].some((side) => /^['"`]/.test(text.slice((side as Node).start)))
  const to = OPPOSITE[operator] ?? (isText ? undefined : OTHER[operator])
  return [...boundary(operator), ...(to === undefined ? [] : [to])]
}

/** The operator alone: the operands keep their text, and the whole its place among its neighbours. */
function operator(node: Node, to: string, text: string): Edit {
  const [left, right] = [node.left as Node, node.right as Node]
  const sides = { left: text.slice(node.start, left.end), right: text.slice(right.start, node.end) }
  const between = text.slice(left.end, right.start).replace(String(node.operator), to)
  const kind = to in OPPOSITE ? 'comparison' : 'arithmetic'
  return { kind, start: node.start, end: node.end, text: `(${sides.left}${between}${sides.right})` }
}

/** Whatever follows `?.`: without it a missing object is an error. */
function optional(node: Node, text: string): Edit {
  const object = (node.object ?? node.callee) as Node
  const at = text.indexOf('?.', object.end)
  const next = text[at + 2]
  // Where nothing is behind it what follows does not run, and that is where the mistake shows.
  return { kind: 'optional', start: at, end: at + 2, text: next === '(' || next === '[' ? '' : '.', ranAt: node.start }
}

const isDirective = (node: Node): boolean => typeof node.directive === 'string'

/** Methods that narrow, order, lock or tidy: a call that is left out. */
const LEFT_OUT = /^(where|orderBy|limit|offset|forUpdate|skipLocked|onConflict|distinct|having|filter|slice|toSorted|sort|toReversed|reverse|toLowerCase|trim|catch|finally)$/ // prettier-ignore
const TURNED: Record<string, string> = { some: 'every', every: 'some', min: 'max', max: 'min', floor: 'ceil', ceil: 'floor', startsWith: 'endsWith', endsWith: 'startsWith', leftJoin: 'innerJoin', first: 'last' } // prettier-ignore
const OPERATORS: Record<string, string> = {
  ...BOUNDARY,
  '=': '<>',
  '<>': '=',
  '!=': '=',
  is: 'is not',
  'is not': 'is',
  in: 'not in',
}

function call(node: Node, text: string): Edit[] {
  const name = calledAs(node)
  const args = node.arguments as Node[]
  const callee = node.callee as Node
  const edits: Edit[] = []
  if (callee.type === 'MemberExpression') {
    const [object, property] = [callee.object as Node, callee.property as Node]
    if (LEFT_OUT.test(name)) edits.push({ kind: 'call', start: object.end, end: node.end, text: '' })
    if (TURNED[name] !== undefined) edits.push({ kind: 'call', ...spanOf(property), text: TURNED[name] })
  }
  if (name === 'orderBy' && args.length === 1) {
    edits.push({ kind: 'order', start: args[0]!.end, end: args[0]!.end, text: `, 'desc'` })
  }
  if (name === 'orderBy' && args[1]?.type === 'Literal') {
    edits.push({ kind: 'order', ...spanOf(args[1]), text: args[1].value === 'desc' ? `'asc'` : `'desc'` })
  }
  const compared = /^(where|having|on|onRef|eb)$/.test(name) && args[1]?.type === 'Literal' ? args[1] : null
  const to = compared === null ? undefined : OPERATORS[String(compared.value)]
  if (compared !== null && to !== undefined) edits.push({ kind: 'comparison', ...spanOf(compared), text: `'${to}'` })
  return edits.filter(({ start, end }) => text.slice(start, end) !== undefined)
}

/** Calls of the query builder whose texts are names of tables and columns. */
const NAMES = /^(selectFrom|select|selectAll|innerJoin|leftJoin|orderBy|groupBy|insertInto|updateTable|deleteFrom|returning|columns|column|onRef|ref|any|doUpdateSet|as)$/ // prettier-ignore

function literal(node: Node, around: readonly Node[], text: string): Edit[] {
  const parent = around.at(-1)!
  const whole = (kind: string, replaced: string): Edit => ({ kind, start: node.start, end: node.end, text: replaced })
  if (isKey(node, parent)) return []
  if (isNode(node.regex) || typeof node.regex === 'object') return regex(node, text)
  const raw = text.slice(node.start, node.end)
  if (typeof node.value === 'boolean') return [whole('constant', String(!node.value))]
  if (typeof node.bigint === 'string') return [whole('number', `${BigInt(node.bigint) + 1n}n`)]
  if (typeof node.value === 'number') {
    return node.value > 100 && isConstant(around) ? [] : [whole('number', String(node.value + 1))]
  }
  if (typeof node.value !== 'string') return []
  if (isStatement(node.value)) return sqlEdits(raw, '').map((edit) => moved(edit, node.start))
  return isName(node, parent) || isSentence(node.value) ? [] : [whole('text', `''`)]
}

const isKey = (node: Node, parent: Node): boolean =>
  (parent.type === 'Property' && parent.key === node) ||
  (parent.type === 'MemberExpression' && parent.property === node)

/** `const MAX = 2_000` of a file. */
const isConstant = (around: readonly Node[]): boolean =>
  around.at(-1)?.type === 'VariableDeclarator' &&
  around.length <= 4 &&
  /^[A-Z_]+$/.test(String((around.at(-1)!.id as Node).name))

const isSentence = (text: string): boolean => /[a-z,] [a-z$“(]/i.test(text) || /^eth_/.test(text) || text === ''

function isName(node: Node, parent: Node): boolean {
  // The comparison itself is mutated.
  if (parent.type === 'BinaryExpression') return true
  if (parent.type === 'ExportNamedDeclaration' || parent.type === 'ExportAllDeclaration') return true
  if (parent.type === 'ArrayExpression') return /^[a-z]+(_[a-z]+)*$|\./.test(String(node.value))
  if (parent.type !== 'CallExpression' && parent.type !== 'NewExpression') return false
  const at = (parent.arguments as Node[]).indexOf(node)
  const name = calledAs(parent)
  if (/^(where|having|on|eb)$/.test(name)) return at < 2
  return NAMES.test(name)
}

function regex(node: Node, text: string): Edit[] {
  const { pattern, flags } = node.regex as { pattern: string; flags: string }
  const edits: Edit[] = []
  const to = (changed: string, kept: string) =>
    edits.push({ kind: 'pattern', start: node.start, end: node.end, text: `/${changed}/${kept}` })
  if (pattern.startsWith('^')) to(pattern.slice(1), flags)
  if (/(?<!\\)\$$/.test(pattern)) to(pattern.slice(0, -1), flags)
  if (flags.includes('i')) to(pattern, flags.replace('i', ''))
  return edits.filter((edit) => edit.text !== text.slice(node.start, node.end))
}

function template(node: Node, around: readonly Node[], text: string): Edit[] {
  const parent = around.at(-1)
  const pieces = node.quasis as Node[]
  const raw = (piece: Node): string => text.slice(piece.start, piece.end)
  const isTagged = parent?.type === 'TaggedTemplateExpression' && /^sql\b/.test(text.slice(parent.start))
  if (isTagged || isStatement(raw(pieces[0]!))) {
    let before = isTagged && !isStatement(raw(pieces[0]!)) ? 'where ' : ''
    return pieces.flatMap((piece) => {
      const edits = sqlEdits(raw(piece), before).map((edit) => moved(edit, piece.start))
      before += `${raw(piece)}$0`
      return edits
    })
  }
  if (pieces.some((piece) => isSentence(raw(piece)) && raw(piece) !== '')) return []
  return [{ kind: 'text', start: node.start, end: node.end, text: '``' }]
}

const moved = (edit: Edit, by: number): Edit => ({ ...edit, start: edit.start + by, end: edit.end + by })
