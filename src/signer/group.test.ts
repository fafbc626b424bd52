import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { openGroup } from './group.ts'

function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-group-'))
  const path = join(folder, 'db')
  const db = new DatabaseSync(path)
  const reader = new DatabaseSync(path)
  db.exec('PRAGMA journal_mode = WAL; CREATE TABLE words (word TEXT UNIQUE) STRICT')
  t.after(() => {
    db.close()
    reader.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const insert = db.prepare('INSERT INTO words VALUES (?)')
  const events: string[] = []
  const group = openGroup({
    db,
    committed: () => events.push('committed'),
    fatal: (error) => events.push(`fatal ${(error as Error).message}`),
  })
  const stored = () =>
    reader
      .prepare('SELECT word FROM words')
      .all()
      .map(({ word }) => word)
  return { group, write: (word: string) => void insert.run(word), stored, events }
}

test('many jobs make one commit, lower orders first, and each is told after it', async (t) => {
  const { group, write, stored, events } = world(t)
  const told = [3, 1, 2].map((order) =>
    group(order, () => {
      write(`${order}`)
      return order
    }).then((value) => events.push(`told ${value} of ${stored().length}`)),
  )
  assert.deepEqual(stored(), [])
  await Promise.all(told)
  assert.deepEqual(events, ['committed', 'told 1 of 3', 'told 2 of 3', 'told 3 of 3'])
  assert.deepEqual(stored(), ['1', '2', '3'])
})

test('a job that refuses leaves the others of its group alone', async (t) => {
  const { group, write, stored } = world(t)
  const refuse = () => {
    throw new Error('refused')
  }
  const [first, second, third] = await Promise.allSettled([
    group(0, () => write('a')),
    group(0, refuse),
    group(0, () => write('b')),
  ])
  assert.deepEqual([first.status, second.status, third.status], ['fulfilled', 'rejected', 'fulfilled'])
  assert.deepEqual(stored(), ['a', 'b'])
})

test('an error of the database ends everything: nobody is told, nothing is kept', async (t) => {
  const { group, write, stored, events } = world(t)
  await group(0, () => write('a'))
  let isTold = false
  const tell = () => (isTold = true)
  void group(0, () => write('b')).then(tell, tell)
  void group(1, () => write('a')).then(tell, tell)
  await new Promise(setImmediate)
  void group(2, () => write('c')).then(tell, tell)
  await new Promise(setImmediate)
  assert.match(events.at(-1)!, /^fatal UNIQUE/)
  assert.equal(isTold, false)
  assert.deepEqual(stored(), ['a'])
})

test('more jobs than fit into one group are all done', async (t) => {
  const { group, write, stored, events } = world(t)
  await Promise.all(Array.from({ length: 300 }, (_, index) => group(index, () => write(`${index}`))))
  assert.equal(stored().length, 300)
  assert.equal(events.length, 3)
})
