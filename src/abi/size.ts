import type { AbiParameter } from './item.ts'
import { MAX_ARRAY_DEPTH, MAX_DATA_BYTES } from './limits.ts'
import { abiError } from './refusal.ts'
import { headBytesOf } from './shape.ts'

/**
 * Checks the last of an array type's dimensions: '' for `[]`, else the digits between the brackets.
 * @param position  of the dimension's first character, counted from 1
 * @throws invalid_abi
 */
export function checkDimensions(dimensions: readonly string[], position: number): void {
  if (dimensions.length > MAX_ARRAY_DEPTH) {
    throw abiError(position, 'too_deep', `arrays are nested more than ${MAX_ARRAY_DEPTH} deep`)
  }
  const digits = dimensions.at(-1) ?? ''
  // With zero items, empty data could hold any number of values.
  if (digits.startsWith('0')) {
    throw abiError(position, 'invalid_array_length', 'the length of an array must be a decimal number from 1')
  }
  if (digits.length > 6) throw abiError(position, 'too_large', 'the array is too large to be sent')
}

/**
 * Checks the size of fixed arrays, which multiply. Parameters that no call can hold are rejected here, so later code
 * need not check.
 * @param position  of the item, counted from 1
 * @throws invalid_abi
 */
export function checkSize(parameters: readonly AbiParameter[], position: number): void {
  const bytes = parameters.reduce((sum, parameter) => sum + headBytesOf(parameter), 0)
  if (bytes > MAX_DATA_BYTES) throw abiError(position, 'too_large', 'the fixed arrays are too large to be sent')
}
