import { toHex } from '../../hex.ts'
import type { KeyObject } from 'node:crypto'
import { rmSync } from 'node:fs'
import { linesOf } from '../../lines.ts'
import { readArguments } from './arguments.ts'
import { ConfigError, readConfig } from '../../config.ts'
import { openDek } from '../keys/deks.ts'
import { isStatedElsewhere, recordElsewhere } from '../export/elsewhere.ts'
import { requireKekSettings } from '../keys/kek-settings.ts'
import { KekUnavailable, type Kek } from '../kek/provider.ts'
import { openKeys } from '../keys/keys.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { LedgerDamaged, Refusal, StartError } from '../refusal.ts'
import { openKekOf, openOtherKek } from '../keys/open-kek.ts'
import { unlessUnavailable } from '../keys/rotation.ts'
import { readVerifierKey, type Verifier } from '../../signer-wire/verifier.ts'
import { openSigningLog } from '../ledger/signing-log.ts'
import { openStore, type Store } from '../store.ts'
import {
  attestedText,
  type HeldElsewhere,
  type Hex,
  type WrappedDataKey,
  type WrappedKey,
} from '../../signer-wire/wire.ts'
import type { KeptAccount } from '../keys/wrapping.ts'
import { systemClock } from '../../clock.ts'

export type RestoredKeys = {
  restored: number
  /** keys that were already in the store */
  present: number
  /** `row`: the user, or the line in the file if it names none */
  refused: { row: string; reason: string }[]
  /** restored keys whose address no signer has attested */
  unattested: number
  /** accounts that the ledger now records as also held elsewhere */
  marked: number
  /** accounts that are said to be held elsewhere, but not by a trusted signer */
  unmarked: number
  /** account records that the ledger had lost: it is older than what the signer has answered for */
  lostRecords: number
}

/** Keys per transaction. */
const BATCH = 1_000

/**
 * Restores keys that a store has lost from the server's copies (`chatelaine account export-keys`). Each key is opened, its address
 * is derived again and compared, and it is wrapped by a data key of this store. A key that does not match or cannot be read is
 * refused, with its user or line; the others are restored. If the command is killed, run it again.
 * @param other     opens the master key that may have wrapped what the first one does not open; null if there is none
 * @param expected  the identity of the signer whose disk was lost: it must have attested each address. Without it, keys that this
 * store's own identity has not attested are restored and counted.
 * @throws StartError  if the file is incomplete or has another format
 */
export async function restoreKeys(
  store: Store,
  kek: Kek,
  lines: AsyncIterable<string>,
  { other = async () => null, expected = null }: { other?: () => Promise<Kek | null>; expected?: Verifier | null } = {},
): Promise<RestoredKeys> {
  const { db } = store
  const { deks, ledger, heads, identity } = await openSigningLog(db, kek, systemClock.wall)
  const keys = openKeys({ db, deks, now: systemClock.wall })
  const dataKeys = new Map<Hex, { epoch: number; dek: KeyObject | null }>()
  const done: RestoredKeys = {
    restored: 0,
    present: 0,
    refused: [],
    unattested: 0,
    marked: 0,
    unmarked: 0,
    lostRecords: 0,
  }
  let [at, read, unreadable] = [0, 0, 0]
  let said: unknown
  let otherKek: Promise<Kek | null> | undefined
  let inBatch = 0
  for await (const text of lines) {
    at += 1
    const line = parse(text)
    if (line === null) refuse(`line ${at}`, 'the line is not from `account export-keys`')
    unreadable += line === null ? 1 : 0
    if (line?.end !== undefined) said = line.end.keys
    if (line?.dataKey !== undefined) await open(line.dataKey)
    if (line?.key === undefined) continue
    read += 1
    await deks.prepare().catch(unlessUnavailable)
    if (inBatch === 0) db.exec('BEGIN IMMEDIATE')
    take(line.key)
    inBatch = (inBatch + 1) % BATCH
    if (inBatch === 0) commit()
  }
  if (inBatch > 0) commit()
  // Unreadable lines may have been keys.
  const isWhole = typeof said === 'number' && said >= read && said <= read + unreadable
  if (!isWhole) throw new StartError('The key file is incomplete. Export it again.')
  return done

  function refuse(row: string, reason: string): void {
    done.refused.push({ row, reason })
  }

  async function open(dataKey: Unread<WrappedDataKey>): Promise<void> {
    const { id, epoch } = dataKey
    if (!isHex(id, 16) || !isCount(epoch)) return refuse(`line ${at}`, 'the line is not a data key')
    dataKeys.set(id, { epoch, dek: await openByEither(dataKey as WrappedDataKey) })
  }

  async function openByEither(dataKey: WrappedDataKey): Promise<KeyObject | null> {
    const dek = await tryOpen(dataKey, kek)
    if (dek !== null) return dek
    otherKek ??= other()
    const second = await otherKek
    return second === null ? null : tryOpen(dataKey, second)
  }

  function take(key: Unread<WrappedKey>): void {
    try {
      if (!isKey(key)) throw new Mismatch('its row is not from `account export-keys`')
      const account = readKey(key, dataKeys)
      const there = keys.ofUser(account.userId)
      if (there !== null && !there.address.equals(account.address)) throw new Mismatch('the store has another account of this user') // prettier-ignore
      if (there === null) adopt(account, dataKeys.get(key.dataKeyId)!.dek!, key.attestation)
      else done.present += 1
      mark(account, key.elsewhere)
    } catch (error) {
      if (!(error instanceof Mismatch) && !(error instanceof Refusal)) throw error
      const reason = error instanceof Mismatch ? error.message : 'its bytes were altered, or belong to another address'
      refuse(isName(key.userId) ? key.userId : `line ${at}`, reason)
    }
  }

  function adopt(account: KeptAccount, dek: KeyObject, attestation: unknown): void {
    if (keys.ofAddress(account.address) !== null) throw new Mismatch('the store has this address for another user')
    const recorded = recordedAddress(store, account.userId)
    if (recorded !== null && !recorded.equals(account.address))
      throw new Mismatch('the ledger has another address for this user')
    const isOf = isAttestedBy(expected ?? identity, account, attestation)
    if (expected !== null && !isOf) throw new Mismatch('the given identity did not attest its address')
    keys.adopt(account, dek)
    done.unattested += isOf ? 0 : 1
    if (recorded === null) record(ledger, account)
    done.restored += 1
    if (recorded === null) done.lostRecords += 1
  }

  /** Records that an account is also held elsewhere, if this store's identity or the expected one has stated it. */
  function mark(account: KeptAccount, said: unknown): void {
    if ((said ?? null) === null || ledger.isHeldElsewhere(account.userId)) return
    const { at: since, isBrought, statement } = said as Unread<HeldElsewhere>
    const kept = isCount(since) && typeof isBrought === 'boolean' && isHex(statement, 64) ? { at: since, isBrought, statement } : null // prettier-ignore
    const believed = expected === null ? [identity] : [identity, expected]
    const by = kept === null ? undefined : believed.find((one) => isStatedElsewhere(one, account, kept))
    if (kept === null || by === undefined) return void (done.unmarked += 1)
    ledger.append(recordElsewhere(by.origin, account, { ...kept, now: systemClock.wall() }))
    done.marked += 1
  }

  function commit(): void {
    keys.nextGeneration()
    heads.seal()
    // If the ledger is known to have lost records, it must not be used for signing before `accept-restore` has asked the chains.
    if (done.lostRecords > 0) rmSync(store.witnessPath, { force: true })
    db.exec('COMMIT')
  }
}

const isAttestedBy = (by: Verifier, { userId, address }: KeptAccount, attestation: unknown): boolean =>
  isHex(attestation, 64) &&
  by.isSigned(attestedText(by.origin, { userId, address: toHex(address) }), bytes(attestation))

/** The reason why a key is refused; the text is printed. */
class Mismatch extends Error {}

const record = (ledger: Ledger, { userId, address }: KeptAccount): void =>
  ledger.append({ at: systemClock.wall(), kind: 'account', userId, address, rule: 'restored-key' })

function recordedAddress({ db }: Store, userId: string): Buffer | null {
  const row = db.prepare(`SELECT address FROM ledger WHERE kind = 'account' AND user_id = ?`).get(userId)
  return row === undefined ? null : Buffer.from((row as { address: Uint8Array }).address)
}

/** An object from the file whose fields are not checked yet. */
type Unread<T> = { [K in keyof T]?: unknown }
type Line = { dataKey?: Unread<WrappedDataKey>; key?: Unread<WrappedKey>; end?: { keys?: unknown } }

/** Parses a line; null if it is not JSON or not one of the three kinds. */
function parse(text: string): Line | null {
  try {
    const line = JSON.parse(text) as Line
    const parts = [line.dataKey, line.key, line.end].filter((part) => part !== undefined)
    return parts.length === 1 && typeof parts[0] === 'object' && parts[0] !== null ? line : null
  } catch {
    return null
  }
}

/** Byte lengths of address, data key id, wrapped key, iv and tag. */
const KEY_LENGTHS = [20, 16, 32, 12, 16]

const isKey = (key: Unread<WrappedKey>): key is WrappedKey =>
  typeof key.userId === 'string' &&
  isCount(key.version) &&
  [key.address, key.dataKeyId, key.wrapped, key.iv, key.tag].every((one, n) => isHex(one, KEY_LENGTHS[n]!))

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

/** Returns whether a name can be printed as it is. */
const isName = (value: unknown): value is string => typeof value === 'string' && /^[^\p{C}]{1,300}$/u.test(value)

const isHex = (value: unknown, length: number): value is Hex =>
  typeof value === 'string' && value.length === 2 + 2 * length && /^0x[0-9a-f]*$/i.test(value)

/** Unwraps a data key; null if another master key wrapped it. @throws KekUnavailable */
async function tryOpen({ epoch, wrapped }: WrappedDataKey, kek: Kek): Promise<KeyObject | null> {
  try {
    return await openDek({ epoch, wrapped: bytes(wrapped) }, kek)
  } catch (error) {
    if (error instanceof KekUnavailable) throw error
    return null
  }
}

function readKey(
  { userId, address, version, dataKeyId, wrapped, iv, tag }: WrappedKey,
  dataKeys: Map<Hex, { epoch: number; dek: KeyObject | null }>,
): KeptAccount {
  const dataKey = dataKeys.get(dataKeyId)
  if (dataKey === undefined) throw new Mismatch('its data key is not in the file')
  if (dataKey.dek === null) throw new Mismatch('the master key (KEK) does not open its data key')
  return { userId, address: bytes(address), version, epoch: dataKey.epoch, wrapped: bytes(wrapped), iv: bytes(iv), tag: bytes(tag) } // prettier-ignore
}

const bytes = (text: Hex): Buffer => Buffer.from(text.slice(2), 'hex')

/** Maximum refusals that are printed; the total number is always printed. */
const MAX_SHOWN = 100

/** Runs `chatelaine signer restore-keys FILE`, while the signer is stopped. Exit code 1 if a key was refused. */
async function main(): Promise<number> {
  const { positionals, values } = readArguments({ allowPositionals: true, options: { identity: { type: 'string' } } })
  const config = readConfig({ ...process.env, NODE_ENV: '' }, 'signer')
  const { SIGNER_DIR: folder } = config
  if (folder === undefined) throw new ConfigError(['SIGNER_DIR is missing: the folder of the store'])
  const settings = requireKekSettings(config)
  if (positionals.length !== 1) throw new ConfigError(['give one file of chatelaine account export-keys'])
  const expected = values.identity === undefined ? null : readVerifierKey(values.identity)
  if (values.identity !== undefined && expected === null)
    throw new ConfigError([
      '--identity is not a verifier key of a signer, as its health check or a published head has it',
    ])
  process.umask(0o077)
  const store = openStore(folder)
  try {
    const kek = await openKekOf(store.db, settings)
    const { restored, present, refused, unattested, marked, unmarked, lostRecords } = await restoreKeys(
      store,
      kek,
      linesOf(positionals[0]!),
      {
        expected,
        other: () => openOtherKek(store.db, settings),
      },
    )
    for (const { row, reason } of refused.slice(0, MAX_SHOWN)) print(`rejected  ${row}: ${reason}`)
    print(`${restored} keys restored, ${present} already present, ${refused.length} rejected.`)
    if (unattested > 0) print(`${unattested} restored keys are not attested by this store’s identity. To accept only keys that the lost signer attested, use --identity.`) // prettier-ignore
    if (marked > 0) print(`${marked} accounts count as externally held: their keys were exported or imported.`)
    if (unmarked > 0) print(`${unmarked} accounts were marked as externally held by another signer identity. Run this again with --identity and the verifier key of the lost signer.`) // prettier-ignore
    if (lostRecords > 0) print('The ledger was lost as well. Before the signer starts, run chatelaine signer accept-restore with --rpc-url for every network.') // prettier-ignore
    return refused.length === 0 ? 0 : 1
  } finally {
    store.close()
  }
}

const print = (line: string): void => void process.stdout.write(`${line}\n`)

if (import.meta.main) {
  process.exitCode = await main().catch((error: unknown) => {
    const isOurs = error instanceof StartError || error instanceof LedgerDamaged || error instanceof ConfigError
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    process.stderr.write(`${isOurs ? error.message : isMissing ? 'The key file does not exist.' : 'The keys could not be restored.'}\n`) // prettier-ignore
    return 1
  })
}
