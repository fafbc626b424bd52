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

const migrations = [
  `
  CREATE TABLE deks (
    epoch INTEGER PRIMARY KEY,
    provider TEXT NOT NULL,
    wrapped BLOB NOT NULL,
    keys INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
  ) STRICT;

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
  -- kind 'account' has no chain, nonce or bytes; the three others have all of them.
  CREATE TABLE ledger (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('account', 'send', 'replace', 'cancel')),
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
    CHECK (kind = 'account' OR (chain_id IS NOT NULL AND nonce IS NOT NULL AND intent_id IS NOT NULL
      AND effect IS NOT NULL AND raw IS NOT NULL AND hash IS NOT NULL))
  ) STRICT;
  CREATE INDEX ledger_nonce ON ledger (address, chain_id, nonce) WHERE nonce IS NOT NULL;
  CREATE INDEX ledger_intent ON ledger (intent_id) WHERE intent_id IS NOT NULL;
  -- A nonce gets its first signature once, whatever the code above believes.
  CREATE UNIQUE INDEX ledger_first ON ledger (address, chain_id, nonce) WHERE kind = 'send';

  CREATE TABLE ledger_head (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    count INTEGER NOT NULL,
    record BLOB NOT NULL
  ) STRICT;
  INSERT INTO ledger_head VALUES (1, 0, zeroblob(32));
  `,
  `
  -- One account per user, also after the row of its key is gone.
  CREATE UNIQUE INDEX ledger_account ON ledger (user_id) WHERE kind = 'account';
  `,
  `
  -- kind 'restore': an operator took an older copy for the store. Its raw holds what was known then (restored.ts).
  -- SQLite changes no CHECK in place; the records' hashes are of their fields and stay what they were.
  CREATE TABLE ledger_with_restores (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('account', 'send', 'replace', 'cancel', 'restore')),
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
    CHECK (kind IN ('account', 'restore') OR (chain_id IS NOT NULL AND nonce IS NOT NULL AND intent_id IS NOT NULL
      AND effect IS NOT NULL AND raw IS NOT NULL AND hash IS NOT NULL)),
    CHECK (kind <> 'restore' OR raw IS NOT NULL)
  ) STRICT;
  INSERT INTO ledger_with_restores SELECT * FROM ledger;
  DROP TABLE ledger;
  ALTER TABLE ledger_with_restores RENAME TO ledger;
  -- One index finds a nonce and gives it its first signature once, whatever the code above believes. Pages of indexes
  -- are most of what a commit writes.
  CREATE UNIQUE INDEX ledger_nonce ON ledger (address, chain_id, nonce, iif(kind = 'send', 0, seq))
    WHERE nonce IS NOT NULL;
  CREATE INDEX ledger_intent ON ledger (intent_id) WHERE intent_id IS NOT NULL;
  CREATE UNIQUE INDEX ledger_account ON ledger (user_id) WHERE kind = 'account';
  CREATE INDEX ledger_restore ON ledger (seq) WHERE kind = 'restore';
  `,
  `
  ALTER TABLE ledger ADD COLUMN request_hash BLOB CHECK (request_hash IS NULL OR length(request_hash) = 32);
  `,
  `
  -- What moves nothing until it is lifted (freezes.ts); at: milliseconds since 1970.
  CREATE TABLE frozen (
    subject TEXT NOT NULL PRIMARY KEY,
    by TEXT NOT NULL CHECK (by IN ('list', 'admin')),
    at INTEGER NOT NULL
  ) STRICT;
  `,
  `
  -- The third form of records (record.ts): what was shown, what the policy engine says of it, and a MAC of the record's
  -- hash: the epoch of the data key it is by, 4 bytes, and HMAC-SHA-256, 32.
  ALTER TABLE ledger ADD COLUMN evidence TEXT;
  ALTER TABLE ledger ADD COLUMN policy TEXT;
  ALTER TABLE ledger ADD COLUMN spent TEXT;
  ALTER TABLE ledger ADD COLUMN mac BLOB CHECK (mac IS NULL OR length(mac) = 36);
  -- The first record that has a MAC; a data key opens only under the number it was wrapped with.
  ALTER TABLE deks ADD COLUMN maced_from INTEGER;
  `,
  `
  -- The policy in force, as it was written: a file that is older or gone does not bring back what it forbids.
  CREATE TABLE policy (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), document TEXT NOT NULL) STRICT;
  -- What was used of its limits (meters.ts); follows from column spent of the ledger.
  CREATE TABLE meters (meter TEXT NOT NULL PRIMARY KEY, window TEXT NOT NULL) STRICT, WITHOUT ROWID;
  `,
  `
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
    `,
  `
  -- What a data key is known by where its epoch says too little: after another master key took it over, and where two
  -- signers were made. generation: another one in every store, and when keys that were there are wrapped otherwise; a time.
  -- rewrap_below: keys of epochs below it are to be wrapped by newer data keys; null when all are.
  ALTER TABLE deks ADD COLUMN id BLOB;
  UPDATE deks SET id = randomblob(16);
  CREATE UNIQUE INDEX deks_id ON deks (id);
  CREATE TABLE wrapping (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), generation INTEGER NOT NULL,
    rewrap_below INTEGER) STRICT;
  INSERT INTO wrapping VALUES (1, CAST(unixepoch('subsec') * 1000 AS INTEGER), NULL);
  `,
  `
  -- kinds 'export-request', 'export-cancel', 'export': a key that its person asked for, did not get, or got (exports.ts). SQLite
  -- changes no CHECK in place; the records' hashes are of their fields and stay what they were.
  CREATE TABLE ledger_with_exports (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('account', 'send', 'replace', 'cancel', 'restore', 'export-request',
      'export-cancel', 'export')),
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
    mac BLOB CHECK (mac IS NULL OR length(mac) = 36),
    CHECK (kind NOT IN ('send', 'replace', 'cancel') OR (chain_id IS NOT NULL AND nonce IS NOT NULL
      AND intent_id IS NOT NULL AND effect IS NOT NULL AND raw IS NOT NULL AND hash IS NOT NULL)),
    CHECK (kind <> 'restore' OR raw IS NOT NULL)
  ) STRICT;
  INSERT INTO ledger_with_exports SELECT seq, at, kind, user_id, address, chain_id, nonce, intent_id, effect, fee_type,
    max_fee, priority_fee, gas, hash, raw, rule, client_id, token_id, record, request_hash, evidence, policy, spent, mac
    FROM ledger;
  DROP TABLE ledger;
  ALTER TABLE ledger_with_exports RENAME TO ledger;
  CREATE UNIQUE INDEX ledger_nonce ON ledger (address, chain_id, nonce, iif(kind = 'send', 0, seq))
    WHERE nonce IS NOT NULL;
  CREATE INDEX ledger_intent ON ledger (intent_id) WHERE intent_id IS NOT NULL;
  CREATE UNIQUE INDEX ledger_account ON ledger (user_id) WHERE kind = 'account';
  CREATE INDEX ledger_restore ON ledger (seq) WHERE kind = 'restore';
  CREATE INDEX ledger_export ON ledger (user_id, seq) WHERE kind IN ('export-request', 'export-cancel', 'export');
  `,
  `
  -- What was signed for one person, in the order of the records (signatures.ts). Not by address: it would be taken for ledger_nonce.
  CREATE INDEX ledger_signatures ON ledger (user_id, seq, chain_id) WHERE nonce IS NOT NULL;
  `,
  `
  -- The seal of table meters as it was when the ledger ended there (meter-seal.ts). In the row that each commit writes anyway.
  ALTER TABLE ledger_head ADD COLUMN meters BLOB;
  `,
  `
  -- kinds 'operation' and 'authorization': what an account signs for sponsors to send (operation-ledger.ts). SQLite changes no CHECK
  -- in place; the records' hashes are of their fields and stay what they were.
  CREATE TABLE ledger_with_operations (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('account', 'send', 'replace', 'cancel', 'restore', 'export-request',
      'export-cancel', 'export', 'operation', 'authorization')),
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
    mac BLOB CHECK (mac IS NULL OR length(mac) = 36),
    CHECK (kind NOT IN ('send', 'replace', 'cancel') OR (chain_id IS NOT NULL AND nonce IS NOT NULL
      AND intent_id IS NOT NULL AND effect IS NOT NULL AND raw IS NOT NULL AND hash IS NOT NULL)),
    CHECK (kind <> 'restore' OR raw IS NOT NULL),
    CHECK (kind NOT IN ('operation', 'authorization') OR (chain_id > 0 AND (nonce IS NULL) = (kind = 'operation')
      AND intent_id IS NOT NULL AND client_id IS NOT NULL AND token_id IS NOT NULL
      AND effect IS NOT NULL AND raw IS NOT NULL AND hash IS NOT NULL))
  ) STRICT;
  INSERT INTO ledger_with_operations SELECT seq, at, kind, user_id, address, chain_id, nonce, intent_id, effect, fee_type,
    max_fee, priority_fee, gas, hash, raw, rule, client_id, token_id, record, request_hash, evidence, policy, spent, mac
    FROM ledger;
  DROP TABLE ledger;
  ALTER TABLE ledger_with_operations RENAME TO ledger;
  -- A nonce has its first transaction or its authorization once, and an id its operation, whatever the code above believes.
  CREATE UNIQUE INDEX ledger_nonce ON ledger (address, chain_id, nonce, iif(kind IN ('send', 'authorization'), 0, seq))
    WHERE nonce IS NOT NULL;
  CREATE UNIQUE INDEX ledger_operation ON ledger (effect, chain_id) WHERE kind = 'operation';
  CREATE INDEX ledger_intent ON ledger (intent_id) WHERE intent_id IS NOT NULL;
  CREATE UNIQUE INDEX ledger_account ON ledger (user_id) WHERE kind = 'account';
  CREATE INDEX ledger_restore ON ledger (seq) WHERE kind = 'restore';
  CREATE INDEX ledger_export ON ledger (user_id, seq) WHERE kind IN ('export-request', 'export-cancel', 'export');
  CREATE INDEX ledger_signatures ON ledger (user_id, seq, chain_id) WHERE intent_id IS NOT NULL;
  -- Which transactions of sponsors (their first attempts) carry an operation; follows from the ledger.
  CREATE TABLE carried (operation INTEGER NOT NULL, outer INTEGER NOT NULL, PRIMARY KEY (operation, outer)) STRICT,
    WITHOUT ROWID;
  `,
]

export function makeFolder(folder: string): void {
  try {
    const made = mkdirSync(folder, { recursive: true, mode: 0o700 })
    // SQLite syncs its files' names into the folder, and nobody the folder's own.
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
 * Opens the store for this process alone, and makes it at the first start.
 * Errors: StartError when another signer uses the folder or the disk is full or not writable, LedgerDamaged when the
 * file is no store of ours.
 */
export function openStore(folder: string): Store {
  makeFolder(folder)
  const unlock = takeLock(folder)
  try {
    const db = new DatabaseSync(join(folder, DATABASE_FILE), { timeout: 1_000 })
    db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF')
    migrate(db)
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

/** Opens the store to look at it, beside a running signer or without one. */
export function openStoreForReading(folder: string): { db: DatabaseSync; witnessPath: string } {
  const db = new DatabaseSync(join(folder, DATABASE_FILE), { readOnly: true, timeout: 1_000 })
  return { db, witnessPath: join(folder, WITNESS_FILE) }
}

/** Two signers on one ledger could each sign a first effect for one nonce. */
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

/** BUSY, LOCKED, NOMEM, READONLY, FULL, CANTOPEN: they say nothing about what is in the store. */
const PASSING = new Set([5, 6, 7, 8, 13, 14])

export const isSqliteError = (error: unknown): error is Error & { errcode: number } =>
  error instanceof Error && (error as { code?: unknown }).code === 'ERR_SQLITE_ERROR'

function migrate(db: DatabaseSync): void {
  const { user_version: done } = db.prepare('PRAGMA user_version').get() as { user_version: number }
  if (done > migrations.length) throw new StartError('The store was written by a newer version of the signer.')
  for (const [index, sql] of migrations.entries()) {
    if (index < done) continue
    db.exec(`BEGIN IMMEDIATE; ${sql}; PRAGMA user_version = ${index + 1}; COMMIT`)
  }
}

/**
 * What of the store's tables, indexes and triggers is not as its migrations make it; null where all is. A table without its primary key, or a
 * trigger, would give other rows than those that seals and MACs are over. A store of an earlier version is looked at once a start has brought it
 * forward, which fails where it is not what that version made.
 */
export function schemaFault(db: DatabaseSync): string | null {
  const { user_version: done } = db.prepare('PRAGMA user_version').get() as { user_version: number }
  if (done < migrations.length) return null
  const made = new DatabaseSync(':memory:')
  try {
    for (const sql of migrations) made.exec(sql)
    const [right, found] = [readSchema(made), readSchema(db)]
    const name = [...new Set([...right.keys(), ...found.keys()])].find((one) => right.get(one) !== found.get(one))
    return name === undefined ? null : `The store is not as the signer made it: ${JSON.stringify(name.slice(0, 60))}.`
  } finally {
    made.close()
  }
}

/** Without what SQLite keeps for itself: its own indexes have no text, and tables of statistics are there after an ANALYZE. */
function readSchema(db: DatabaseSync): Map<string, string> {
  const rows = db.prepare(`SELECT type, name, tbl_name AS of, sql FROM sqlite_schema WHERE sql IS NOT NULL AND NOT (type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat4'))`).all() // prettier-ignore
  return new Map(
    (rows as Record<'type' | 'name' | 'of' | 'sql', string>[]).map(({ type, name, of, sql }) => [
      `${type} ${name}`,
      `${of} ${sql}`,
    ]),
  )
}
