import { sql, type RawBuilder } from 'kysely'
import type { App } from '../../app.ts'
import { AppError } from '../../errors.ts'
import type { Hex } from '../../ids.ts'
import { fromHex, toHex } from '../../hex.ts'
import type { Db } from '../../store/db.ts'
import { isAgo } from './stop-lane.ts'

/** Code of a problem that prevents a write from being mined, as a keeper found it. */
export type TroubleCode =
  | 'insufficient_funds'
  | 'fee_cap_reached'
  | 'fee_too_low_for_market'
  | 'policy_denied'
  | 'account_frozen'
  | 'application_suspended'
  | 'rejected_by_nodes'
  | 'nonce_used_elsewhere'
  | 'node_unreachable'
  | 'signer_unavailable'
/** Refusals by the signer's rules. They last longer than a round, and do not depend on earlier signatures. */
const DENIALS = ['policy_denied', 'account_frozen', 'application_suspended'] as const satisfies TroubleCode[]
export type Denial = (typeof DENIALS)[number]

/** Returns the refusal by the signer's rules; null for any other failure. */
export const denialOf = (error: unknown): Denial | null =>
  (error instanceof AppError && DENIALS.find((code) => code === error.code)) || null

export type Trouble = { code: TroubleCode; detail: string }

type NonceOfAccount = { chainId: number; from: Hex; nonce: number }

/** Returns SQL for: a higher fee may help. It does not if nodes reject the bytes, or count the nonce as used. */
export const mayBeCured = (trouble: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`coalesce(${trouble}, '') not in ('rejected_by_nodes', 'nonce_used_elsewhere')`

/** seconds until the next check of a write after a check that changed nothing; doubled each time */
const FIRST_PAUSE_SECONDS = 10
export const MAX_PAUSE_SECONDS = 300

/**
 * Claims writes for a check, each for one replica, by moving the time of its next check. If the process dies, its
 * writes are checked at that time. New bytes are due immediately, unless a higher fee cannot help.
 * @param writes  with the hash of each one's newest attempt
 * @returns the writes that were due, with the problem that the last check found
 */
export async function takeLooks(
  db: Db,
  chainId: number,
  writes: { from: Hex; nonce: number; hash: Hex }[],
): Promise<{ from: Hex; nonce: number; trouble: Trouble | null }[]> {
  const asked = JSON.stringify(
    writes.map(({ from, nonce, hash }) => ({ sender: from.slice(2), nonce, hash: hash.slice(2) })),
  )
  const isNew = sql<boolean>`(waits.hash is distinct from excluded.hash and ${mayBeCured(sql.ref('waits.trouble'))})`
  const pause = sql<number>`case when waits.due_at is null or ${isNew} then ${FIRST_PAUSE_SECONDS}::int
    else least(waits.pause_seconds * 2, ${MAX_PAUSE_SECONDS}::int) end`
  // Lock in the order of the key, so that two replicas cannot deadlock.
  const { rows } = await sql<{ sender: Uint8Array; nonce: number; trouble: TroubleCode | null; detail: string | null }>`
    insert into waits (chain_id, sender, nonce, hash, due_at, pause_seconds)
    select ${chainId}::bigint, decode(sender, 'hex'), nonce, decode(hash, 'hex'),
      now() + make_interval(secs => ${FIRST_PAUSE_SECONDS}::int), ${FIRST_PAUSE_SECONDS}::int
    from json_to_recordset(${asked}::json) as asked (sender text, nonce bigint, hash text)
    order by sender, nonce
    on conflict (chain_id, sender, nonce) do update
      set hash = excluded.hash, due_at = now() + make_interval(secs => ${pause}), pause_seconds = ${pause}
      where waits.due_at is null or ${isAgo(sql.ref('waits.due_at'), 0, MAX_PAUSE_SECONDS)} or ${isNew}
    returning sender, nonce, trouble, detail`.execute(db)
  return rows.map(({ sender, nonce, trouble, detail }) => ({
    from: toHex(sender),
    nonce,
    trouble: trouble === null ? null : { code: trouble, detail: detail ?? '' },
  }))
}

/**
 * Releases checks that failed for a reason outside the row: the writes are due again immediately, with that reason
 * recorded.
 */
export async function giveBackLooks(
  db: Db,
  chainId: number,
  places: { from: Hex; nonce: number }[],
  trouble: Trouble,
): Promise<void> {
  if (places.length === 0) return
  await noteTroubles(
    db,
    chainId,
    places.map((place) => ({ ...place, trouble })),
  )
  // Lock in the order of the key, as for claims.
  await sql`
    update waits set due_at = null from (
      select w.sender, w.nonce from waits w
      join json_to_recordset(${keysOf(places)}::json) as asked (sender text, nonce bigint)
        on w.sender = decode(asked.sender, 'hex') and w.nonce = asked.nonce
      where w.chain_id = ${chainId}::bigint order by w.sender, w.nonce for update of w) as mine
    where waits.chain_id = ${chainId}::bigint and waits.sender = mine.sender and waits.nonce = mine.nonce`.execute(db)
}

const keysOf = (places: { from: Hex; nonce: number }[]): string =>
  JSON.stringify(places.map(({ from, nonce }) => ({ sender: from.slice(2), nonce })))

/** Records the problems of writes, or that a write has none. Does not rewrite a problem that is already recorded. */
export async function noteTroubles(
  db: Db,
  chainId: number,
  notes: { from: Hex; nonce: number; trouble: Trouble | null }[],
): Promise<void> {
  if (notes.length === 0) return
  const rows = notes.map(({ from, nonce, trouble }) => ({
    sender: from.slice(2),
    nonce,
    trouble: trouble?.code ?? null,
    detail: trouble?.detail ?? null,
  }))
  await sql`
    insert into waits (chain_id, sender, nonce, trouble, detail, since)
    select ${chainId}::bigint, decode(asked.sender, 'hex'), asked.nonce, asked.trouble, asked.detail, now()
    from json_to_recordset(${JSON.stringify(rows)}::json) as asked (sender text, nonce bigint, trouble text, detail text)
    left join waits known on known.chain_id = ${chainId}::bigint and known.sender = decode(asked.sender, 'hex') and known.nonce = asked.nonce
    where (known.trouble, known.detail) is distinct from (asked.trouble, asked.detail)
    order by asked.sender, asked.nonce
    on conflict (chain_id, sender, nonce) do update set trouble = excluded.trouble, detail = excluded.detail,
      since = case when waits.trouble is distinct from excluded.trouble then now() else waits.since end,
      alarmed_at = case when waits.trouble is distinct from excluded.trouble then null else waits.alarmed_at end`.execute(
    db,
  )
}

/** longest interval in seconds between two broadcasts of refused bytes; the first interval is 1 s, then it doubles */
const MAX_RESEND_SECONDS = 60

/**
 * Counts a node's refusal of a write's newest bytes, and delays their next broadcast.
 * @returns consecutive refusals
 */
export async function countRefusal(db: Db, { chainId, from, nonce }: NonceOfAccount): Promise<number> {
  const pause = sql`least(1 << least(waits.refusals, 6), ${MAX_RESEND_SECONDS}::int)`
  const { rows } = await sql<{ refusals: number }>`
    insert into waits (chain_id, sender, nonce, refusals, resend_at)
    values (${chainId}::bigint, ${fromHex(from)}::bytea, ${nonce}::bigint, 1, now() + interval '1 second')
    on conflict (chain_id, sender, nonce) do update set refusals = waits.refusals + 1, resend_at = now() + make_interval(secs => ${pause})
    returning refusals`.execute(db)
  return rows[0]!.refusals
}

/** SQL for: bytes that a node refused still wait for their next broadcast. The alias of `waits` is `w`. */
export const isPaused = sql<boolean>`(w.resend_at is not null and not ${isAgo(sql.ref('w.resend_at'), 0, MAX_RESEND_SECONDS)})`

/** Problems that end as soon as a node accepts the bytes. */
const OF_REFUSALS = sql`('rejected_by_nodes', 'fee_too_low_for_market')`

/** SQL for: a node refused bytes that it may accept now. The alias of `waits` is `w`. */
export const wasRefused = sql<boolean>`(w.refusals > 0 or coalesce(w.trouble, '') in ${OF_REFUSALS})`

/** Clears the refusals of a write whose newest bytes a node has accepted. */
export async function forgetRefusals(db: Db, { chainId, from, nonce }: NonceOfAccount): Promise<void> {
  await sql`
    update waits w set refusals = 0, resend_at = null,
      trouble = case when w.trouble in ${OF_REFUSALS} then null else w.trouble end,
      detail = case when w.trouble in ${OF_REFUSALS} then null else w.detail end
    where w.chain_id = ${chainId}::bigint and w.sender = ${fromHex(from)}::bytea and w.nonce = ${nonce}::bigint and ${wasRefused}`.execute(
    db,
  )
}

/**
 * Makes the next check of a write due, and allows a fee bump however new the bytes are. A null hash means that no
 * attempt was checked.
 */
export async function raiseAtOnce(db: Db, { chainId, from, nonce }: NonceOfAccount): Promise<void> {
  await sql`
    update waits set hash = null, due_at = now()
    where chain_id = ${chainId}::bigint and sender = ${fromHex(from)}::bytea and nonce = ${nonce}::bigint`.execute(db)
}

/** SQL for: `raiseAtOnce` requested a fee bump. The alias of `waits` is `w`. */
export const isAskedFor = sql<boolean>`(w.trouble in ('fee_too_low_for_market', 'rejected_by_nodes') and w.hash is null and w.due_at <= now())`

/** Returns the recorded problem of a write. */
export async function readTrouble(db: Db, { chainId, from, nonce }: NonceOfAccount): Promise<Trouble | null> {
  const known = await db
    .selectFrom('waits')
    .select(['trouble', 'detail'])
    .where('chain_id', '=', chainId)
    .where('sender', '=', fromHex(from))
    .where('nonce', '=', nonce)
    .executeTakeFirst()
  return known?.trouble ? { code: known.trouble as TroubleCode, detail: known.detail ?? '' } : null
}

/** seconds for which nodes reject a write before an operator is alerted */
const ALARM_AFTER_SECONDS = 60

/**
 * Records that nodes reject a write. After a minute of rejections, alerts the operator once.
 * @param said  a node's message
 */
export async function noteRejected(
  app: App,
  { id, chainId, from, nonce }: NonceOfAccount & { id: string },
  said: string,
): Promise<void> {
  await noteTroubles(app.db, chainId, [{ from, nonce, trouble: rejectedBy(said) }])
  const told = await app.db
    .updateTable('waits')
    .set({ alarmed_at: sql`now()` })
    .where('chain_id', '=', chainId)
    .where('sender', '=', fromHex(from))
    .where('nonce', '=', nonce)
    .where('alarmed_at', 'is', null)
    .where(isAgo(sql.ref('since'), ALARM_AFTER_SECONDS))
    .returning('nonce')
    .executeTakeFirst()
  if (told !== undefined) rejected(app, { chainId, id, sender: from, nonce, said })
}

const rejectedBy = (said: string): Trouble => ({
  code: 'rejected_by_nodes',
  detail: `Nodes of the network reject this transaction: "${said}". The gas limit is being estimated again.`,
})

/** Records that a node reports the nonce of a write as used, which is not proven yet. */
export const noteUsed = (app: App, { chainId, from, nonce }: NonceOfAccount): Promise<void> =>
  noteTroubles(app.db, chainId, [{ from, nonce, trouble: USED }])

export const USED: Trouble = {
  code: 'nonce_used_elsewhere',
  detail: 'A node reports this nonce as used, and no final block has the transaction yet.',
}

/** Returns whether nodes rejected the newest bytes of a write. */
export const isRejected = async (db: Db, of: NonceOfAccount): Promise<boolean> =>
  (await readTrouble(db, of))?.code === 'rejected_by_nodes'

/** Deletes the records of nonces that are not open. */
export async function sweepWaits(db: Db, chainId: number): Promise<void> {
  await sql`
    delete from waits where chain_id = ${chainId}::bigint and not exists (
      select 1 from transactions t where t.chain_id = waits.chain_id and t.sender = waits.sender and t.nonce = waits.nonce
        and t.state in ('BOUND', 'SUBMITTED'))`.execute(db)
}

/** Logs an alarm: nodes reject a write, and the account's later writes wait behind it. */
function rejected(
  { telemetry }: App,
  fields: { chainId: number; id: string; sender: Hex; nonce: number; said: string },
): void {
  telemetry.log.error('transaction_rejected', fields)
}
