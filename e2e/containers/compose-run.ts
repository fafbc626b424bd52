import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { until } from '../../test/kit/until.ts'
import { readMount, type ComposeFile } from './compose.ts'
import type { Engine, Ran } from './engine.ts'

/**
 * Runs services of compose.yaml by podman, as `docker compose` runs them. Debian's podman-compose knows neither profiles nor
 * conditions of `depends_on`.
 */
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const NETWORK = 'chatelaine_default'

type Composed = {
  /** Starts a service after those that it depends on, which end or become healthy first. */
  up(service: string): Promise<void>
  /** Runs `chatelaine …` in the container of a service, as `docker compose exec` does. */
  exec(service: string, words: string[]): Promise<Ran>
  /** Runs any program in it. */
  shell(service: string, words: string[]): Promise<Ran>
  /** what a service wrote */
  logOf(service: string): Promise<string>
  /** Stops and removes all containers, the last first; volumes remain. @returns the exit code of each */
  down(): Promise<Record<string, number>>
}

export const nameOf = (service: string): string => `chatelaine-${service}-1`

export async function openCompose(engine: Engine, { services }: ComposeFile): Promise<Composed> {
  const started: string[] = []
  if ((await engine.try('network', 'exists', NETWORK)).code !== 0) await engine.podman('network', 'create', NETWORK)

  function optionsOf(name: string): string[] {
    const service = services[name]!
    const mounts = (service.volumes ?? []).map(readMount).flatMap(({ source, path, isReadOnly }) => {
      const from = source.startsWith('.') ? resolve(ROOT, source) : `chatelaine_${source}`
      return ['--volume', `${from}:${path}${isReadOnly ? ':ro' : ''}`]
    })
    const { test = [], disable = false, interval, retries } = service.healthcheck ?? {}
    const [kind, ...check] = test
    if (kind !== undefined && kind !== 'CMD') throw new Error(`a health check of the kind ${kind}`)
    const network = service.network_mode ?? NETWORK
    return [
      ...['--name', nameOf(name), '--pull', 'never', '--network', network],
      ...(network === NETWORK ? ['--network-alias', name] : []),
      // Without the second, podman adds more folders in memory.
      ...(service.read_only === true ? ['--read-only', '--read-only-tmpfs=false'] : []),
      ...(service.tmpfs ?? []).flatMap((one) => ['--tmpfs', one]),
      ...(service.user === undefined ? [] : ['--user', service.user]),
      ...(service.cap_drop ?? []).flatMap((one) => ['--cap-drop', one]),
      ...(service.cap_add ?? []).flatMap((one) => ['--cap-add', one]),
      ...(service.security_opt ?? []).flatMap((one) => ['--security-opt', one]),
      ...(service.ports ?? []).flatMap((one) => ['--publish', one]),
      ...(service.restart === undefined ? [] : ['--restart', service.restart]),
      ...(disable ? ['--no-healthcheck'] : []),
      ...(kind === undefined ? [] : ['--health-cmd', JSON.stringify(check)]),
      ...(interval === undefined ? [] : ['--health-interval', interval]),
      ...(retries === undefined ? [] : ['--health-retries', String(retries)]),
      ...Object.entries(service.environment ?? {}).flatMap(([key, value]) => ['--env', `${key}=${value}`]),
      ...mounts,
      ...(service.entrypoint === undefined ? [] : ['--entrypoint', JSON.stringify(service.entrypoint)]),
      service.image,
      ...(service.command ?? []),
    ]
  }

  async function up(name: string): Promise<void> {
    if (started.includes(name)) return
    for (const [needed, { condition }] of Object.entries(services[name]!.depends_on ?? {})) {
      await up(needed)
      if (condition === 'service_healthy')
        await until(`${needed} is healthy`, async () => {
          const state = await engine.podman('inspect', nameOf(needed), '--format', '{{.State.Status}} {{.RestartCount}}')
          if (state.trim() !== 'running 0') throw new Error(`${needed} is ${state}: ${await logOf(needed)}`)
          // systemd would run it by the clock.
          return (await engine.try('healthcheck', 'run', nameOf(needed))).code === 0
        }, 60_000) // prettier-ignore
    }
    started.push(name)
    if (services[name]!.restart !== 'no') {
      await engine.podman('run', '--detach', ...optionsOf(name))
      return
    }
    const { code, out, err } = await engine.try('run', ...optionsOf(name))
    if (code !== 0) throw new Error(`${name} ended with ${code}: ${out}${err}`)
  }

  const shell = (name: string, words: string[]) => engine.try('exec', nameOf(name), ...words)
  async function logOf(name: string): Promise<string> {
    const { out, err } = await engine.try('logs', nameOf(name))
    return out + err
  }

  return {
    up,
    shell,
    exec: (name, words) => shell(name, ['chatelaine', ...words]),
    logOf,
    async down() {
      const codes: [string, number][] = []
      for (const name of started.toReversed()) {
        await engine.podman('stop', '--time', '20', nameOf(name))
        codes.push([name, Number(await engine.podman('inspect', nameOf(name), '--format', '{{.State.ExitCode}}'))])
      }
      for (const name of started) await engine.podman('rm', '--force', nameOf(name))
      started.length = 0
      return Object.fromEntries(codes)
    },
  }
}
