import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { StartError } from './refusal.ts'
import { openStore, openStoreForReading } from './store.ts'

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

test('a store of another schema is refused by name, and left as it is', (t) => {
  const folder = world(t)
  const { db, close } = openStore(folder)
  db.exec('PRAGMA user_version = 99')
  close()
  const refusal = { name: 'StartError', message: /has schema 99, and this signer reads only schema 1/ }
  for (const open of [openStore, openStoreForReading]) assert.throws(() => open(folder), refusal)
})

test('a nonce gets its first signature once, and as many replacements as the code allows', (t) => {
  const { db, close } = openStore(world(t))
  const add = (seq: number, kind: string, nonce: number) =>
    db
      .prepare(
        `INSERT INTO ledger (seq, at, kind, user_id, address, chain_id, nonce, intent_id, effect, hash, raw, rule, record, mac)
        VALUES (?, 0, ?, 'DEV-a', x'aa', 1, ?, 'i', x'00', x'00', x'00', 'r', x'00', zeroblob(36))`,
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
