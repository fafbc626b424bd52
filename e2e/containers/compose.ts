import { readFileSync } from 'node:fs'
import { parse } from 'yaml'

/** A service of compose.yaml, as far as the tests run it. */
export type ComposeService = {
  image: string
  user?: string
  read_only?: boolean
  network_mode?: string
  cap_add?: string[]
  cap_drop?: string[]
  security_opt?: string[]
  entrypoint?: string[]
  command?: string[]
  profiles?: string[]
  environment?: Record<string, string>
  volumes?: string[]
  tmpfs?: string[]
  ports?: string[]
  healthcheck?: { test?: string[]; disable?: boolean; interval?: string; retries?: number }
  restart?: string
  depends_on?: Record<string, { condition: 'service_healthy' | 'service_completed_successfully' }>
}

export type ComposeFile = { services: Record<string, ComposeService>; volumes: Record<string, null> }

/** Reads compose.yaml as `docker compose` does: merged, and with the defaults of all variables. */
export function readCompose(path: string): ComposeFile {
  const text = readFileSync(path, 'utf8').replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1')
  if (text.includes('${')) throw new Error('a variable of compose.yaml has no default')
  const file = parse(text, { merge: true }) as ComposeFile
  for (const service of Object.values(file.services))
    for (const [key, value] of Object.entries(service.environment ?? {})) service.environment![key] = String(value)
  return file
}

/** Splits `VOLUME:PATH:ro`. */
export function readMount(text: string): { source: string; path: string; isReadOnly: boolean } {
  const [source = '', path = '', mode] = text.split(':')
  return { source, path, isReadOnly: mode === 'ro' }
}
