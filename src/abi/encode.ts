import { strict as assert } from 'node:assert'
import type { Leaf, Shape, Value } from './shape.ts'
import { wordDigits } from '../ids.ts'

/**
 * Encodes values that `readArgument` returned, as hexadecimal digits without 0x.
 * Source: docs.soliditylang.org, "Contract ABI Specification", Formal Specification of the Encoding
 */
export function encodeSequence(shapes: readonly Shape[], values: readonly Value[]): string {
  const heads: string[] = []
  const tails: string[] = []
  let tailAt = shapes.reduce((sum, shape) => sum + shape.headBytes, 0)
  shapes.forEach((shape, index) => {
    const encoded = encode(shape, values[index]!)
    if (!shape.isDynamic) {
      heads.push(encoded)
      return
    }
    heads.push(word(BigInt(tailAt)))
    tails.push(encoded)
    tailAt += encoded.length / 2
  })
  return heads.concat(tails).join('')
}

function encode(shape: Shape, value: Value): string {
  if (shape.kind === 'tuple') return encodeSequence(shape.components, value as Value[])
  if (shape.kind !== 'array') return encodeLeaf(shape, value)
  const items = value as Value[]
  const body = encodeSequence(Array<Shape>(items.length).fill(shape.item), items)
  return shape.length === null ? word(BigInt(items.length)) + body : body
}

function encodeLeaf(shape: Leaf, value: Value): string {
  switch (shape.kind) {
    case 'uint':
    case 'int':
      return word(value as bigint)
    case 'bool':
      return word(value === true ? 1n : 0n)
    case 'address':
      return (value as string).slice(2).padStart(64, '0')
    case 'fixedBytes':
      return (value as string).slice(2).padEnd(64, '0')
    case 'bytes':
      return withLength((value as string).slice(2))
    default:
      return withLength(Buffer.from(value as string, 'utf8').toString('hex'))
  }
}

function withLength(digits: string): string {
  assert(digits.length % 2 === 0)
  return word(BigInt(digits.length / 2)) + digits.padEnd(Math.ceil(digits.length / 64) * 64, '0')
}

/** Encodes an integer as 32 bytes, big-endian, two's complement. */
const word = (value: bigint): string => wordDigits(BigInt.asUintN(256, value))
