import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { openLog } from '../../log.ts'
import { openDeks, unwrapDeks } from './deks.ts'
import { openGroup } from '../group.ts'
import { makeKekFile, openKekFile } from '../kek/file.ts'
import type { Kek } from '../kek/provider.ts'
import { openKeys } from './keys.ts'
import { openRotation } from './rotation.ts'
import { openStore } from '../store.ts'

/** More than two batches. */
const MANY = 300

/** A store with accounts under one data key, and a master key whose wrapped bytes begin with its version, as a key service has them. */
async function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-rotation-'))
  const store = openStore(join(folder, 'store'))
  t.after(() => {
    store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const { db } = store
  const made = (name: string): Kek => {
    makeKekFile(join(folder, name))
    return openKekFile(join(folder, name))
  }
  const [inFile, next] = [made('kek'), made('kek-next')]
  const service = { version: 1 }
  const kek: Kek = {
    ...inFile,
    isVersioned: true,
    wrap: async (dek, aad) => Buffer.concat([Buffer.of(service.version), await inFile.wrap(dek, aad)]),
    unwrap: (wrapped, aad) => inFile.unwrap(wrapped.subarray(1), aad),
  }
  const deks = openDeks({ db, unwrapped: await unwrapDeks(db, kek), now: Date.now })
  const keys = openKeys({ db, deks, now: Date.now })
  db.exec('BEGIN')
  for (let n = 0; n < MANY; n++) keys.create(`X-${n}`)
  db.exec('COMMIT')
  const fatal = (error: unknown) => assert.fail(String(error))
  const group = openGroup({ db, committed() {}, fatal })
  const open = () => openRotation({ db, keys, group, log: openLog('signer', 'silent'), nextKek: async () => next })
  const versions = () => db.prepare('SELECT wrapped FROM deks ORDER BY epoch').all().map(({ wrapped }) => (wrapped as Uint8Array)[0]) // prettier-ignore
  return { db, deks, keys, service, open, versions }
}

test('asked while a rotation continues from before a start, the data keys are wrapped by the newest version of the master key', async (t) => {
  const { db, deks, service, open, versions } = await world(t)
  await deks.prepare('always')
  db.prepare('UPDATE wrapping SET rewrap_below = ?').run(deks.begin())
  assert.deepEqual(versions(), [1, 1])
  service.version = 2
  const rotation = open()
  const { dataKeys } = await rotation.rotateDek()
  assert.deepEqual(versions(), [2, 2])
  await rotation.idle()
  // The one that was begun is the one that continued.
  assert.deepEqual([dataKeys, rotation.state().dataKeys, rotation.state().left], [2, 2, 0])
})

test('asked for twice at once, there is one rotation, and what it counts is what there is', async (t) => {
  const { db, open } = await world(t)
  db.exec(`UPDATE accounts SET tag = zeroblob(16) WHERE user_id IN ('X-5', 'X-200')`)
  const rotation = open()
  const asked = await Promise.all([rotation.rotateDek(), rotation.rotateDek()])
  for (const { left, dataKeys } of asked) {
    assert.ok(left >= 0 && left <= MANY)
    assert.equal(dataKeys, 2)
  }
  await rotation.idle()
  const { left, damaged, dataKeys } = rotation.state()
  assert.deepEqual({ left, damaged, dataKeys }, { left: 0, damaged: 2, dataKeys: 2 })
})

test('how many keys each data key has wrapped is stored as it is, after every batch', async (t) => {
  const { db, open } = await world(t)
  const rotation = open()
  await rotation.rotateDek()
  await rotation.idle()
  const rows = db.prepare('SELECT epoch, keys FROM deks ORDER BY epoch').all()
  assert.deepEqual(rows.map((row) => ({ ...row })), [{ epoch: 1, keys: 0 }, { epoch: 2, keys: MANY }]) // prettier-ignore
  assert.equal(rotation.state().accounts, MANY)
})

test('copies are told of another master key, by another generation', async (t) => {
  const { keys, open } = await world(t)
  const before = keys.generation()
  await open().rotateKek()
  assert.ok(keys.generation() > before)
})
