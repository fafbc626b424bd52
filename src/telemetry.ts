import { Counter, Gauge, Histogram, Registry } from '@prometheus-io/client'
import pino from 'pino'
import { AppError } from './errors.ts'

/**
 * Logs and counters. Log lines carry an allow-list of fields, chosen where the line is written: never a request
 * body, a header, a token, a key or a connection string. Errors are logged by name, code and stack, through
 * `describe`, because a foreign error's own fields may hold a URL with a secret.
 */
export type Telemetry = {
  log: Logger
  registry: Registry
  requests: Histogram<string>
  refusals: Counter<string>
  rpcCalls: Counter<string>
  writes: Counter<string>
  headBlock: Gauge<string>
  indexedBlock: Gauge<string>
  loopDelay: Gauge<string>
  poolWait: Histogram<string>
  admissionLimit: Gauge<string>
  inFlight: Gauge<string>
  quotaUsed: Gauge<string>
}

type LogFields = Record<string, string | number | boolean | bigint | null | undefined>
export type Logger = {
  [Level in 'debug' | 'info' | 'warn' | 'error']: (event: string, fields?: LogFields, error?: unknown) => void
}

/** Opens the log (JSON lines on standard error) and the metrics registry. `name` is the program: server or signer. */
export function openTelemetry(name: string, level: string): Telemetry {
  const out = pino(
    { level, base: { program: name }, timestamp: pino.stdTimeFunctions.isoTime },
    pino.destination({ fd: 2, sync: true }),
  )
  const line =
    (severity: 'debug' | 'info' | 'warn' | 'error') =>
    (event: string, fields: LogFields = {}, error?: unknown) => {
      // What opened the database reports once that it is away, and once how much failed until it was back.
      if (error instanceof AppError && error.code === 'database_unavailable') return
      const plain = Object.fromEntries(
        Object.entries(fields).map(([key, value]) => [key, typeof value === 'bigint' ? value.toString() : value]),
      )
      out[severity](error === undefined ? plain : { ...plain, error: describe(error) }, event)
    }
  const registry = new Registry()
  const registers = [registry]
  return {
    log: { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') },
    registry,
    requests: new Histogram({
      name: 'http_request_seconds',
      help: 'Duration of HTTP requests, seconds',
      labelNames: ['route', 'method', 'status'],
      buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
      registers,
    }),
    refusals: new Counter({
      name: 'refusals_total',
      help: 'Problem documents sent, by code',
      labelNames: ['code'],
      registers,
    }),
    rpcCalls: new Counter({
      name: 'rpc_calls_total',
      help: 'JSON-RPC calls to the chain node',
      labelNames: ['method', 'outcome'],
      registers,
    }),
    writes: new Counter({
      name: 'writes_total',
      help: 'State changes of transactions, by new state',
      labelNames: ['state'],
      registers,
    }),
    headBlock: new Gauge({
      name: 'chain_head_block',
      help: 'Newest block that the service has stored',
      labelNames: ['chain_id'],
      registers,
    }),
    indexedBlock: new Gauge({
      name: 'history_indexed_block',
      help: 'Newest block whose transfers are stored',
      labelNames: ['chain_id'],
      registers,
    }),
    loopDelay: new Gauge({
      name: 'event_loop_delay_seconds',
      help: 'Event loop delay, seconds',
      registers,
    }),
    poolWait: new Histogram({
      name: 'db_pool_wait_seconds',
      help: 'Wait for a database connection, seconds',
      buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 5],
      registers,
    }),
    admissionLimit: new Gauge({
      name: 'admission_limit',
      help: 'Limit of requests in flight: all, reads, writes',
      labelNames: ['of'],
      registers,
    }),
    inFlight: new Gauge({
      name: 'requests_in_flight',
      help: 'Requests in flight: all, reads, writes',
      labelNames: ['of'],
      registers,
    }),
    quotaUsed: new Gauge({
      name: 'quota_used_ratio',
      help: 'Used part of a quota of an application, 0 to 1',
      labelNames: ['client_id', 'counts', 'per'],
      registers,
    }),
  }
}

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
