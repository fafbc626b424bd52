import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { linesOf } from './lines.ts'

test('no line is lost, however long whoever reads them takes before the first', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-lines-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'lines')
  const written = Array.from({ length: 10_000 }, (_, index) => `line ${index}`)
  writeFileSync(file, `${written.join('\n')}\n`)
  const lines = linesOf(file)
  await sleep(100)
  const read: string[] = []
  for await (const line of lines) {
    if (read.length % 1_000 === 0) await sleep(1)
    read.push(line)
  }
  assert.deepEqual(read, written)
})

test('a file that is not there is said to whoever reads it', async () => {
  await assert.rejects(linesOf(join(tmpdir(), 'chatelaine-no-such-file')).next(), { code: 'ENOENT' })
})
