import type { Clock } from '../../clock.ts'
import type { Config, Environment } from '../../config.ts'
import type { RootDb } from '../../store/db.ts'

/** The installation to examine, and the parts of its machine that a test replaces. */
export type Patient = {
  env: Environment
  clock: Clock
  /** user id of this process; undefined on Windows */
  uid: number | undefined
  /** folders of backups */
  backups: string[]
  /** returns free and total bytes of the file system of a path. @throws if there is no such path */
  space: (path: string) => Promise<{ free: number; total: number }>
  /** returns the JSON at a URL; null if there is none */
  get: (url: string, headers?: Record<string, string>) => Promise<unknown>
  openDatabase: (config: Config) => Promise<RootDb>
}

/** Facts that checks share. */
export type Examined = Patient & { config: Config; part: 'server' | 'auth'; db: RootDb | null }
