import { LedgerDamaged } from '../refusal.ts'

/**
 * Facts at the time when an operator accepted an older copy as the store. The `raw` of the restore's record holds them.
 */
export type Restored = {
  /** the end of the lost ledger, by its witness; null if there was none */
  witness: { count: number; record: string } | null
  /** the size of the newest head that a server had shown and that this store did not reach; absent if there was none */
  shown?: number
  /** nonzero transaction counts of each account on the chains; addresses in hexadecimal digits */
  floors: { address: string; chainId: number; nonce: number }[]
}

/** Encodes the `raw` of a restore as JSON. */
export const encodeRestored = (restored: Restored): Buffer => Buffer.from(JSON.stringify(restored), 'utf8')

/** Decodes the `raw` of a restore. @throws LedgerDamaged */
export function decodeRestored(raw: Uint8Array): Restored {
  try {
    return JSON.parse(Buffer.from(raw).toString('utf8')) as Restored
  } catch (cause) {
    throw new LedgerDamaged('A restore in the ledger cannot be read.', cause)
  }
}
