import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { AppError } from '../errors.ts'
import type { Logger } from '../log.ts'
import { retrying, type Db, type RootDb } from '../store/db.ts'
import type { ConsoleRole } from './operators.ts'
import type { OperatorAction, VerifiedActions } from './wire.ts'

/**
 * The actor: the name of an operator's token, the OS user who runs a command, or the identity of a console operator with
 * its role.
 */
export type Actor = { name: string; log?: Logger } & (
  | { via: 'api' | 'command' }
  | { via: 'console'; role: ConsoleRole }
)

type ReadState = (db: Db) => Promise<object | null>

const MAX_PAGE = 200

/**
 * Does something and records who did it, in one transaction: neither exists without the other. Rejected actions are
 * not recorded.
 * @param target  what it is done to; a function of the result, if it does not exist before
 * @param look    reads the target before and after; never a secret, because rows are permanent
 */
export async function recorded<T>(
  root: RootDb,
  by: Actor,
  {
    action,
    target,
    look,
  }: { action: string; target: string | ((done: T) => string); look?: (of: string) => ReadState },
  work: (db: RootDb) => Promise<T>,
): Promise<T> {
  const { done, row } = await retrying(() =>
    root.transaction().execute(async (db) => {
      const before = typeof target === 'string' ? await look?.(target)(db).catch(nothing) : null
      const done = await work(db)
      const of = typeof target === 'string' ? target : target(done)
      const after = (await look?.(of)(db)) ?? null
      const changed = differences(before ?? null, after)
      return { done, row: await append(db, { actor: by.name, via: by.via, action, target: of, ...changed }) }
    }),
  )
  // An attacker with write access to the database could replace the chain. The log, which leaves the machine, has each
  // record.
  const { actor, via, seq, record } = row
  by.log?.warn('operator_acted', { actor, via, action, target: row.target, seq, record })
  return done
}

/** Returns null for a target that does not exist yet. */
function nothing(error: unknown): null {
  if (error instanceof AppError && error.code === 'not_found') return null
  throw error
}

/** Lists actions with a number below `before`, newest first. */
export async function listActions(
  db: RootDb,
  { before = Number.MAX_SAFE_INTEGER, limit = MAX_PAGE }: { before?: number; limit?: number } = {},
): Promise<OperatorAction[]> {
  const rows = await db
    .selectFrom('operator_actions')
    .selectAll()
    .where('seq', '<', before)
    .orderBy('seq', 'desc')
    .limit(Math.min(limit, MAX_PAGE))
    .execute()
  return rows.map((row) => ({
    seq: row.seq,
    at: row.at.toISOString(),
    actor: row.actor,
    via: row.via,
    action: row.action,
    target: row.target,
    before: row.before === null ? null : (JSON.parse(row.before) as Record<string, unknown>),
    after: row.after === null ? null : (JSON.parse(row.after) as Record<string, unknown>),
    record: hexOf(row.record),
  }))
}

/**
 * Verifies the whole chain.
 * @returns the number of valid actions, the newest valid record, and the number of the first wrong action, or null
 */
export async function verifyActions(db: RootDb): Promise<VerifiedActions> {
  let previous: Uint8Array = new Uint8Array(32)
  let last = 0
  // Start below the first number, to find rows that were inserted before it.
  for (let after = Number.MIN_SAFE_INTEGER; ; after = last) {
    const rows = await db
      .selectFrom('operator_actions')
      .selectAll()
      .where('seq', '>', after)
      .orderBy('seq')
      .limit(MAX_PAGE)
      .execute()
    for (const row of rows) {
      const record = recordOf(previous, row)
      if (row.seq !== last + 1 || hexOf(record) !== hexOf(row.record))
        return { actions: last, newest: hexOf(previous), firstWrong: Math.min(row.seq, last + 1) }
      previous = record
      last = row.seq
    }
    if (rows.length < MAX_PAGE) break
  }
  const head = await db.selectFrom('operator_head').selectAll().executeTakeFirst()
  // The newest rows were deleted.
  const isCut = (head?.seq ?? 0) !== last || (head !== undefined && hexOf(head.record) !== hexOf(previous))
  return { actions: last, newest: hexOf(previous), firstWrong: isCut ? last + 1 : null }
}

type Written = {
  seq: number
  at: Date
  actor: string
  via: string
  action: string
  target: string
  before: string | null
  after: string | null
}

async function append(db: Db, said: Omit<Written, 'seq' | 'at'>): Promise<Written & { record: string }> {
  const start = { id: 1, seq: 0, record: Buffer.alloc(32) }
  await db
    .insertInto('operator_head')
    .values(start)
    .onConflict((on) => on.doNothing())
    .execute()
  const { at, ...head } = await db
    .selectFrom('operator_head')
    .selectAll()
    .select(sql<Date>`clock_timestamp()`.as('at'))
    .forUpdate()
    .executeTakeFirstOrThrow()
  // The time has milliseconds, as when it is read back.
  const row = { ...said, seq: head.seq + 1, at } as Written
  const record = recordOf(head.record, row)
  await db
    .insertInto('operator_actions')
    .values({ ...row, record, via: row.via as Actor['via'] })
    .execute()
  await db.updateTable('operator_head').set({ seq: row.seq, record }).where('id', '=', 1).execute()
  return { ...row, record: hexOf(record) }
}

/**
 * Returns the hash of a record. It covers the previous record, so that no row can be changed, moved or deleted unseen.
 */
function recordOf(previous: Uint8Array, { seq, at, actor, via, action, target, before, after }: Written): Buffer {
  const text = JSON.stringify([seq, at.toISOString(), actor, via, action, target, before, after])
  return createHash('sha256').update(previous).update(text).digest()
}

/** Returns the fields that differ, as JSON. */
function differences(before: object | null, after: object | null): { before: string | null; after: string | null } {
  const [old, now] = [before, after].map((one) => (one ?? {}) as Record<string, unknown>)
  const keys = [...new Set([...Object.keys(old!), ...Object.keys(now!)])].filter(
    (key) => JSON.stringify(old![key]) !== JSON.stringify(now![key]),
  )
  const pick = (of: object | null, values: Record<string, unknown>) =>
    of === null
      ? null
      : JSON.stringify(Object.fromEntries(keys.filter((key) => key in values).map((key) => [key, values[key]])))
  return { before: pick(before, old!), after: pick(after, now!) }
}

const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
