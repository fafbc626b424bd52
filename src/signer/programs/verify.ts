/**
 * signer/programs: the commands of the signer's operator, one file each.
 * Owns: checking, backing up and restoring the signer's store, and requests to a running signer on its admin socket.
 * Does not own: the signer that runs (`signer/main.ts`), the names and help of the commands (`cli/signer-or-server.ts`).
 */

import type { DatabaseSync } from 'node:sqlite'
import { parseTransaction, serializeTransaction } from 'viem/utils'
import { ConfigError, readConfig } from '../../config.ts'
import type { SignedAuthorization } from '../../gas/authorization.ts'
import { keccak } from '../../keccak.ts'
import { signerOf } from '../keys/curve.ts'
import { readMacs, unwrapStored, type OpenDeks } from '../keys/deks.ts'
import { verifierKeyOf } from '../ledger/heads.ts'
import { identityFault } from '../keys/identity.ts'
import { isHeadOf, verifierOf } from '../../signer-wire/verifier.ts'
import { fileFault } from '../ledger/index-faults.ts'
import { readKekSettings } from '../keys/kek-settings.ts'
import { openKekOf, type KekSettings } from '../keys/open-kek.ts'
import { checkWitness, follow, readHead } from '../ledger/ledger.ts'
import { assertMac, hasMac, type Macs } from '../ledger/macs.ts'
import { verifyKeptPolicy } from '../rules/kept-policy.ts'
import { verifyMeters } from '../rules/meters.ts'
import { GENESIS, OUTER, type LedgerRow } from '../ledger/record.ts'
import { openStoreForReading, schemaFault } from '../store.ts'
import { effectOf } from '../transaction.ts'
import { openTree } from '../ledger/tree.ts'
import { messageFault } from './verify-messages.ts'
import { delegationFault, operationFault, outerFaults } from './verify-operations.ts'
import { readSignedHead, type Hex } from '../../signer-wire/wire.ts'
import { WITHDRAWAL } from '../rules/withdrawals.ts'
import { readWitness, type LedgerHead } from '../ledger/witness.ts'

export type Report = {
  records: number
  signatures: number
  /** how many of the signatures are withdrawals from sponsors, by a grant of the signer's OS user */
  withdrawals: number
  accounts: number
  /** how many records have a verified MAC; null if no master key was given */
  macs: number | null
  problems: string[]
}

/**
 * Verifies a whole store: the hash chain from the first record to the head, the witness, and each signature against its account,
 * nonce and effect. It checks the rules of the ledger again, in SQL instead of the code that applied them. A signer may be running.
 * Without the master key, an attacker who can write the folder could have recomputed all hashes and signed the end with another
 * key.
 */
export function verifyStore(folder: string): Report {
  const { db, witnessPath } = openStoreForReading(folder)
  try {
    // Read the witness first: the ledger can only have grown when it is read afterwards.
    const witness = readWitness(witnessPath)
    db.exec('BEGIN')
    return verify(db, witness, null)
  } finally {
    db.close()
  }
}

/**
 * Verifies the same and, with the master key, the MACs and the identity key.
 * @throws StartError  if the master key is not the one of this store, or is unavailable
 */
export async function verifyStoreWith(folder: string, settings: KekSettings): Promise<Report> {
  const { db, witnessPath } = openStoreForReading(folder)
  try {
    const witness = readWitness(witnessPath)
    // Begin before the master key is asked: a running signer may add a data key in between, and all data must be of one moment.
    db.exec('BEGIN')
    return verify(db, witness, await unwrapStored(db, await openKekOf(db, settings)))
  } finally {
    db.close()
  }
}

function verify(db: DatabaseSync, witness: LedgerHead | null, opened: Pick<OpenDeks, 'deks'> | null): Report {
  const { head, ...report } = verifyLedger(db, opened === null ? null : readMacs(opened))
  const foreign = opened === null ? null : identityFault(db, opened)
  if (foreign !== null) report.problems.push(foreign)
  try {
    checkWitness(db, head, witness)
  } catch (error) {
    report.problems.push((error as Error).message)
  }
  return report
}

/** Verifies everything except the witness. */
export function verifyLedger(db: DatabaseSync, macs: Macs | null): Report & { head: LedgerHead } {
  const problems = [schemaFault(db), fileFault(db)].filter((fault) => fault !== null)
  let checked = 0
  const head = readHead(db)
  let last: LedgerHead = { count: 0, record: GENESIS }
  let [signatures, withdrawals] = [0, 0]
  for (const row of db.prepare('SELECT * FROM ledger ORDER BY seq').iterate() as Iterable<LedgerRow>) {
    try {
      last = follow(last, row)
    } catch (error) {
      problems.push((error as Error).message)
      last = { count: row.seq, record: Buffer.from(row.record) }
    }
    const unproven = macFault(row, macs)
    if (unproven === null) checked += 1
    else problems.push(unproven)
    if (row.intent_id === null) continue
    signatures += 1
    if (row.kind === 'send' && row.rule === WITHDRAWAL) withdrawals += 1
    const fault = checkSignature(row)
    if (fault !== null) problems.push(`Record ${row.seq}: ${fault}.`)
  }
  if (head.count > 0 && db.prepare('SELECT 1 FROM deks').get() === undefined)
    problems.push('The data keys are missing: no MAC can be checked, and no account key can be decrypted.')
  if (last.count !== head.count || !last.record.equals(head.record)) {
    problems.push('The ledger does not end at its head record.')
  }
  const unsigned = headFault(db, head)
  if (unsigned !== null) problems.push(unsigned)
  for (const [problem, sql] of queries) {
    const { found } = db.prepare(`SELECT count(*) AS found FROM (${sql})`).get() as { found: number }
    if (found > 0) problems.push(`${problem}: ${found}.`)
  }
  problems.push(...outerFaults(db), ...verifyMeters(db), ...verifyKeptPolicy(db))
  const { accounts } = db.prepare('SELECT count(*) AS accounts FROM accounts').get() as { accounts: number }
  return {
    head,
    records: last.count,
    signatures,
    withdrawals,
    accounts,
    macs: macs === null ? null : checked,
    problems,
  }
}

/** Returns the verifier key of the signer's identity; null in a store that no signer has opened yet. */
function readVerifierKey(folder: string): string | null {
  const { db } = openStoreForReading(folder)
  try {
    const row = db.prepare('SELECT public FROM identity').get() as { public: Uint8Array } | undefined
    return row === undefined ? null : verifierKeyOf(verifierOf(row.public))
  } finally {
    db.close()
  }
}

/** Checks that the identity key in the store signed the newest head, and that the ledger ends there; null if both hold. */
export function headFault(db: DatabaseSync, head: LedgerHead): string | null {
  const identity = db.prepare('SELECT public FROM identity').get() as { public: Uint8Array } | undefined
  if (identity === undefined) return isUnused(db, head) ? null : 'The identity key of the signer is missing.'
  const row = db.prepare(`SELECT note FROM heads WHERE which = 'newest'`).get() as { note: string } | undefined
  const signed = readSignedHead(row?.note ?? '')
  if (signed === null || !isHeadOf(verifierOf(identity.public), signed))
    return 'The newest head of the ledger was not signed by this signer.'
  if (signed.size !== head.count) return 'The ledger does not end at its signed head.'
  try {
    return openTree(db, head.count).root().equals(signed.root) ? null : 'The ledger does not end at its signed head.'
  } catch (error) {
    return (error as Error).message
  }
}

/** Returns whether no signer has opened the store yet. */
const isUnused = (db: DatabaseSync, { count }: LedgerHead): boolean =>
  count === 0 && db.prepare('SELECT 1 FROM deks').get() === undefined

/** Verifies the MAC of a record; without the master key, only that there is one. null if it is valid. */
function macFault(row: LedgerRow, macs: Macs | null): string | null {
  try {
    if (macs !== null) assertMac(macs, row)
    return hasMac(row) ? null : `Record ${row.seq}: its MAC is missing.`
  } catch (error) {
    return (error as Error).message
  }
}

/** Verifies a signature; null if it is valid. Another library than the one that signed decodes and serialises it. */
function checkSignature(row: LedgerRow): string | null {
  const raw = `0x${Buffer.from(row.raw!).toString('hex')}` as const
  try {
    if (row.kind === 'operation') return operationFault(row)
    if (row.kind === 'authorization') return delegationFault(row)
    if (row.kind === 'message') return messageFault(row)
    const { r, s, v, yParity, ...tx } = parseTransaction(raw) as ReturnType<typeof parseTransaction> & Point
    const digest = keccak(bytes(serializeTransaction(tx))!)
    const recovery = (yParity ?? Number(v! - 35n) % 2) as 0 | 1
    const signer = signerOf(digest, { r: number32(r), s: number32(s), recovery })
    if (!signer.equals(Buffer.from(row.address))) return 'another account signed it'
    if (tx.chainId !== row.chain_id || (tx.nonce ?? 0) !== row.nonce)
      return 'its bytes belong to another chain or nonce'
    const call = { to: bytes(tx.to), value: tx.value ?? 0n, data: bytes(tx.data) ?? Buffer.alloc(0) }
    const effect = effectOf({ ...call, authorizations: authorizationsIn(tx) })
    if (!effect.equals(Buffer.from(row.effect!))) return 'its bytes have a different effect'
    if (!keccak(row.raw!).equals(Buffer.from(row.hash!))) return 'its hash does not match'
    return null
  } catch {
    return 'its bytes are not a signed transaction, operation or message'
  }
}

/** Converts the authorizations of a transaction of type 4 to the ledger's form. */
function authorizationsIn(tx: object): SignedAuthorization[] {
  const { authorizationList: list = [] } = tx as { authorizationList?: DelegationInside[] }
  return list.map(({ chainId, address, nonce, r, s, yParity }) => ({
    chainId: chainId ?? 0,
    address: bytes(address)!,
    nonce: nonce ?? 0,
    r: number32(r),
    s: number32(s),
    recovery: (yParity ?? 0) as 0 | 1,
  }))
}

type DelegationInside = { chainId?: number; address: Hex; nonce?: number; r: Hex; s: Hex; yParity?: number }
type Point = { r: Hex; s: Hex; v?: bigint; yParity?: number }

const number32 = (text: Hex): Buffer => Buffer.from(text.slice(2).padStart(64, '0'), 'hex')

const bytes = (text: string | null | undefined): Buffer | null =>
  text === null || text === undefined ? null : Buffer.from(text.slice(2), 'hex')

/** The problem that `restore-keys` solves. Every other problem concerns the ledger, or keys that do not belong to it. */
export const KEYS_MISSING = 'Accounts of the ledger whose keys are missing'

/** Reads a member of the evidence in SQL; null if there is none, or if the evidence is malformed. */
function evidenceOf(name: string): string {
  return `json_extract(iif(json_valid(evidence), evidence, NULL), '$.${name}')`
}

const queries: [problem: string, sql: string][] = [
  [
    'Nonces with two effects',
    `SELECT 1 FROM ledger WHERE kind IN ('send', 'replace') GROUP BY address, chain_id, nonce
      HAVING count(DISTINCT effect) > 1 OR count(DISTINCT intent_id) > 1`,
  ],
  [
    'Transactions that were signed after their cancellation',
    `SELECT 1 FROM ledger WHERE nonce IS NOT NULL GROUP BY address, chain_id, nonce
      HAVING max(seq) FILTER (WHERE kind <> 'cancel') > min(seq) FILTER (WHERE kind = 'cancel')`,
  ],
  [
    'Intents with two nonces',
    `SELECT 1 FROM (SELECT DISTINCT intent_id, address, chain_id, nonce FROM ledger
      WHERE intent_id IS NOT NULL AND kind <> 'authorization')
      GROUP BY intent_id HAVING count(*) > 1`,
  ],
  [
    'First signatures without a token',
    `SELECT 1 FROM ledger WHERE (kind = 'send' AND token_id IS NULL AND NOT (rule = '${OUTER}' AND user_id LIKE 'SPONSOR-%'))
      OR (kind IN ('operation', 'authorization', 'message') AND (token_id IS NULL OR user_id LIKE 'SPONSOR-%'))`,
  ],
  [
    'Nonces with an authorization and something else',
    `SELECT 1 FROM ledger WHERE nonce IS NOT NULL GROUP BY address, chain_id, nonce
      HAVING count(*) FILTER (WHERE kind = 'authorization') > 0 AND count(*) > 1`,
  ],
  [
    'Intents or ids with two operations',
    `SELECT 1 FROM ledger WHERE kind = 'operation' GROUP BY intent_id HAVING count(*) > 1
      UNION ALL SELECT 1 FROM ledger WHERE kind = 'operation' GROUP BY chain_id, effect HAVING count(*) > 1`,
  ],
  ['Intents with two messages', `SELECT 1 FROM ledger WHERE kind = 'message' GROUP BY intent_id HAVING count(*) > 1`],
  [
    'Signatures without the approval that a rule demands',
    `SELECT 1 FROM ledger WHERE ${evidenceOf('requires')} IS NOT NULL
      AND (${evidenceOf('approval_jti')} IS NULL OR ${evidenceOf('approval_sha256')} IS NULL)`,
  ],
  [
    'Messages whose evidence does not say whether an approval was demanded',
    `SELECT 1 FROM ledger WHERE kind = 'message'
      AND json_type(iif(json_valid(evidence), evidence, NULL), '$.requires') IS NULL`,
  ],
  [
    'Approvals that were used twice',
    `SELECT 1 FROM ledger WHERE ${evidenceOf('approval_sha256')} IS NOT NULL
      GROUP BY ${evidenceOf('approval_sha256')} HAVING count(DISTINCT intent_id) > 1`,
  ],
  [
    'Authorizations without an operation',
    `SELECT 1 FROM ledger a WHERE kind = 'authorization' AND NOT EXISTS (SELECT 1 FROM ledger o
      WHERE o.kind = 'operation' AND o.intent_id = a.intent_id AND o.address = a.address AND o.seq < a.seq)`,
  ],
  [
    'Keys that were exported before the delay of a request was over',
    `SELECT 1 FROM ledger e WHERE kind = 'export' AND rule = 'export-by-person' AND NOT EXISTS (SELECT 1 FROM ledger r
      WHERE r.kind = 'export-request' AND r.user_id = e.user_id AND r.seq < e.seq
        AND json_extract(r.evidence, '$.request') = json_extract(e.evidence, '$.request')
        AND json_extract(r.evidence, '$.ready_at') <= e.at)`,
  ],
  [
    'Grants with several withdrawals',
    `SELECT 1 FROM ledger WHERE kind = 'send' AND rule = 'sponsor-withdrawal' GROUP BY token_id HAVING count(*) > 1`,
  ],
  [
    'Withdrawals from accounts that are not sponsors',
    `SELECT 1 FROM ledger WHERE rule = 'sponsor-withdrawal' AND user_id NOT LIKE 'SPONSOR-%'`,
  ],
  [
    'Accounts that are missing in the ledger or differ from it',
    `SELECT 1 FROM accounts a LEFT JOIN (SELECT user_id, address FROM ledger WHERE kind = 'account') l
      ON l.user_id = a.user_id WHERE l.address IS NOT a.address`,
  ],
  [KEYS_MISSING, `SELECT 1 FROM ledger WHERE kind = 'account' AND user_id NOT IN (SELECT user_id FROM accounts)`],
]

/** Runs `node src/signer/programs/verify.ts [folder]`: prints what it found. Exit code 1 if anything is wrong. */
async function main(): Promise<void> {
  const config = readConfig(process.env, 'signer')
  const folder = process.argv[2] ?? config.SIGNER_DIR
  if (folder === undefined) throw new ConfigError(['SIGNER_DIR is missing: set it, or give the folder as an argument'])
  const settings = readKekSettings(config)
  const { records, signatures, withdrawals, accounts, macs, problems } =
    settings === null ? verifyStore(folder) : await verifyStoreWith(folder, settings)
  for (const problem of problems) process.stdout.write(`${problem}\n`)
  process.stdout.write(
    macs === null
      ? 'MACs and the identity key were not checked, because SIGNER_KEK_FILE is missing. Someone who can write to the folder could have replaced all hashes.\n'
      : `MACs of ${macs} records checked.\n`,
  )
  const key = readVerifierKey(folder)
  if (key !== null) process.stdout.write(`Verifier key of the log: ${key}\n`)
  if (withdrawals > 0) process.stdout.write(`Withdrawals from sponsors among the signatures: ${withdrawals}\n`)
  const verdict = problems.length === 0 ? 'whole' : 'DAMAGED'
  process.stdout.write(`${records} records, ${signatures} signatures, ${accounts} accounts: ${verdict}\n`)
  process.exitCode = problems.length === 0 ? 0 : 1
}

if (import.meta.main) {
  try {
    await main()
  } catch (error) {
    process.stderr.write(`The store cannot be verified: ${error instanceof Error ? error.message : 'unknown'}\n`)
    process.exitCode = 1
  }
}
