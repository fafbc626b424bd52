import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** A program that is started again whenever it dies, as an operator's supervisor would. */
export type Supervised = {
  name: string
  /** resolves when it serves; rejects when it is stopped */
  ready(): Promise<void>
  isReady(): boolean
  /** how often it was started, and how it ended each time */
  starts: number
  ends: string[]
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
  /** crash points for the next starts, one each; then none */
  points: string[]
  /** the point that the process running now was given, or null */
  point: string | null
  /** points at which it died */
  fired: string[]
  stop(): Promise<void>
}

export type Program = {
  name: string
  file: string
  cwd: string
  env: Record<string, string>
  /** standard output that says that it serves */
  readyWhen: RegExp
  points?: string[]
}

const RESTART_MS = 50
const KEPT = 6_000

export function supervise({ name, file, cwd, env, readyWhen, points = [] }: Program): Supervised {
  let child: ChildProcess
  let isStopping = false
  let isHeld = false
  let isReady = false
  let said = ''
  let gone: Promise<void> = Promise.resolve()
  let waiting: (() => void)[] = []

  const start = () => {
    self.starts++
    self.point = self.points.shift() ?? null
    isReady = false
    const { point } = self
    child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', file], {
      cwd,
      env: {
        PATH: process.env.PATH ?? '',
        ...(process.env.TMPDIR === undefined ? {} : { TMPDIR: process.env.TMPDIR }),
        ...env,
        ...(point === null ? {} : { CRASH_AT: point }),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let out = ''
    // What it prints holds a token: it is looked at and dropped.
    child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      if (isReady) return
      out = (out + text).slice(-2_000)
      if (!readyWhen.test(out)) return
      isReady = true
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
      if (signal === 'SIGKILL' && !isOurs && point !== null) self.fired.push(point)
      if (isStopping || isHeld) return
      await pause(RESTART_MS)
      if (!isStopping && !isHeld) start()
    })
  }

  const self: Supervised = {
    name,
    starts: 0,
    ends: [],
    points,
    point: null,
    fired: [],
    isReady: () => isReady,
    ready: async () => {
      if (isReady) return
      const { promise, resolve } = Promise.withResolvers<void>()
      waiting.push(resolve)
      const late = pause(60_000, undefined, { ref: false }).then(() => {
        throw new Error(`${name} did not get ready within 60 s:\n${said}`)
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
      isHeld = false
      if (child.exitCode !== null || child.signalCode !== null) start()
    },
    stop: async () => {
      isStopping = true
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await gone
    },
  }
  start()
  return self
}

/** A port that is free now. */
export async function freePort(): Promise<number> {
  const probe = createServer()
  probe.listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const address = probe.address()
  probe.close()
  await once(probe, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}
