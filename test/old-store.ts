import { createCipheriv, createDecipheriv, hash, randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { canonical } from '../src/signer/canonical.ts'
import { GENESIS, recordOf, type LedgerRow } from '../src/signer/record.ts'
import type { Place } from './kit/signer.ts'

/**
 * Makes of the store of a signer that has ended what a signer from before MACs would have written: records of the first two
 * forms, data keys that are bound to their epoch alone, and a witness of that.
 */
export function asBeforeMacs({ env }: Pick<Place, 'env'>): void {
  const db = new DatabaseSync(join(env.SIGNER_DIR!, 'signer.sqlite'))
  db.exec('BEGIN')
  const put = db.prepare('UPDATE ledger SET record = ?, mac = NULL, evidence = NULL WHERE seq = ?')
  let record: Buffer = GENESIS
  let count = 0
  for (const row of db.prepare('SELECT * FROM ledger ORDER BY seq').all() as LedgerRow[]) {
    record = recordOf(record, { ...row, mac: null, evidence: null, policy: null, spent: null })
    put.run(record, row.seq)
    count = row.seq
  }
  db.prepare('UPDATE ledger_head SET record = ?').run(record)
  const kek = readFileSync(env.SIGNER_KEK_FILE!)
  const rewrap = db.prepare('UPDATE deks SET wrapped = ?, maced_from = NULL WHERE epoch = ?')
  for (const row of db.prepare('SELECT epoch, wrapped, maced_from FROM deks').all()) {
    const { epoch, wrapped, maced_from: from } = row as { epoch: number; wrapped: Uint8Array; maced_from: number }
    const bytes = Buffer.from(wrapped)
    const open = createDecipheriv('aes-256-gcm', kek, bytes.subarray(0, 12))
    open.setAAD(canonical('chatelaine data key 2', epoch, from)).setAuthTag(bytes.subarray(12, 28))
    const dek = Buffer.concat([open.update(bytes.subarray(28)), open.final()])
    const iv = randomBytes(12)
    const seal = createCipheriv('aes-256-gcm', kek, iv).setAAD(canonical('chatelaine data key 1', epoch))
    const sealed = Buffer.concat([seal.update(dek), seal.final()])
    rewrap.run(Buffer.concat([iv, seal.getAuthTag(), sealed]), epoch)
  }
  db.exec('DELETE FROM identity; DELETE FROM tree; DELETE FROM heads')
  db.exec('COMMIT')
  db.close()
  const body = Buffer.alloc(40)
  body.writeBigUInt64BE(BigInt(count))
  record.copy(body, 8)
  const slot = Buffer.concat([body, hash('sha256', body, 'buffer').subarray(0, 24)])
  writeFileSync(join(env.SIGNER_DIR!, 'witness'), Buffer.concat([slot, slot]))
}
