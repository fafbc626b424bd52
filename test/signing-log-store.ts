import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { makeKekFile, openKekFile } from '../src/signer/kek/file.ts'
import { GENESIS, recordOf, type LedgerRow } from '../src/signer/ledger/record.ts'
import { openSigningLog, type SigningLog } from '../src/signer/ledger/signing-log.ts'
import { openStore } from '../src/signer/store.ts'

const ALICE = Buffer.alloc(20, 0xa1)

/** A signer's store with its keys, without the program: signatures are bytes of no transaction. */
export function signingLogStore(t: { after: (end: () => void) => void }) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-log-'))
  const kekFile = join(folder, 'kek')
  makeKekFile(kekFile)
  const { db, close } = openStore(join(folder, 'store'))
  // What a loss of power would take is not asked here.
  db.exec('PRAGMA synchronous = OFF')
  t.after(() => {
    close()
    rmSync(folder, { recursive: true, force: true })
  })
  let at = Date.UTC(2026, 0, 1)
  const open = () => openSigningLog(db, openKekFile(kekFile), () => (at += 1_000))
  /** by a day */
  const setBack = () => void (at -= 86_400_000)
  return { db, folder, kekFile, open, setBack, storeFolder: join(folder, 'store') }
}

export function sign({ ledger, heads }: SigningLog, db: DatabaseSync, count: number): void {
  for (let left = count; left > 0; left--) {
    const nonce = ledger.head().count
    db.exec('BEGIN')
    ledger.append({
      ...{ at: nonce, userId: 'X-1', address: ALICE, rule: 'default-allow', kind: 'send' },
      held: {
        ...{ kind: 'send', intentId: `tx_${nonce}`, chainId: 1, address: ALICE, nonce, effect: Buffer.alloc(32, 1) },
        ...{ feeType: 'eip1559', gas: 21_000n, max: 9n, priority: 7n, raw: Buffer.alloc(9), hash: Buffer.alloc(32) },
        ...{ rule: 'default-allow', requestHash: null },
      },
      ...{ clientId: 'shop', tokenId: `token-${nonce}`, evidence: `{"jti":"${nonce}"}`, policy: 'one', spent: '1' },
    })
    heads.seal()
    db.exec('COMMIT')
  }
}

/** The chain as someone hashes it who can write the file and has no key. */
export function rehash(db: DatabaseSync): void {
  let record: Buffer = GENESIS
  let count = 0
  for (const row of db.prepare('SELECT * FROM ledger ORDER BY seq').all() as LedgerRow[]) {
    record = recordOf(record, row)
    count = row.seq
    db.prepare('UPDATE ledger SET record = ? WHERE seq = ?').run(record, count)
  }
  db.prepare('UPDATE ledger_head SET count = ?, record = ?').run(count, record)
}
