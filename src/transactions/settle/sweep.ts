import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { every, type Rounds } from '../../clock.ts'
import { retrying, type Db } from '../../store/db.ts'
import { sweepTopUps } from '../sponsors/gas-budget.ts'

/** days after finality for which the bytes of a write are stored; only a rewind needs older ones */
const KEPT_DAYS = 7
/** writes per database transaction; with their attempts, this is far below the portable limit of 2,000 rows */
const BATCH = 250
const DAY_MS = 86_400_000

type Swept = Pick<App, 'db' | 'chains' | 'telemetry' | 'clock'>

/** milliseconds between two rounds; each round drops everything that is due */
const EVERY_MS = 60_000

/**
 * Drops the signed bytes of writes that have been final for a week. They are not sent again, and are 10 % of a write's
 * storage. The hash, the request and the outcome remain.
 * If an operator rewinds that far, the keeper restores the bytes from the signer's ledger (keeper.ts), and the follower
 * verifies blocks without them.
 */
export function startByteSweep(app: Swept): Rounds {
  let isStopped = false

  async function work(): Promise<void> {
    await sweepTopUps(app.db)
    for (const chainId of app.chains.keys()) {
      for (let isMore = true; isMore && !isStopped;) {
        const since = app.clock.ticks()
        isMore = await dropBytes(app, chainId)
        // A backlog is not urgent: leave half of a connection's time to others, because the embedded database has only
        // one.
        if (isMore) await app.clock.sleep(app.clock.ticks() - since)
      }
    }
  }

  const rounds = every(app.clock, EVERY_MS, () =>
    work().catch((error: unknown) => app.telemetry.log.warn('bytes_not_dropped', {}, error)),
  )
  return {
    ...rounds,
    stop: () => {
      isStopped = true
      return rounds.stop()
    },
  }
}

/**
 * Drops a batch of bytes of one network, after the end of the last batch. Locks the network's row first, so replicas
 * take turns.
 * @returns whether more may be due immediately
 * @throws database_unavailable
 */
export async function dropBytes({ db: root, clock }: Pick<Swept, 'db' | 'clock'>, chainId: number): Promise<boolean> {
  return retrying(() =>
    root.transaction().execute(async (db) => {
      await db
        .insertInto('swept')
        .values({ chain_id: chainId, block_number: -1, id: '' })
        .onConflict((on) => on.doNothing())
        .execute()
      const from = await db
        .selectFrom('swept')
        .select(['block_number', 'id'])
        .where('chain_id', '=', chainId)
        .forUpdate()
        .executeTakeFirstOrThrow()
      const rows = await readNext(db, chainId, from, clock.wall())
      const end = rows.findIndex(({ is_due: isDue }) => !isDue)
      const due = end < 0 ? rows : rows.slice(0, end)
      const last = due.at(-1)
      if (last === undefined) return false
      await db
        .updateTable('attempts')
        .set({ raw: null })
        .where(
          'transaction_id',
          'in',
          due.map(({ id }) => id),
        )
        .where('chain_id', '=', chainId)
        .where('raw', 'is not', null)
        .execute()
      await db
        .updateTable('swept')
        .set({ block_number: last.block_number!, id: last.id })
        .where('chain_id', '=', chainId)
        .execute()
      return due.length === BATCH
    }),
  )
}

/**
 * Returns final writes in the order of their blocks, which is the order of finality, by the index transactions_block. A
 * write must be due by both the database's clock and its writer's, as for keys: after a failover, the promoted server's
 * clock may be a day ahead.
 */
function readNext(db: Db, chainId: number, from: { block_number: number; id: string }, now: number) {
  const before = new Date(now - KEPT_DAYS * DAY_MS).toISOString()
  return db
    .selectFrom('transactions')
    .select(['id', 'block_number'])
    .select(
      sql<boolean>`updated_at < now() - ${`${KEPT_DAYS} days`}::interval
        and coalesce((transitions->-1->>'at')::timestamptz < ${before}::timestamptz, true)`.as('is_due'),
    )
    .where('chain_id', '=', chainId)
    .where(sql<boolean>`is_final = true`)
    .where('block_number', '>=', from.block_number)
    .where(sql<boolean>`(block_number, id) > (${from.block_number}::bigint, ${from.id})`)
    .orderBy('block_number')
    .orderBy('id')
    .limit(BATCH)
    .execute()
}
