import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { readArguments } from './arguments.ts'
import { ConfigError, readConfig } from '../../config.ts'
import { opensAny } from '../keys/deks.ts'
import { isInside, openKekFile, readKekFile, syncFolder, writeKekFile } from '../kek/file.ts'
import { combineShares, readShare, ShareError, splitKey, writeShare } from '../kek/shares.ts'
import { readKekSettings } from '../keys/kek-settings.ts'
import { StartError } from '../refusal.ts'
import { DATABASE_FILE, openStoreForReading } from '../store.ts'

/** Reads the file of the master key, and the folder of its store. */
function readFiles(): { file: string; folder: string | undefined } {
  const config = readConfig({ ...process.env, NODE_ENV: '' }, 'signer')
  const kek = readKekSettings(config)?.kek
  if (kek === undefined) throw new ConfigError(['SIGNER_KEK_FILE is missing: the file of the master key (KEK)'])
  if (kek.provider !== 'file')
    throw new ConfigError(['SIGNER_KEK is not a file: back up its key with the tools of the key service or HSM'])
  return { file: kek.file, folder: config.SIGNER_DIR }
}

/** Runs `split --of N --need K [--to DIR]`: prints the shares of the master key, or writes each to a file. */
function split(args: string[]): void {
  const { values } = readArguments({ args, options: { of: { type: 'string' }, need: { type: 'string' }, to: { type: 'string' } } }) // prettier-ignore
  const { file, folder } = readFiles()
  const to = values.to === undefined ? null : resolve(values.to)
  if (to !== null && isInside(dirname(resolve(file)), to))
    throw new StartError('--to is beside the master key (KEK). Store the shares in other places.')
  if (to !== null && folder !== undefined && isInside(folder, to))
    throw new StartError('--to is inside SIGNER_DIR: a backup of the folder would contain the shares.')
  const key = readKekFile(file).export()
  try {
    const shares = splitKey(key, { of: Number(values.of), need: Number(values.need) })
    for (const share of shares) {
      if (to === null) {
        process.stdout.write(`${writeShare(share)}\n`)
        continue
      }
      mkdirSync(to, { recursive: true, mode: 0o700 })
      const path = join(to, `kek-share-${share.set.toString('hex')}-${share.number}-of-${share.of}`)
      writeFileSync(path, writeShare(share), { mode: 0o600, flag: 'wx' })
      process.stdout.write(`${path}\n`)
    }
    if (to !== null)
      process.stdout.write('Give each share to a different key holder, and leave none on this machine.\n')
  } finally {
    key.fill(0)
  }
}

/**
 * Runs `combine FILE…`: writes the master key where the settings name it, if that file is missing and the key opens the store; `-`
 * reads one share from standard input.
 */
async function combine(args: string[]): Promise<void> {
  const { positionals } = readArguments({ args, allowPositionals: true })
  const { file, folder } = readFiles()
  if (positionals.length === 0) throw new ConfigError(['give the files of the shares; - is standard input'])
  if (existsSync(file)) throw new StartError('A file already exists where the master key (KEK) belongs. It was not changed.') // prettier-ignore
  if (folder !== undefined && isInside(folder, file))
    throw new StartError('SIGNER_KEK_FILE must not be inside SIGNER_DIR: a backup of one would contain both.')
  const shares = positionals.map((path) => readShare(readFileSync(path === '-' ? 0 : path, 'utf8'), path === '-' ? 'Standard input' : basename(path))) // prettier-ignore
  process.umask(0o077)
  const key = combineShares(shares)
  const draft = `${file}.combined`
  try {
    rmSync(draft, { force: true })
    writeKekFile(draft, key)
    const hasStore = folder !== undefined && existsSync(join(folder, DATABASE_FILE))
    if (hasStore) await assertOpens(folder, draft)
    linkSync(draft, file)
    process.stdout.write(`The master key (KEK) of set ${shares[0]!.set.toString('hex')}: ${file}\n`)
    if (hasStore) process.stdout.write('It opens the store in SIGNER_DIR.\n')
  } finally {
    key.fill(0)
    rmSync(draft, { force: true })
    if (existsSync(dirname(file))) syncFolder(dirname(file))
  }
}

/** Checks that a master key opens the store. @throws StartError */
async function assertOpens(folder: string, kekFile: string): Promise<void> {
  const { db } = openStoreForReading(folder)
  const isIts = await opensAny(db, openKekFile(kekFile)).finally(() => db.close())
  if (!isIts) throw new StartError('The shares belong to another master key or to an earlier one: it does not open the store in SIGNER_DIR. Nothing was written.') // prettier-ignore
}

const [verb, ...args] = process.argv.slice(2)
try {
  if (verb === 'split') split(args)
  else await combine(args)
} catch (error) {
  const isOurs = error instanceof StartError || error instanceof ConfigError || error instanceof ShareError
  const { code } = error as NodeJS.ErrnoException
  const isUsage = code?.startsWith('ERR_PARSE_ARGS') === true
  process.stderr.write(
    `${isOurs || isUsage ? (error as Error).message : `The command failed: ${code ?? 'unknown reason'}.`}\n`,
  )
  process.exitCode = 1
}
