import { sql, type RawBuilder } from 'kysely'

/**
 * Returns the present time of the database, but always later than the row's time in `column`: of two times the signer
 * takes the later one, and the clocks of two databases, or of one before and after a failover, may differ.
 */
export const laterThan = (column: string): RawBuilder<Date> =>
  sql<Date>`greatest(clock_timestamp(), ${sql.ref(column)} + interval '1 millisecond')`
