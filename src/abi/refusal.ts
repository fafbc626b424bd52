import { AppError } from '../errors.ts'

/** Creates the error for an ABI. `position` counts characters from 1. */
export function abiError(position: number, code: string, detail: string): AppError {
  const sentence = `${detail}, at character ${position}`
  return new AppError('invalid_abi', `The ABI is not valid: ${sentence}.`, {
    errors: [{ pointer: '/abi', code, detail: sentence }],
  })
}
