import { closeSync, constants, fdatasync, fdatasyncSync, openSync, readSync, writeSync } from 'node:fs'
import { hash } from 'node:crypto'
import { dirname } from 'node:path'
import { syncFolder } from '../kek/file.ts'
import { systemClock, type Timer } from '../../clock.ts'

/** Where the ledger ended: how many records, and the hash of the last. */
export type LedgerHead = { count: number; record: Buffer }

/**
 * The ledger's head once more, outside the database. SQLite recovers quietly to an earlier commit when its log was
 * cut or an older file was put back; the witness then is ahead of the ledger, and the signer refuses.
 *
 * Written after every commit and before its answers, so it may be behind the ledger after a crash, never ahead of it.
 * A SIGKILL loses nothing of it. It reaches the disk at most a second later, which a loss of power can take away
 * without harm: the database was synced itself.
 *
 * A copy of the whole folder put back is not noticed by this, for the witness is in it: who kept a later head tells (heads.ts).
 */
export type Witness = { write: (head: LedgerHead) => void; close: () => void }

// count (8), record hash (32), start of the SHA-256 of both (24). Two slots, written in turn: one is always whole.
const SLOT_BYTES = 64
const SYNC_AFTER_MS = 1_000

/** @param head  where the ledger ends now; on the disk before this returns, with the file's own entry in its folder */
export function openWitness(path: string, head: LedgerHead): Witness {
  const fd = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  for (const slot of [0, 1]) writeSlot(fd, slot, head)
  fdatasyncSync(fd)
  syncFolder(dirname(path))
  let slot = 0
  let timer: Timer | undefined
  return {
    write(head) {
      writeSlot(fd, slot, head)
      slot = 1 - slot
      timer ??= systemClock
        .after(SYNC_AFTER_MS, () => {
          timer = undefined
          // Not the database: a witness that reached the disk late is only a witness of less.
          fdatasync(fd, () => {})
        })
        .unref()
    },
    close() {
      timer?.cancel()
      fdatasyncSync(fd)
      closeSync(fd)
    },
  }
}

function writeSlot(fd: number, slot: number, head: LedgerHead): void {
  writeSync(fd, encode(head), 0, SLOT_BYTES, slot * SLOT_BYTES)
}

/** The newest head that the file holds whole; null when there is none, be it missing, empty or torn. */
export function readWitness(path: string): LedgerHead | null {
  const bytes = Buffer.alloc(SLOT_BYTES * 2)
  let length: number
  try {
    const fd = openSync(path, 'r')
    length = readSync(fd, bytes, 0, bytes.length, 0)
    closeSync(fd)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
  const heads = [0, SLOT_BYTES]
    .filter((start) => start + SLOT_BYTES <= length)
    .map((start) => decode(bytes.subarray(start, start + SLOT_BYTES)))
    .filter((head) => head !== null)
  return heads.toSorted((a, b) => b.count - a.count)[0] ?? null
}

function encode({ count, record }: LedgerHead): Buffer {
  const body = Buffer.alloc(40)
  body.writeBigUInt64BE(BigInt(count))
  record.copy(body, 8)
  return Buffer.concat([body, checksum(body)])
}

function decode(slot: Buffer): LedgerHead | null {
  const body = slot.subarray(0, 40)
  if (!checksum(body).equals(slot.subarray(40))) return null
  return { count: Number(body.readBigUInt64BE()), record: Buffer.from(body.subarray(8)) }
}

const checksum = (body: Buffer): Buffer => hash('sha256', body, 'buffer').subarray(0, 24)
