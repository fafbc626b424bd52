import { spawn } from 'node:child_process'
import { Console } from 'node:console'
import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { runCommand } from '../../src/cli/run-command.ts'
import { ExitCode, type Shell, type Successor } from '../../src/cli/shell.ts'

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))

export type Ended = { code: number | null; out: string; err: string }
type Settings = Readonly<Record<string, string>>

/**
 * Runs `chatelaine <words>` in this process, with these settings and no others; those of Node.js itself, such as
 * NODE_EXTRA_CA_CERTS, need `spawnCommand`. What takes the place of a process, as the
 * programs of the signer do, is a process of its own here too.
 * @param input  standard input
 */
export async function command(settings: Settings, words: string[], input = ''): Promise<Ended> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  const said = Promise.all([text(stdout), text(stderr)])
  const code = await runCommand(words, shellOf({ settings, stdin: Readable.from([input]), stdout, stderr }))
  stdout.end()
  stderr.end()
  const [out, err] = await said
  return { code, out, err }
}

/** What a command has of a process, without the process. */
const shellOf = ({
  settings,
  stdin,
  stdout,
  stderr,
}: { settings: Settings } & Pick<Shell, 'stdin' | 'stdout' | 'stderr'>): Shell => ({
  ...{ env: { ...settings }, stdin, stdout, stderr },
  console: new Console({ stdout, stderr }),
  async become({ file, flags, args }: Successor): Promise<never> {
    const child = spawnNode([...flags, file, ...args], settings)
    stdin.pipe(child.stdin)
    child.stdout.pipe(stdout, { end: false })
    child.stderr.pipe(stderr, { end: false })
    const [code] = (await once(child, 'close')) as [number | null]
    throw new ExitCode(code ?? 1)
  },
})

/** A shell for commands that are not run. */
export const idleShell = (): Shell =>
  shellOf({ settings: {}, stdin: Readable.from([]), stdout: new PassThrough(), stderr: new PassThrough() })

/** Runs `chatelaine <words>` as a process of its own that sees these settings and no others: for what only a process shows. */
export async function spawnCommand(settings: Settings, words: string[], input = ''): Promise<Ended> {
  const child = startCommand(settings, words)
  child.stdin.end(input)
  const [out, { code, err }] = await Promise.all([text(child.stdout), child.ended])
  return { code, out, err }
}

/** The same of one that does not end by itself; nobody reads its standard output. */
export function startCommand(settings: Settings, words: string[]) {
  const child = spawnNode([MAIN, ...words], settings)
  const closed = once(child, 'close') as Promise<[number | null]>
  const ended = Promise.all([closed, text(child.stderr)]).then(([[code], err]) => ({ code, err }))
  return Object.assign(child, { ended })
}

function spawnNode(args: string[], settings: Settings) {
  const { PATH = '', TMPDIR = '/tmp', NODE_COMPILE_CACHE } = process.env
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...args], {
    // What the launcher gives every command: a third of a short one is compiling.
    env: { PATH, TMPDIR, NODE_COMPILE_CACHE, ...settings },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.on('error', () => {})
  return child
}
