import { createHmac, createSecretKey, hkdfSync, timingSafeEqual, type KeyObject } from 'node:crypto'
import { LedgerDamaged } from '../refusal.ts'
import type { LedgerRow } from './record.ts'

/**
 * MACs of the ledger's records. A MAC is the number of a data key's epoch (4 bytes) and an HMAC-SHA-256 of the record's
 * hash. The HMAC's key is derived from that data key. An attacker who can write the folder but lacks the master key
 * cannot compute a MAC, so a recomputed hash chain is detected. MACs do not detect missing newest records or an older
 * copy of the whole folder.
 */
export type Macs = {
  of: (record: Buffer) => Buffer
  isOf: (record: Uint8Array, mac: Uint8Array) => boolean
  /** the epoch whose key makes new MACs */
  epoch: () => number
  /** derives a key of an epoch for a purpose other than records; undefined if there is no such epoch */
  keyFor: (purpose: string, epoch: number) => KeyObject | undefined
}

const EPOCH_BYTES = 4
const INFO = 'chatelaine ledger mac 1'

/** Derives the MAC key of a data key: HKDF-SHA-256, 32 bytes. */
export const macKeyOf = (dek: KeyObject): KeyObject =>
  createSecretKey(Buffer.from(hkdfSync('sha256', dek, Buffer.alloc(0), INFO, 32)))

/**
 * Opens the MACs of the ledger.
 * @param current  the epoch whose key makes new MACs
 * @param keyOf    the key of an epoch; undefined if there is none
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
      // A record's hash has 32 bytes and no purpose has 32 bytes, so the two cannot be confused.
      return key === undefined ? undefined : createSecretKey(hmac(key, Buffer.from(purpose, 'utf8')))
    },
  }
}

const hmac = (key: KeyObject, record: Uint8Array): Buffer => createHmac('sha256', key).update(record).digest()

/** Returns whether a record has a MAC of the right length. The table requires it, but an attacker who edits the file can store anything. */
export const hasMac = ({ mac }: { mac: unknown }): boolean =>
  mac instanceof Uint8Array && mac.length === EPOCH_BYTES + 32

/** Verifies the MAC of a record. @throws LedgerDamaged  naming the record whose MAC this signer did not make */
export function assertMac(macs: Macs, { seq, record, mac }: Pick<LedgerRow, 'seq' | 'record' | 'mac'>): void {
  if (!macs.isOf(record, mac)) throw new LedgerDamaged(`Record ${seq} of the ledger was not written by this signer.`)
}
