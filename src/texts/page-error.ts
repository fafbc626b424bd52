import { AppError, type ErrorCode, type ErrorExtras } from '../errors.ts'
import { en, type Texts } from './en.ts'
import type { PageCode } from './page-code.ts'

/** An error that a page explains in its reader's language. Logs and programs read it in English. */
export class PageError extends AppError {
  readonly say: (words: Texts) => string

  constructor(code: ErrorCode, say: (words: Texts) => string, extras: ErrorExtras = {}) {
    super(code, say(en), extras)
    this.say = say
  }
}

/**
 * Returns the title of an error, what helps, and `detail`: a sentence about this case; null if there is none in the
 * language.
 */
export function explainError(words: Texts, error: AppError): { title: string; help: string; detail: string | null } {
  const [title, help] = describeCode(words, error.code)
  return { title, help, detail: error instanceof PageError ? error.say(words) : null }
}

/** Returns the title and help of an error code. */
export const describeCode = (words: Texts, code: ErrorCode): [title: string, help: string] =>
  Object.hasOwn(words.codes, code) ? words.codes[code as PageCode] : [words.failed, words.userMessages[code]]
