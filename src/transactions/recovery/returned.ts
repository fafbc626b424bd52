import { decodeResult, type Output } from '../../abi/results.ts'
import { AppError } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import type { Intent } from '../intent.ts'

/** What a call returned, decoded by the caller's ABI; null where there is none, or it does not decode. */
export function readReturned({ fn }: Intent, data: Hex): { response: unknown; outputs: Output[] } {
  if (fn === null) return { response: null, outputs: [] }
  try {
    return decodeResult(fn, data)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    return { response: null, outputs: [] }
  }
}
