import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { isContinued, isIncluded, rootOf } from '../../../test/merkle.ts'
import { LedgerDamaged } from '../refusal.ts'
import { openStore } from '../store.ts'
import { openTree } from './tree.ts'

function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-tree-'))
  const { db, close } = openStore(join(folder, 'store'))
  t.after(() => {
    close()
    rmSync(folder, { recursive: true, force: true })
  })
  const insert = db.prepare(
    `INSERT INTO ledger (seq, at, kind, user_id, address, rule, record, mac) VALUES (?, 0, 'account', ?, x'', '', ?, zeroblob(36))`,
  )
  const records: Buffer[] = []
  let tree = openTree(db, 0)
  return {
    db,
    records,
    tree: () => tree,
    reopen: () => (tree = openTree(db, records.length)),
    /** appends the ledger's row, then the tree's, as `append` does */
    grow(to: number) {
      db.exec('BEGIN')
      while (records.length < to) {
        const record = hash('sha256', String(records.length), 'buffer')
        records.push(record)
        insert.run(records.length, `X-${records.length}`, record)
        tree.append(record)
      }
      db.exec('COMMIT')
    },
  }
}

test('the root is that of RFC 9162 at every size, and the same after a start', (t) => {
  const { tree, reopen, grow, records } = world(t)
  assert.equal(tree().root().toString('hex'), 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  for (const size of [1, 2, 3, 7, 8, 255, 256, 257, 511, 512, 513, 700, 1_023, 1_024, 1_025, 1_300]) {
    grow(size)
    assert.deepEqual(tree().root(), rootOf(records), `size ${size}`)
    assert.deepEqual(reopen().root(), rootOf(records), `size ${size}, opened again`)
    assert.equal(tree().size(), size)
  }
  for (const size of [0, 1, 255, 256, 300, 512, 768, 1_025, 1_300])
    assert.deepEqual(tree().rootAt(size), rootOf(records.slice(0, size)), `at ${size}`)
})

test('every record is proved in trees of many sizes, and another record or another place is not', (t) => {
  const { tree, grow, records } = world(t)
  grow(1_030)
  for (const size of [1, 2, 3, 6, 255, 256, 257, 640, 1_024, 1_030]) {
    const root = tree().rootAt(size)
    for (const index of [0, 1, 2, 5, 127, 254, 255, 256, 511, 639, 1_023, 1_029].filter((one) => one < size)) {
      const proof = tree().inclusion(index, size)
      assert.ok(isIncluded(records[index]!, { index, size, root, proof }), `${index} in ${size}`)
      assert.ok(!isIncluded(records[(index + 1) % 1_030]!, { index, size, root, proof }))
      assert.ok(!isIncluded(records[index]!, { index: index + 1, size, root, proof }))
    }
  }
})

test('every size continues every smaller one, and not one with another record in it', (t) => {
  const { tree, grow, records } = world(t)
  grow(600)
  for (const from of [0, 1, 2, 3, 5, 8, 255, 256, 257, 511, 512, 599, 600])
    for (const to of [1, 4, 7, 256, 300, 513, 600].filter((one) => one >= from)) {
      const proof = tree().consistency(from, to)
      const second = { size: to, root: rootOf(records.slice(0, to)) }
      assert.ok(isContinued({ size: from, root: rootOf(records.slice(0, from)) }, second, proof), `${from} to ${to}`)
      if (from === 0) continue
      const other = records.slice(0, from).with(from - 1, Buffer.alloc(32))
      assert.ok(!isContinued({ size: from, root: rootOf(other) }, second, proof), `not ${from} to ${to}`)
    }
})

test('a tree that lacks a part, or all of it, is damaged', (t) => {
  const { db, reopen, grow } = world(t)
  grow(1_100)
  const { rows } = db.prepare('SELECT count(*) AS rows FROM tree').get() as { rows: number }
  // 4 subtrees of 256 leaves, 2 of 512 and 1 of 1,024; smaller ones are read from the ledger.
  assert.equal(rows, 7)
  for (const sql of ['DELETE FROM tree WHERE level = 10', 'DELETE FROM tree']) {
    db.exec(sql)
    assert.throws(reopen, LedgerDamaged)
  }
})
