import { AppError, type FieldError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { encodeSequence } from './encode.ts'
import type { AbiFunction } from './item.ts'
import { selectorOf } from './item.ts'
import { type JsonNode, JsonError, readJson } from './json.ts'
import { readLeaf } from './leaf.ts'
import { MAX_LISTED_ERRORS } from './limits.ts'
import { type ArrayShape, type Leaf, type Shape, shapeOf, type TupleShape, type Value } from './shape.ts'

export { readAddress } from './address.ts'

/** The errors found so far, at most `MAX_LISTED_ERRORS`. */
type Problems = { list: FieldError[] }

/**
 * Encodes call data: selector and arguments. Each argument is text, parsed strictly by its ABI type; arrays and tuples
 * are JSON text. Nothing is coerced, and no value passes through a float.
 * @throws invalid_argument  `errors[]` has a pointer for each wrong place, such as `/args/2/0/amount`
 */
export function encodeCall(fn: AbiFunction, args: readonly string[]): Hex {
  if (args.length !== fn.inputs.length) {
    const detail = `${fn.name} takes ${fn.inputs.length} arguments, not ${args.length}`
    throw refuse([{ pointer: '/args', code: 'wrong_count', detail }])
  }
  const problems: Problems = { list: [] }
  const shapes = fn.inputs.map(shapeOf)
  const values = shapes.map((shape, index) => readArgument(shape, args[index]!, `/args/${index}`, problems))
  if (problems.list.length > 0) throw refuse(problems.list)
  return `${selectorOf(fn)}${encodeSequence(shapes, values)}`
}

// Placeholder for an invalid value. It is never encoded, because the list of problems is then not empty.
const NOTHING: Value = 0n

function readArgument(shape: Shape, text: string, pointer: string, problems: Problems): Value {
  if (shape.kind !== 'array' && shape.kind !== 'tuple') return checkLeaf(shape, text, pointer, problems)
  try {
    return readNode(shape, readJson(text), pointer, problems)
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    const place = [pointer, ...error.path.map((step) => escapeKey(String(step)))].join('/')
    return addProblem(problems, place, error.code, `${error.message}, at character ${error.at + 1}`)
  }
}

function readNode(shape: Shape, node: JsonNode, pointer: string, problems: Problems): Value {
  // The three characters `{},` can lack 64 values, so stop when no more errors would be listed.
  if (problems.list.length === MAX_LISTED_ERRORS) return NOTHING
  if (shape.kind === 'array') return readArray(shape, node, pointer, problems)
  if (shape.kind === 'tuple') return readTuple(shape, node, pointer, problems)
  if (node.kind === 'string') return checkLeaf(shape, node.value, pointer, problems)
  // Integers and booleans may be unquoted, each only for its own type: 1 is not a bool, true is not an integer.
  if (node.kind === 'integer' && (shape.kind === 'uint' || shape.kind === 'int')) {
    return checkLeaf(shape, node.text, pointer, problems)
  }
  if (node.kind === 'boolean' && shape.kind === 'bool') return node.value
  return addProblem(
    problems,
    pointer,
    'wrong_kind',
    `expected a value of type ${nameOf(shape)}, found JSON ${node.kind}`,
  )
}

function checkLeaf(shape: Leaf, text: string, pointer: string, problems: Problems): Value {
  const reading = readLeaf(shape, text)
  return 'value' in reading ? reading.value : addProblem(problems, pointer, reading.code, reading.detail)
}

function readArray(shape: ArrayShape, node: JsonNode, pointer: string, problems: Problems): Value {
  if (node.kind !== 'array')
    return addProblem(problems, pointer, 'wrong_kind', `expected a JSON array, found ${node.kind}`)
  const { items } = node
  if (shape.length !== null && items.length !== shape.length) {
    return addProblem(problems, pointer, 'wrong_count', `expected ${shape.length} items, found ${items.length}`)
  }
  return items.map((item, index) => readNode(shape.item, item, `${pointer}/${index}`, problems))
}

function readTuple(shape: TupleShape, node: JsonNode, pointer: string, problems: Problems): Value {
  if (node.kind === 'object') return readFields(shape, node.fields, pointer, problems)
  if (node.kind !== 'array') {
    return addProblem(problems, pointer, 'wrong_kind', `expected a JSON array or object, found ${node.kind}`)
  }
  const { components } = shape
  if (node.items.length !== components.length) {
    return addProblem(
      problems,
      pointer,
      'wrong_count',
      `expected ${components.length} values, found ${node.items.length}`,
    )
  }
  return components.map((component, index) => {
    return readNode(component, node.items[index]!, `${pointer}/${index}`, problems)
  })
}

function readFields(shape: TupleShape, fields: Map<string, JsonNode>, pointer: string, problems: Problems): Value {
  const names = new Set(shape.names)
  if (names.has('') || names.size < shape.names.length) {
    return addProblem(
      problems,
      pointer,
      'unnamed_components',
      'the ABI does not name every value of this tuple: use an array',
    )
  }
  for (const key of fields.keys()) {
    if (!names.has(key))
      addProblem(problems, `${pointer}/${escapeKey(key)}`, 'unknown_field', 'the tuple does not have this component')
  }
  return shape.components.map((component, index) => {
    const name = shape.names[index]!
    const node = fields.get(name)
    const place = `${pointer}/${name}`
    return node
      ? readNode(component, node, place, problems)
      : addProblem(problems, place, 'missing', 'the value is missing')
  })
}

/** Escapes and truncates a key that the caller made up, for a JSON pointer in a response. RFC 6901 §3 */
const escapeKey = (key: string): string => key.slice(0, 64).toWellFormed().replaceAll('~', '~0').replaceAll('/', '~1')

function nameOf(shape: Leaf): string {
  if (shape.kind === 'fixedBytes') return `bytes${shape.size}`
  return shape.kind === 'uint' || shape.kind === 'int' ? `${shape.kind}${shape.bits}` : shape.kind
}

function addProblem(problems: Problems, pointer: string, code: string, detail: string): Value {
  if (problems.list.length < MAX_LISTED_ERRORS) problems.list.push({ pointer, code, detail })
  return NOTHING
}

function refuse(errors: FieldError[]): AppError {
  const [first] = errors
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : ''
  return new AppError('invalid_argument', `${first!.pointer}: ${first!.detail}${more}.`, { errors })
}
