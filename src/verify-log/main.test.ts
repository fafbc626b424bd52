import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { rehash, sign, signingLogStore } from '../../test/signing-log-store.ts'
import { signNote, verifierKeyOf } from '../signer/ledger/heads.ts'
import { verifyLog } from './main.ts'

async function world(t: TestContext, records: number) {
  const { db, folder, kekFile, open, storeFolder: store } = signingLogStore(t)
  const log = await open()
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  sign(log, db, records)
  const key = verifierKeyOf(log.identity)
  const verify = (...args: string[]) => {
    const lines: string[] = []
    const code = verifyLog(args, (line) => lines.push(line))
    return { code, text: lines.join('\n') }
  }
  return { db, log, file, verify, key, kekFile, store, all: [store, '--key', key, '--kek-file', kekFile] }
}

test('a log that nobody touched is whole, with its MACs, its head and a checkpoint that was kept', async (t) => {
  const { log, db, verify, file, all, store } = await world(t, 300)
  const kept = file('kept', log.heads.newest())
  sign(log, db, 7)
  const { code, text } = verify(...all, '--checkpoint', kept)
  assert.equal(code, 0, text)
  assert.match(text, /^307 records, root \S{44}; 1 checkpoints compared\.$/m)
  assert.match(text, /^MACs of 307 records checked\.$/m)
  assert.ok(text.includes(log.ledger.tree.root().toString('base64')))
  const less = verify(join(store, 'signer.sqlite'))
  assert.equal(less.code, 0)
  assert.match(less.text, /Signatures were not checked[^]*MACs were not checked/)
})

for (const [what, sql, reason] of [
  ['altered', `UPDATE ledger SET client_id = 'x' WHERE seq = 3`, /Record 3 does not have the hash of its fields/],
  ['removed', 'DELETE FROM ledger WHERE seq = 3', /Record 3 is missing/],
  ['cut off', 'DELETE FROM ledger WHERE seq > 5', /has 5 records, and its newest head 9[^]*does not end at its head/],
  [
    'given a MAC that is none',
    `PRAGMA ignore_check_constraints = ON; UPDATE ledger SET mac = x'0102' WHERE seq = 3`,
    /Record 3 was not written by this signer/,
  ],
  [
    'given a head of its own',
    `UPDATE heads SET note = replace(note, 'at 2026', 'at 2027')`,
    /newest head in the store is not signed/,
  ],
] as const) {
  test(`a log that was ${what} is damaged`, async (t) => {
    const { db, verify, all } = await world(t, 9)
    db.exec(sql)
    const { code, text } = verify(...all)
    assert.equal(code, 1)
    assert.match(text, reason)
    assert.match(text, /DAMAGED/)
  })
}

test('what was hashed anew is found by the MACs, by the head, and by a checkpoint, each alone', async (t) => {
  const { db, log, verify, file, key, kekFile, store } = await world(t, 9)
  const kept = file('kept', log.heads.newest())
  db.exec(`UPDATE ledger SET client_id = 'x' WHERE seq = 3`)
  rehash(db)
  assert.match(verify(store, '--kek-file', kekFile).text, /Record 3 was not written by this signer/)
  assert.match(verify(store, '--key', key).text, /The first 9 records do not match the checkpoint/)
  db.exec(`DELETE FROM heads`)
  const found = verify(store, '--checkpoint', kept)
  assert.deepEqual([found.code, /The first 9 records do not match/.test(found.text)], [1, true])
})

test('a MAC that was taken away is a fault, and so is a store without data keys', async (t) => {
  const { db, verify, store, kekFile } = await world(t, 5)
  db.exec(`PRAGMA ignore_check_constraints = ON; UPDATE ledger SET mac = x'' WHERE seq = 3`)
  for (const args of [[store], [store, '--kek-file', kekFile]]) {
    const { code, text } = verify(...args)
    assert.equal(code, 1)
    assert.match(text, /Record 3 has no MAC/)
  }
  db.exec('PRAGMA foreign_keys = OFF; DELETE FROM deks')
  const { code, text } = verify(store, '--kek-file', kekFile)
  assert.equal(code, 1)
  assert.match(text, /The store has no data key/)
})

test('a folder that was rolled back is found by a later checkpoint', async (t) => {
  const { log, db, verify, file, all } = await world(t, 4)
  const later = file('later', signNote({ size: 6, root: Buffer.alloc(32), at: 0 }, log.identity))
  const { code, text } = verify(...all, '--checkpoint', later)
  assert.deepEqual([code, /A checkpoint of 6 records is ahead of the log, which has 4/.test(text)], [1, true])
  assert.ok(db.isOpen)
})

test('two heads that were shown to two readers are found by the proof between them', async (t) => {
  const { log, db, verify, file, key } = await world(t, 6)
  const first = file('first', log.heads.newest())
  const split = file('split', signNote({ size: 6, root: Buffer.alloc(32, 9), at: 0 }, log.identity))
  sign(log, db, 5)
  const second = file('second', log.heads.newest())
  const proof = file(
    'proof',
    JSON.stringify({ proof: log.ledger.tree.consistency(6, 11).map((one) => one.toString('hex')) }),
  )
  const between = (one: string) => verify('--checkpoint', one, '--checkpoint', second, '--proof', proof, '--key', key)
  assert.deepEqual([between(first).code, between(split).code], [0, 1])
  assert.match(between(split).text, /of 11 records does not continue the checkpoint of 6/)
  // Of one size nothing leads from the one to the other.
  const empty = file('empty', JSON.stringify({ proof: [] }))
  const same = (one: string) => verify('--checkpoint', one, '--checkpoint', first, '--proof', empty, '--key', key).code
  assert.deepEqual([same(first), same(split)], [0, 1])
  const stranger = (await world(t, 1)).key
  const foreign = verify('--checkpoint', first, '--checkpoint', second, '--proof', proof, '--key', stranger)
  assert.deepEqual([foreign.code, /first is not signed by the key/.test(foreign.text)], [1, true])
})

test('what cannot be checked is told from what is damaged', async (t) => {
  const { db, verify, file, all, store } = await world(t, 2)
  for (const [args, reason] of [
    [[], /Usage/],
    [[join(store, 'nothing')], /could not be checked/],
    [[...all, '--checkpoint', file('none', 'x')], /a checkpoint has a name/],
    [[store, '--kek-file', file('kek2', 'k'.repeat(32))], /the master key is not the one of this store/],
    [[store, '--key', 'k'], /the key is not name\+id\+base64/],
    [['--checkpoint', file('one', 'x'), '--proof', 'x'], /Usage/],
  ] as const) {
    const { code, text } = verify(...args)
    assert.equal(code, 2, args.join(' '))
    assert.match(text, reason)
  }
  db.exec('PRAGMA user_version = 99')
  assert.match(verify(...all).text, /could not be checked: the store has schema 99/)
})

test('the verifier imports nothing but Node.js and itself', async () => {
  const folder = import.meta.dirname
  const files = (await readdir(folder)).filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
  assert.deepEqual(files.toSorted(), ['log.ts', 'main.ts'])
  for (const file of files)
    for (const [, from] of (await readFile(join(folder, file), 'utf8')).matchAll(/(?: from |import[ (])'([^']+)'/g))
      assert.match(from!, /^(node:|\.\/log\.ts$)/, file)
})
