/**
 * signing-log: newest head of the signer’s log, stored and published.
 * Owns: the newest signed head of the ledger, which every connection shows to the signer and which is published.
 * Does not own: the log itself (`signer/`), signatures that a database has lost (`transactions/recovery/replay.ts`).
 * Tables: signing_log_head.
 */

import type { App } from '../app.ts'
import { every } from '../clock.ts'
import { readSignedHead } from '../signer-wire/wire.ts'
import { AppError } from '../errors.ts'
import type { Db } from '../store/db.ts'

/** milliseconds between two writes: heads of this time are lost if the process is killed */
const LOOK_MS = 1_000

/** Loads the stored head for the first connection to the signer. Call it before any request to the signer. @throws database_unavailable */
export async function recallHead({ db, signer }: Pick<App, 'db' | 'signer'>): Promise<void> {
  const row = await db.selectFrom('signing_log_head').select('note').executeTakeFirst()
  if (row !== undefined) signer.rememberHead(row.note)
}

export type KeptHead = {
  /** the identity of the signer */ origin: string
  size: number
  /** ISO 8601 */ at: string
  note: string
}

/** Reads the stored head. @returns null if there is none @throws database_unavailable */
export async function readKeptHead(db: Db): Promise<KeptHead | null> {
  const row = await db.selectFrom('signing_log_head').selectAll().executeTakeFirst()
  return row === undefined ? null : { origin: row.origin, size: row.size, at: row.at.toISOString(), note: row.note }
}

/** Deletes the stored head, so that a signer with another identity is trusted. @throws not_found  if no head of this identity is stored */
export async function forgetHead(db: Db, origin: string): Promise<void> {
  const gone = await db
    .deleteFrom('signing_log_head')
    .where('origin', '=', origin)
    .returning('origin')
    .executeTakeFirst()
  if (gone === undefined)
    throw new AppError(
      'not_found',
      'The database has no signed head of this signer. Nothing was changed. List the heads with `signing-log show`.',
    )
}

/** Stores the newest head at most once a second, and when it is stopped. */
export function startHeadKeeper(app: App): { stop(): Promise<void> } {
  let kept: string | null = null
  let key: string | null = null
  let isLogged = false

  async function look(): Promise<void> {
    const head = app.signer.head()
    if (head === null || head === kept) return
    await keepHead(app, head)
    key ??= await app.signer.identity()
    await keepKey(app.db, key)
    kept = head
    isLogged = false
  }

  const { round, stop } = every(app.clock, LOOK_MS, () =>
    look().catch((error: unknown) => {
      if (!isLogged) app.telemetry.log.warn('head_not_stored', {}, error)
      isLogged = true
    }),
  )
  return {
    stop: async () => {
      await stop()
      await round()
    },
  }
}

/** Stores the key of the head's identity with it, for a start while the signer is unavailable. */
const keepKey = (db: Db, key: string) =>
  db
    .updateTable('signing_log_head')
    .set({ key })
    .where('origin', '=', key.slice(0, key.indexOf('+')))
    .where((where) => where.or([where('key', 'is', null), where('key', '<>', key)]))
    .execute()

/**
 * Stores a head unless the stored one, which another process may have written, is later or of another signer. Only an operator may
 * change the signer (`forgetHead`).
 * @throws database_unavailable
 */
export async function keepHead({ db, telemetry }: Pick<App, 'db' | 'telemetry'>, note: string): Promise<void> {
  const head = readSignedHead(note)
  if (head === null) return
  const { origin, size } = head
  const at = new Date(head.at)
  const before = await db.selectFrom('signing_log_head').select('origin').executeTakeFirst()
  // A process that knew no head has met a store that was created again. Raise an alarm, because an operator must check it.
  if (before !== undefined && before.origin !== origin) {
    telemetry.log.error('signer_identity_changed', { before: before.origin, now: origin })
    return
  }
  await db
    .insertInto('signing_log_head')
    .values({ only_row: 1, origin, size, at, note })
    .onConflict((on) =>
      on
        .column('only_row')
        .doUpdateSet({ size, at, note })
        .where('signing_log_head.at', '<=', at)
        .where('signing_log_head.origin', '=', origin),
    )
    .execute()
}
