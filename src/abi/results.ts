import { AppError } from '../errors.ts'
import { checksumAddress } from '../digits.ts'
import { bigNumber } from './bignumber.ts'
import { bytesOf } from './bytes.ts'
import { decodeSequence } from './decode.ts'
import type { AbiFunction, AbiParameter } from './item.ts'
import { type Shape, shapeOf, type Value } from './shape.ts'

/**
 * A named result. `type` as in a JSON ABI (`tuple[]`). The `value` of a tuple is a list of outputs, so that names
 * remain in order.
 */
export type Output = { name: string; type: string; value: unknown }

/**
 * Decodes the result of a call into its wire form.
 * @returns `response`: null for no return value, the bare value for one, an array by position for several
 * @throws invalid_return_data  truncated, out of a type's range, over 4 MiB or 100,000 values, or the same bytes for
 * many values
 */
export function decodeResult(fn: AbiFunction, data: string): { response: unknown; outputs: Output[] } {
  const bytes = bytesOf(data)
  if (!bytes)
    throw new AppError('invalid_return_data', 'The node returned no bytes for the call. Nothing new was sent. Retry.')
  const shapes = fn.outputs.map(shapeOf)
  const values = decodeSequence(shapes, bytes).map((value, index) => wireValue(shapes[index]!, value))
  const outputs = fn.outputs.map((output, index) => nameValue(output, values[index]))
  return { response: values.length > 1 ? values : (values[0] ?? null), outputs }
}

/**
 * Converts a value to its wire form: integers as big-number objects, addresses with checksum, arrays and tuples by
 * position.
 */
export function wireValue(shape: Shape, value: Value): unknown {
  switch (shape.kind) {
    case 'uint':
    case 'int':
      return bigNumber(value as bigint)
    case 'address':
      return checksumAddress(value as string)
    case 'array':
      return (value as Value[]).map((item) => wireValue(shape.item, item))
    case 'tuple':
      return (value as Value[]).map((item, index) => wireValue(shape.components[index]!, item))
    default:
      return value
  }
}

function nameValue({ name, type, components }: AbiParameter, value: unknown): Output {
  return { name, type, value: components ? nameComponents(type, components, value as unknown[]) : value }
}

function nameComponents(type: string, components: AbiParameter[], value: unknown[]): unknown[] {
  if (type === 'tuple') return components.map((component, index) => nameValue(component, value[index]))
  const itemType = type.slice(0, type.lastIndexOf('['))
  return value.map((item) => nameComponents(itemType, components, item as unknown[]))
}
