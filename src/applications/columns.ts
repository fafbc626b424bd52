/** Where a field is stored, how where not as it is, and what it is unless said; none: it has to be said, or stays as it is. */
type Column<Name, T> = {
  column: Name
  unsaid?: T | undefined
  write?: (value: T) => unknown
  read?: (stored: never) => T
}

/** Ways between the fields of a resource and the columns of its row. */
export function rowOf<Fields, Row>(columns: { [F in keyof Fields]-?: Column<keyof Row, Fields[F]> }) {
  const all = Object.entries<Column<keyof Row, unknown>>(columns as never)
  return {
    /** what the fields are unless said */
    unsaid: Object.fromEntries(
      all.flatMap(([field, { unsaid }]) => (unsaid === undefined ? [] : [[field, unsaid]])),
    ) as Partial<Fields>,
    /** columns of what is said, and of nothing else */
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
