import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { StartError } from './refusal.ts'
import { openStore } from './store.ts'

function world(t: TestContext) {
  const parent = mkdtempSync(join(tmpdir(), 'chatelaine-store-'))
  t.after(() => rmSync(parent, { recursive: true, force: true }))
  return join(parent, 'store')
}

const FULL = 2

test('every commit is synced: a write-ahead log at synchronous=FULL, at each opening', (t) => {
  const folder = world(t)
  for (let opening = 0; opening < 2; opening++) {
    const { db, close } = openStore(folder)
    assert.equal(db.prepare('PRAGMA synchronous').get()!.synchronous, FULL)
    assert.equal(db.prepare('PRAGMA journal_mode').get()!.journal_mode, 'wal')
    close()
  }
})

test('the write-ahead log is folded into the store and does not grow with the number of commits', (t) => {
  const folder = world(t)
  const { db, close } = openStore(folder)
  const write = db.prepare('UPDATE ledger_head SET count = count + 1, record = randomblob(32)')
  for (let commit = 0; commit < 2_500; commit++) write.run()
  // 1,000 pages of 4 KiB start a checkpoint; each page has 24 bytes of its own in the log.
  assert.ok(statSync(join(folder, 'signer.sqlite-wal')).size < 1_100 * (4_096 + 24))
  close()
})

test('a store in use elsewhere, or not writable, is no damaged ledger: the start is refused and may be repeated', (t) => {
  const folder = world(t)
  openStore(folder).close()
  const backup = new DatabaseSync(join(folder, 'signer.sqlite'))
  backup.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  assert.throws(() => openStore(folder), StartError)
  backup.close()
  openStore(folder).close()
})

test('a store whose file cannot be opened at all is no damaged ledger', (t) => {
  const folder = world(t)
  mkdirSync(join(folder, 'signer.sqlite'), { recursive: true })
  assert.throws(() => openStore(folder), StartError)
})

test('a store of an earlier version is brought forward, one of a later version is left alone', (t) => {
  const folder = world(t)
  const first = openStore(folder)
  for (const column of ['request_hash', 'evidence', 'policy', 'spent', 'mac'])
    first.db.exec(`ALTER TABLE ledger DROP COLUMN ${column}`)
  first.db.exec(
    'ALTER TABLE deks DROP COLUMN maced_from; DROP TABLE frozen; DROP TABLE policy; DROP TABLE meters; DROP TABLE identity; DROP INDEX ledger_account',
  )
  first.db.exec('DROP TABLE tree; DROP TABLE heads; DROP TABLE carried; ALTER TABLE ledger_head DROP COLUMN meters')
  first.db.exec('DROP TABLE wrapping; DROP INDEX deks_id; ALTER TABLE deks DROP COLUMN id')
  first.db.exec('PRAGMA user_version = 1')
  first.close()
  const second = openStore(folder)
  assert.ok(second.db.prepare(`SELECT 1 FROM sqlite_schema WHERE name = 'ledger_account'`).get())
  second.db.exec('PRAGMA user_version = 99')
  second.close()
  assert.throws(() => openStore(folder), /newer version/)
})

test('a nonce gets its first signature once, and as many replacements as the code allows', (t) => {
  const { db, close } = openStore(world(t))
  const add = (seq: number, kind: string, nonce: number) =>
    db
      .prepare(
        `INSERT INTO ledger (seq, at, kind, user_id, address, chain_id, nonce, intent_id, effect, hash, raw, rule, record)
        VALUES (?, 0, ?, 'DEV-a', x'aa', 1, ?, 'i', x'00', x'00', x'00', 'r', x'00')`,
      )
      .run(seq, kind, nonce)
  add(1, 'send', 7)
  add(2, 'replace', 7)
  add(3, 'replace', 7)
  add(4, 'cancel', 7)
  add(5, 'send', 8)
  assert.throws(() => add(6, 'send', 7), /UNIQUE/)
  close()
})
