import { writeSync } from 'node:fs'
import { AppError } from './errors.ts'

/**
 * The log of all programs: JSON lines on standard error. A line has only fields that the caller chose: never a request
 * body, a header, a token, a key or a connection string. Errors are logged by `describe` as name, code, message and
 * stack, because other fields of a foreign error may hold a URL with a secret.
 */
export type Logger = {
  [Level in keyof typeof LEVELS]: (event: string, fields?: LogFields, error?: unknown) => void
}

export type WriteLine = (line: string) => void

type LogFields = Record<string, string | number | boolean | bigint | null | undefined>

/** Level numbers of pino, which log tools for Node understand. */
const LEVELS = { debug: 20, info: 30, warn: 40, error: 50 }

/**
 * Opens a log.
 * @param program  name of the program, in each line
 * @param least    lowest level that is written; `silent`: none
 * @param write    receives each line, including its line end
 */
export function openLog(program: string, least: string, write: WriteLine = toStandardError): Logger {
  const threshold = isLevel(least) ? LEVELS[least] : Infinity
  const line =
    (severity: keyof typeof LEVELS) =>
    (event: string, fields: LogFields = {}, error?: unknown): void => {
      // The database pool logs an outage itself: once when it begins, and once, with the number of failures, when it
      // ends.
      if (error instanceof AppError && error.code === 'database_unavailable') return
      const level = LEVELS[severity]
      if (level < threshold) return
      const said = error === undefined ? {} : { error: describe(error) }
      const whole = { level, time: new Date().toISOString(), program, ...fields, ...said, msg: event }
      write(
        `${JSON.stringify(whole, (_key, value: unknown) => (typeof value === 'bigint' ? value.toString() : value))}\n`,
      )
    }
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
}

const isLevel = (text: string): text is keyof typeof LEVELS => Object.hasOwn(LEVELS, text)

const STANDARD_ERROR = 2
/** milliseconds to wait for a reader whose pipe is full */
const PATIENCE_MS = 1_000

/**
 * Writes whole lines synchronously, because the last lines say why a program ended. A line that cannot be written is
 * lost.
 */
function toStandardError(text: string): void {
  let rest: Buffer = Buffer.from(text)
  const until = performance.now() + PATIENCE_MS
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(STANDARD_ERROR, rest))
    } catch (error) {
      // EAGAIN: the pipe is full at the moment.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || performance.now() > until) return
      Atomics.wait(PAUSE, 0, 0, 5)
    }
  }
}

const PAUSE = new Int32Array(new SharedArrayBuffer(4))

/** Describes an error for the log: name, code, message, stack and causes, with URLs and secrets removed. */
export function describe(error: unknown): {
  name: string
  code?: string
  message: string
  stack?: string
  cause?: unknown
} {
  if (!(error instanceof Error)) return { name: typeof error, message: 'a value that is no error was thrown' }
  const code = (error as { code?: unknown }).code
  return {
    name: error.name,
    ...(typeof code === 'string' || typeof code === 'number' ? { code: String(code) } : {}),
    message: redact(error.message),
    ...(error.stack === undefined ? {} : { stack: redact(error.stack.split('\n').slice(1, 9).join('\n')) }),
    ...(error.cause instanceof Error ? { cause: describe(error.cause) } : {}),
  }
}

/**
 * Removes text that may be a secret: URLs after their scheme (an RPC key may be in the path), JWTs, and runs of 32 or
 * more token-like characters, except hexadecimal addresses and hashes.
 */
export function redact(text: string): string {
  return text
    .replace(/\b(?!file:)[a-z][a-z0-9+.-]{1,20}:\/\/[^\s"')]+/gi, '[url]')
    .replace(/\beyJ[\w-]+(\.[\w-]*)*/g, '[token]')
    .replace(/(?<![\w/.-])(?!0x[0-9a-fA-F]{40}\b)(?!0x[0-9a-fA-F]{64}\b)[\w-]{32,}(?![\w/.-])/g, '[redacted]')
    .slice(0, 2_000)
}
