import { strict as assert } from 'node:assert'
import { elementaryType, explainUnknownType } from './elementary.ts'
import type { AbiErrorItem, AbiFunction, AbiParameter, ParsedAbi, StateMutability } from './item.ts'
import { MAX_ERROR_ITEMS, MAX_NAME, MAX_PARAMETERS, MAX_TUPLE_DEPTH } from './limits.ts'
import { abiError } from './refusal.ts'
import { atEnd, type ScanCursor, fail, isWordNext, skipSpace, takeDigits, takeSymbol, takeWord } from './scan.ts'
import { checkDimensions, checkSize } from './size.ts'

/**
 * Parses Solidity text: `balanceOf(address) public view returns (uint256)`, `function f(…) external;`, and `error
 * Name(…)` items beside it. It reads each character a constant number of times.
 * @throws invalid_abi
 * Source: docs.soliditylang.org, "Language Grammar", functionDefinition and errorDefinition
 */
export function readSignatures(text: string): ParsedAbi {
  const cursor: ScanCursor = { text, at: 0 }
  let found: AbiFunction | null = null
  const errors: AbiErrorItem[] = []
  skipSpace(cursor)
  if (atEnd(cursor)) throw fail(cursor, 'empty', 'the text is empty')
  while (!atEnd(cursor)) {
    const start = cursor.at
    if (found && !isWordNext(cursor)) throw fail(cursor, 'unexpected_character', 'expected an error item or the end')
    const item = readItem(cursor)
    if (item.kind === 'error') errors.push({ name: item.name, inputs: item.inputs })
    else if (found)
      throw abiError(start + 1, 'second_function', 'expected exactly one function, found a second function')
    else found = item.function
    if (errors.length > MAX_ERROR_ITEMS) {
      throw abiError(start + 1, 'too_many_errors', `more than ${MAX_ERROR_ITEMS} error items`)
    }
    takeSymbol(cursor, ';')
    skipSpace(cursor)
  }
  if (!found) throw fail(cursor, 'no_function', 'expected a function, found only error items')
  return { function: found, errors }
}

/** Parses one `error Name(…)` of our own list. */
export function readErrorItem(text: string): AbiErrorItem {
  const item = readItem({ text, at: 0 })
  assert(item.kind === 'error')
  return { name: item.name, inputs: item.inputs }
}

type AbiItem = ({ kind: 'error' } & AbiErrorItem) | { kind: 'function'; function: AbiFunction }

function readItem(cursor: ScanCursor): AbiItem {
  const start = cursor.at
  const word = takeWord(cursor)
  if (word === '') throw fail(cursor, 'unexpected_character', 'expected the name of a function')
  skipSpace(cursor)
  // `error` and `function` can also be names: error(string) is a function called error.
  if (word === 'error' && isWordNext(cursor)) {
    const item = { kind: 'error' as const, name: readName(cursor, 'error'), inputs: readParameters(cursor, 0) }
    checkSize(item.inputs, start + 1)
    return item
  }
  if (word === 'function') {
    const name = readName(cursor, 'function')
    return { kind: 'function', function: readFunction(cursor, start, name) }
  }
  if (isWordNext(cursor) || onlyBare.has(word)) {
    throw abiError(
      start + 1,
      'not_a_function',
      `"${word.slice(0, 40)}" is not the start of a function or an error item`,
    )
  }
  checkName(word, 'function', start)
  return { kind: 'function', function: readFunction(cursor, start, word) }
}

/** Other contract members. The last three are function names only after the word `function`. */
const onlyBare = new Set(['constructor', 'event', 'modifier', 'struct', 'mapping', 'fallback', 'receive', 'tuple'])

function readFunction(cursor: ScanCursor, start: number, name: string): AbiFunction {
  const inputs = readParameters(cursor, 0)
  const { stateMutability, hasReturns } = readModifiers(cursor)
  const outputs = hasReturns ? readParameters(cursor, 0) : []
  if (hasReturns && outputs.length === 0) throw abiError(cursor.at, 'empty_returns', 'returns () has no type')
  checkSize(inputs, start + 1)
  checkSize(outputs, start + 1)
  return { name, inputs, outputs, stateMutability }
}

const visibilities = new Set(['public', 'external'])
const mutabilities = new Set(['view', 'pure', 'payable', 'nonpayable'])

/** Reads everything between the parameters and `returns`, in any order, each word at most once. */
function readModifiers(cursor: ScanCursor): { stateMutability: StateMutability | null; hasReturns: boolean } {
  const seen: { visibility?: string; mutability?: string; virtual?: string; override?: string } = {}
  const stateMutability = () => (seen.mutability ?? null) as StateMutability | null
  for (;;) {
    skipSpace(cursor)
    if (!isWordNext(cursor)) return { stateMutability: stateMutability(), hasReturns: false }
    const start = cursor.at
    const word = takeWord(cursor)
    if (word === 'returns') return { stateMutability: stateMutability(), hasReturns: true }
    if (word === 'error' || word === 'function') {
      // The next item follows without a separator: put its first word back.
      cursor.at = start
      return { stateMutability: stateMutability(), hasReturns: false }
    }
    const slot = slotOf(word)
    if (!slot) throw abiError(start + 1, 'unexpected_word', explainModifier(word))
    const earlier = seen[slot]
    if (earlier === word) throw abiError(start + 1, 'duplicate_modifier', `"${word}" appears twice`)
    if (earlier) throw abiError(start + 1, 'conflicting_modifiers', `"${word}" contradicts "${earlier}"`)
    seen[slot] = word
    if (word === 'override') skipOverridden(cursor)
  }
}

function slotOf(word: string): 'visibility' | 'mutability' | 'virtual' | 'override' | null {
  if (visibilities.has(word)) return 'visibility'
  if (mutabilities.has(word)) return 'mutability'
  return word === 'virtual' || word === 'override' ? word : null
}

function explainModifier(word: string): string {
  if (word === 'internal' || word === 'private') return `a function that is ${word} cannot be called from outside`
  if (word === 'constant') return '"constant" is an obsolete word for view: write view'
  return `"${word.slice(0, 40)}" is not a visibility or modifier, and only one function may be given`
}

/** Skips the list of contracts in `override(A, B.C)`, which is not part of a signature. */
function skipOverridden(cursor: ScanCursor): void {
  if (!takeSymbol(cursor, '(')) return
  do {
    do {
      skipSpace(cursor)
      if (takeWord(cursor) === '') throw fail(cursor, 'unexpected_character', 'expected the name of a contract')
    } while (takeSymbol(cursor, '.'))
  } while (takeSymbol(cursor, ','))
  if (!takeSymbol(cursor, ')')) throw fail(cursor, 'unexpected_character', 'expected "," or ")"')
}

function readParameters(cursor: ScanCursor, tupleDepth: number): AbiParameter[] {
  if (!takeSymbol(cursor, '(')) throw fail(cursor, 'unexpected_character', 'expected "("')
  const parameters: AbiParameter[] = []
  if (takeSymbol(cursor, ')')) return parameters
  do {
    if (parameters.length === MAX_PARAMETERS) {
      throw fail(cursor, 'too_many_parameters', `more than ${MAX_PARAMETERS} parameters in one list`)
    }
    parameters.push(readParameter(cursor, tupleDepth))
  } while (takeSymbol(cursor, ','))
  if (!takeSymbol(cursor, ')')) throw fail(cursor, 'unexpected_character', 'expected "," or ")"')
  return parameters
}

function readParameter(cursor: ScanCursor, tupleDepth: number): AbiParameter {
  skipSpace(cursor)
  const start = cursor.at
  const word = takeWord(cursor)
  skipSpace(cursor)
  let base = 'tuple'
  let components: AbiParameter[] | undefined
  if (word === '' || word === 'tuple') {
    if (tupleDepth === MAX_TUPLE_DEPTH) {
      throw abiError(start + 1, 'too_deep', `tuples are nested more than ${MAX_TUPLE_DEPTH} deep`)
    }
    if (word === '' && cursor.text[cursor.at] !== '(') throw fail(cursor, 'unexpected_character', 'expected a type')
    components = readParameters(cursor, tupleDepth + 1)
    if (components.length === 0) throw abiError(start + 1, 'empty_tuple', 'a tuple has no components')
  } else {
    const canonical = elementaryType(word)
    if (canonical === null) {
      const { code, detail } = explainUnknownType(word)
      throw abiError(start + 1, code, detail)
    }
    base = canonical
    if (base === 'address') takeKeyword(cursor, ['payable'])
  }
  const suffix = readArraySuffix(cursor)
  const hasLocation = suffix !== '' || base === 'tuple' || base === 'bytes' || base === 'string'
  if (hasLocation) takeKeyword(cursor, ['memory', 'calldata', 'storage'])
  const name = readParameterName(cursor)
  return { name, type: base + suffix, ...(components && { components }) }
}

function readArraySuffix(cursor: ScanCursor): string {
  const dimensions: string[] = []
  while (takeSymbol(cursor, '[')) {
    skipSpace(cursor)
    const position = cursor.at + 1
    dimensions.push(takeDigits(cursor))
    checkDimensions(dimensions, position)
    if (!takeSymbol(cursor, ']')) throw fail(cursor, 'unexpected_character', 'expected a length or "]"')
  }
  return dimensions.map((digits) => `[${digits}]`).join('')
}

/** Takes one of the words if it comes next as a whole word. */
function takeKeyword(cursor: ScanCursor, words: readonly string[]): void {
  skipSpace(cursor)
  const start = cursor.at
  if (!words.includes(takeWord(cursor))) cursor.at = start
}

function readParameterName(cursor: ScanCursor): string {
  skipSpace(cursor)
  const start = cursor.at
  const name = takeWord(cursor)
  if (name.length > MAX_NAME) throw abiError(start + 1, 'too_long', `a name has more than ${MAX_NAME} characters`)
  if (name !== '') checkName(name, 'parameter', start)
  return name
}

function readName(cursor: ScanCursor, of: 'function' | 'error'): string {
  skipSpace(cursor)
  const start = cursor.at
  const name = takeWord(cursor)
  if (name === '') throw fail(cursor, 'unexpected_character', `expected the name of the ${of}`)
  checkName(name, of, start)
  return name
}

const reservedWords = new Set([
  ...['function', 'returns', 'constructor', 'event', 'modifier', 'struct', 'mapping', 'indexed', 'anonymous'],
  ...['public', 'external', 'internal', 'private', 'view', 'pure', 'payable', 'constant'],
  ...['virtual', 'override', 'memory', 'calldata', 'storage'],
])

/**
 * Rejects a reserved word as a name: a mistake such as `f(uint256 memory)`, or an unsupported item. `tuple` and
 * `nonpayable` are words of the JSON ABI only, so in Solidity they are ordinary names.
 */
function checkName(name: string, of: string, start: number): void {
  if (!reservedWords.has(name) && elementaryType(name) === null) return
  throw abiError(start + 1, 'unexpected_word', `"${name}" cannot be the name of ${of === 'error' ? 'an' : 'a'} ${of}`)
}
