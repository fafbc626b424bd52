import { AppError, type ErrorCode, type ErrorExtras } from '../errors.ts'
import { en, type Texts } from './en.ts'
import type { PageCode } from './page-code.ts'

/** A refusal that a page says in its reader's language. Logs and programs read it in English. */
export class PageError extends AppError {
  readonly say: (words: Texts) => string

  constructor(code: ErrorCode, say: (words: Texts) => string, extras: ErrorExtras = {}) {
    super(code, say(en), extras)
    this.say = say
  }
}

/** What a refusal is called and what helps; `detail` is a sentence about this case, where there is one in the language. */
export function explainError(words: Texts, error: AppError): { title: string; help: string; detail: string | null } {
  const [title, help] = describeCode(words, error.code)
  return { title, help, detail: error instanceof PageError ? error.say(words) : null }
}

/** Title and help of a code. */
export const describeCode = (words: Texts, code: ErrorCode): [title: string, help: string] =>
  Object.hasOwn(words.codes, code) ? words.codes[code as PageCode] : [words.failed, words.userMessages[code]]
