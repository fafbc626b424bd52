import { sql, type RawBuilder } from 'kysely'

/**
 * Now, by the clock of the database, and in any case after another time of the row: of two times the signer takes the later one,
 * and the clocks of two databases, or of one before and after a failover, may differ.
 */
export const laterThan = (column: string): RawBuilder<Date> =>
  sql<Date>`greatest(clock_timestamp(), ${sql.ref(column)} + interval '1 millisecond')`
