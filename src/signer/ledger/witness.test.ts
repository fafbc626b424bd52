import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { openWitness, readWitness, type LedgerHead } from './witness.ts'

const head = (count: number): LedgerHead => ({ count, record: Buffer.alloc(32, count) })

function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-witness-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'witness')
  const witness = openWitness(path, head(1))
  for (const count of [2, 3, 4]) witness.write(head(count))
  witness.close()
  return path
}

test('the newest head is read back, and a newer one after the next start', (t) => {
  const path = world(t)
  assert.deepEqual(readWitness(path), head(4))
  openWitness(path, head(4)).close()
  assert.deepEqual(readWitness(path), head(4))
})

test('whichever byte of one slot is torn, the head of the other is read', (t) => {
  const path = world(t)
  const whole = readFileSync(path)
  for (let at = 0; at < whole.length; at++) {
    const torn = Buffer.from(whole)
    torn[at]! ^= 1
    writeFileSync(path, torn)
    const { count } = readWitness(path)!
    assert.equal(count, at < 64 ? 3 : 4, `byte ${at}`)
  }
})

test('a file cut short gives what is whole in it, else nothing', (t) => {
  const path = world(t)
  const whole = readFileSync(path)
  for (const [length, count] of [
    [127, 4],
    [64, 4],
    [63, undefined],
    [1, undefined],
    [0, undefined],
  ] as const) {
    writeFileSync(path, whole.subarray(0, length))
    assert.equal(readWitness(path)?.count, count, `${length} bytes`)
  }
})
