import { AppError, type ErrorCode } from '../../src/errors.ts'

/** For `assert.rejects`: an error with this code, whose words hold this text. */
export const refusedWith =
  (code: ErrorCode, text = '') =>
  (error: unknown): error is AppError =>
    error instanceof AppError && error.code === code && error.message.includes(text)
