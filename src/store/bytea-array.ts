import { sql, type RawBuilder } from 'kysely'
import type { Hex } from '../ids.ts'

/** Many bytea values as one parameter. */
export const byteaArray = (values: readonly Hex[]): RawBuilder<Uint8Array[]> =>
  sql<Uint8Array[]>`${`{${values.map(byteaElement).join()}}`}::bytea[]`

/** One value in the text of a bytea[]: inside it a backslash has to be doubled, and quoted. */
export const byteaElement = (value: Hex | null): string => (value === null ? 'null' : `"\\\\x${value.slice(2)}"`)
