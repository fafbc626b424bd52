import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Option, type Command } from 'commander'
import { readIdentities, readRecipient } from '../backup/age.ts'
import { readSome, type Environment } from '../config.ts'
import { lockFolder } from '../folder-lock.ts'
import { backupDatabase } from '../snapshot/backup.ts'
import { countUnchecked, drillBackup, isWhole, type SnapshotDrill } from '../snapshot/drill.ts'
import { BackupError, sayFault } from '../snapshot/fault.ts'
import { assertTarget, collectFiles, readIdentityText } from '../snapshot/files.ts'
import { restoreDatabase } from '../snapshot/restore.ts'
import { makeFolder } from '../store/folder.ts'
import type { DatabasePlace } from '../store/copy.ts'
import { readInstallationSettings, type InstallationSettings } from './database.ts'
import { ExitCode, exitOnSignals, inPrivate, type Shell } from './shell.ts'
import { systemClock } from '../clock.ts'
import { collect } from './options.ts'

const IDENTITY = ['--identity <file>', 'file with the identity of a recipient; repeat for each'] as const

/**
 * Adds `chatelaine backup`. It works while servers run; with the embedded database, only while the server is stopped.
 */
export function addBackup(program: Command, shell: Shell, version: string): void {
  program
    .command('backup')
    .description(
      'back up the server’s database and files into one encrypted file (age), while servers run; for the signer: `signer backup`',
    )
    .requiredOption('--to <file>', 'file to create; FILE.json beside it describes its contents')
    .requiredOption('--recipient <key>', 'age1… recipient that can open the file; repeat for each', collect)
    .option('--without-files', 'only the database')
    .action(({ to, recipient, withoutFiles }: { to: string; recipient: string[]; withoutFiles?: true }) =>
      told('Nothing was written.', () => backup(shell, { to, recipient, hasFiles: withoutFiles !== true, version })),
    )
}

async function backup(
  { env, console }: Shell,
  { to, recipient, hasFiles, version }: { to: string; recipient: string[]; hasFiles: boolean; version: string },
): Promise<void> {
  const settings = readInstallationSettings(env)
  const place = placeOf(settings)
  if ('dir' in place && !existsSync(place.dir))
    throw new BackupError(`There is no installation in ${settings.dataDir}. Set DATA_DIR or DATABASE_URL.`)
  const recipients = recipient.map(readRecipient)
  assertTarget(to, { inside: 'dir' in place ? settings.dataDir : null, kekFiles: kekFiles(env, settings) })
  const files = hasFiles ? collectFiles(env, settings.dataDir) : []
  const record = await holding(settings, () =>
    inPrivate(() => backupDatabase(place, { to, recipients, files, program: version, now: systemClock.wall })),
  )
  const rows = Object.values(record.rows).reduce((sum, one) => sum + one, 0)
  console.log(`${to}: ${record.bytes} bytes, ${record.rows.accounts} accounts, ${rows} rows, as of ${record.at}.`)
  console.log(
    files.length === 0
      ? 'The backup does not include the server’s files.'
      : `Included files: ${record.files.join(', ')}. Anyone who can open the backup can sign tokens.`,
  )
  console.log(
    'Next, back up the signer as its user: chatelaine signer backup. An earlier signer backup does not match this one.',
  )
}

/** Adds `chatelaine restore`: restores into an empty database, PostgreSQL or embedded, from a backup of any of them. */
export function addRestore(program: Command, shell: Shell): void {
  program
    .command('restore')
    .description(
      'restore a backup of `chatelaine backup` into an empty database; checks everything first and overwrites nothing',
    )
    .argument('<file>', 'file of `chatelaine backup`')
    .requiredOption(IDENTITY[0], IDENTITY[1], collect)
    .option('--files <folder>', 'folder to create for the keys, files and settings in the backup')
    .option('--without-files', 'only the database')
    .action((file: string, given: { identity: string[]; files?: string; withoutFiles?: true }) =>
      told('Nothing was restored.', () => inPrivate(() => restore(shell, file, given))),
    )
}

async function restore(
  { env, console }: Shell,
  file: string,
  { identity, files, withoutFiles }: { identity: string[]; files?: string; withoutFiles?: true },
): Promise<void> {
  if ((files === undefined) === (withoutFiles === undefined))
    throw new BackupError('Give --files FOLDER for the files, or --without-files.')
  const settings = readInstallationSettings(env)
  const identities = identity.map(readIdentityText).flatMap(readIdentities)
  if (settings.databaseUrl === undefined) await makeFolder(settings.dataDir, 'DATA_DIR')
  const { manifest, rows, migrated, ...restored } = await holding(settings, () =>
    restoreDatabase(placeOf(settings), { file, identities, folder: files ?? null }, async () => {}),
  )
  const all = Object.values(rows).reduce((sum, one) => sum + one, 0)
  console.log(`Restored: ${rows.accounts} accounts, ${all} rows, as of ${manifest.at}.`)
  if (migrated.length > 0) console.log(`Migrated from version ${manifest.program}: ${migrated.join(', ')}.`)
  if (files !== undefined) console.log(`In ${files}: ${restored.files.join(', ')}.`)
  if (manifest.head !== null)
    console.log(`The signer’s log had ${manifest.head.size} records at that time. Restore a signer with at least as many: docs/operate/backup-restore.md`) // prettier-ignore
  console.log('Later changes are missing. If the signer was lost as well, restore it before you start a server.')
}

/** Adds `chatelaine drill`. Its exit code is 1 if a restore would be incomplete. */
export function addDrill(program: Command, shell: Shell): void {
  program
    .command('drill')
    .description('test a backup of `chatelaine backup` in a temporary database; changes no installation')
    .argument('<file>', 'file of `chatelaine backup`')
    .requiredOption(IDENTITY[0], IDENTITY[1], collect)
    .addOption(
      new Option('--in <folder>', 'parent of the temporary folder, with space for the database').default(
        tmpdir(),
        'the system’s temporary folder',
      ),
    )
    .action(async (file: string, given: { identity: string[]; in: string }) => {
      const comesBack = await told('The restore test did not finish.', () => inPrivate(() => drill(shell, file, given)))
      if (!comesBack) throw new ExitCode(1)
    })
}

/** Maximum number of names that are printed; their total is always printed. */
const MAX_SHOWN = 100

/** Tests a backup. @returns whether a restore would be complete */
async function drill(
  { env, console }: Shell,
  file: string,
  { identity, in: within }: { identity: string[]; in: string },
): Promise<boolean> {
  const identities = identity.map(readIdentityText).flatMap(readIdentities)
  const { SIGNER_KEY: verifier } = readSome(env, ['SIGNER_KEY'])
  // Exit on a signal in order, so that the temporary folder is deleted.
  const stopListening = exitOnSignals()
  const found = await drillBackup({ file, identities, within, verifier }).finally(stopListening)
  for (const line of linesOf(found)) console.log(line)
  if (!isWhole(found, verifier)) {
    console.log('This backup does NOT restore everything that an installation needs.')
    return false
  }
  const unchecked = countUnchecked(found)
  console.log(
    unchecked === 0
      ? 'This backup restores everything that it lists.'
      : `This backup restores everything that it lists; the signer does not attest ${unchecked} of its addresses.`,
  )
  return true
}

function linesOf(found: SnapshotDrill): string[] {
  const { manifest, rows, files, accounts, attested, notAttested, withoutKey, dangling, seconds } = found
  const all = Object.values(rows).reduce((sum, one) => sum + one, 0)
  return [
    ...found.false.slice(0, MAX_SHOWN).map((userId) => `not the signer’s address  ${userId}`),
    ...withoutKey.slice(0, MAX_SHOWN).map((userId) => `no copy of the key  ${userId}`),
    ...dangling.map(({ place, rows }) => `${place}: ${rows} rows refer to nothing`),
    `Backup as of ${manifest.at}, version ${manifest.program}: ${all} rows of ${manifest.tables.length} tables, ${files.length} files.`,
    attested === null
      ? `${accounts} accounts; addresses were not checked, because the verifier key of the signer’s log is unknown.`
      : `The signer attests ${attested} of ${accounts} addresses; ${notAttested} are not attested, ${found.false.length} are false.`,
    ...(withoutKey.length === 0
      ? []
      : [
          `${withoutKey.length} accounts have no copy of their key in this backup. They are lost unless the signer’s backup has their keys. The server copies a key within a minute, or logs wrapped_keys_not_copied.`,
        ]),
    `Restored and checked in ${seconds.toFixed(1)} s.`,
  ]
}

const placeOf = ({ databaseUrl, pooler, dataDir }: InstallationSettings): DatabasePlace =>
  databaseUrl === undefined ? { dir: join(dataDir, 'db') } : { url: databaseUrl, pooler }

/** Locks the embedded database, which only one process may use. @throws FolderInUse */
async function holding<T>({ databaseUrl, dataDir }: InstallationSettings, work: () => Promise<T>): Promise<T> {
  const unlock = databaseUrl === undefined ? lockFolder(dataDir) : () => {}
  try {
    return await work()
  } finally {
    unlock()
  }
}

/** Returns the paths of the master key, as far as these settings name them. */
function kekFiles(
  { SIGNER_KEK, SIGNER_KEK_FILE, SIGNER_KEK_NEXT_FILE }: Environment,
  { dataDir }: InstallationSettings,
): string[] {
  const named = [SIGNER_KEK?.startsWith('file:') === true ? SIGNER_KEK.slice(5) : undefined, SIGNER_KEK_FILE, SIGNER_KEK_NEXT_FILE] // prettier-ignore
  const ofDevelopment = join(dataDir, 'signer-kek')
  return [
    ...(existsSync(ofDevelopment) ? [ofDevelopment] : []),
    ...named.flatMap((path) => (path === undefined || path === '' ? [] : [path])),
  ]
}

async function told<T>(outcome: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw sayFault(error, outcome)
  }
}
