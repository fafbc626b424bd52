import { chmodSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { FolderInUse, lockFolder } from '../folder-lock.ts'
import { syncFolder } from './kek/file.ts'
import { LedgerDamaged, StartError } from './refusal.ts'

/** The signer's own store: a folder with one SQLite file, a witness of the ledger's head, and a lock. */
export type Store = { db: DatabaseSync; witnessPath: string; close: () => void }

export const DATABASE_FILE = 'signer.sqlite'
const WITNESS_FILE = 'witness'
export const LOCK_FILE = 'lock'

/** The file header's PRAGMA user_version; it changes with each change of the schema. */
const SCHEMA_VERSION = 1

const SCHEMA = `
  -- id: what a data key is known by where its epoch says too little: after another master key took it over, and where two signers
  -- were made.
  CREATE TABLE deks (
    epoch INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    provider TEXT NOT NULL,
    wrapped BLOB NOT NULL,
    keys INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
  ) STRICT;
  -- generation: another one in every store, and when keys that were there are wrapped otherwise; a time.
  -- rewrap_below: keys of epochs below it are to be wrapped by newer data keys; null when all are.
  CREATE TABLE wrapping (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    generation INTEGER NOT NULL,
    rewrap_below INTEGER
  ) STRICT;
  INSERT INTO wrapping VALUES (1, CAST(unixepoch('subsec') * 1000 AS INTEGER), NULL);

  CREATE TABLE accounts (
    user_id TEXT NOT NULL PRIMARY KEY,
    address BLOB NOT NULL UNIQUE CHECK (length(address) = 20),
    wrapped BLOB NOT NULL CHECK (length(wrapped) = 32),
    iv BLOB NOT NULL CHECK (length(iv) = 12),
    tag BLOB NOT NULL CHECK (length(tag) = 16),
    epoch INTEGER NOT NULL REFERENCES deks,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL
  ) STRICT;

  -- Everything the signer ever agreed to. Rows are only added; each record hash covers the one before it.
  -- Of a 'restore', by which an operator took an older copy for the store, raw holds what was known then (restored.ts).
  -- mac: the epoch of the data key it is by, 4 bytes, and HMAC-SHA-256 of the record's hash, 32.
  CREATE TABLE ledger (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('account', 'send', 'replace', 'cancel', 'restore', 'export-request',
      'export-cancel', 'export', 'operation', 'authorization', 'message')),
    user_id TEXT NOT NULL,
    address BLOB NOT NULL,
    chain_id INTEGER,
    nonce INTEGER,
    intent_id TEXT,
    effect BLOB,
    fee_type TEXT,
    max_fee TEXT,
    priority_fee TEXT,
    gas TEXT,
    hash BLOB,
    raw BLOB,
    rule TEXT NOT NULL,
    client_id TEXT,
    token_id TEXT,
    record BLOB NOT NULL,
    request_hash BLOB CHECK (request_hash IS NULL OR length(request_hash) = 32),
    evidence TEXT,
    policy TEXT,
    spent TEXT,
    mac BLOB NOT NULL CHECK (length(mac) = 36),
    CHECK (kind NOT IN ('send', 'replace', 'cancel') OR (chain_id IS NOT NULL AND nonce IS NOT NULL
      AND intent_id IS NOT NULL AND effect IS NOT NULL AND raw IS NOT NULL AND hash IS NOT NULL)),
    CHECK (kind <> 'restore' OR raw IS NOT NULL),
    CHECK (kind NOT IN ('operation', 'authorization') OR (chain_id > 0 AND (nonce IS NULL) = (kind = 'operation')
      AND intent_id IS NOT NULL AND client_id IS NOT NULL AND token_id IS NOT NULL
      AND effect IS NOT NULL AND raw IS NOT NULL AND hash IS NOT NULL)),
    CHECK (kind <> 'message' OR (chain_id > 0 AND nonce IS NULL AND intent_id IS NOT NULL AND client_id IS NOT NULL
      AND token_id IS NOT NULL AND evidence IS NOT NULL AND length(raw) >= 66 AND length(hash) = 32 AND effect = hash))
  ) STRICT;
  -- A nonce has its first transaction or its authorization once, and an id its operation, whatever the code above believes.
  -- One index finds a nonce and holds that: pages of indexes are most of what a commit writes.
  CREATE UNIQUE INDEX ledger_nonce ON ledger (address, chain_id, nonce, iif(kind IN ('send', 'authorization'), 0, seq))
    WHERE nonce IS NOT NULL;
  CREATE UNIQUE INDEX ledger_operation ON ledger (effect, chain_id) WHERE kind = 'operation';
  CREATE UNIQUE INDEX ledger_message ON ledger (intent_id) WHERE kind = 'message';
  CREATE INDEX ledger_intent ON ledger (intent_id) WHERE intent_id IS NOT NULL;
  -- One account per user, also after the row of its key is gone.
  CREATE UNIQUE INDEX ledger_account ON ledger (user_id) WHERE kind = 'account';
  CREATE INDEX ledger_restore ON ledger (seq) WHERE kind = 'restore';
  CREATE INDEX ledger_export ON ledger (user_id, seq) WHERE kind IN ('export-request', 'export-cancel', 'export');
  -- Not by address: it would be taken for ledger_nonce.
  CREATE INDEX ledger_signatures ON ledger (user_id, seq, chain_id) WHERE intent_id IS NOT NULL;
  -- meters: the seal of table meters as it was when the ledger ended there (meter-seal.ts). In the row that each commit writes anyway.
  CREATE TABLE ledger_head (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    count INTEGER NOT NULL,
    record BLOB NOT NULL,
    meters BLOB
  ) STRICT;
  INSERT INTO ledger_head VALUES (1, 0, zeroblob(32), NULL);
  -- Which transactions of sponsors (their first attempts) carry an operation; follows from the ledger.
  CREATE TABLE carried (operation INTEGER NOT NULL, outer INTEGER NOT NULL, PRIMARY KEY (operation, outer)) STRICT,
    WITHOUT ROWID;

  -- The signer's own key (identity.ts), the Merkle tree over the ledger (tree.ts: complete subtrees of 2^level records), and
  -- heads of it: the newest, and one that a server has shown and the ledger does not continue (heads.ts).
  CREATE TABLE identity (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    public BLOB NOT NULL CHECK (length(public) = 32),
    epoch INTEGER NOT NULL REFERENCES deks,
    iv BLOB NOT NULL CHECK (length(iv) = 12),
    tag BLOB NOT NULL CHECK (length(tag) = 16),
    wrapped BLOB NOT NULL
  ) STRICT;
  CREATE TABLE tree (
    level INTEGER NOT NULL,
    position INTEGER NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (level, position)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE heads (
    which TEXT NOT NULL PRIMARY KEY CHECK (which IN ('newest', 'shown')),
    note TEXT NOT NULL
  ) STRICT;

  -- What moves nothing until it is lifted (freezes.ts); at: milliseconds since 1970.
  CREATE TABLE frozen (
    subject TEXT NOT NULL PRIMARY KEY,
    by TEXT NOT NULL CHECK (by IN ('list', 'admin')),
    at INTEGER NOT NULL
  ) STRICT;
  -- The policy in force, as it was written: a file that is older or gone does not bring back what it forbids.
  CREATE TABLE policy (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), document TEXT NOT NULL) STRICT;
  -- What was used of its limits (meters.ts); follows from column spent of the ledger.
  CREATE TABLE meters (meter TEXT NOT NULL PRIMARY KEY, window TEXT NOT NULL) STRICT, WITHOUT ROWID;
`

/** Creates the store's folder if it is missing, with mode 0700. @throws StartError  if this OS user does not own it */
export function makeFolder(folder: string): void {
  try {
    const made = mkdirSync(folder, { recursive: true, mode: 0o700 })
    // SQLite syncs its file names into the folder; the folder's own name must be synced here.
    if (made !== undefined) syncFolder(dirname(made))
    chmodSync(folder, 0o700)
  } catch (cause) {
    throw new StartError(
      `SIGNER_DIR must be a folder owned by the signer's user (${(cause as NodeJS.ErrnoException).code}).`,
      cause,
    )
  }
}

/**
 * Opens the store for this process alone, and creates it at the first start.
 * @throws StartError     if another signer uses the folder, the disk is full or not writable, or the store has another schema
 * @throws LedgerDamaged  if the file is not a store of the signer, or is damaged
 */
export function openStore(folder: string): Store {
  makeFolder(folder)
  const unlock = takeLock(folder)
  try {
    const db = new DatabaseSync(join(folder, DATABASE_FILE), { timeout: 1_000 })
    db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF')
    if (versionOf(db) === 0) db.exec(`BEGIN IMMEDIATE; ${SCHEMA}; PRAGMA user_version = ${SCHEMA_VERSION}; COMMIT`)
    assertVersion(db)
    const fault = schemaFault(db)
    if (fault !== null) {
      db.close()
      throw new LedgerDamaged(fault)
    }
    return {
      db,
      witnessPath: join(folder, WITNESS_FILE),
      close() {
        db.close()
        unlock()
      },
    }
  } catch (error) {
    unlock()
    if (isSqliteError(error) && PASSING.has(error.errcode & 0xff)) {
      throw new StartError('The store cannot be opened now: SIGNER_DIR is in use, full or not writable.', error)
    }
    throw isSqliteError(error)
      ? new LedgerDamaged('The store cannot be read: its file is damaged or is not a store of the signer.', error)
      : error
  }
}

/** Opens the store read-only, whether or not a signer is running. @throws StartError */
export function openStoreForReading(folder: string): { db: DatabaseSync; witnessPath: string } {
  const db = new DatabaseSync(join(folder, DATABASE_FILE), { readOnly: true, timeout: 1_000 })
  assertVersion(db)
  return { db, witnessPath: join(folder, WITNESS_FILE) }
}

/** Locks the folder: two signers on one ledger could each sign a first effect for one nonce. @throws StartError */
export function takeLock(folder: string): () => void {
  try {
    return lockFolder(folder, LOCK_FILE)
  } catch (error) {
    if (error instanceof FolderInUse)
      throw new StartError(
        `Another signer is using this store (process ${error.holder}): SIGNER_DIR belongs to one process.`,
      )
    throw new StartError('The lock of the store cannot be taken.', error)
  }
}

/** BUSY, LOCKED, NOMEM, READONLY, FULL, CANTOPEN: errors that say nothing about the contents of the store. */
const PASSING = new Set([5, 6, 7, 8, 13, 14])

/** Tells whether an error comes from SQLite; `errcode` is its result code. */
export const isSqliteError = (error: unknown): error is Error & { errcode: number } =>
  error instanceof Error && (error as { code?: unknown }).code === 'ERR_SQLITE_ERROR'

const versionOf = (db: DatabaseSync): number =>
  (db.prepare('PRAGMA user_version').get() as { user_version: number }).user_version

function assertVersion(db: DatabaseSync): void {
  const version = versionOf(db)
  if (version === SCHEMA_VERSION) return
  db.close()
  throw new StartError(
    `The store in SIGNER_DIR has schema ${version}, and this signer reads schema ${SCHEMA_VERSION} only: run the version that made it.`,
  )
}

/**
 * Compares the store's tables, indexes and triggers with the signer's schema; null if they are the same. A table without its
 * primary key, or a trigger, would return other rows than those that seals and MACs cover.
 */
export function schemaFault(db: DatabaseSync): string | null {
  const made = new DatabaseSync(':memory:')
  try {
    made.exec(SCHEMA)
    const [right, found] = [readSchema(made), readSchema(db)]
    const name = [...new Set([...right.keys(), ...found.keys()])].find((one) => right.get(one) !== found.get(one))
    return name === undefined ? null : `The store is not as the signer made it: ${JSON.stringify(name.slice(0, 60))}.`
  } finally {
    made.close()
  }
}

/** Reads the schema without SQLite's own objects: its indexes have no SQL text, and ANALYZE creates tables of statistics. */
function readSchema(db: DatabaseSync): Map<string, string> {
  const rows = db.prepare(`SELECT type, name, tbl_name AS of, sql FROM sqlite_schema WHERE sql IS NOT NULL AND NOT (type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat4'))`).all() // prettier-ignore
  return new Map(
    (rows as Record<'type' | 'name' | 'of' | 'sql', string>[]).map(({ type, name, of, sql }) => [
      `${type} ${name}`,
      `${of} ${sql}`,
    ]),
  )
}
