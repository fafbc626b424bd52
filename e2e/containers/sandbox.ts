import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { until } from '../../test/kit/until.ts'
import { readMount, type ComposeFile } from './compose.ts'

/**
 * Runs services of compose.yaml without a container engine: the file tree of the image on the Debian of this machine, by
 * bubblewrap. As in a container: root file system, users, capabilities, volumes, environment. Other than there: services
 * with a network share one, in which only they are, and PostgreSQL is this machine's.
 */
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const run = promisify(execFile)
const bin = (() => {
  const folder = '/usr/lib/postgresql'
  const newest = existsSync(folder)
    ? readdirSync(folder)
        .toSorted((a, b) => Number(a) - Number(b))
        .at(-1)
    : undefined
  return newest === undefined ? null : join(folder, newest, 'bin')
})()

/** Why containers cannot be imitated here; false if they can. */
export const noSandbox: string | false = (() => {
  if (process.platform !== 'linux' || process.getuid!() !== 0) return 'needs root on Linux'
  if (bin === null) return 'needs PostgreSQL'
  if (!existsSync('/usr/bin/bwrap')) return 'needs bubblewrap'
  const tried = spawnSync('unshare', ['--net', 'bwrap', '--ro-bind', '/', '/', '--unshare-net', 'true'])
  return tried.status === 0 ? false : 'needs namespaces'
})()

export type Ran = { code: number; out: string; err: string }
type Engine = {
  /** Starts a service after those that it depends on, which end or become healthy first. */
  up(service: string): Promise<void>
  /** Runs `chatelaine …` in the container of a service, as `docker compose exec` does. */
  exec(service: string, words: string[]): Promise<Ran>
  /** Runs any program in it. */
  shell(service: string, words: string[]): Promise<Ran>
  /** Sends a request from inside the network of the services. */
  ask(url: string, init?: { method?: string; headers?: Record<string, string>; body?: string }): Promise<{ status: number; text: string }> // prettier-ignore
  /** what a service wrote */
  logOf(service: string): string
  /** Ends all services in order; volumes remain. */
  down(): Promise<void>
}

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number) // prettier-ignore

/** Adds what the base image has: folders to mount, a host table, Node.js. */
export function makeBase(tree: string): void {
  for (const folder of [
    'usr/bin',
    'usr/sbin',
    'usr/lib',
    'usr/lib64',
    'usr/share',
    'proc',
    'dev',
    'tmp',
    'etc',
    'run',
    'setup',
  ])
    mkdirSync(join(tree, folder), { recursive: true })
  for (const name of ['bin', 'sbin', 'lib', 'lib64']) symlinkSync(`usr/${name}`, join(tree, name))
  writeFileSync(join(tree, 'etc/hosts'), '127.0.0.1 localhost database api auth chain\n')
  writeFileSync(join(tree, 'etc/nsswitch.conf'), 'hosts: files\n')
  writeFileSync(join(tree, 'etc/passwd'), 'root:x:0:0::/root:/bin/sh\n')
  writeFileSync(join(tree, 'setup/providers.json'), '')
  writeFileSync(join(tree, 'usr/local/bin/node'), '')
  for (const name of ['', 'etc', 'etc/hosts', 'setup', 'usr/local/bin', 'usr/local/bin/node'])
    chmodSync(join(tree, name), 0o755)
}

/** @param volumes  folder of the named volumes */
export async function openEngine({ services }: ComposeFile, tree: string, volumes: string): Promise<Engine> {
  const holder = spawn('unshare', ['--net', '--kill-child', 'sh', '-c', 'ip link set lo up && echo ready && exec sleep 3600'], { stdio: ['ignore', 'pipe', 'inherit'] }) // prettier-ignore
  await once(holder.stdout, 'data')
  const inside = ['nsenter', `--net=/proc/${holder.pid}/ns/net`]
  const running = new Map<string, ChildProcess>()
  const logs = new Map<string, string>()
  const done = new Set<string>()

  function sandbox(name: string, words: string[]): [string, string[]] {
    const { user = '0:0', cap_add: added = [], environment = {}, volumes: mounts = [], ...service } = services[name]!
    const [uid, gid] = user.split(':') as [string, string]
    const caps = uid === '0' ? added : ['SETUID', 'SETGID', 'SETPCAP']
    const binds = mounts.map(readMount).flatMap(({ source, path, isReadOnly }) => {
      const from = source.startsWith('.') ? resolve(ROOT, source) : join(volumes, source)
      if (!source.startsWith('.')) mkdirSync(from, { recursive: true })
      return [isReadOnly ? '--ro-bind' : '--bind', from, path]
    })
    const as = ['setpriv', '--reuid', uid, '--regid', gid, '--clear-groups', '--bounding-set=-all', '--inh-caps=-all', '--no-new-privs'] // prettier-ignore
    const box = ['bwrap', '--ro-bind', tree, '/',
      ...['/usr/bin', '/usr/sbin', '/usr/lib', '/usr/lib64', '/usr/share'].flatMap((one) => ['--ro-bind', one, one]),
      ...['--ro-bind', process.execPath, '/usr/local/bin/node', '--proc', '/proc', '--dev', '/dev', '--perms', '1777', '--tmpfs', '/tmp'],
      ...binds,
      ...['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--die-with-parent', '--chdir', '/tmp', '--clearenv'],
      ...(service.network_mode === 'none' ? ['--unshare-net'] : []),
      ...['--setenv', 'PATH', '/usr/local/bin:/usr/bin:/usr/sbin'],
      ...Object.entries(environment).flatMap(([key, value]) => ['--setenv', key, String(value)]),
      ...['--cap-drop', 'ALL', ...caps.flatMap((cap) => ['--cap-add', `CAP_${cap}`])],
      ...(uid === '0' ? [] : as), ...words] // prettier-ignore
    return [inside[0]!, [...inside.slice(1), ...box]]
  }

  async function finish(name: string, words: string[]): Promise<Ran> {
    const [file, args] = sandbox(name, words)
    try {
      const { stdout, stderr } = await run(file, args, { timeout: 300_000 })
      return { code: 0, out: stdout, err: stderr }
    } catch (error) {
      const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string }
      return { code, out: stdout, err: stderr }
    }
  }

  const entryOf = (name: string): string[] => {
    const { entrypoint, command = [], profiles = [] } = services[name]!
    return [
      ...(entrypoint ?? (profiles.includes('try') ? ['node', '/opt/chatelaine/deploy/chain.mjs'] : ['chatelaine'])),
      ...command,
    ]
  }

  async function up(name: string): Promise<void> {
    if (running.has(name) || done.has(name)) return
    for (const [needed, { condition }] of Object.entries(services[name]!.depends_on ?? {})) {
      await up(needed)
      if (condition === 'service_healthy' && needed !== 'database')
        await until(`${needed} is healthy`, async () => {
          if (running.get(needed)!.exitCode !== null) throw new Error(`${needed} ended: ${logs.get(needed)}`)
          const { code } = await finish(needed, ['node', '/opt/chatelaine/deploy/healthcheck.mjs'])
          return code === 0
        }) // prettier-ignore
    }
    if (name === 'database') return startPostgres()
    if (services[name]!.restart === 'no') {
      const { code, out, err } = await finish(name, entryOf(name))
      logs.set(name, out + err)
      if (code !== 0) throw new Error(`${name} ended with ${code}: ${out}${err}`)
      done.add(name)
      return
    }
    const [file, args] = sandbox(name, entryOf(name))
    const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    logs.set(name, '')
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => logs.set(name, logs.get(name)! + chunk.toString()))
    running.set(name, child)
  }

  /** What the entry point of the image `postgres` does with this environment and these files. */
  async function startPostgres(): Promise<void> {
    const data = join(volumes, 'database', 'data')
    const secrets = join(volumes, 'database-secrets')
    const as = (...words: string[]) => run(inside[0]!, [...inside.slice(1), 'setpriv', '--reuid', 'postgres', '--regid', 'postgres', '--clear-groups', ...words]) // prettier-ignore
    const isNew = !existsSync(data)
    if (isNew) {
      mkdirSync(data, { recursive: true })
      await run('chown', ['-R', 'postgres:postgres', join(volumes, 'database')])
      await as(`${bin}/initdb`, '-D', data, '-U', 'chatelaine', `--pwfile=${secrets}/password`, '--auth=scram-sha-256', '--auth-local=trust', '--encoding=UTF8') // prettier-ignore
    }
    await as(`${bin}/pg_ctl`, '-D', data, '-w', '-o', `-k ${data} -c listen_addresses=127.0.0.1`, '-l', join(volumes, 'database', 'log'), 'start') // prettier-ignore
    if (isNew) {
      await as(`${bin}/createdb`, '-h', data, '-U', 'chatelaine', 'chatelaine')
      await as(`${bin}/psql`, '-q', '-h', data, '-U', 'chatelaine', '-v', 'ON_ERROR_STOP=1', '-f', `${secrets}/roles.sql`) // prettier-ignore
    }
    done.add('database')
  }

  return {
    up,
    exec: (name, words) => finish(name, ['chatelaine', ...words]),
    shell: finish,
    async ask(url, init = {}) {
      const script = `const [url, init] = JSON.parse(process.argv[1]);
        const request = require('node:http').request(url, init, (response) => {
          let text = ''; response.on('data', (chunk) => (text += chunk))
          response.on('end', () => console.log(JSON.stringify({ status: response.statusCode, text }))) })
        request.on('error', (error) => console.log(JSON.stringify({ status: 0, text: error.code })))
        request.end(init.body)`
      const { stdout } = await run(inside[0]!, [...inside.slice(1), process.execPath, '-e', script, JSON.stringify([url, init])]) // prettier-ignore
      return JSON.parse(stdout) as { status: number; text: string }
    },
    logOf: (name) => logs.get(name) ?? '',
    async down() {
      for (const [name, child] of [...running].toReversed()) {
        // Below bubblewrap is the first process of the container, and below that the program.
        const [init] = childrenOf(child.pid!)
        const [program] = init === undefined ? [] : childrenOf(init)
        if (program === undefined) child.kill('SIGKILL')
        else process.kill(program, 'SIGTERM')
        if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
        running.delete(name)
      }
      const data = join(volumes, 'database', 'data')
      if (done.has('database'))
        await run('setpriv', ['--reuid', 'postgres', '--regid', 'postgres', '--clear-groups', `${bin}/pg_ctl`, '-D', data, '-m', 'fast', '-w', 'stop']) // prettier-ignore
      holder.kill('SIGKILL')
    },
  }
}
