import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { every } from '../../clock.ts'
import { AppError } from '../../errors.ts'
import { fromHex } from '../../hex.ts'
import { retrying, type Db } from '../../store/db.ts'
import type { RecalledSince } from '../../signer-wire/wire.ts'
import { byteaArray } from '../../store/bytea-array.ts'
import { isolateRowErrors } from './recover.ts'
import { reconcileNonce } from './reconcile.ts'
import { reconcileIntent } from './reconcile-operation.ts'
import { slot } from '../../state.ts'

/** milliseconds between two comparisons of the database with the ledger */
const LOOK_MS = 1_000
/** maximum milliseconds that a write waits for a comparison */
const PATIENCE_MS = 5_000

export type Replay = {
  /** Compares now. Resolves when the database has everything that the ledger had at the start of the comparison. */
  look(): Promise<void>
  /**
   * Reports that the database was unavailable, and may be an older copy now: nothing new is bound until the next
   * comparison is done.
   */
  suspect(): void
  stop(): Promise<void>
}

type ReplayState = Replay & { isTrusted(): boolean }

const replays = slot('the replay of the ledger', (_app: App): { replay: ReplayState | null } => ({ replay: null }))

/**
 * Restores signatures that only the signer's ledger has, since the ledger is never rolled back. A signature without a
 * bound row and without stored bytes was lost, by a failover to a lagging replica or by a restore.
 * The position of the comparison is stored in the database. A restore also resets it, so a loss needs no detection. Any
 * number of replicas may compare; they share the position.
 * Nothing before the position can be missing: an intent is bound and committed before it is signed. So if one commit is
 * present, so are the rows of everything signed before it. A row without bytes is left to `recoverBound`.
 */
export function startReplay(app: App): Replay {
  // Counts losses of the database. A comparison that finishes records the count at its start. The start counts as a
  // loss.
  let losses = 1
  let looked = 0

  async function work(): Promise<void> {
    const before = losses
    await catchUpWithLedger(app)
    looked = before
  }

  const failed = (error: unknown) => app.telemetry.log.warn('replay_failed', { isTrusted: state.isTrusted() }, error)
  const rounds = every(app.clock, LOOK_MS, work, failed)

  const state: ReplayState = {
    look: rounds.round,
    suspect: () => {
      losses++
      void rounds.round().catch(failed)
    },
    isTrusted: () => looked === losses,
    stop: async () => {
      await rounds.stop()
      replays.of(app).replay = null
    },
  }
  replays.of(app).replay = state
  void rounds.round().catch(failed)
  return state
}

/**
 * Waits before a new write is bound. Resolves immediately, except at the start and after the database was unavailable:
 * then it waits until all signatures have been restored. In a process without a replay it does not wait.
 * @throws database_unavailable  if that takes longer than 5 s
 */
export async function untilReplayed(app: App): Promise<void> {
  const { replay } = replays.of(app)
  if (replay === null || replay.isTrusted()) return
  const { clock } = app
  const endsAt = clock.ticks() + PATIENCE_MS
  while (!replay.isTrusted()) {
    const { promise: patience, reject } = Promise.withResolvers<never>()
    const timer = clock.after(Math.max(0, endsAt - clock.ticks()), () => reject(notYet()))
    try {
      await Promise.race([replay.look(), patience])
    } catch (error) {
      throw error instanceof AppError ? error : notYet(error)
    } finally {
      timer.cancel()
    }
  }
}

const notYet = (cause?: unknown): AppError =>
  new AppError(
    'database_unavailable',
    'Writes older than the database outage are being restored from the signer’s ledger. Nothing was sent. Retry.',
    {
      retryAfter: 2,
      ...(cause === undefined ? {} : { cause }),
    },
  )

/**
 * Compares page by page to the end of the ledger. A record that cannot be restored, although everything is available,
 * delays no write: the cursor remains below it, and each comparison tries again.
 * @throws signer_unavailable, database_unavailable
 */
async function catchUpWithLedger(app: App): Promise<void> {
  const tries = new Map<number, number>()
  /** position of the next request; null while that is the cursor */
  let ahead: LedgerCursor | null = null
  for (;;) {
    const cursor: LedgerCursor = ahead ?? (await readLedgerCursor(app.db))
    const page = await app.signer.recallSince({ after: cursor.seq })
    if (page.record !== cursor.record) {
      // The ledger is not the one compared so far: an older copy was accepted, or it is new.
      app.telemetry.log.warn('ledger_reconciled', { seq: cursor.seq })
      if (ahead === null) await moveCursor(app, cursor, { seq: 0, record: NOTHING }, { signatures: [], operations: [] })
      ahead = null
      continue
    }
    const lost: RecalledSignature[] | null =
      ahead === null ? await moveCursor(app, cursor, page.through, page) : await findLost(app.db, page)
    if (lost === null) continue
    const open = lost.filter(({ seq }) => (tries.get(seq) ?? 0) < MAX_TRIES)
    if (open.length > 0) {
      await takeInAll(app, open)
      // Compare the whole page again: the cursor passes only records that the database has.
      for (const { seq } of open) tries.set(seq, (tries.get(seq) ?? 0) + 1)
      continue
    }
    for (const signature of lost) notTakenIn(app, signature)
    if (page.isEnd) return
    if (lost.length > 0 || ahead !== null) ahead = page.through
  }
}

const MAX_TRIES = 3

/** Logs an alarm for an operator: a signature in the ledger cannot be restored to the database. */
function notTakenIn({ telemetry }: App, { chainId, intentId: id, from: sender, nonce, hash }: RecalledSignature): void {
  telemetry.log.error('transaction_restore_failed', { chainId, id, sender, nonce, hash })
}

/** accounts restored at a time: writes wait for the restoration, and each nonce is a commit */
const LANES = 8

/**
 * Restores records, per account in the order of the ledger, several accounts at a time.
 * @throws signer_unavailable, database_unavailable
 */
async function takeInAll(app: App, lost: RecalledSignature[]): Promise<void> {
  const accounts = Map.groupBy(lost, ({ from }) => from).values()
  const results = await Promise.allSettled(
    Array.from({ length: LANES }, async () => {
      for (const slots of accounts)
        for (const slot of slots) await isolateRowErrors(app, { id: slot.intentId }, () => restoreLost(app, slot))
    }),
  )
  // All have to end before the next comparison may start.
  for (const result of results) if (result.status === 'rejected') throw result.reason
}

/** Hash that the ledger reports for record 0. */
const NOTHING = '0'.repeat(64)

type LedgerCursor = { seq: number; record: string }

const readLedgerCursor = (db: Db): Promise<LedgerCursor> =>
  db.selectFrom('ledger_cursor').select(['seq', 'record']).executeTakeFirstOrThrow()

/**
 * Moves the cursor past signatures that the database has. The check and the move are one transaction, so both see the
 * same database, even during a failover to an older copy.
 * @returns the missing signatures, with the cursor unchanged; null if another replica has moved the cursor
 */
async function moveCursor(
  { db: root }: App,
  from: LedgerCursor,
  to: LedgerCursor,
  over: RecalledPage,
): Promise<RecalledSignature[] | null> {
  return retrying(() =>
    root.transaction().execute(async (db) => {
      const held = await db.selectFrom('ledger_cursor').select(['seq', 'record']).forUpdate().executeTakeFirstOrThrow()
      if (held.seq !== from.seq || held.record !== from.record) return null
      const lost = await findLost(db, over)
      if (lost.length > 0 || to.seq === from.seq) return lost
      await db
        .updateTable('ledger_cursor')
        .set({ ...to, updated_at: sql`now()` })
        .execute()
      return []
    }),
  )
}

type RecalledPage = Pick<RecalledSince, 'signatures' | 'operations'>
type RecalledOperations = RecalledSince['operations']
type RecalledSignature = RecalledSince['signatures'][number] | LostOperation
/** A lost operation, which has no nonce. `hash` is the hash that its account signed. */
type LostOperation = RecalledOperations[number] & { nonce?: undefined }

const restoreLost = (app: App, lost: RecalledSignature): Promise<unknown> =>
  lost.nonce === undefined
    ? reconcileIntent(app, lost, lost.intentId)
    : reconcileNonce(app, { chainId: lost.chainId, from: lost.from, nonce: lost.nonce })

/**
 * Returns the signatures that the database lacks: no attempt has the hash, and no row of that nonce is bound under that
 * id. Uses three primary keys.
 * Another process may store bytes between two statements, so signatures without a bound row are searched among the
 * stored ones again. Inside a transaction.
 */
async function findLost(db: Db, { signatures, operations }: RecalledPage): Promise<RecalledSignature[]> {
  const unknown = await withoutStored(db, signatures)
  const lost = await withoutStored(db, await withoutBound(db, unknown))
  // Put operations first, so that their transactions can be linked to them.
  return [...(await withoutRow(db, operations)), ...lost]
}

/** Returns the operations that have no row with their id and number on their network. */
async function withoutRow(db: Db, operations: RecalledOperations): Promise<LostOperation[]> {
  if (operations.length === 0) return []
  const rows = await db
    .selectFrom('operations')
    .select(['id', 'chain_id', 'sequence'])
    .where(
      'id',
      'in',
      operations.map(({ intentId }) => intentId),
    ) // prettier-ignore
    .execute()
  const known = new Map(rows.map((row) => [row.id, row]))
  return operations.filter(({ intentId, chainId, sequence }) => {
    const row = known.get(intentId)
    return row?.chain_id !== chainId || row.sequence !== Number(sequence)
  })
}

type RecalledTransaction = RecalledSince['signatures'][number]

async function withoutStored(db: Db, signatures: RecalledTransaction[]): Promise<RecalledTransaction[]> {
  if (signatures.length === 0) return []
  const { rows } = await sql<{ hash: Uint8Array; chain_id: number }>`
    select attempts.hash, attempts.chain_id from attempts join transactions on transactions.id = attempts.transaction_id
    where attempts.chain_id in (${sql.join([...new Set(signatures.map(({ chainId }) => chainId))])})
      and attempts.hash = any(${byteaArray(signatures.map(({ hash }) => hash))})`.execute(db)
  const stored = new Set(rows.map(({ hash, chain_id }) => `${chain_id} ${Buffer.from(hash).toString('hex')}`))
  return signatures.filter(({ chainId, hash }) => !stored.has(`${chainId} ${hash.slice(2)}`))
}

async function withoutBound(db: Db, signatures: RecalledTransaction[]): Promise<RecalledTransaction[]> {
  if (signatures.length === 0) return []
  const rows = await db
    .selectFrom('transactions')
    .select(['id', 'chain_id', 'sender', 'nonce'])
    .where('id', 'in', [...new Set(signatures.map(({ intentId }) => intentId))])
    .where('state', '=', 'BOUND')
    .execute()
  const bound = new Map(rows.map((row) => [row.id, row]))
  return signatures.filter(({ intentId, chainId, from, nonce }) => {
    const row = bound.get(intentId)
    return row?.chain_id !== chainId || row.nonce !== nonce || !fromHex(from).equals(Buffer.from(row.sender))
  })
}
