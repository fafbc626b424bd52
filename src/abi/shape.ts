import { strict as assert } from 'node:assert'
import { elementaryType } from './elementary.ts'
import type { AbiParameter } from './item.ts'

/** The layout of a type in call data. */
export type Shape = Leaf | ArrayShape | TupleShape
export type Leaf = (
  | { kind: 'uint' | 'int'; bits: number }
  | { kind: 'fixedBytes'; size: number }
  | { kind: 'bool' | 'address' | 'string' | 'bytes' }
) &
  Layout
/** `length`: null for `[]` */
export type ArrayShape = { kind: 'array'; item: Shape; length: number | null } & Layout
export type TupleShape = { kind: 'tuple'; components: Shape[]; names: string[] } & Layout

/** `headBytes`: size of the value within its sequence; 32 (an offset) if it is dynamic. */
type Layout = { isDynamic: boolean; headBytes: number }

/** A decoded value: integers as bigint, bytes and addresses as lower-case 0x-hex, arrays and tuples in order. */
export type Value = bigint | boolean | string | Value[]

/**
 * Derives the layout of a parameter.
 * Source: docs.soliditylang.org, "Contract ABI Specification", Formal Specification of the Encoding
 */
export function shapeOf(parameter: AbiParameter): Shape {
  const { type, components } = parameter
  if (type.endsWith(']')) {
    const open = type.lastIndexOf('[')
    const digits = type.slice(open + 1, -1)
    return arrayShape(shapeOf({ ...parameter, type: type.slice(0, open) }), digits === '' ? null : Number(digits))
  }
  if (type === 'tuple') {
    assert(components, 'a tuple without components')
    const names = components.map(({ name }) => name)
    return { kind: 'tuple', names, ...inSequence(components.map(shapeOf)) }
  }
  assert.equal(elementaryType(type), type, 'an item that our parser did not make')
  return leafShape(type)
}

/** Returns the bytes of a parameter in the head of its list. */
export const headBytesOf = (parameter: AbiParameter): number => shapeOf(parameter).headBytes

function arrayShape(item: Shape, length: number | null): ArrayShape {
  const isDynamic = length === null || item.isDynamic
  return { kind: 'array', item, length, isDynamic, headBytes: isDynamic ? 32 : item.headBytes * length }
}

function inSequence(components: Shape[]): { components: Shape[] } & Layout {
  const isDynamic = components.some((component) => component.isDynamic)
  const headBytes = isDynamic ? 32 : components.reduce((sum, component) => sum + component.headBytes, 0)
  return { components, isDynamic, headBytes }
}

function leafShape(type: string): Leaf {
  const inline = { isDynamic: false, headBytes: 32 }
  if (type.startsWith('uint')) return { kind: 'uint', bits: Number(type.slice('uint'.length)), ...inline }
  if (type.startsWith('int')) return { kind: 'int', bits: Number(type.slice('int'.length)), ...inline }
  if (type === 'string' || type === 'bytes') return { kind: type, isDynamic: true, headBytes: 32 }
  if (type === 'bool' || type === 'address') return { kind: type, ...inline }
  // An external function is encoded as its address and selector.
  const size = type === 'function' ? 24 : Number(type.slice('bytes'.length))
  return { kind: 'fixedBytes', size, ...inline }
}
