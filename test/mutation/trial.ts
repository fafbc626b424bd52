import { spawn } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Where test files run: the copy, and what its processes find around them. */
export type Bench = {
  folder: string
  /** scratch of the tests; emptied after each file but for the migrated snapshot */
  tmp: string
  env: Record<string, string>
  /** ends what a killed test left behind outside its processes */
  tidy: () => Promise<void>
}

/** `by`: the test file that failed, where more than one ran. */
export type Trial = {
  outcome: 'passed' | 'failed' | 'timed out'
  ms: number
  failure: string | null
  by: string | null
}

/**
 * Runs test files, in one process and in this order, to the first failing test.
 * @param timeoutMs  after which it and everything it started is killed
 * @param stallMs    as `timeoutMs`, when no test ends for so long
 */
export async function tryFiles(
  bench: Bench,
  files: readonly string[],
  { timeoutMs, stallMs = timeoutMs, env = {} }: { timeoutMs: number; stallMs?: number; env?: Record<string, string> },
): Promise<Trial> {
  mkdirSync(bench.tmp, { recursive: true })
  const started = performance.now()
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', '--test-reporter=tap', '--test-force-exit', fileOf(bench, files)],
    {
      cwd: bench.folder,
      // A group of its own: what the file started ends with it.
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
      env: {
        ...process.env,
        ...bench.env,
        ...env,
        TMPDIR: bench.tmp,
        TEST_WORLDS: files.length > 1 ? 'shared' : 'own',
      },
    },
  )
  let outcome: Trial['outcome'] | null = null
  let failure: string | null = null
  let by: string | null = null
  let output = ''
  const end = (as: Trial['outcome']) => {
    outcome ??= as
    killGroup(child.pid!)
  }
  const timer = setTimeout(() => end('timed out'), timeoutMs)
  const stall = setTimeout(() => end('timed out'), stallMs)
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stall.refresh()
    output = (output + text).slice(-10_000)
    const found = /^\s*not ok \d+ - (.*)$/m.exec(output)
    if (found === null || failure !== null) return
    const where = /^\s*location: '(.*):\d+:\d+'$/m.exec(output.slice(found.index))
    if (where === null && files.length > 1) return
    failure = found[1]!
    by = files.find((file) => where?.[1]?.endsWith(file)) ?? null
    end('failed')
  })
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  clearTimeout(timer)
  clearTimeout(stall)
  const ms = performance.now() - started
  killGroup(child.pid!)
  for (const name of readdirSync(bench.tmp)) {
    if (!name.startsWith('chatelaine-snapshot-')) rmSync(join(bench.tmp, name), { recursive: true, force: true })
  }
  outcome ??= code === 0 ? 'passed' : 'failed'
  if (outcome !== 'passed') await bench.tidy()
  return { outcome, ms, failure: outcome === 'failed' ? (failure ?? `ended with ${code}`) : null, by }
}

/** The file itself, or one that loads them all. */
function fileOf({ folder }: Bench, files: readonly string[]): string {
  if (files.length === 1) return files[0]!
  writeFileSync(join(folder, 'together.test.ts'), files.map((file) => `import './${file}'\n`).join(''))
  return 'together.test.ts'
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It ended by itself.
  }
}
