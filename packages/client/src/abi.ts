import type { Abi, AbiFunction, AbiParameter, AbiParameterToPrimitiveType, ParseAbiItem } from 'abitype'
import { InvalidInput } from './errors.ts'

/** A function: its signature, its JSON item, or an ABI in which `functionName` selects one. */
export type AbiSource = string | AbiFunction | Abi

/** A call. `address` is the contract, 0x-prefixed. */
export type ContractCall<A extends AbiSource, N extends string = string> = {
  address: string
  /** `balanceOf(address owner) view returns (uint256)`, or a JSON ABI item, or an ABI */
  abi: A
} & Choice<A, N> &
  Arguments<FunctionOf<A, N>>

type Choice<A, N> = A extends Abi ? { functionName: N & NamesOf<A> } : { functionName?: undefined }
type NamesOf<A extends Abi> = Extract<A[number], { type: 'function' }>['name']

/** The function that a call names; `AbiFunction` if the compiler cannot determine it. */
export type FunctionOf<A extends AbiSource, N extends string = string> = A extends string
  ? Parsed<A>
  : A extends AbiFunction
    ? A
    : A extends Abi
      ? Extract<A[number], { type: 'function'; name: N }>
      : AbiFunction

// The service writes `tuple(…)`, while abitype writes `(…)`. Lines after the function declare errors.
type Parsed<S extends string> = string extends S ? AbiFunction : Known<ParseAbiItem<Prefixed<Untupled<FirstLine<S>>>>>
type Known<F> = [F] extends [never] ? AbiFunction : F extends AbiFunction ? F : AbiFunction
type FirstLine<S extends string> = S extends `${infer First}\n${string}` ? Trimmed<First> : Trimmed<S>
type Trimmed<S extends string> = S extends ` ${infer Rest}` | `${infer Rest} ` | `${infer Rest};` ? Trimmed<Rest> : S
type Untupled<S extends string> = S extends `${infer Head}tuple(${infer Tail}` ? Untupled<`${Head}(${Tail}`> : S
type Prefixed<S extends string> = S extends `function ${string}` ? S : `function ${S}`

type Arguments<F extends AbiFunction> = AbiFunction extends F
  ? { args?: readonly unknown[] }
  : F['inputs'] extends readonly []
    ? { args?: readonly [] }
    : { args: Inputs<F['inputs']> }
type Inputs<P extends readonly AbiParameter[]> = {
  readonly [I in keyof P]: Written<AbiParameterToPrimitiveType<P[I], 'inputs'>>
}

/** Type of a result: one value; for several, an object by name, or an array if one has no name; undefined for none. */
export type ResultOf<F extends AbiFunction> = AbiFunction extends F
  ? unknown
  : F['outputs'] extends readonly []
    ? undefined
    : F['outputs'] extends readonly [infer Only extends AbiParameter]
      ? Read<AbiParameterToPrimitiveType<Only, 'outputs'>>
      : Read<AbiParameterToPrimitiveType<{ type: 'tuple'; components: F['outputs'] }, 'outputs'>>

/** Type of a result value: every integer, of any width, is a bigint. */
type Read<T> = T extends number ? bigint : T extends object ? { [K in keyof T]: Read<T[K]> } : T
/** Type of an argument: every integer is a bigint; for small types, a safe integer is accepted as well. */
type Written<T> = T extends number ? number | bigint : T extends object ? { readonly [K in keyof T]: Written<T[K]> } : T

/** A call in the API's form: the ABI of one function as text, each argument as text. */
export type WireCall = { address: string; abi: string; args?: string[] }

type LooseCall = {
  address: string
  abi: AbiSource
  functionName?: string | undefined
  args?: readonly unknown[] | undefined
}

/**
 * Converts a call to the API's form. @throws InvalidInput  for an ambiguous function, or an argument that is no ABI
 * value
 */
export function wireCallOf({ address, abi, functionName, args = [] }: LooseCall): WireCall {
  return {
    address,
    abi: abiText(abi, functionName, args.length),
    args: args.map((arg, index) => argumentText(arg, `/args/${index}`)),
  }
}

/** bytes: the longest ABI that the service reads */
const MAX_ABI = 8_192

function abiText(abi: AbiSource, name: string | undefined, count: number): string {
  if (typeof abi === 'string') return abi
  if (!isList(abi)) return JSON.stringify(abi)
  const named = abi.filter((item) => item.type === 'function' && item.name === name)
  const found = named.length > 1 ? named.filter((item) => 'inputs' in item && item.inputs?.length === count) : named
  if (found.length !== 1)
    throw invalid('/abi', `The ABI has ${found.length} functions "${name}" with ${count} arguments. Give the one item.`)
  const text = JSON.stringify([...found, ...abi.filter((item) => item.type === 'error')])
  return text.length <= MAX_ABI ? text : JSON.stringify(found[0])
}

const isList = (abi: AbiFunction | Abi): abi is Abi => Array.isArray(abi)

function argumentText(value: unknown, pointer: string): string {
  if (typeof value === 'object' && value !== null) return JSON.stringify(plain(value, pointer))
  return String(plain(value, pointer))
}

/** Converts integers to text, because JSON would round them. */
function plain(value: unknown, pointer: string): unknown {
  if (typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return String(value)
  if (Array.isArray(value)) return value.map((item, index) => plain(item, `${pointer}/${index}`))
  if (typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype)
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plain(item, `${pointer}/${name}`)]))
  throw invalid(pointer, 'Expected a bigint, a safe integer, a text, a boolean, an array or a plain object.')
}

/** Creates the error for an input that the client itself rejects. */
export const invalid = (pointer: string, detail: string): InvalidInput =>
  new InvalidInput({
    ...{ code: 'invalid_argument', pointers: [pointer], message: `${pointer}: ${detail} Nothing was sent.` },
    userMessage: 'A detail of this request is not valid. Nothing was sent. Check the details, then try again.',
  })

/** A return value in the API's form. The value of a tuple is a list of outputs. */
export type Output = { name: string; type: string; value: unknown }

/** Converts the return values of a call. */
export function resultOf(outputs: readonly Output[]): unknown {
  if (outputs.length === 0) return undefined
  return outputs.length === 1 ? valueOf(outputs[0]!.type, outputs[0]!.value) : tupleOf(outputs)
}

function valueOf(type: string, value: unknown): unknown {
  if (!type.startsWith('tuple')) return value
  if (type === 'tuple') return tupleOf(value as Output[])
  return (value as unknown[]).map((item) => valueOf(type.slice(0, type.lastIndexOf('[')), item))
}

function tupleOf(outputs: readonly Output[]): unknown {
  const values = outputs.map(({ name, type, value }) => [name, valueOf(type, value)] as const)
  return values.every(([name]) => name !== '') ? Object.fromEntries(values) : values.map(([, value]) => value)
}
