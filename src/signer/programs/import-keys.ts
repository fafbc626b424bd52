import { existsSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { linesOf } from '../../lines.ts'
import { readArguments } from './arguments.ts'
import { askOperator } from './ask-operator.ts'
import { IMPORT, type ImportOutcome } from '../export/bulk.ts'
import { exportInfo } from '../export/exports.ts'
import { keyPairOf, seal, unseal } from '../export/hpke.ts'
import { openKeystore } from '../export/keystore.ts'
import { KEYS_FORMAT, type Ask } from './export-all.ts'
import { syncFolder } from '../kek/file.ts'
import { readOwnFile } from './own-file.ts'
import { isAddress } from '../../digits.ts'

/** Opens the key of a line, into a buffer that the caller zeroes. @throws Error  a sentence */
type Opener = (line: Record<string, unknown>, terms: { userId: string; address: Buffer }) => Buffer
type Imported = { imported: number; present: number; refused: { row: string; reason: string }[] }

/** Keys per request. */
const BATCH = 32

/**
 * Imports keys into a running signer: lines of `export-all`, or `{"userId", "address", "keystore"}` with a keystore of version 3.
 * Each key is encrypted to the signer's process, which derives its address again and compares it. If the command is killed, run it
 * again: keys that are present are counted and remain unchanged.
 * @param manifest  receives a line for each account that is present afterwards
 */
export async function importKeys(
  lines: AsyncIterable<string>,
  { ask, open, manifest }: { ask: Ask; open: Opener; manifest: (line: string) => void },
): Promise<Imported> {
  const { recipient } = await ask<{ recipient: string }>({ verb: 'importRecipient', request: {} })
  const to = Buffer.from(recipient, 'base64url')
  const done: Imported = { imported: 0, present: 0, refused: [] }
  let batch: { userId: string; address: string; enc: string; ciphertext: string }[] = []
  let [at, keys, said] = [0, 0, null as number | null]
  let batchId = ''
  for await (const text of lines) {
    at += 1
    if (text.trim() === '') continue
    const line = parse(text)
    if (line?.format === KEYS_FORMAT) batchId = String(line.batch)
    else if (line?.end !== undefined) said = (line.end as { keys: number }).keys
    else {
      keys += 1
      addOne(line)
      if (batch.length === BATCH) await send()
    }
  }
  await send()
  // A file of keystores does not state how many there are.
  if (batchId !== '' && said !== keys) done.refused.push({ row: 'the file', reason: 'the file is incomplete: its last line is missing' }) // prettier-ignore
  manifest(JSON.stringify({ end: { keys: done.imported + done.present } }))
  return done

  function addOne(line: Record<string, unknown> | null): void {
    const { userId, address: hex } = line ?? {}
    const isRow = typeof userId === 'string' && isAddress(hex)
    if (!isRow) return void done.refused.push({ row: `line ${at}`, reason: 'the line has no userId and address' })
    const address = Buffer.from(hex.slice(2), 'hex')
    try {
      const key = open({ ...line, batchId }, { userId, address })
      const sealed = seal(to, key, { info: exportInfo({ userId, address, id: IMPORT }) })
      key.fill(0)
      const [enc, ciphertext] = [sealed.enc.toString('base64url'), sealed.ciphertext.toString('base64url')]
      batch.push({ userId, address: hex.toLowerCase(), enc, ciphertext })
    } catch (error) {
      done.refused.push({ row: userId, reason: (error as Error).message })
    }
  }

  async function send(): Promise<void> {
    if (batch.length === 0) return
    const { outcomes } = await ask<{ outcomes: ImportOutcome[] }>({ verb: 'importKeys', request: { keys: batch } })
    for (const [index, { userId, outcome, reason }] of outcomes.entries()) {
      if (outcome === 'refused') done.refused.push({ row: userId, reason: reason! })
      else {
        done[outcome] += 1
        manifest(JSON.stringify({ userId, address: batch[index]!.address }))
      }
    }
    batch = []
  }
}

/** Opens the lines of another installation, encrypted to a key pair of `recipient-key`. */
export const openSealed =
  (secret: Buffer): Opener =>
  ({ enc, ciphertext, batchId }, { userId, address }) => {
    if (typeof enc !== 'string' || typeof ciphertext !== 'string') throw new Error('the line has no sealed key')
    const sealed = { enc: Buffer.from(enc, 'base64url'), ciphertext: Buffer.from(ciphertext, 'base64url') }
    try {
      return unseal(keyPairOf(secret), sealed, { info: exportInfo({ userId, address, id: String(batchId) }) })
    } catch {
      throw new Error('the key was sealed to another recipient, or altered')
    }
  }

/** Opens keystores with a password. @throws Error  a sentence */
export const openKeystores =
  (password: string): Opener =>
  ({ keystore }) =>
    openKeystore(keystore, password)

function parse(text: string): Record<string, unknown> | null {
  try {
    const line = JSON.parse(text) as unknown
    return typeof line === 'object' ? (line as Record<string, unknown> | null) : null
  } catch {
    return null
  }
}

/** Maximum refusals that are printed; the total number is always printed. */
const MAX_SHOWN = 100

/**
 * Runs `chatelaine signer import-keys FILE --manifest FILE (--recipient-key FILE | --password-file FILE)`. Exit code 1 if a key was
 * refused.
 */
async function main(): Promise<number> {
  const text = { type: 'string' } as const
  const { positionals, values } = readArguments({
    allowPositionals: true,
    options: { manifest: text, 'recipient-key': text, 'password-file': text },
  })
  const { manifest, 'recipient-key': keyFile, 'password-file': passwordFile } = values
  if (positionals.length !== 1 || manifest === undefined || (keyFile === undefined) === (passwordFile === undefined))
    throw new Error('give one file, --manifest, and either --recipient-key or --password-file')
  const open =
    keyFile === undefined
      ? openKeystores(readOwnFile(passwordFile!, { name: 'password file', option: '--password-file' }).toString('utf8').replace(/\r?\n$/, '')) // prettier-ignore
      : openSealed(readOwnFile(keyFile, { name: 'recipient key', option: '--recipient-key' }))
  // Check this before any key is imported: an existing manifest lists the accounts of another run.
  if (existsSync(manifest)) throw new Error('the file of --manifest already exists; give a new name')
  const written: string[] = []
  const { imported, present, refused } = await importKeys(linesOf(positionals[0]!), { ask: askOperator, open, manifest: (line) => written.push(line) }) // prettier-ignore
  writeFileSync(manifest, `${written.join('\n')}\n`, { flag: 'wx', mode: 0o600, flush: true })
  syncFolder(dirname(resolve(manifest)))
  for (const { row, reason } of refused.slice(0, MAX_SHOWN)) process.stdout.write(`rejected  ${row}: ${reason}\n`)
  process.stdout.write(`${imported} keys imported, ${present} already present, ${refused.length} rejected.\n`)
  return refused.length === 0 ? 0 : 1
}

if (import.meta.main) {
  process.exitCode = await main().catch((error: unknown) => {
    process.stderr.write(`The keys could not be imported: ${(error as Error).message}\n`)
    return 1
  })
}
