import { strict as assert } from 'node:assert'
import { sql, type RawBuilder } from 'kysely'
import type { App } from '../../app.ts'
import type { Chain } from '../../chain/network.ts'
import { wordDigits } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import { retrying, type Db } from '../../store/db.ts'
import { prepared } from '../../store/prepared.ts'
import { gasStrategy } from './gas.ts'
import { feeDigits, writeFees, type Attempt, type Bound } from '../intent.ts'
import { keepAttempt } from '../attempts.ts'
import { NO_CLIENT, transactionRows } from '../rows.ts'
import { holdBack, isFar } from './queue.ts'
import { ledgerAttempts, reconcileNonce, toAttempt, valueOf, type NonceSlot } from '../recovery/reconcile.ts'
import { oncePer, together } from './group-commit.ts'
import { linkedBy, linkingOf } from './link.ts'
import { reach } from '../crash-points.ts'
import { tellSigned } from './unsigned.ts'

type StoredAttempt = { bound: Bound; attempt: Attempt }

/** Each member writes two rows: far below the portable transaction limits of 2,000 rows and 4 MiB. */
const LIMITS = { most: 256, mostBytes: 1_048_576, lanes: 1 }

/**
 * Stores the first bytes of an intent and its hash (commit 2), in one statement that many writes share. From then on
 * its idempotency key returns this hash. Storing the same bytes again, after a crash or by another replica, changes
 * nothing.
 * @returns whether to send the bytes to a node now; otherwise the keeper sends them when their turn comes
 * @throws database_unavailable
 */
export async function storeFirst(app: App, chain: Chain, bound: Bound, attempt: Attempt): Promise<boolean> {
  const hasOperations = bound.authorizations !== undefined && bound.authorizations !== null
  const stored = await (hasOperations
    ? storeOuter(app, chain, bound, attempt)
    : groupOf(app, chain)({ bound, attempt }))
  tellSigned(app, chain, bound.from)
  if (stored !== 'lost') return stored === 'due'
  await reconcileStored(app, bound)
  return !(await holdBack(app, chain, attempt.hash))
}

/**
 * Restores a row and these bytes from the ledger: the database was reset to an earlier state since the row was read.
 */
async function reconcileStored(app: App, bound: Bound): Promise<void> {
  assert(await reconcileNonce(app, bound), 'the ledger does not hold what it signed')
}

/** Stores a sponsor's transaction and links its operations in one statement. */
async function storeOuter(app: App, chain: Chain, bound: Bound, attempt: Attempt): Promise<StoreOutcome> {
  // If the statement fails, nothing is stored.
  await reach(app, 'in-store-outer')
  const linking = linkingOf(app, bound, attempt.hash)
  const links = linking === null ? null : linkedBy(linking, sql`exists (select 1 from signed)`)
  return (await insertFirst(app, chain, [{ bound, attempt }], links))[0]!
}

/** Result of storing. `queued`: too many lower nonces of the account are open. `lost`: the row no longer exists. */
type StoreOutcome = 'due' | 'queued' | 'lost'

const groupOf = oncePer('commits of first bytes', (app, chain) =>
  together(app.clock, LIMITS, sizeOf, (members: StoredAttempt[]) => insertFirst(app, chain, members, null)),
)

const sizeOf = ({ attempt }: StoredAttempt): number => attempt.raw.length + 512

/**
 * Stores first bytes. Sets `broadcast_at` here instead of after the broadcast, which saves a commit: a process is about
 * to send them. The keeper sends queued bytes.
 * @param links  parts to add to the statement
 */
async function insertFirst(
  app: App,
  chain: Chain,
  members: StoredAttempt[],
  links: RawBuilder<unknown> | null,
): Promise<StoreOutcome[]> {
  const at = new Date(app.clock.wall()).toISOString()
  const rows = members.map(({ bound, attempt: { raw, hash, gas, fees } }) => ({
    id: bound.id,
    nonce: bound.nonce,
    hash: hash.slice(2),
    raw: raw.slice(2),
    value: wordDigits(bound.value),
    gas_limit: Number(gas),
    ...feeDigits(fees),
    // Omit the hash, which equals that of the first attempt (transitions.ts).
    transition: [{ state: 'SUBMITTED', at }],
  }))
  const { rows: there } = await sql<{ id: string; is_far: boolean }>`${prepared}
    with signed as (
      select members.id, decode(members.hash, 'hex') as hash, decode(raw, 'hex') as raw, members.gas_limit, decode(members.max_fee, 'hex') as max_fee,
        decode(members.max_priority_fee, 'hex') as max_priority_fee, decode(members.value, 'hex') as value, transition,
        bound.sender, bound.nonce, ${isFar(app, 'bound')} as is_far
      from json_to_recordset(${JSON.stringify(rows)}::json)
        as members (id text, nonce bigint, hash text, raw text, value text, gas_limit bigint, max_fee text, max_priority_fee text, transition jsonb)
        join transactions bound on bound.id = members.id and bound.nonce = members.nonce
    ), kept as (
      insert into attempts (chain_id, hash, transaction_id, raw, gas_limit, max_fee, max_priority_fee, created_block, broadcast_at, queued_sender, queued_nonce)
      select ${chain.chainId}::bigint, hash, id, raw, gas_limit, max_fee, max_priority_fee, ${chain.head.current()?.number ?? null}::bigint, now(),
        case when is_far then sender end, case when is_far then nonce end
      from signed order by hash
      on conflict (chain_id, hash) do nothing
    ), moved as (
      ${transactionRows.updating('storeFirst', {
        // Since these bytes were signed, another request with the key may have claimed the row with its own amount.
        set: sql`hash = signed.hash, value = signed.value, gas_limit = signed.gas_limit, max_fee = signed.max_fee, max_priority_fee = signed.max_priority_fee,
          transitions = transactions.transitions || signed.transition, updated_at = now()`,
        from: sql`from signed`,
        where: sql`transactions.id = signed.id`,
      })}
    )
    ${links === null ? sql`` : sql`, ${links}`}
    select id, is_far from signed`.execute(app.db)
  const stored = new Map(there.map(({ id, is_far }) => [id, is_far ? 'queued' : 'due'] as const))
  return members.map(({ bound: { id } }) => stored.get(id) ?? 'lost')
}

/**
 * Stores the cancellation that fills the nonce of an intent without bytes. The intent's idempotency key becomes free:
 * the intent can never be signed now, and its caller never got a hash. The transaction belongs to no application.
 */
export async function storeFill(app: App, chain: Chain, bound: Bound, attempt: Attempt): Promise<void> {
  await storeLater(app, chain, bound, attempt, (db) =>
    transactionRows
      .update(db, 'storeFill', stepOf(app, attempt))
      .set({ is_cancel: true, client_id: NO_CLIENT, ...newest(chain, bound, attempt) })
      .where('id', '=', bound.id)
      .execute(),
  )
}

/**
 * Stores a fee bump or a cancellation, even if the transaction has been mined, because its hash may still be requested.
 * An attempt that is stored after a later-signed one does not become the newest: the ledger signs only attempts that
 * outbid all earlier ones.
 */
export async function storeReplacement(app: App, chain: Chain, bound: Bound, attempt: Attempt): Promise<void> {
  const maxFee = writeFees(attempt.fees).max_fee
  await storeLater(app, chain, bound, attempt, (db) =>
    transactionRows
      .update(db, 'storeReplacement', stepOf(app, attempt))
      .set({ ...newest(chain, bound, attempt), ...(attempt.isCancel ? { is_cancel: true } : {}) })
      .where('id', '=', bound.id)
      .where('hash', 'is distinct from', fromHex(attempt.hash))
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('attempts')
              .select('hash')
              .where('transaction_id', '=', bound.id)
              .where('chain_id', '=', chain.chainId)
              .where('max_fee', '>', maxFee),
          ),
        ),
      )
      .execute(),
  )
}

/** Stores the bytes and updates their row. The row is locked first, so that concurrent calls see each other's bytes. */
async function storeLater(
  app: App,
  chain: Chain,
  bound: Bound,
  attempt: Attempt,
  move: (db: Db) => Promise<unknown>,
): Promise<void> {
  const isThere = await retrying(() =>
    app.db.transaction().execute(async (db) => {
      const row = await db
        .selectFrom('transactions')
        .select('id')
        .where('id', '=', bound.id)
        .where('nonce', '=', bound.nonce)
        .forUpdate()
        .executeTakeFirst()
      if (row === undefined) return false
      await keepAttempt(db, chain, bound.id, attempt)
      await move(db)
      return true
    }),
  )
  if (!isThere) await reconcileStored(app, bound)
}

const stepOf = ({ clock }: App, { hash }: Attempt) => ({ at: new Date(clock.wall()).toISOString(), hash })

const newest = (chain: Chain, bound: Bound, attempt: Attempt) => ({
  reserved: String(gasStrategy(chain).reserve(bound, attempt)),
  hash: fromHex(attempt.hash),
  updated_at: sql<Date>`now()`,
})

/**
 * Stores all attempts that the signer's ledger has for an intent, in case the database lacks some: bytes signed before
 * a crash or by another process. Safe to repeat, and safe while others store the same attempts.
 * @returns the oldest and the newest attempt; null if nothing is signed, or if the intent is signed under another
 *   nonce. In that case the row of that nonce is restored, and this row no longer has the intent.
 * @throws signer_unavailable, database_unavailable
 */
export async function reconcileBound(
  app: App,
  chain: Chain,
  bound: Bound,
): Promise<{ first: Attempt; newest: Attempt } | null> {
  const attempts = await ledgerAttempts(app, { intentId: bound.id })
  const [signed] = attempts
  if (signed !== undefined && !isAt(signed, bound)) {
    await reconcileNonce(app, signed)
    return null
  }
  const [first, ...later] = attempts.map(toAttempt).toReversed()
  if (first === undefined) return null
  // The row may have the values of another request with the key; the ledger has the signed values.
  const signedFor = { ...bound, ...valueOf(attempts.at(-1)!) }
  await (first.isCancel ? storeFill : storeFirst)(app, chain, signedFor, first)
  for (const attempt of later) await storeReplacement(app, chain, bound, attempt)
  return { first, newest: later.at(-1) ?? first }
}

const isAt = ({ chainId, from, nonce }: NonceSlot, bound: NonceSlot): boolean =>
  chainId === bound.chainId && from === bound.from && nonce === bound.nonce
