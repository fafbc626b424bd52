import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import { Interface as Interface6 } from 'ethers'
import { ethers as ethers5 } from 'ethers5'
import * as fc from 'fast-check'
import { parseAbiItem, toFunctionSelector, type AbiFunction as ViemFunction } from 'viem'
import { AppError } from '../errors.ts'
import { fuzz } from '../../test/abi-fuzz.ts'
import { encodeCall } from './args.ts'
import { bigNumber } from './bignumber.ts'
import { parseAbi, selectorOf, signatureOf } from './parse.ts'
import { decodeResult } from './results.ts'

const check = <T>(arbitrary: fc.Arbitrary<T>, property: (value: T) => void) =>
  fc.assert(fc.property(arbitrary, property), fuzz(300))

type Type =
  | { kind: 'leaf'; type: string }
  | { kind: 'array'; item: Type; length: number | null; depth: number }
  | { kind: 'tuple'; components: Type[]; names: string[] }

const widths = Array.from({ length: 32 }, (_, index) => index + 1)
const leaves = [
  ...widths.flatMap((width) => [`uint${width * 8}`, `int${width * 8}`, `bytes${width}`]),
  ...['address', 'bool', 'string', 'bytes', 'uint256', 'int256', 'address', 'bool', 'string', 'bytes'],
]
const names = ['', 'to', 'amount', '_value', '$x', 'a1', 'owner', 'data', 'length', 'Token']
const named = <T>(item: fc.Arbitrary<T>, lengths: { minLength: number; maxLength: number }) =>
  fc.array(fc.tuple(item, fc.constantFrom(...names)), lengths)

const type: fc.Memo<Type> = fc.memo((depth) => {
  const leaf = fc.constantFrom(...leaves).map((type): Type => ({ kind: 'leaf', type }))
  if (depth <= 1) return leaf
  const array = fc.tuple(type(depth - 1), fc.constantFrom(null, null, 1, 2, 3)).map(([item, length]): Type => {
    const depth = item.kind === 'array' ? item.depth + 1 : 1
    return depth > 4 ? item : { kind: 'array', item, length, depth }
  })
  const tuple = named(type(depth - 1), { minLength: 1, maxLength: 3 }).map((list): Type => ({
    kind: 'tuple',
    components: list.map(([item]) => item),
    names: list.map(([, name]) => name),
  }))
  return fc.oneof({ weight: 3, arbitrary: leaf }, { weight: 2, arbitrary: array }, { weight: 2, arbitrary: tuple })
})
const parameters = named(type(4), { minLength: 0, maxLength: 4 })
type Parameters = [Type, string][]

/** Picks among spellings; a seed stands for all its choices. */
function chooser(seed: number): <T>(...options: T[]) => T {
  let state = seed
  return (...options) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return options[(state >>> 16) % options.length]!
  }
}
type Choose = ReturnType<typeof chooser>

const plain = (type: Type): string => {
  if (type.kind === 'leaf') return type.type
  if (type.kind === 'array') return `${plain(type.item)}[${type.length ?? ''}]`
  return `tuple(${type.components.map((item, index) => `${plain(item)} ${type.names[index]}`.trimEnd()).join(', ')})`
}
const plainList = (list: Parameters) => list.map(([item, name]) => `${plain(item)} ${name}`.trimEnd()).join(', ')

/** The same type in one of the ways that we accept. */
function spell(type: Type, choose: Choose): string {
  const space = () => choose('', '', ' ', '\n\t')
  if (type.kind === 'leaf') {
    if (type.type === 'address') return choose('address', 'address', 'address  payable')
    return /^u?int256$/.test(type.type) ? choose(type.type, type.type.slice(0, -3)) : type.type
  }
  if (type.kind === 'array') return `${spell(type.item, choose)}${space()}[${space()}${type.length ?? ''}${space()}]`
  const list = type.components.map((item, index) => spellParameter(item, type.names[index]!, choose))
  return `${choose('tuple', '', 'tuple ')}(${list.join(',')})`
}

function spellParameter(type: Type, name: string, choose: Choose): string {
  const mayLie = type.kind !== 'leaf' || type.type === 'string' || type.type === 'bytes'
  const location = mayLie ? choose('', '', ' memory', ' calldata', ' storage') : ''
  return `${choose('', ' ')}${spell(type, choose)}${location}${name === '' ? '' : ` ${name}`}${choose('', '\n')}`
}

function spellFunction(inputs: Parameters, outputs: Parameters, mutability: string, choose: Choose): string {
  const list = (parameters: Parameters) =>
    parameters.map(([item, name]) => spellParameter(item, name, choose)).join(',')
  const modifiers = [
    choose('', 'public', 'external'),
    choose('', 'virtual'),
    choose('', 'override', 'override(A, B.C)'),
  ].filter((word) => word !== '')
  const at = choose(0, modifiers.length)
  const words = [...modifiers.slice(0, at), mutability, ...modifiers.slice(at)].join(' ')
  const returns = outputs.length > 0 ? ` returns${choose('', ' ')}(${list(outputs)})` : ''
  return `${choose('', 'function ')}method${choose('', ' ')}(${list(inputs)}) ${words}${returns}${choose('', ';', ' ; ')}`
}

const mutabilities = fc.constantFrom('', 'view', 'pure', 'payable')

test('signatures and selectors equal those of ethers 5, ethers 6 and abitype', () => {
  const input = fc.tuple(parameters, parameters, mutabilities, fc.nat())
  check(input, ([inputs, outputs, mutability, seed]) => {
    const spelled = spellFunction(inputs, outputs, mutability, chooser(seed))
    const returns = outputs.length > 0 ? ` returns (${plainList(outputs)})` : ''
    const canonical = `function method(${plainList(inputs)})${mutability === '' ? '' : ` ${mutability}`}${returns}`
    const ours = parseAbi(spelled)
    const five = new ethers5.utils.Interface([canonical])
    assert.equal(signatureOf(ours.function), five.getFunction('method').format('sighash'), spelled)
    assert.equal(selectorOf(ours.function), five.getSighash('method'))
    const six = new Interface6([canonical]).getFunction('method')!
    assert.equal(signatureOf(ours.function), six.format('sighash'))
    assert.equal(selectorOf(ours.function), six.selector)
    assert.equal(ours.function.stateMutability ?? 'nonpayable', six.stateMutability)
    // The JSON form of ethers reads back to the same item.
    const json = parseAbi(five.getFunction('method').format('json'))
    assert.deepEqual(json.function.inputs, ours.function.inputs)
    assert.deepEqual(json.function.outputs, ours.function.outputs)
    // abitype reads no `tuple` keyword.
    const viem = parseAbiItem(canonical.replaceAll('tuple(', '(') as 'function f()') as unknown as ViemFunction
    assert.equal(selectorOf(ours.function), toFunctionSelector(viem))
    assert.deepEqual(
      ours.function.inputs.map(({ type }) => type),
      viem.inputs.map(({ type }) => type),
    )
  })
})

/** A value for ethers, and the same value as our argument text or as a part of it. */
type Sample = { value: unknown; json: string; text: string }

const anyInteger = (type: string) => {
  const bits = BigInt(type.replace(/^u?int/, ''))
  const [min, max] = type.startsWith('u') ? [0n, (1n << bits) - 1n] : [-(1n << (bits - 1n)), (1n << (bits - 1n)) - 1n]
  return fc.oneof(fc.bigInt({ min, max }), fc.constantFrom(min, max, 0n, 1n))
}
const hexOf = (bytes: Uint8Array) => `0x${Buffer.from(bytes).toString('hex')}`
const bytesOfLength = (minLength: number, maxLength = minLength) => fc.uint8Array({ minLength, maxLength }).map(hexOf)

function sample(type: Type): fc.Arbitrary<Sample> {
  if (type.kind === 'leaf') return sampleLeaf(type.type)
  const list =
    type.kind === 'tuple'
      ? fc.tuple(...type.components.map(sample))
      : fc.array(sample(type.item), { minLength: type.length ?? 0, maxLength: type.length ?? 3 })
  const isNamed = type.kind === 'tuple' && !type.names.includes('') && new Set(type.names).size === type.names.length
  return fc.tuple(list, fc.boolean()).map(([items, asObject]) => {
    const parts = items.map((item) => item.json)
    const json =
      isNamed && asObject
        ? `{${parts.map((part, n) => `"${type.names[n]}" : ${part}`).join()}}`
        : `[${parts.join(' , ')}]`
    return { value: items.map((item) => item.value), json, text: json }
  })
}

function sampleLeaf(type: string): fc.Arbitrary<Sample> {
  const quoted = (value: string) => ({ value, json: JSON.stringify(value), text: value })
  if (type === 'bool') return fc.boolean().map((value) => ({ value, json: String(value), text: String(value) }))
  if (type === 'string') return fc.string({ unit: 'binary', maxLength: 50 }).map(quoted)
  if (type === 'address') {
    return fc
      .tuple(bytesOfLength(20), fc.boolean())
      .map(([value, sum]) => quoted(sum ? ethers5.utils.getAddress(value) : value))
  }
  if (type === 'bytes') return bytesOfLength(0, 70).map(quoted)
  if (type.startsWith('bytes')) return bytesOfLength(Number(type.slice(5))).map(quoted)
  return fc.tuple(anyInteger(type), fc.constantFrom('bare', 'quoted', 'hex')).map(([value, form]) => {
    const hex = `${value < 0n ? '-' : ''}0x${(value < 0n ? -value : value).toString(16)}`
    const text = form === 'hex' ? hex : value.toString()
    return { value, text, json: form === 'bare' ? text : JSON.stringify(text) }
  })
}

const sampled = parameters.chain((list) => fc.tuple(fc.constant(list), fc.tuple(...list.map(([item]) => sample(item)))))

test('call data equals that of ethers 5 and ethers 6, byte for byte', () => {
  check(sampled, ([list, samples]) => {
    const text = `method(${plainList(list)})`
    const values = samples.map(({ value }) => value)
    const ours = encodeCall(
      parseAbi(text).function,
      samples.map((item) => item.text),
    )
    assert.equal(ours, new ethers5.utils.Interface([`function ${text}`]).encodeFunctionData('method', values))
    assert.equal(ours, new Interface6([`function ${text}`]).encodeFunctionData('method', values))
  })
})

test('results equal the JSON of what ethers 5 decodes, with every integer as a big number', () => {
  check(sampled, ([list, samples]) => {
    if (list.length === 0) return
    const text = `method() view returns (${plainList(list)})`
    const five = new ethers5.utils.Interface([`function ${text}`])
    const data = five.encodeFunctionResult(
      'method',
      samples.map(({ value }) => value),
    )
    const { response, outputs } = decodeResult(parseAbi(text).function, data)
    const expected = wireForm(five.decodeFunctionResult('method', data)) as unknown[]
    assert.deepEqual(response, list.length === 1 ? expected[0] : expected)
    assert.deepEqual(
      outputs.map(({ name }) => name),
      list.map(([, name]) => name),
    )
    assert.deepEqual(
      outputs.map(({ type, value }) => byPosition(type, value)),
      expected,
    )
  })
})

/** What JSON makes of a result of ethers 5; integers of up to 48 bits are plain numbers there. */
const wireForm = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value), (_, part) => (typeof part === 'number' ? bigNumber(BigInt(part)) : part))

/** Takes the names out of `outputs` again. */
function byPosition(type: string, value: unknown): unknown {
  if (!type.startsWith('tuple')) return value
  if (type !== 'tuple')
    return (value as unknown[]).map((item) => byPosition(type.slice(0, type.lastIndexOf('[')), item))
  return (value as { type: string; value: unknown }[]).map((part) => byPosition(part.type, part.value))
}

const lie = fc.record({
  at: fc.nat(),
  word: fc.oneof(fc.bigInt({ min: 0n, max: 512n }), fc.bigInt({ min: 0n, max: (1n << 256n) - 1n })),
  cut: fc.oneof(fc.constant(0), fc.nat({ max: 40 })),
})

test('data from a lying contract is refused, or read as ethers 5 reads it', () => {
  let refusals = 0
  check(fc.tuple(sampled, lie), ([[list, samples], { at, word, cut }]) => {
    if (list.length === 0) return
    const text = `method() view returns (${plainList(list)})`
    const five = new ethers5.utils.Interface([`function ${text}`])
    const digits = five
      .encodeFunctionResult(
        'method',
        samples.map(({ value }) => value),
      )
      .slice(2)
    const place = (at % (digits.length / 64)) * 64
    const wrong = digits.slice(0, place) + word.toString(16).padStart(64, '0') + digits.slice(place + 64)
    const data = `0x${wrong.slice(0, wrong.length - 2 * cut)}`
    let response: unknown
    try {
      response = decodeResult(parseAbi(text).function, data).response
    } catch (error) {
      assert(error instanceof AppError && error.code === 'invalid_return_data')
      refusals++
      return
    }
    // Where ethers gives up on invalid UTF-8 we put U+FFFD.
    if (JSON.stringify(response).includes('\uFFFD')) return
    // Its function form would refuse any data that is no whole number of words.
    const { outputs } = five.getFunction('method')
    const expected = wireForm(ethers5.utils.defaultAbiCoder.decode(outputs!, data)) as unknown[]
    assert.deepEqual(response, list.length === 1 ? expected[0] : expected)
  })
  assert(refusals > 30)
})
