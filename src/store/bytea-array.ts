import { sql, type RawBuilder } from 'kysely'
import type { Hex } from '../ids.ts'

/** Passes many bytea values as one parameter. */
export const byteaArray = (values: readonly Hex[]): RawBuilder<Uint8Array[]> =>
  sql<Uint8Array[]>`${`{${values.map(byteaElement).join()}}`}::bytea[]`

/** Writes one value in the text form of bytea[], in which a backslash must be doubled and quoted. */
export const byteaElement = (value: Hex | null): string => (value === null ? 'null' : `"\\\\x${value.slice(2)}"`)
