import { closeSync, constants, fdatasync, fdatasyncSync, openSync, readSync, writeSync } from 'node:fs'
import { hash } from 'node:crypto'
import { dirname } from 'node:path'
import { syncFolder } from '../kek/file.ts'
import { systemClock, type Timer } from '../../clock.ts'

/** End of the ledger: the number of records and the hash of the last. */
export type LedgerHead = { count: number; record: Buffer }

/**
 * A copy of the ledger's head outside the database. If the database's log is truncated or an older file restored,
 * SQLite silently recovers to an earlier commit. The witness is then ahead of the ledger, and the signer refuses to
 * sign.
 *
 * It is written after every commit and before the answers. So after a crash it may be behind the ledger, never ahead. A
 * SIGKILL does not lose it. It is synced to disk within a second; a power failure in between is harmless, because the
 * database itself was synced.
 *
 * It does not detect an older copy of the whole folder, because the copy includes it. Heads that others have retained
 * detect that (heads.ts).
 */
export type Witness = { write: (head: LedgerHead) => void; close: () => void }

// Count (8 bytes), record hash (32), start of the SHA-256 of both (24). Two slots are written in turn, so one is always intact.
const SLOT_BYTES = 64
const SYNC_AFTER_MS = 1_000

/**
 * Opens the witness file. @param head  the current end of the ledger; it and the file's directory entry are synced to
 * disk before this returns
 */
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
          // An error is harmless: an older witness on disk detects fewer losses.
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

/** Reads the newest intact head of the file; null if there is none because the file is missing, empty or torn. */
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
