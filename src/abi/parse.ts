/**
 * abi: parses ABIs; encodes arguments; decodes results, reverts and transfer events.
 * Owns: the bounds on hostile input (`limits.ts`), the positions in error responses, addresses and big numbers on the
 *   wire.
 * Does not own: anything that asks a node or the database. Everything here is pure.
 * Path of a call: `parse.ts`, `args.ts`, `encode.ts`, then `results.ts` or `reverts.ts`.
 */

import { abiError } from './refusal.ts'
import { readFragment } from './fragment.ts'
import { readSignatures } from './grammar.ts'
import type { ParsedAbi } from './item.ts'
import { MAX_ABI_BYTES } from './limits.ts'

export { signatureOf, selectorOf } from './item.ts'
export type { AbiErrorItem, AbiFunction, ParsedAbi } from './item.ts'

/**
 * Parses the `abi` of a request: one function and any `error` items, as Solidity text or JSON ABI text. We have our own
 * parser, because existing ones reject the specification's short form, hang on nested parentheses, and retain every
 * text.
 * @param text  at most 8 KiB; 64 parameters per list, tuples 8 deep, arrays 4 deep
 * @throws invalid_abi  `errors[0]` has the position, counted in characters from 1
 */
export function parseAbi(text: string): ParsedAbi {
  // The first test saves counting the bytes of a long text.
  if (text.length > MAX_ABI_BYTES || Buffer.byteLength(text, 'utf8') > MAX_ABI_BYTES) {
    throw abiError(MAX_ABI_BYTES + 1, 'too_long', `the text is longer than ${MAX_ABI_BYTES} bytes`)
  }
  return isJson(text) ? readFragment(text) : readSignatures(text)
}

function isJson(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x7b || code === 0x5b) return true
    if (code !== 0x20 && (code < 0x09 || code > 0x0d)) return false
  }
  return false
}
