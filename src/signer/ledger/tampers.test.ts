import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomOf } from '../../../test/random.ts'
import { rehash, sign, signingLogStore } from '../../../test/signing-log-store.ts'
import { openKekFile } from '../kek/file.ts'
import { readMacs, unwrapStored } from '../keys/deks.ts'
import type { LedgerRow } from './record.ts'
import { LedgerDamaged } from '../refusal.ts'
import { verifyLedger } from '../programs/verify.ts'

const TAMPERS = Number(process.env.TAMPERS ?? 300)
const SEED = Number(process.env.TAMPER_SEED ?? 7)
const RECORDS = 40

/**
 * The attacker can write the folder, knows all formats, recomputes every hash, has published heads, and lacks the
 * master key. The start detects damage; a head that a server retained detects a ledger that only looks younger.
 * `TAMPERS=10000` is the long form.
 */
test(`${TAMPERS} tampers with recomputed hashes are all found`, async (t) => {
  const { db, open, kekFile } = signingLogStore(t)
  const log = await open()
  const heads = new Map<number, string>()
  for (let count = 1; count <= RECORDS; count++) {
    sign(log, db, 1)
    heads.set(count, log.heads.newest())
  }
  const newest = heads.get(RECORDS)!
  const rows = db.prepare('SELECT * FROM ledger ORDER BY seq').all() as LedgerRow[]
  const names = Object.keys(rows[0]!)
  db.exec('PRAGMA ignore_check_constraints = ON')
  const insert = db.prepare(`INSERT INTO ledger (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`)
  const write = (all: LedgerRow[]) => {
    db.exec('DELETE FROM ledger')
    for (const row of all) insert.run(...Object.values(row))
    rehash(db)
  }
  const below = randomOf(SEED)
  const number = (all: LedgerRow[]) => all.map((row, index) => ({ ...row, seq: index + 1 }))
  const fields = ['at', 'user_id', 'address', 'chain_id', 'max_fee', 'rule', 'client_id', 'token_id', 'evidence', 'policy', 'spent', 'raw', 'effect', 'request_hash'] as const // prettier-ignore
  const another = (value: LedgerRow[keyof LedgerRow]) =>
    typeof value === 'number' ? value + 1 + below(9) : typeof value === 'string' ? `${value}${below(9)}` : Buffer.alloc(32, 2 + below(200)) // prettier-ignore
  const someMac = (row: LedgerRow) => [row.mac, rows[below(RECORDS)]!.mac, Buffer.alloc(36, below(256))][below(3)]!
  const forged = (row: LedgerRow): LedgerRow => {
    const field = fields[below(fields.length)]!
    const changed = { ...row, [field]: another(row[field]) }
    return { ...changed, mac: someMac(row) }
  }
  const kinds: Record<string, () => LedgerRow[]> = {
    changed: () => {
      const at = below(RECORDS)
      return rows.with(at, forged(rows[at]!))
    },
    removed: () => number(rows.toSpliced(below(RECORDS - 1), 1)),
    reordered: () => {
      const at = below(RECORDS - 1)
      return number(rows.toSpliced(at, 2, rows[at + 1]!, rows[at]!))
    },
    replaced: () => {
      const at = below(RECORDS)
      return rows.with(at, { ...forged(rows[at]!), intent_id: `forged_${below(1_000)}` })
    },
    inserted: () => number(rows.toSpliced(below(RECORDS), 0, { ...forged(rows[0]!), nonce: 1_000 })),
    stripped: () => {
      const at = below(RECORDS)
      return rows.with(at, { ...rows[at]!, mac: Buffer.alloc(0) })
    },
  }
  const macs = readMacs(await unwrapStored(db, openKekFile(kekFile)))
  const found: Record<string, number> = {}
  const count = (kind: string) => (found[kind] = (found[kind] ?? 0) + 1)
  const all = [...Object.keys(kinds), 'truncated']
  for (let made = 0; made < TAMPERS; made++) {
    const kind = all[made % all.length]!
    if (kind === 'truncated') {
      const end = 1 + below(RECORDS - 1)
      write(rows.slice(0, end))
      // Truncate, and retain the newest head, no head, or the head of that time.
      const head = [newest, null, heads.get(end)!][below(3)]!
      db.exec(`DELETE FROM heads`)
      if (head !== null) db.prepare(`INSERT INTO heads (which, note) VALUES ('newest', ?)`).run(head)
      if (head === heads.get(end)) {
        const rolledBack = await open()
        rolledBack.heads.show(newest)
        assert.match(rolledBack.heads.behind() ?? 'nothing', /older than what it has answered for/)
      } else await assert.rejects(open, LedgerDamaged, `${kind} at ${end}`)
      db.prepare(`INSERT OR REPLACE INTO heads (which, note) VALUES ('newest', ?)`).run(newest)
      db.exec(`DELETE FROM heads WHERE which = 'shown'`)
    } else {
      write(kinds[kind]!())
      await assert.rejects(open, LedgerDamaged, `${kind}, tamper ${made}`)
      if (made % 10 === 0) assert.notDeepEqual(verifyLedger(db, macs).problems, [], `${kind}, tamper ${made}`)
    }
    count(kind)
  }
  write(rows)
  assert.equal((await open()).ledger.head().count, RECORDS)
  assert.equal(
    Object.values(found).reduce((sum, one) => sum + one, 0),
    TAMPERS,
  )
  t.diagnostic(JSON.stringify(found))
})
