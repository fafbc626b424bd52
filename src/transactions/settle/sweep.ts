import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { every, type Rounds } from '../../clock.ts'
import { retrying, type Db } from '../../store/db.ts'
import { sweepTopUps } from '../sponsors/gas-budget.ts'

/** days for which the bytes of a write are kept after it is final; only a rewind asks for them then */
const KEPT_DAYS = 7
/** writes of one transaction; with their attempts far below the 2,000 rows of a portable one */
const BATCH = 250
const DAY_MS = 86_400_000

type Swept = Pick<App, 'db' | 'chains' | 'telemetry' | 'clock'>

/** milliseconds between two rounds, each of which drops all that is due */
const EVERY_MS = 60_000

/**
 * Drops the signed bytes of writes that have been final for a week: nobody sends them again, and they are a tenth of what a
 * write keeps. The hash, what was written and what became of it stay. After a rewind by an operator across so much the
 * keeper takes them from the signer's ledger (keeper.ts), and the follower has blocks proven without them.
 */
export function startByteSweep(app: Swept): Rounds {
  let isStopped = false

  async function work(): Promise<void> {
    await sweepTopUps(app.db)
    for (const chainId of app.chains.keys()) {
      for (let isMore = true; isMore && !isStopped;) {
        const since = app.clock.ticks()
        isMore = await dropBytes(app, chainId)
        // What has piled up is no hurry: half of one connection is left to others, and the embedded database has one.
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
 * A batch of one network, from where the last one ended. The row of the network is locked first: any number of replicas may
 * do this, one after another.
 * @returns whether there may be more to do immediately
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
 * Final writes in the order of their blocks, which is that in which they became final, over transactions_block. Due by the
 * database's clock and by that of its writer, as keys are: a server that was promoted may be a day ahead.
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
