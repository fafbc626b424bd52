import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, statfsSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/**
 * Podman and Buildah on storage of their own, in a network of their own: tests of two checkouts do not meet, and the
 * machine's firewall rules do not change. No registry of images is reached: base-trees.sh makes both base images.
 */
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const run = promisify(execFile)
const NEEDED = {
  podman: '/usr/bin/podman',
  buildah: '/usr/bin/buildah',
  crun: '/usr/bin/crun',
  netavark: '/usr/lib/podman/netavark',
  'aardvark-dns': '/usr/lib/podman/aardvark-dns',
  catatonit: '/usr/bin/catatonit',
  iptables: '/usr/sbin/iptables',
  postgresql: '/usr/lib/postgresql',
}

const missing = Object.entries(NEEDED).filter(([, path]) => !existsSync(path))
if (missing.length > 0 && process.env.CI === 'true')
  throw new Error(`${missing.map(([name]) => name).join(', ')} of Debian is not installed`)

/** What an engine asks of the machine: namespaces, a bridge, firewall rules, file systems of its own. */
const PROBE = `set -e; ip link add probe type bridge; iptables -t nat -L -n; mount -t tmpfs none /mnt
  cd /mnt; mkdir low up work all; mount -t overlay none -o lowerdir=low,upperdir=up,workdir=work,volatile all`

/** Why no container engine runs here; false if it does. */
export const noEngine: string | false = (() => {
  if (process.platform !== 'linux' || process.getuid!() !== 0) return 'needs root on Linux'
  if (missing.length > 0) return `needs ${missing.map(([name]) => name).join(', ')} of Debian`
  const isAllowed = spawnSync('unshare', ['--net', '--mount', '--pid', '--fork', 'sh', '-c', PROBE]).status === 0
  return isAllowed ? false : 'needs a machine that allows namespaces, bridges and overlays'
})()

export type Ran = { code: number; out: string; err: string }
export type Asked = { status: number; text: string }
export type Asking = { method?: string; headers?: Record<string, string>; body?: string }
export type Engine = {
  /** Runs podman, whatever its exit code is. */
  try(...words: string[]): Promise<Ran>
  /** Runs podman; an exit code other than 0 is a failure. @returns its standard output */
  podman(...words: string[]): Promise<string>
  /** Runs any program beside the containers, as on their machine. */
  beside(file: string, ...words: string[]): Promise<Ran>
  /** Builds a target of the Containerfile, unmodified. */
  build(tag: string, ...options: string[]): Promise<void>
  /** Removes all containers, images and volumes. */
  close(): Promise<void>
}

const MEMORY = '/dev/shm'
const GIGABYTE = 2 ** 30

/** In memory if there is room: unmounting a layer writes everything that the file system has not written yet. */
const storagePlace = (): string => {
  if (!existsSync(MEMORY)) return tmpdir()
  const { bavail, bsize } = statfsSync(MEMORY)
  return bavail * bsize > 4 * GIGABYTE ? MEMORY : tmpdir()
}

async function finish(file: string, words: string[]): Promise<Ran> {
  try {
    const { stdout, stderr } = await run(file, words, { timeout: 300_000, maxBuffer: 2 ** 26 })
    return { code: 0, out: stdout, err: stderr }
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string }
    return { code, out: stdout, err: stderr }
  }
}

function must(what: string, { code, out, err }: Ran): string {
  if (code !== 0) throw new Error(`${what} ended with ${code}: ${out}${err}`)
  return out
}

export async function openEngine(): Promise<Engine> {
  const folder = await mkdtemp(join(storagePlace(), 'chatelaine-engine-'))
  const conf = join(folder, 'containers.conf')
  // The engine's own limits are above those that a container may raise its limits to.
  writeFileSync(
    conf,
    `[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[network]
network_config_dir = "${join(folder, 'networks')}"
`,
  )
  // crun does not run with the second hierarchy of control groups beside the first; podman writes the state of networks to /run.
  const script = `umount /sys/fs/cgroup/unified 2>/dev/null
    mount -t tmpfs none /run && ip link set lo up && echo ready && exec /usr/bin/catatonit -P`
  // All containers end with the first process of their namespace, however this process ends.
  const holder = spawn('unshare', ['--mount', '--net', '--pid', '--fork', '--mount-proc', '--kill-child', 'sh', '-c', script], { stdio: ['ignore', 'pipe', 'inherit'] }) // prettier-ignore
  await once(holder.stdout, 'data')
  const first = readFileSync(`/proc/${holder.pid}/task/${holder.pid}/children`, 'utf8').trim()
  const storage = [
    ...['--storage-driver', 'overlay', '--storage-opt', 'overlay.mountopt=volatile'],
    ...['--root', join(folder, 'storage'), '--runroot', join(folder, 'run')],
  ]
  const beside = (...words: string[]) =>
    finish('nsenter', [`--target=${first}`, '--mount', '--net', '--pid', 'env', `CONTAINERS_CONF=${conf}`, ...words])
  const attempt = (...words: string[]) =>
    beside('podman', ...storage, '--cgroup-manager', 'cgroupfs', '--tmpdir', join(folder, 'tmp'), ...words)

  async function importBase(tree: string, tag: string, ...changes: string[]): Promise<void> {
    const archive = `${tree}.tar`
    must('tar', await finish('tar', ['-C', tree, '-cf', archive, '.']))
    await rm(tree, { recursive: true })
    must(tag, await attempt('import', '--quiet', ...changes.flatMap((one) => ['--change', one]), archive, tag))
    await rm(archive)
  }

  const trees = join(folder, 'trees')
  mkdirSync(trees)
  execFileSync(join(ROOT, 'e2e/containers/base-trees.sh'), [process.execPath, trees], { stdio: 'pipe' })
  await importBase(join(trees, 'node'), 'localhost/node:24-trixie-slim')
  await importBase(
    join(trees, 'postgres'),
    'localhost/postgres:17',
    ...[
      'ENTRYPOINT ["docker-entrypoint.sh"]',
      'CMD ["postgres"]',
      'VOLUME /var/lib/postgresql/data',
      'STOPSIGNAL SIGINT',
    ],
    ...['ENV PGDATA=/var/lib/postgresql/data', 'ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin'],
  )

  return {
    try: attempt,
    podman: async (...words) => must(`podman ${words.join(' ')}`, await attempt(...words)),
    beside,
    async build(tag, ...options) {
      // The steps of the build see the settings, certificates and packages of this machine's npm.
      const npm = (key: string) => execFileSync('npm', ['config', 'get', key], { cwd: folder }).toString().trim()
      const mounts = [
        [npm('globalconfig'), '/usr/local/etc/npmrc:ro'],
        [npm('userconfig'), '/root/.npmrc:ro'],
        [npm('cache'), '/root/.npm'],
        ['/etc/ssl/certs', '/etc/ssl/certs:ro'],
      ].filter(([from]) => existsSync(from!))
      const words = ['bud', '--isolation', 'chroot', '--format', 'docker', '--layers', '--pull-never',
        ...mounts.flatMap(([from, to]) => ['--volume', `${from}:${to}`]),
        ...['--build-arg', 'NODE_IMAGE=localhost/node:24-trixie-slim', '--tag', tag, ...options, ROOT]] // prettier-ignore
      // In the network of the machine, for npm.
      const built = await finish('unshare', [
        '--mount',
        'env',
        `CONTAINERS_CONF=${conf}`,
        'buildah',
        ...storage,
        ...words,
      ])
      must(`build of ${tag}`, built)
    },
    async close() {
      await attempt('pod', 'rm', '--all', '--force', '--time', '0')
      await attempt('rm', '--all', '--force', '--time', '0')
      holder.kill('SIGKILL')
      await once(holder, 'exit')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const REQUEST = `const [url, init] = JSON.parse(process.argv[1]);
  const request = require('node:http').request(url, init, (response) => {
    let text = ''; response.on('data', (chunk) => (text += chunk))
    response.on('end', () => console.log(JSON.stringify({ status: response.statusCode, text }))) })
  request.on('error', (error) => console.log(JSON.stringify({ status: 0, text: error.code })))
  request.end(init.body)`

/** Sends a request from the machine of the containers. */
export async function ask(engine: Engine, url: string, init: Asking = {}): Promise<Asked> {
  const sent = await engine.beside(process.execPath, '-e', REQUEST, JSON.stringify([url, init]))
  return JSON.parse(must(url, sent)) as Asked
}

/** Sends a request from inside a container. */
export async function askInside(engine: Engine, container: string, url: string): Promise<Asked> {
  const { code, out } = await engine.try('exec', container, 'node', '-e', REQUEST, JSON.stringify([url, {}]))
  return code === 0 ? (JSON.parse(out) as Asked) : { status: 0, text: out }
}
