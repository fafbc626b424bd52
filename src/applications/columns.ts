/**
 * The column of a field, its conversions if any, and its default. A field without a default must be given, or remains
 * as it is.
 */
type Column<Name, T> = {
  column: Name
  unsaid?: T | undefined
  write?: (value: T) => unknown
  read?: (stored: never) => T
}

/** Returns the conversions between the fields of a resource and the columns of its row. */
export function rowOf<Fields, Row>(columns: { [F in keyof Fields]-?: Column<keyof Row, Fields[F]> }) {
  const all = Object.entries<Column<keyof Row, unknown>>(columns as never)
  return {
    /** the defaults of the fields */
    unsaid: Object.fromEntries(
      all.flatMap(([field, { unsaid }]) => (unsaid === undefined ? [] : [[field, unsaid]])),
    ) as Partial<Fields>,
    /** the columns of the given fields only */
    columnsOf: (said: Partial<Fields>): Record<string, unknown> =>
      Object.fromEntries(
        all.flatMap(([field, { column, write = asItIs }]) => {
          const value = said[field as keyof Fields]
          return value === undefined ? [] : [[column, write(value)]]
        }),
      ),
    fieldsIn: (row: Row): Fields =>
      Object.fromEntries(
        all.map(([field, { column, read = asItIs }]) => [field, read(row[column] as never)]),
      ) as Fields,
  }
}

const asItIs = (value: unknown): unknown => value
