/** bytes of UTF-8 */
export const MAX_ABI_BYTES = 8192
/** characters of a parameter name: a response repeats the names of a tuple for each item of an array */
export const MAX_NAME = 128
/** per list: inputs, outputs, or components of one tuple */
export const MAX_PARAMETERS = 64
export const MAX_TUPLE_DEPTH = 8
/** dimensions of one array type */
export const MAX_ARRAY_DEPTH = 4
/** `error` items beside the function: each costs a Keccak-256 when a call reverts */
export const MAX_ERROR_ITEMS = 64
/** bytes that a call may return; also the maximum size of a fixed-size type */
export const MAX_DATA_BYTES = 4_194_304
/** decoded values; an address counts `ADDRESS_WEIGHT` */
export const MAX_VALUES = 100_000
/**
 * an address in a result needs a Keccak-256 for its checksum, which costs more than any other value (`bench/abi.ts`)
 */
export const ADDRESS_WEIGHT = 10
/**
 * Average number of times that each byte of the data may be read. Compilers write every value once, but overlapping
 * offsets let 1 kB claim millions of values. The second time is for encoders that share a tail.
 */
export const MAX_READINGS = 2
/** bytes that may be read in addition */
export const FREE_BYTES = 4_096
/** errors that are listed for one call */
export const MAX_LISTED_ERRORS = 64
