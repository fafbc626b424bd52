import { writeSync } from 'node:fs'
import { AppError } from './errors.ts'

/**
 * The log of both programs: JSON lines on standard error. They carry an allow-list of fields, chosen where the line is
 * written: never a request body, a header, a token, a key or a connection string. Errors are logged by name, code and
 * stack, through `describe`, because a foreign error's own fields may hold a URL with a secret.
 */
export type Logger = {
  [Level in keyof typeof LEVELS]: (event: string, fields?: LogFields, error?: unknown) => void
}

export type WriteLine = (line: string) => void

type LogFields = Record<string, string | number | boolean | bigint | null | undefined>

/** As pino numbers them: what reads the logs of Node's programs knows these. */
const LEVELS = { debug: 20, info: 30, warn: 40, error: 50 }

/**
 * @param program  server or signer
 * @param least    the level below which nothing is written; `silent`: nothing at all
 * @param write    writes a line that has its end
 */
export function openLog(program: string, least: string, write: WriteLine = toStandardError): Logger {
  const threshold = isLevel(least) ? LEVELS[least] : Infinity
  const line =
    (severity: keyof typeof LEVELS) =>
    (event: string, fields: LogFields = {}, error?: unknown): void => {
      // What opened the database reports once that it is away, and once how much failed until it was back.
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
/** milliseconds: a reader that does not read may keep us for that long */
const PATIENCE_MS = 1_000

/** Whole lines, and before the program continues: the last ones say why it ended. What cannot be written is lost. */
function toStandardError(text: string): void {
  let rest: Buffer = Buffer.from(text)
  const until = performance.now() + PATIENCE_MS
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(STANDARD_ERROR, rest))
    } catch (error) {
      // A pipe that is full for the moment.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || performance.now() > until) return
      Atomics.wait(PAUSE, 0, 0, 5)
    }
  }
}

const PAUSE = new Int32Array(new SharedArrayBuffer(4))

/** What may be said of an error in a log: name, code, message and stack with anything URL-like or long and secret-like removed. */
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
 * Removes what could be a secret: URLs with everything behind their scheme (an RPC key may be part of the path),
 * JWTs, and runs of 32 or more token-like characters that are no plain hex address or hash.
 */
export function redact(text: string): string {
  return text
    .replace(/\b(?!file:)[a-z][a-z0-9+.-]{1,20}:\/\/[^\s"')]+/gi, '[url]')
    .replace(/\beyJ[\w-]+(\.[\w-]*)*/g, '[token]')
    .replace(/(?<![\w/.-])(?!0x[0-9a-fA-F]{40}\b)(?!0x[0-9a-fA-F]{64}\b)[\w-]{32,}(?![\w/.-])/g, '[redacted]')
    .slice(0, 2_000)
}
