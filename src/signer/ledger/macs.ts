import { createHmac, createSecretKey, hkdfSync, timingSafeEqual, type KeyObject } from 'node:crypto'
import { LedgerDamaged } from '../refusal.ts'
import type { LedgerRow } from './record.ts'

/**
 * MACs of the ledger's records: HMAC-SHA-256 of a record's hash, by a key derived from a data key, before it the number of
 * that data key's epoch. Anyone who can write the folder and lacks the master key cannot make one, so a chain that was
 * hashed anew does not fit. What they do not say: a ledger without its newest records, or a whole older folder, has good ones.
 */
export type Macs = {
  of: (record: Buffer) => Buffer
  isOf: (record: Uint8Array, mac: Uint8Array) => boolean
  /** the epoch that makes new ones */
  epoch: () => number
  /** A key of an epoch for something else than records; undefined where there is no such epoch. */
  keyFor: (purpose: string, epoch: number) => KeyObject | undefined
}

const EPOCH_BYTES = 4
const INFO = 'chatelaine ledger mac 1'

export const macKeyOf = (dek: KeyObject): KeyObject =>
  createSecretKey(Buffer.from(hkdfSync('sha256', dek, Buffer.alloc(0), INFO, 32)))

/**
 * @param current  the epoch that makes new ones
 * @param keyOf    the key of an epoch; undefined where there is none
 */
export function openMacs({
  current,
  keyOf,
}: {
  current: () => number
  keyOf: (epoch: number) => KeyObject | undefined
}): Macs {
  return {
    of(record) {
      const mac = Buffer.alloc(EPOCH_BYTES)
      const epoch = current()
      mac.writeUInt32BE(epoch)
      return Buffer.concat([mac, hmac(keyOf(epoch)!, record)])
    },
    isOf(record, mac) {
      if (!hasMac({ mac })) return false
      const bytes = Buffer.from(mac)
      const key = keyOf(bytes.readUInt32BE())
      return key !== undefined && timingSafeEqual(hmac(key, record), bytes.subarray(EPOCH_BYTES))
    },
    epoch: current,
    keyFor(purpose, epoch) {
      const key = keyOf(epoch)
      // A record's hash is 32 bytes, and no purpose is: one never stands for the other.
      return key === undefined ? undefined : createSecretKey(hmac(key, Buffer.from(purpose, 'utf8')))
    },
  }
}

const hmac = (key: KeyObject, record: Uint8Array): Buffer => createHmac('sha256', key).update(record).digest()

/** Whether a record has what may be one. The table asks for it, but an editor of the file can put anything there. */
export const hasMac = ({ mac }: { mac: unknown }): boolean =>
  mac instanceof Uint8Array && mac.length === EPOCH_BYTES + 32

/** @throws LedgerDamaged  naming the record whose MAC is not the signer's */
export function assertMac(macs: Macs, { seq, record, mac }: Pick<LedgerRow, 'seq' | 'record' | 'mac'>): void {
  if (!macs.isOf(record, mac)) throw new LedgerDamaged(`Record ${seq} of the ledger was not written by this signer.`)
}
