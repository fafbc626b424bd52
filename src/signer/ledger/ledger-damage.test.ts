import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { fixedMacs } from '../../../test/fixed-macs.ts'
import { rehash } from '../../../test/signing-log-store.ts'
import { openExportRecords } from '../export/export-records.ts'
import { checkWitness, follow, openUnwitnessed } from './ledger.ts'
import { hiddenRecord } from './index-faults.ts'
import type { Macs } from './macs.ts'
import { COLUMNS, GENESIS, recordOf, type LedgerAttempt, type LedgerRow } from './record.ts'
import { LedgerDamaged } from '../refusal.ts'
import { encodeRestored, type Restored } from './restored.ts'
import { openStore, schemaFault } from '../store.ts'
import { verifyLedger } from '../programs/verify.ts'

const ALICE = Buffer.alloc(20, 0xa1)
const BOB = Buffer.alloc(20, 0xb0)
const hex = (address: Buffer) => address.toString('hex')

type Signature = Omit<LedgerAttempt, 'seq' | 'at' | 'isAgreed' | 'userId' | 'clientId'>

function world(t: TestContext, records = 0) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-ledger-'))
  const { db, close } = openStore(join(folder, 'store'))
  t.after(() => {
    close()
    rmSync(folder, { recursive: true, force: true })
  })
  const ledger = openUnwitnessed(db, fixedMacs())
  const common = { at: 1, userId: 'X-1', rule: 'default-allow' }
  function sign(nonce: number, changes: Partial<Signature> = {}) {
    const held: Signature = {
      ...{ kind: 'send', intentId: `tx_${nonce}`, chainId: 1, address: ALICE, nonce, effect: Buffer.alloc(32, 1) },
      ...{ feeType: 'eip1559', gas: 21_000n, max: 9n, priority: 7n, raw: Buffer.alloc(9), hash: Buffer.alloc(32) },
      ...{ rule: 'default-allow', requestHash: null, ...changes },
    }
    const { kind, address } = held
    ledger.append({ ...common, kind, address, held, clientId: 'shop', tokenId: 'token' })
  }
  const restore = (floors: Restored['floors']) =>
    ledger.append({ ...common, kind: 'restore', address: ALICE, restored: { witness: null, floors } })
  db.exec('BEGIN')
  for (let nonce = 0; nonce < records; nonce++) sign(nonce)
  db.exec('COMMIT')
  return { db, ledger, common, sign, restore, reopen: (macs: Macs = fixedMacs()) => openUnwitnessed(db, macs) }
}

const damaged = (reason: RegExp) => (error: unknown) => error instanceof LedgerDamaged && reason.test(error.message)
const slot = (changes: object = {}) => ({ chainId: 1, address: ALICE, nonce: 0, ...changes })

for (const [what, sql, reason] of [
  ['altered', `UPDATE ledger SET intent_id = 'another' WHERE seq = 2`, /^Record 2 .* altered/],
  ['removed in the middle', 'DELETE FROM ledger WHERE seq = 2', /^Record 3 .* one before it is missing/],
  ['removed at the beginning', 'DELETE FROM ledger WHERE seq = 1', /^Record 2 .* one before it is missing/],
  ['removed at the end', 'DELETE FROM ledger WHERE seq = 3', /does not end at its head/],
  ['renumbered', 'UPDATE ledger SET seq = 4 WHERE seq = 3', /^Record 4 /],
  ['before the first', `INSERT INTO ledger (seq, at, kind, user_id, address, rule, record, mac) VALUES (0, 1, 'account', 'X-2', x'b0', 'a', zeroblob(32), zeroblob(36))`, /^Record 0 /], // prettier-ignore
] as const) {
  test(`a ledger with a record ${what} does not open`, (t) => {
    const { db, reopen } = world(t, 3)
    reopen()
    db.exec(sql)
    assert.throws(() => reopen(), damaged(reason))
  })
}

for (const [what, sql, reason] of [
  ['is gone', 'DELETE FROM ledger_head', /The head record of the ledger is missing/],
  ['counts one more', 'UPDATE ledger_head SET count = 4', /does not end at its head/],
  ['counts one less', 'UPDATE ledger_head SET count = 2', /does not end at its head/],
  ['has another hash', `UPDATE ledger_head SET record = zeroblob(32)`, /does not end at its head/],
] as const) {
  test(`a ledger whose head record ${what} does not open`, (t) => {
    const { db, reopen } = world(t, 3)
    db.exec(sql)
    assert.throws(() => reopen(), damaged(reason))
  })
}

test('of a long ledger the last thousand records are checked, and the one that they begin from is there', (t) => {
  const { db, ledger, reopen } = world(t, 1_001)
  assert.deepEqual(reopen().head(), ledger.head())
  db.exec('BEGIN; DELETE FROM ledger WHERE seq = 1')
  assert.throws(() => reopen(), damaged(/^Record 1 .* is missing/))
  db.exec(`ROLLBACK; UPDATE ledger SET rule = 'another' WHERE seq = 2`)
  assert.throws(() => reopen(), damaged(/^Record 2 .* altered/))
})

/** Sets a MAC to null in spite of the table's constraint, as an attacker who edits the file can. */
const NULL_MAC = `PRAGMA writable_schema = ON;
  UPDATE sqlite_schema SET sql = replace(sql, 'mac BLOB NOT NULL', 'mac BLOB /*NULL*/') WHERE name = 'ledger';
  PRAGMA writable_schema = RESET; UPDATE ledger SET mac = NULL WHERE seq = 3; PRAGMA writable_schema = ON;
  UPDATE sqlite_schema SET sql = replace(sql, 'mac BLOB /*NULL*/', 'mac BLOB NOT NULL') WHERE name = 'ledger';
  PRAGMA writable_schema = RESET`

for (const [what, sql, first] of [
  ['altered', `UPDATE ledger SET token_id = 'another' WHERE seq = 2`, 2],
  ['removed', 'DELETE FROM ledger WHERE seq = 2; UPDATE ledger SET seq = 2 WHERE seq = 3', 2],
  ['stripped of its MAC', `PRAGMA ignore_check_constraints = ON; UPDATE ledger SET mac = x'' WHERE seq = 3`, 3],
  ['stripped of its MAC by an editor of the file', NULL_MAC, 3],
  ['with the MAC of another', 'UPDATE ledger SET mac = (SELECT mac FROM ledger WHERE seq = 1) WHERE seq = 2', 2],
  ['with evidence that was not there', `UPDATE ledger SET evidence = '{}' WHERE seq = 3`, 3],
] as const) {
  test(`a record ${what} is found although all hashes were computed again`, (t) => {
    const { db, reopen } = world(t, 3)
    db.enableDefensive(false)
    db.exec(sql)
    rehash(db)
    assert.throws(() => reopen(), damaged(new RegExp(`^Record ${first} of the ledger was not written by this signer`)))
  })
}

test('a ledger whose MACs are by another data key is not one of this signer', (t) => {
  const { reopen } = world(t, 3)
  assert.throws(() => reopen(fixedMacs(Buffer.alloc(32, 8))), damaged(/^Record 1 .* not written by this signer/))
})

test('a record without a MAC of this signer is none about a key that leaves or was brought, wherever it lies', (t) => {
  const { db, ledger } = world(t, 3)
  const records = openExportRecords(db, fixedMacs())
  const nothing = 'chain_id = NULL, nonce = NULL, intent_id = NULL, effect = NULL, fee_type = NULL, max_fee = NULL, priority_fee = NULL, gas = NULL, hash = NULL, raw = NULL, client_id = NULL, token_id = NULL' // prettier-ignore
  const forge = (kind: string, rule: string, evidence: string | null) => {
    db.prepare(`UPDATE ledger SET kind = ?, rule = ?, evidence = ?, ${nothing} WHERE seq = 1`).run(kind, rule, evidence)
    const row = db.prepare('SELECT * FROM ledger WHERE seq = 1').get() as LedgerRow
    db.prepare('UPDATE ledger SET record = ? WHERE seq = 1').run(recordOf(GENESIS, row))
  }
  const isForged = damaged(/^Record 1 of the ledger was not written by this signer/)
  forge('export-request', 'export-asked', '{"request":"r","ready_at":1}')
  assert.throws(() => records.newest('X-1'), isForged)
  forge('export', 'export-by-person', '{"request":"r","recipient":"x"}')
  assert.throws(() => records.exported('X-1'), isForged)
  assert.equal(ledger.isHeldElsewhere('X-1'), false)
  forge('account', 'imported-key', null)
  assert.throws(() => records.since(0, { within: 10, most: 10 }), isForged)
  assert.equal(ledger.isHeldElsewhere('X-1'), false)
})

test('a record far back that was made one of a restore excuses no head and sets no floor: the ledger does not open', (t) => {
  const { db, reopen, restore, ledger, sign } = world(t, 1)
  db.exec('BEGIN')
  restore([{ address: hex(ALICE), chainId: 1, nonce: 9 }])
  for (let nonce = 20; nonce < 1_025; nonce++) sign(nonce)
  db.exec('COMMIT')
  assert.equal(reopen().floor(slot()), 9)
  assert.deepEqual(ledger.overruled, [])
  const genuine = db.prepare('SELECT * FROM ledger WHERE seq = 2').get() as LedgerRow
  const forge = (restored: Restored, seq: number) => {
    db.prepare(`UPDATE ledger SET kind = 'restore', raw = ?, chain_id = NULL, nonce = NULL, intent_id = NULL, effect = NULL, hash = NULL WHERE seq = ?`).run(encodeRestored(restored), seq) // prettier-ignore
    const before = db.prepare('SELECT record FROM ledger WHERE seq = ?').get(seq - 1) as LedgerRow
    const row = db.prepare('SELECT * FROM ledger WHERE seq = ?').get(seq) as LedgerRow
    db.prepare('UPDATE ledger SET record = ? WHERE seq = ?').run(recordOf(before.record, row), seq)
  }
  // A longer ledger that servers know of would be excused.
  forge({ witness: { count: 1_000_000, record: '' }, floors: [] }, 3)
  assert.throws(() => reopen(), damaged(/^Record 3 of the ledger was not written by this signer/))
  db.exec(`DELETE FROM ledger WHERE seq = 3`)
  forge({ witness: null, floors: [] }, 2)
  assert.throws(() => reopen(), damaged(/^Record 2 of the ledger was not written by this signer/))
  db.prepare('UPDATE ledger SET raw = ?, record = ? WHERE seq = 2').run(genuine.raw, genuine.record)
  assert.equal(reopen().floor(slot()), 9)
})

test('a record that fits the one before it but skips a number is refused: a chain has no holes', (t) => {
  const { db } = world(t, 1)
  const first = db.prepare('SELECT * FROM ledger').get() as LedgerRow
  const forged = { ...first, seq: 3 }
  const record = recordOf(first.record, forged)
  assert.throws(
    () => follow({ count: 1, record: Buffer.from(first.record) }, { ...forged, record }),
    damaged(/Record 3/),
  )
  const next = { ...first, seq: 2 }
  assert.equal(
    follow({ count: 1, record: Buffer.from(first.record) }, { ...next, record: recordOf(first.record, next) }).count,
    2,
  )
})

test('a witness of more than the store, of another store or none is refused; of less is what a crash leaves', (t) => {
  const { db, ledger } = world(t, 3)
  const head = ledger.head()
  const at = (seq: number) =>
    Buffer.from((db.prepare('SELECT record FROM ledger WHERE seq = ?').get(seq) as LedgerRow).record)
  checkWitness(db, head, head)
  checkWitness(db, head, { count: 2, record: at(2) })
  checkWitness(db, head, { count: 0, record: GENESIS })
  assert.throws(() => checkWitness(db, head, null), damaged(/missing or incomplete/))
  checkWitness(db, { count: 0, record: GENESIS }, null)
  assert.throws(
    () => checkWitness(db, head, { count: 5, record: at(3) }),
    damaged(/rolled back: 2 of 5 records are missing/),
  )
  assert.throws(() => checkWitness(db, head, { count: 3, record: at(2) }), damaged(/another one: record 3/))
  assert.throws(() => checkWitness(db, head, { count: 2, record: at(3) }), damaged(/another one: record 2/))
  assert.throws(() => checkWitness(db, head, { count: 0, record: at(1) }), damaged(/another one: record 0/))
})

test('the floor of an account is the highest that any restore knew of it on that chain, and nothing elsewhere', (t) => {
  const { ledger, restore, reopen } = world(t, 1)
  assert.equal(ledger.floor(slot()), 0)
  restore([
    { address: hex(ALICE), chainId: 1, nonce: 5 },
    { address: hex(BOB), chainId: 1, nonce: 9 },
  ])
  restore([
    { address: hex(ALICE), chainId: 1, nonce: 3 },
    { address: hex(ALICE), chainId: 2, nonce: 4 },
    { address: hex(BOB), chainId: 1, nonce: 11 },
    { address: hex(BOB), chainId: 2, nonce: 0 },
  ])
  const { floor } = reopen()
  assert.deepEqual(
    [
      slot(),
      slot({ chainId: 2 }),
      slot({ address: BOB }),
      slot({ address: BOB, chainId: 2 }),
      slot({ chainId: 3 }),
    ].map(floor),
    [5, 4, 11, 0, 0],
  )
})

test('an account stands in the ledger as given away, and signs for nothing', (t) => {
  const { ledger, common, reopen } = world(t)
  assert.equal(ledger.hasAccount('X-1'), false)
  ledger.append({ ...common, kind: 'account', address: ALICE })
  for (const { hasAccount, attempts, lane } of [ledger, reopen()]) {
    assert.deepEqual([hasAccount('X-1'), hasAccount('X-2')], [true, false])
    assert.deepEqual(attempts(slot()), [])
    assert.equal(lane(slot()), null)
  }
})

test('records after one are told oldest first, so many at most, each with its hash', (t) => {
  const { ledger } = world(t, 5)
  const seqs = (after: number, most: number) => ledger.since(after, most).map(({ seq }) => seq)
  assert.deepEqual([seqs(0, 2), seqs(2, 9), seqs(5, 9)], [[1, 2], [3, 4, 5], []])
  assert.deepEqual(ledger.recordAt(5), ledger.head().record)
  assert.deepEqual(ledger.recordAt(2), Buffer.from(ledger.since(1, 1)[0]!.record))
  assert.deepEqual([ledger.recordAt(0), ledger.recordAt(6)], [GENESIS, null])
})

/** Empties an index that retains its SQL text, which SQLite trusts. */
function hollow(db: DatabaseSync, index: string): void {
  db.enableDefensive(false)
  const { sql } = db.prepare('SELECT sql FROM sqlite_schema WHERE name = ?').get(index) as { sql: string }
  db.exec(`DROP INDEX ${index}; ${sql} AND seq > 1000000; PRAGMA writable_schema = ON`)
  db.prepare('UPDATE sqlite_schema SET sql = ? WHERE name = ?').run(sql, index)
  db.exec('PRAGMA writable_schema = RESET')
}

for (const index of [
  'ledger_nonce',
  'ledger_operation',
  'ledger_intent',
  'ledger_account',
  'ledger_restore',
  'ledger_export',
  'ledger_signatures',
])
  // prettier-ignore
  test(`a ledger whose records lie in its table and not in ${index} does not open, and verify says so`, (t) => {
    const { db, ledger, common, sign, restore, reopen } = world(t)
    sign(0)
    restore([])
    ledger.append({ ...common, kind: 'account', address: ALICE })
    ledger.append({ ...common, kind: 'export-request', address: ALICE, tokenId: 't', evidence: '{}' })
    const signed = { chainId: 1, nonce: null, intentId: 'op', effect: Buffer.alloc(32, 2), gas: 1n, hash: Buffer.alloc(32), raw: Buffer.alloc(9), requestHash: null } // prettier-ignore
    ledger.append({ ...common, kind: 'operation', address: ALICE, signed, clientId: 'shop', tokenId: 't' })
    reopen()
    assert.doesNotMatch(verifyLedger(db, null).problems.join(), /fit together/)
    hollow(db, index)
    assert.equal(schemaFault(db), null)
    assert.throws(() => reopen(), damaged(/^Record \d of the ledger is in its table and not in an index of it/))
    assert.match(verifyLedger(db, null).problems.join(), /does not fit together: .*missing from index/)
    // Reindex as the guide says: the records are intact.
    db.exec('REINDEX')
    reopen()
    assert.doesNotMatch(verifyLedger(db, null).problems.join(), /fit together/)
  })

test('every index of the ledger is one that a start looks into', (t) => {
  const { db } = world(t)
  const rows = db.prepare(`SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'ledger'`).all()
  for (const { name } of rows as { name: string }[]) {
    const { sql } = db.prepare('SELECT sql FROM sqlite_schema WHERE name = ?').get(name) as { sql: string }
    db.exec(`DROP INDEX ${name}`)
    assert.throws(() => hiddenRecord(db, 0), new RegExp(`no such index: ${name}`))
    db.exec(sql)
  }
})

/**
 * Inserts a first attempt that nobody signed, by an attacker who can write the folder. Without MACs, it would allow a
 * fee bump without a token.
 */
for (const [where, seq] of [
  ['in the place of a record far back', 2],
  ['before the first record', -1],
] as const)
  test(`an attempt that was put ${where} is raised by nobody`, (t) => {
    const { db, sign, ledger, reopen } = world(t, 1_002)
    sign(5_000)
    const found = (nonce: number) => ledger.attempts(slot({ nonce })).length
    assert.deepEqual([found(1), found(5_000), found(6_000)], [1, 1, 0])
    const [columns, values] = [
      COLUMNS.filter((one) => one !== 'seq').join(', '),
      COLUMNS.filter((one) => one !== 'seq'),
    ]
    const forged = { ...(db.prepare('SELECT * FROM ledger WHERE seq = 2').get() as Record<string, string>), nonce: 6_000, intent_id: 'forged' } as Record<string, string | number> // prettier-ignore
    db.prepare('DELETE FROM ledger WHERE seq = ?').run(seq)
    db.prepare(`INSERT INTO ledger (seq, record, mac, ${columns}) VALUES (?, ?, ?, ${values.map(() => '?').join(', ')})`).run(seq, forged.record!, forged.mac!, ...values.map((one) => forged[one]!)) // prettier-ignore
    assert.throws(() => found(6_000), damaged(new RegExp(`^Record ${seq} `)))
    // A start does not verify old records.
    if (seq < 1) assert.throws(() => reopen(), damaged(/^Record -1 /))
    else assert.throws(() => reopen().attempts(slot({ nonce: 6_000 })), damaged(/^Record 2 /))
  })
