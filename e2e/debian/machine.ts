import { execFile, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SETUP = fileURLToPath(new URL('setup.sh', import.meta.url))

const NEEDED = ['unshare', 'nsenter', 'setpriv', 'ip', 'git', 'nginx', 'pg_ctlcluster']

/** Why no such machine can be made here; false when one can, as `skip` of a test takes it. */
export const noMachine: string | false = (() => {
  if (process.platform !== 'linux' || process.getuid!() !== 0) return 'needs root on Linux'
  const missing = NEEDED.filter((name) => !['/usr/sbin', '/usr/bin'].some((folder) => existsSync(join(folder, name))))
  if (missing.length > 0) return `needs ${missing.join(', ')}`
  const tried = spawnSync('unshare', ['--mount', '--net', '--pid', '--fork', 'true'])
  return tried.status === 0 ? false : 'needs namespaces'
})()

export type Machine = {
  /** Runs shell as somebody of the machine. @throws Error with what it said when it fails */
  sh(code: string, user?: string): Promise<string>
  write(path: string, text: string | Buffer, mode?: string): Promise<void>
  /** Starts a program in the background and waits for a line that says `ready`. */
  start(words: string[]): Promise<void>
  close(): Promise<void>
}

/** A Debian machine with PostgreSQL of its own that nobody else sees: see setup.sh. */
export async function openMachine(): Promise<Machine> {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-debian-'))
  const outer = spawn(
    'unshare',
    ['--mount', '--net', '--pid', '--fork', '--kill-child', SETUP, folder, ROOT.replace(/\/$/, '')],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  process.once('exit', () => outer.kill('SIGKILL'))
  const [said] = (await once(outer.stdout, 'data')) as [Buffer]
  if (!said.toString().includes('ready')) throw new Error(`the machine did not start: ${said.toString()}`)
  const [pid] = (await readFile(`/proc/${outer.pid}/task/${outer.pid}/children`, 'utf8')).split(' ')
  const enter = ['--target', pid!, '--mount', '--net', '--pid', '--root', '--wd']
  const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root', LANG: 'C.UTF-8' }

  const run = (words: string[], input?: string | Buffer): Promise<string> =>
    new Promise((resolve, reject) => {
      const child = execFile('nsenter', [...enter, ...words], { env, timeout: 300_000 }, (error, out, err) => {
        if (error === null) resolve(out)
        else reject(new Error(`${words.at(-1)}\n${out}${err}`, { cause: error.code }))
      })
      child.stdin!.end(input)
    })
  return {
    sh: (code, user = 'root') =>
      run(user === 'root' ? ['sh', '-e', '-c', code] : ['runuser', '-u', user, '--', 'sh', '-e', '-c', code]),
    async write(path, text, mode = '644') {
      await run(['sh', '-e', '-c', `mkdir -p "$(dirname ${path})"; cat >${path}; chmod ${mode} ${path}`], text)
    },
    async start(words) {
      const child = spawn('nsenter', [...enter, ...words], { env, stdio: ['ignore', 'pipe', 'inherit'] })
      for await (const chunk of child.stdout.iterator({ destroyOnReturn: false }))
        if (String(chunk).includes('ready')) return
      throw new Error(`${words.join(' ')} ended`)
    },
    async close() {
      outer.kill('SIGKILL')
      if (outer.exitCode === null && outer.signalCode === null) await once(outer, 'exit')
      // Its mounts went with its namespace.
      await rmdir(folder)
    },
  }
}
