import { spawn } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { TEMPLATE } from '../kit/embedded-template.ts'

/** Where test files run: the copy, and what its processes find around them. */
export type Bench = {
  folder: string
  /** scratch of the tests; emptied after each file but for the migrated template */
  tmp: string
  env: Record<string, string>
  /** ends what a killed test left behind outside its processes */
  tidy: () => Promise<void>
}

type Trial = { outcome: 'passed' | 'failed' | 'timed out'; ms: number; failure: string | null }

/**
 * Runs a test file to its first failing test.
 * @param timeoutMs  after which it and everything it started is killed
 */
export async function tryFile(
  bench: Bench,
  file: string,
  { timeoutMs, env = {} }: { timeoutMs: number; env?: Record<string, string> },
): Promise<Trial> {
  mkdirSync(bench.tmp, { recursive: true })
  const started = performance.now()
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', '--test-reporter=tap', '--test-force-exit', file],
    {
      cwd: bench.folder,
      // A group of its own: what the file started ends with it.
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
      env: { ...process.env, ...bench.env, ...env, TMPDIR: bench.tmp },
    },
  )
  // A run that is stopped stops the test file too.
  const stop = () => killGroup(child.pid!)
  process.once('exit', stop)
  let outcome: Trial['outcome'] | null = null
  let failure: string | null = null
  let output = ''
  const end = (as: Trial['outcome']) => {
    outcome ??= as
    stop()
  }
  const timer = setTimeout(() => end('timed out'), timeoutMs)
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-10_000)
    const found = /^\s*not ok \d+ - (.*)$/m.exec(output)
    if (found === null || failure !== null) return
    failure = found[1]!
    end('failed')
  })
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  clearTimeout(timer)
  const ms = performance.now() - started
  stop()
  process.off('exit', stop)
  for (const name of readdirSync(bench.tmp)) {
    if (!name.startsWith(TEMPLATE)) rmSync(join(bench.tmp, name), { recursive: true, force: true })
  }
  outcome ??= code === 0 ? 'passed' : 'failed'
  // A starved machine may not reach its database: the next call removes the rest.
  if (outcome !== 'passed') await bench.tidy().catch(() => {})
  return { outcome, ms, failure: outcome === 'failed' ? (failure ?? `ended with ${code}`) : null }
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It ended by itself.
  }
}
