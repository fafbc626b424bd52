/** bytes of UTF-8 */
export const MAX_ABI_BYTES = 8192
/** characters of a parameter's name: an answer repeats the name of a tuple's value once for each tuple of an array */
export const MAX_NAME = 128
/** per list: inputs, outputs, the components of one tuple */
export const MAX_PARAMETERS = 64
export const MAX_TUPLE_DEPTH = 8
/** dimensions of one array type */
export const MAX_ARRAY_DEPTH = 4
/** items `error …` beside the function: each costs a Keccak-256 when a call reverts */
export const MAX_ERROR_ITEMS = 64
/** bytes that a call may return; also the most that a type of fixed size may take */
export const MAX_DATA_BYTES = 4_194_304
/** decoded values, an address counting as `ADDRESS_WEIGHT` */
export const MAX_VALUES = 100_000
/** an address in a result costs a Keccak-256 for its checksum: 7 µs, where another value costs 0.5 µs (`bench/abi.ts`) */
export const ADDRESS_WEIGHT = 10
/**
 * How often each byte of the data may be read, on average: compilers write every value once, and overlapping offsets
 * let 1 kB claim millions of values. The second time is for encoders that share a tail.
 */
export const MAX_READINGS = 2
/** bytes that may be read more often */
export const FREE_BYTES = 4_096
/** refusals that are listed for one call; the caller who has more will ask again */
export const MAX_LISTED_ERRORS = 64
