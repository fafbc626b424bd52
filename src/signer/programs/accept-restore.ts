import { readFileSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { readArguments } from './arguments.ts'
import { ConfigError, readConfig } from '../../config.ts'
import { countAll } from '../ledger/chain-counts.ts'
import { readMacs, unwrapStored } from '../keys/deks.ts'
import { openExportRecords, type ExportRecords } from '../export/export-records.ts'
import { assertFreezable } from '../tokens/freezes.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { readSignedHead } from '../../signer-wire/wire.ts'
import { requireKekSettings } from '../keys/kek-settings.ts'
import { openKekOf, type KekSettings } from '../keys/open-kek.ts'
import { GENESIS, type LedgerRow } from '../ledger/record.ts'
import { LedgerDamaged, Refusal, StartError } from '../refusal.ts'
import { readFreezeRequest } from '../request.ts'
import type { Restored } from '../ledger/restored.ts'
import { openSigningLog } from '../ledger/signing-log.ts'
import { openStore, openStoreForReading } from '../store.ts'
import { verifyLedger } from './verify.ts'
import { openWitness, readWitness, type LedgerHead } from '../ledger/witness.ts'
import { systemClock } from '../../clock.ts'

/** A store as found in its folder, with its witness. */
export type InspectedStore = {
  head: LedgerHead
  /** the last record; null in an empty ledger */
  last: Pick<LedgerRow, 'at' | 'kind' | 'chain_id' | 'nonce'> | null
  witness: LedgerHead | null
  /** number of records of the newest head that a server has shown and the store does not continue; null: there is none */
  shown: number | null
  witnessIs: 'in agreement' | 'ahead' | 'missing' | 'of another store'
  /** 40 hexadecimal digits each */
  accounts: string[]
  /** networks that the ledger has signatures for */
  chains: { chainId: number; accounts: number }[]
  /** number of subjects frozen by the server's lists, and by the signer's operator */
  frozen: { list: number; admin: number }
  problems: string[]
}

/**
 * Inspects a store without changing it, whether or not a signer is running.
 * @param freezing  subjects to be frozen with it; a subject that a running signer would reject is rejected here
 * @throws StartError  if the master key is not the one of this store; bad_request
 */
export async function findStore(
  folder: string,
  settings: KekSettings,
  freezing: string[] = [],
): Promise<InspectedStore> {
  const { db, witnessPath } = openStoreForReading(folder)
  try {
    // Read the witness first: the ledger can only have grown when it is read afterwards.
    const witness = readWitness(witnessPath)
    db.exec('BEGIN')
    const { head, problems } = verifyLedger(db, readMacs(await unwrapStored(db, await openKekOf(db, settings))))
    assertAllFreezable(db, freezing)
    const last = db.prepare('SELECT at, kind, chain_id, nonce FROM ledger ORDER BY seq DESC LIMIT 1').get()
    const rows = db.prepare('SELECT lower(hex(address)) AS address FROM accounts ORDER BY address').all()
    const chains = db.prepare('SELECT chain_id AS chainId, count(DISTINCT address) AS accounts FROM ledger WHERE nonce IS NOT NULL GROUP BY chain_id').all() // prettier-ignore
    return {
      chains: chains as InspectedStore['chains'],
      shown: readShown(db),
      frozen: countFrozen(db),
      head,
      witness,
      problems,
      witnessIs: compare(db, head, witness),
      last: (last as InspectedStore['last']) ?? null,
      accounts: (rows as { address: string }[]).map(({ address }) => address),
    }
  } finally {
    db.close()
  }
}

/** Checks the subjects of all freezes. @throws bad_request */
function assertAllFreezable(db: DatabaseSync, subjects: string[]): void {
  const account = db.prepare('SELECT 1 FROM accounts WHERE user_id = ?')
  for (const subject of subjects) assertFreezable(subject, (userId) => account.get(userId) !== undefined)
}

function readShown(db: DatabaseSync): number | null {
  const row = db.prepare(`SELECT note FROM heads WHERE which = 'shown'`).get() as { note: string } | undefined
  return row === undefined ? null : (readSignedHead(row.note)?.size ?? null)
}

function countFrozen(db: DatabaseSync): InspectedStore['frozen'] {
  const rows = db.prepare('SELECT by, count(*) AS subjects FROM frozen GROUP BY by').all()
  const counts = new Map((rows as { by: string; subjects: number }[]).map(({ by, subjects }) => [by, subjects]))
  return { list: counts.get('list') ?? 0, admin: counts.get('admin') ?? 0 }
}

function compare(db: DatabaseSync, head: LedgerHead, witness: LedgerHead | null): InspectedStore['witnessIs'] {
  if (witness === null) return head.count === 0 ? 'in agreement' : 'missing'
  if (witness.count > head.count) return 'ahead'
  const row = db.prepare('SELECT record FROM ledger WHERE seq = ?').get(witness.count) as
    | Pick<LedgerRow, 'record'>
    | undefined
  return witness.record.equals(Buffer.from(row?.record ?? GENESIS)) ? 'in agreement' : 'of another store'
}

/** The record number of a restore, and how many key requests it ended. */
export type AcceptedRestore = { record: number; ended: number }

/**
 * Accepts the store as it is. It records in the ledger what was lost and what the chains had counted, and writes a matching
 * witness. From then on the signer signs again, but no nonce below the counts. Open key requests end, because a lost record may
 * have cancelled one or exported the key.
 * @throws StartError     if another process uses the store, or it changed since it was inspected
 * @throws LedgerDamaged  if its newest records are broken
 */
export async function acceptRestore(
  folder: string,
  settings: KekSettings,
  expected: LedgerHead,
  { restored, head, frozen }: { restored: Restored; head: string | null; frozen: string[] },
): Promise<AcceptedRestore> {
  const store = openStore(folder)
  try {
    const { deks, ledger, heads } = await openSigningLog(
      store.db,
      await openKekOf(store.db, settings),
      systemClock.wall,
    )
    if (!ledger.head().record.equals(expected.record)) {
      throw new StartError('The store has changed since it was shown. Run the command again.')
    }
    assertAllFreezable(store.db, frozen)
    store.db.exec('BEGIN IMMEDIATE')
    if (head !== null && !heads.show(head)) throw new StartError('The head of --head was not signed by this signer.')
    const freeze = store.db.prepare(`INSERT OR REPLACE INTO frozen (subject, by, at) VALUES (?, 'admin', ?)`)
    for (const subject of frozen) freeze.run(subject, systemClock.wall())
    ledger.append({
      at: systemClock.wall(),
      kind: 'restore',
      userId: '',
      address: Buffer.alloc(0),
      rule: 'accept-restore',
      restored,
    })
    const record = ledger.head().count
    // These records follow the restore's own record, which must be the first in which this ledger differs from the lost one.
    const ended = cancelRequests(openExportRecords(store.db, deks.macs), ledger)
    heads.seal()
    // Write the witness before the commit: a crash in between leaves a store that is behind its witness and must be accepted again.
    openWitness(store.witnessPath, ledger.head()).close()
    store.db.exec('COMMIT')
    return { record, ended }
  } finally {
    store.close()
  }
}

/** Cancels open key requests. It includes expired ones, because setting the clock back would revive them. */
function cancelRequests(records: ExportRecords, ledger: Ledger): number {
  const users = records.open()
  for (const userId of users) {
    const { address, request } = records.newest(userId)!
    const evidence = JSON.stringify({ request })
    const rule = 'export-cancelled-by-restore'
    ledger.append({ at: systemClock.wall(), kind: 'export-cancel', userId, address, rule, tokenId: null, evidence })
  }
  return users.length
}

/** Returns the text that confirms the command; it identifies this state of the store. */
export const confirmationOf = ({ record }: LedgerHead): string => record.toString('hex').slice(0, 16)

const USAGE = `Usage: accept-restore [--rpc-url URL]… [--without-networks] [--head FILE] [--freeze SUBJECT]… [--accept RECORD]`

/**
 * Runs `chatelaine signer accept-restore`: shows what the store in SIGNER_DIR has lost. With `--accept`, it accepts the store. Exit
 * code 0 if it was accepted, or if there is nothing to accept and nothing to freeze.
 */
async function main(): Promise<number> {
  const { values } = readArguments({
    options: {
      'rpc-url': { type: 'string', multiple: true, default: [] },
      'without-networks': { type: 'boolean', default: false },
      head: { type: 'string' },
      freeze: { type: 'string', multiple: true, default: [] },
      accept: { type: 'string' },
    },
  })
  const urls = values['rpc-url'].flatMap((url) => (url === '-' ? readFileSync(0, 'utf8').split(/\s+/).filter(Boolean) : [url])) // prettier-ignore
  const config = readConfig(process.env, 'signer')
  const { SIGNER_DIR: folder } = config
  if (folder === undefined) throw new ConfigError(['SIGNER_DIR is missing: the folder of the store'])
  const settings = requireKekSettings(config)
  const frozen = values.freeze.map((subject) => readFreezeRequest({ subject }).subject)
  const head = values.head === undefined ? null : readHeadFile(values.head)
  const found = await findStore(folder, settings, frozen)
  const { head: end, witness, witnessIs, accounts, problems } = found
  print(describe(found))
  if (problems.length > 0) {
    throw new StartError(`The store is damaged. Restore another copy.\n${problems.join('\n')}`)
  }
  if (witnessIs === 'of another store') {
    throw new StartError('The witness belongs to another store, not to a later state of this store. Restore a store and a witness that belong together.') // prettier-ignore
  }
  if (witnessIs === 'in agreement' && found.shown === null && head === null && urls.length === 0) {
    print('The witness matches: there is nothing to accept. If the whole folder was restored from an older copy,')
    print('give the networks with --rpc-url, so that no used nonce is signed again.')
    if (frozen.length > 0) print('Nothing was frozen. Run chatelaine signer freeze while the signer runs.')
    return frozen.length > 0 ? 1 : 0
  }

  const floors: Restored['floors'] = []
  const asked = new Set<number>()
  for (const url of urls) {
    const { chainId, floors: counted } = await countAll(url, accounts)
    asked.add(chainId)
    floors.push(...counted)
    const most = counted.reduce((max, { nonce }) => Math.max(max, nonce), 0)
    print(
      `Chain ${chainId}: ${counted.length} of ${accounts.length} accounts have transactions, at most ${most} in one account.`,
    )
  }
  for (const { chainId, accounts: many } of found.chains.filter((chain) => !asked.has(chain.chainId)))
    print(`Chain ${chainId} was not checked, and ${many} accounts have signed for it. Lost nonces may be signed again. Give a node with --rpc-url.`) // prettier-ignore
  if (asked.size > 0)
    print(
      'The signer never signs a nonce below an account’s transaction count. A count that is too high locks the account permanently.',
    )
  if (values.accept === undefined) {
    print(`Nothing was changed. To use this store: --accept ${confirmationOf(end)}`)
    return 1
  }
  if (values.accept !== confirmationOf(end))
    throw new StartError(`--accept must be ${confirmationOf(end)} for this store.`)
  // A ledger that was lost entirely does not name the networks that it signed for.
  if (asked.size === 0 && accounts.length > 0 && !values['without-networks'])
    throw new StartError('No network was checked, so every lost nonce may be signed again. Give the networks with --rpc-url. If no account has ever sent a transaction, add --without-networks.') // prettier-ignore
  const lost = witness === null ? null : { count: witness.count, record: witness.record.toString('hex') }
  const shown = Math.max(found.shown ?? 0, head?.size ?? 0)
  const restored = { witness: lost, floors, ...(shown === 0 ? {} : { shown }) }
  const { record, ended } = await acceptRestore(folder, settings, end, { restored, head: head?.note ?? null, frozen })
  if (ended > 0)
    print(`${ended} key requests were cancelled. Those users must request their key again, and wait again.`)
  print(`Accepted as record ${record} of the ledger. Start the signer.`)
  return 0
}

/**
 * Reads a head: the JSON of `chatelaine signing-log show --json` or of the server, with the head in `note`, or the note itself.
 * @throws StartError
 */
function readHeadFile(path: string): { note: string; size: number } {
  const text = readFileSync(path, 'utf8')
  const note = text.trimStart().startsWith('{') ? (JSON.parse(text) as { note?: unknown }).note : text
  const head = typeof note === 'string' ? readSignedHead(note) : null
  if (head === null) throw new StartError('--head must be a file of chatelaine signing-log show --json.')
  return { note: note as string, size: head.size }
}

function describe({ head, last, witness, accounts, shown, frozen }: InspectedStore): string {
  const end = last === null ? '' : ` of ${new Date(last.at).toISOString()} (${nameOf(last)})`
  const lines = [
    `The store: ${head.count} records, the last ${confirmationOf(head)}${end}; ${accounts.length} accounts.`,
  ]
  if (witness === null) lines.push('Its witness is missing or incomplete. The number of lost records is unknown.')
  else lines.push(`Its witness: ${witness.count} records, the last ${confirmationOf(witness)}.`)
  if (witness !== null && witness.count > head.count) {
    lines.push(
      `${witness.count - head.count} records are lost: signatures that may be on a chain or in flight,`,
      'and accounts, whose keys are lost as well.',
    )
  }
  if (shown !== null)
    lines.push(`A server stored a signed head of ${shown} records. This store does not continue that head.`)
  lines.push(
    `Frozen in it: ${frozen.list} by the server's lists, ${frozen.admin} by the signer's operator. Later freezes of the operator`,
    'are lost: repeat them with --freeze. The signer receives the server’s freezes again before it signs anything.',
  )
  return lines.join('\n')
}

const nameOf = ({ kind, chain_id, nonce }: NonNullable<InspectedStore['last']>): string =>
  nonce === null ? kind : `${kind}, nonce ${nonce} on chain ${chain_id}`

const print = (line: string): void => void process.stdout.write(`${line}\n`)

if (import.meta.main) {
  process.exitCode = await main().catch((error: unknown) => {
    const isOurs = [StartError, LedgerDamaged, ConfigError, Refusal].some((one) => error instanceof one)
    const isUsage = (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true
    process.stderr.write(`${isUsage ? USAGE : isOurs ? (error as Error).message : 'The store cannot be read.'}\n`)
    return 1
  })
}
