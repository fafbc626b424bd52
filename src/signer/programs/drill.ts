import type { KeyObject } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readArguments } from './arguments.ts'
import { ConfigError, readConfig } from '../../config.ts'
import { sayFault } from './backup-fault.ts'
import { openDeks, unwrapDeks } from '../keys/deks.ts'
import { requireKekSettings } from '../keys/kek-settings.ts'
import { openKeys } from '../keys/keys.ts'
import { openKekOf, type KekSettings } from '../keys/open-kek.ts'
import { Refusal } from '../refusal.ts'
import { readIdentityFile, restoreStore, type RestoredStore } from './restore.ts'
import { openStore } from '../store.ts'
import { systemClock } from '../../clock.ts'

export type Drill = RestoredStore & {
  /** accounts whose key opened and gave their address */
  derived: number
  /** users whose key did not */
  damaged: string[]
  restoreMs: number
  deriveMs: number
}

const PAGE = 1_000

/**
 * Restores a backup into a temporary folder, verifies all of it and derives every address from its key, as a restore after a
 * disaster would. It touches no store.
 * @param folder  an empty folder
 * @throws StartError, AgeError, ArchiveError
 */
export async function drill(given: {
  file: string
  identities: KeyObject[]
  folder: string
  settings: KekSettings
}): Promise<Drill> {
  const began = systemClock.ticks()
  const restored = await restoreStore(given)
  const restoredAt = systemClock.ticks()
  const store = openStore(given.folder)
  try {
    const unwrapped = await unwrapDeks(store.db, await openKekOf(store.db, given.settings))
    const deks = openDeks({ db: store.db, unwrapped, now: systemClock.wall })
    const keys = openKeys({ db: store.db, deks, now: systemClock.wall })
    let derived = 0
    const damaged: string[] = []
    for (let after = 0; ;) {
      const { accounts, through } = keys.page(after, PAGE)
      if (accounts.length === 0) break
      after = through
      for (const account of accounts) {
        try {
          // Derives the address from the key, and throws if it differs.
          keys.use(account, () => (derived += 1))
        } catch (error) {
          if (!(error instanceof Refusal)) throw error
          damaged.push(account.userId)
        }
      }
    }
    const [restoreMs, deriveMs] = [restoredAt - began, systemClock.ticks() - restoredAt]
    return { ...restored, derived, damaged, restoreMs, deriveMs }
  } finally {
    store.close()
  }
}

const USAGE = 'Usage: drill FILE --identity FILE [--in FOLDER]'
/** Maximum names that are printed; the total number is always printed. */
const MAX_SHOWN = 100

/** Runs `chatelaine signer drill FILE --identity FILE`, the restore test. Exit code 1 if the backup would not restore everything. */
async function main(): Promise<void> {
  const { values, positionals } = readArguments({
    allowPositionals: true,
    options: { identity: { type: 'string', multiple: true, default: [] }, in: { type: 'string', default: tmpdir() } },
  })
  const settings = requireKekSettings(readConfig({ ...process.env, NODE_ENV: '' }, 'signer'))
  if (positionals.length !== 1 || values.identity.length === 0) throw new ConfigError([USAGE])
  process.umask(0o077)
  const identities = values.identity.flatMap(readIdentityFile)
  const folder = mkdtempSync(join(values.in, 'chatelaine-drill-'))
  // Remove the folder even if the command is interrupted.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1))
  const { manifest, signatures, macs, warnings, derived, damaged, restoreMs, deriveMs } = await drill({
    file: positionals[0]!,
    identities,
    folder,
    settings,
  })
  for (const warning of warnings) print(warning)
  for (const userId of damaged.slice(0, MAX_SHOWN)) print(`damaged  ${userId}`)
  print(`Backup as of ${manifest.at}: ${manifest.records} records, ${signatures} signatures, MACs of ${macs} checked.`)
  print(`${derived} of ${manifest.accounts} addresses derived from their keys.`)
  print(`Restored and checked in ${seconds(restoreMs)} s, derived in ${seconds(deriveMs)} s.`)
  if (warnings.length === 0 && damaged.length === 0) return print('This backup restores everything that it lists.')
  print(
    'This backup does NOT restore everything. Restore the keys above from a file of chatelaine account export-keys.',
  )
  process.exitCode = 1
}

const seconds = (ms: number): string => (ms / 1_000).toFixed(1)
const print = (line: string): void => void process.stdout.write(`${line}\n`)

if (import.meta.main) {
  main().catch((error: unknown) => {
    process.stderr.write(`${sayFault(error, USAGE)}\n`)
    process.exitCode = 1
  })
}
