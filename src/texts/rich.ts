/** A sentence with emphasised parts, in the order of its language. */
export type Rich = (string | { strong: string })[]
