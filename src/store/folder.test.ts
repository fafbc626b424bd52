import assert from 'node:assert/strict'
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeFolder } from './folder.ts'

test('a folder is made with those above it, closed to others; one that exists is left as it is', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'chatelaine-folder-'))
  t.after(() => rm(dir, { recursive: true }))
  const path = join(dir, 'a', 'b', 'c')
  for (let times = 0; times < 2; times++) await makeFolder(path, 'DATA_DIR')
  assert.equal((await stat(path)).mode & 0o777, 0o700)
  assert.equal((await stat(join(dir, 'a'))).mode & 0o777, 0o700)
})

test('one that cannot be made is refused by name, also where the system says that its parent is missing', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'chatelaine-folder-'))
  t.after(() => rm(dir, { recursive: true }))
  await writeFile(join(dir, 'file'), '')
  await assert.rejects(
    makeFolder(join(dir, 'file', 'x'), 'DATA_DIR'),
    /^Error: DATA_DIR .*\/file\/x cannot be created: ENOTDIR$/,
  )
  await assert.rejects(makeFolder('/proc/x/y', 'DATA_DIR'), /^Error: DATA_DIR \/proc\/x\/y cannot be created: ENOENT$/)
})
