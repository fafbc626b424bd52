import { sql, type RawBuilder } from 'kysely'

/**
 * Returns the present time of the database, but at least 1 ms after the row's time in `column`. The signer takes the
 * later of two times. Without this, a change could lose to an older one, because clocks differ between databases and
 * after a failover.
 */
export const laterThan = (column: string): RawBuilder<Date> =>
  sql<Date>`greatest(clock_timestamp(), ${sql.ref(column)} + interval '1 millisecond')`
