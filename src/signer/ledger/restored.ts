import { LedgerDamaged } from '../refusal.ts'

/** What was known when an operator took an older copy for the store: lies in the ledger, as the `raw` of its record. */
export type Restored = {
  /** where the ledger ended that was lost, by its witness; null when there was none */
  witness: { count: number; record: string } | null
  /** the size of the newest head that a server had shown, which this store did not reach; absent: none was */
  shown?: number
  /** what the chains had counted of each account, where that is not nothing; addresses in hexadecimal digits */
  floors: { address: string; chainId: number; nonce: number }[]
}

export const encodeRestored = (restored: Restored): Buffer => Buffer.from(JSON.stringify(restored), 'utf8')

/** @throws LedgerDamaged */
export function decodeRestored(raw: Uint8Array): Restored {
  try {
    return JSON.parse(Buffer.from(raw).toString('utf8')) as Restored
  } catch (cause) {
    throw new LedgerDamaged('A restore in the ledger cannot be read.', cause)
  }
}
