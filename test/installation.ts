import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { command, type Ended } from './kit/command.ts'
import { migratedFolder, migratedPostgres, testCluster, testPooler } from './kit/database.ts'

/** An installation that no server runs on, with its database migrated. */
export type IdleInstallation = {
  folder: string
  /** what a command needs to find it */
  settings: Record<string, string>
  /** Runs `chatelaine <words>` on it. */
  run: (...words: string[]) => Promise<Ended>
  /** The same with --json, of a command that has to succeed: its answer. */
  // oxlint-disable-next-line typescript/no-explicit-any -- each command answers in a shape of its own
  json: (...words: string[]) => Promise<any>
  close: () => Promise<void>
}

export async function idleInstallation(): Promise<IdleInstallation> {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-installation-'))
  const settings: Record<string, string> = { DATA_DIR: folder }
  let drop = async () => {}
  if (testCluster === null) await migratedFolder(join(folder, 'db'))
  else {
    const database = await migratedPostgres(testCluster)
    Object.assign(settings, { DATABASE_URL: database.url, DATABASE_POOLER: testPooler })
    drop = database.drop
  }
  const run = (...words: string[]) => command(settings, words)
  return {
    ...{ folder, settings, run },
    async json(...words) {
      const { code, out, err } = await run(...words, '--json')
      if (code !== 0 || err !== '') throw new Error(`chatelaine ${words.join(' ')} ended with ${code}: ${err}`)
      return JSON.parse(out)
    },
    async close() {
      await drop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
