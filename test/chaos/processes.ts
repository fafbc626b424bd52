import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { PATIENCE_MS } from '../kit/until.ts'

/** A program that is started again whenever it dies, as an operator's supervisor would. */
export type Supervised = {
  name: string
  /** resolves when it serves; rejects when it is stopped */
  ready(): Promise<void>
  isReady(): boolean
  /** how often it was started, and how it ended each time */
  starts: number
  ends: string[]
  /** milliseconds that its last start took until it served */
  startMs: number
  /** the last of what it wrote to standard error */
  said(): string
  signal(signal: NodeJS.Signals): void
  /** true while SIGSTOP holds it */
  isStopped(): boolean
  /** resolves when the process that runs now is gone */
  gone(): Promise<void>
  /** not started again until `goOn` */
  hold(): void
  goOn(): void
  /** the crash point that it dies at when it gets there, or null */
  point: string | null
  /** gives it a crash point, now and running; the next ones follow when it has died at the one before. Without any: none */
  arm(...points: string[]): void
  /** points at which it died */
  fired: string[]
  stop(): Promise<void>
}

export type Program = {
  name: string
  file: string
  args?: string[]
  cwd: string
  env: Record<string, string>
  /** standard output that says that it serves */
  readyWhen: RegExp
}

/**
 * What Node.js has compiled of the programs, for their next starts, which take a third of the time then. They are killed
 * before they would write it down themselves.
 */
const compiled = mkdtempSync(join(tmpdir(), 'chatelaine-compiled-'))
process.once('exit', () => rmSync(compiled, { recursive: true, force: true, maxRetries: 5 }))
const KEEP_COMPILED = `data:text/javascript,import { flushCompileCache } from 'node:module'; setInterval(flushCompileCache, 2_000).unref()`

const RESTART_MS = 50
const KEPT = 6_000

export function supervise({ name, file, args = [], cwd, env, readyWhen }: Program): Supervised {
  let child: ChildProcess
  let isStopping = false
  let isHeld = false
  let isReady = false
  let said = ''
  let gone: Promise<void> = Promise.resolve()
  let waiting: (() => void)[] = []
  let points: string[] = []
  let armed = 0
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-crash-'))
  const crashFile = join(folder, 'at')

  const arm = (point: string | null) => {
    self.point = point
    const [step, times = '1', signal = 'SIGKILL'] = (point ?? '').split(':')
    // Whole or not at all: it is read at every step. The number makes the same point a new one.
    writeFileSync(`${crashFile}.new`, point === null ? '' : [step, times, signal, ++armed].join(':'))
    renameSync(`${crashFile}.new`, crashFile)
  }

  const start = () => {
    self.starts++
    isReady = false
    const startedAt = performance.now()
    child = spawn(
      process.execPath,
      ['--disable-warning=ExperimentalWarning', '--import', KEEP_COMPILED, file, ...args],
      {
        cwd,
        env: {
          PATH: process.env.PATH ?? '',
          NODE_COMPILE_CACHE: compiled,
          ...(process.env.TMPDIR === undefined ? {} : { TMPDIR: process.env.TMPDIR }),
          ...env,
          CRASH_AT: `@${crashFile}`,
        },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    )
    let out = ''
    // What it prints holds a token: it is looked at and dropped.
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      if (isReady) return
      out = (out + text).slice(-2_000)
      if (!readyWhen.test(out)) return
      isReady = true
      self.startMs = performance.now() - startedAt
      for (const tell of waiting.splice(0)) tell()
    })
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-KEPT)
    })
    let isOurs = false
    self.signal = (signal) => {
      isOurs ||= signal === 'SIGKILL' || signal === 'SIGTERM'
      child.kill(signal)
    }
    gone = once(child, 'close').then(async ([code, signal]) => {
      isReady = false
      self.ends.push(String(code ?? signal))
      if (signal === 'SIGKILL' && !isOurs && self.point !== null) {
        self.fired.push(self.point)
        arm(points.shift() ?? null)
      }
      if (isStopping || isHeld) return
      await pause(RESTART_MS)
      if (!isStopping && !isHeld) start()
    })
  }

  const self: Supervised = {
    name,
    starts: 0,
    ends: [],
    startMs: 0,
    point: null,
    fired: [],
    arm: (...next) => {
      points = next.slice(1)
      arm(next[0] ?? null)
    },
    isReady: () => isReady,
    ready: async () => {
      if (isReady) return
      const { promise, resolve } = Promise.withResolvers<void>()
      waiting.push(resolve)
      const late = pause(PATIENCE_MS, undefined, { ref: false }).then(() => {
        throw new Error(`${name} did not get ready within ${PATIENCE_MS} ms:\n${said}`)
      })
      await Promise.race([promise, late])
      waiting = waiting.filter((one) => one !== resolve)
    },
    said: () => said,
    signal: () => {},
    isStopped: () => {
      try {
        return / T /.test(readFileSync(`/proc/${child.pid}/stat`, 'utf8').replace(/^.*\)/s, ''))
      } catch {
        return false
      }
    },
    gone: async () => {
      const current = child
      if (current.exitCode === null && current.signalCode === null) await once(current, 'close')
    },
    hold: () => {
      isHeld = true
    },
    goOn: () => {
      if (!isHeld) return
      isHeld = false
      if (child.exitCode !== null || child.signalCode !== null) start()
    },
    stop: async () => {
      isStopping = true
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGKILL')
        await gone
      }
      process.off('exit', end)
      rmSync(folder, { recursive: true, force: true })
    },
  }
  arm(null)
  start()
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  return self
}
