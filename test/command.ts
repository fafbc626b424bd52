import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))

export type Ended = { code: number | null; out: string; err: string }

/**
 * Runs `chatelaine <words>` as a process of its own that sees these settings and no others.
 * @param input  standard input
 */
export async function command(settings: Record<string, string>, words: string[], input = ''): Promise<Ended> {
  const { PATH = '', TMPDIR = '/tmp' } = process.env
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', MAIN, ...words], {
    env: { PATH, TMPDIR, ...settings },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { code: await ended, out, err }
}
