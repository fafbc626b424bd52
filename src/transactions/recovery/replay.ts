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

/** milliseconds between two looks */
const LOOK_MS = 1_000
/** milliseconds that a write waits for a look that has to come first */
const PATIENCE_MS = 5_000

export type Replay = {
  /** a look now; resolves when the database holds all that the ledger held when it began */
  look(): Promise<void>
  /** the database was away, and may have come back older: nothing new is bound before the next look is done */
  suspect(): void
  stop(): Promise<void>
}

type ReplayState = Replay & { isTrusted(): boolean }

const replays = slot('the replay of the ledger', (_app: App): { replay: ReplayState | null } => ({ replay: null }))

/**
 * Keeps the database level with the signer's ledger, which nobody rolls back: what was signed and is not in the
 * database, with its row bound or its bytes stored, the database has lost (a failover to a replica that was behind, a
 * restore), and it is taken in again. How far the two were compared lies in the database and goes back with it, so
 * nobody needs to notice that it did. Any number of replicas may look; what one has compared, the next one finds done.
 *
 * Why what is older than the cursor is there: an intent is bound, and that is committed, before it is signed, so
 * whatever commit is there, the rows of everything signed before it are there too. A row without bytes is `recoverBound`'s.
 */
export function startReplay(app: App): Replay {
  // Losses that were noticed, and how many of them a finished look came after. The start is one.
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
 * Before anything new is bound: resolves immediately, except at the start and after the database was away only when everything
 * signed and unknown was taken in. In a process without a replay nothing is waited for.
 * @throws database_unavailable  when that takes longer than 5 s
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
 * Page by page to the end of the ledger. What cannot be taken in, for a reason that is not that something is away, keeps
 * nobody waiting; but the cursor stays below it, and it is tried again at each look.
 * @throws signer_unavailable, database_unavailable
 */
async function catchUpWithLedger(app: App): Promise<void> {
  const tries = new Map<number, number>()
  /** where the next question continues; the cursor itself until something is stuck */
  let ahead: LedgerCursor | null = null
  for (;;) {
    const cursor: LedgerCursor = ahead ?? (await readLedgerCursor(app.db))
    const page = await app.signer.recallSince({ after: cursor.seq })
    if (page.record !== cursor.record) {
      // Another ledger than the one it was compared with: an older copy was accepted for it, or it is a new one.
      app.telemetry.log.warn('ledger_compared_anew', { seq: cursor.seq })
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
      // Then all of the page is compared once more: only what is there is passed by.
      for (const { seq } of open) tries.set(seq, (tries.get(seq) ?? 0) + 1)
      continue
    }
    for (const signature of lost) notTakenIn(app, signature)
    if (page.isEnd) return
    if (lost.length > 0 || ahead !== null) ahead = page.through
  }
}

const MAX_TRIES = 3

/** Business event: the ledger holds a signature that cannot be restored into the database. Alarm: an operator has to look. */
function notTakenIn({ telemetry }: App, { chainId, intentId: id, from: sender, nonce, hash }: RecalledSignature): void {
  telemetry.log.error('transaction_not_taken_in', { chainId, id, sender, nonce, hash })
}

/** accounts that are taken in side by side: writes wait for this, and each nonce is a commit of its own */
const LANES = 8

/** Of one account in the order of the ledger, of several side by side. @throws signer_unavailable, database_unavailable */
async function takeInAll(app: App, lost: RecalledSignature[]): Promise<void> {
  const accounts = Map.groupBy(lost, ({ from }) => from).values()
  const results = await Promise.allSettled(
    Array.from({ length: LANES }, async () => {
      for (const slots of accounts)
        for (const slot of slots) await isolateRowErrors(app, { id: slot.intentId }, () => restoreLost(app, slot))
    }),
  )
  // All have ended before the next look may begin.
  for (const result of results) if (result.status === 'rejected') throw result.reason
}

/** What the ledger says of its record 0, in hexadecimal digits. */
const NOTHING = '0'.repeat(64)

type LedgerCursor = { seq: number; record: string }

const readLedgerCursor = (db: Db): Promise<LedgerCursor> =>
  db.selectFrom('ledger_cursor').select(['seq', 'record']).executeTakeFirstOrThrow()

/**
 * Moves the cursor over signatures that are all there. Looking and moving are one transaction: they speak of one and the
 * same database, also when it is replaced by an older one at this moment.
 * @returns the signatures that are not there, with the cursor left where it was; null when another replica moved it
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
/** An operation has no nonce; `hash` is what its account signed. */
type LostOperation = RecalledOperations[number] & { nonce?: undefined }

const restoreLost = (app: App, lost: RecalledSignature): Promise<unknown> =>
  lost.nonce === undefined
    ? reconcileIntent(app, lost, lost.intentId)
    : reconcileNonce(app, { chainId: lost.chainId, from: lost.from, nonce: lost.nonce })

/**
 * Of signatures, those that the database knows nothing of: no attempt of a row has the hash, and no row of that nonce
 * waits for bytes under that id. By three primary keys. Bytes may be stored between two statements: what waits for none
 * any more is looked for among the stored once more. Inside a transaction.
 */
async function findLost(db: Db, { signatures, operations }: RecalledPage): Promise<RecalledSignature[]> {
  const unknown = await withoutStored(db, signatures)
  const lost = await withoutStored(db, await withoutBound(db, unknown))
  // Operations first: what carried them finds them then.
  return [...(await withoutRow(db, operations)), ...lost]
}

/** Operations of which there is no row under their id and their number, on their network. */
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
