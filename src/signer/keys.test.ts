import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync, linkSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { computeAddress } from 'ethers'
import { openDeks } from './deks.ts'
import { makeKekFile, openKekFile } from './kek.ts'
import { openKeys } from './keys.ts'
import { StartError } from './refusal.ts'
import { openStore } from './store.ts'

const DAY = 86_400_000

function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-keys-'))
  const kekFile = join(folder, 'kek')
  makeKekFile(kekFile)
  const store = openStore(join(folder, 'store'))
  t.after(() => {
    store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const clock = { now: 0 }
  const open = () => {
    const [{ db }, now] = [store, () => clock.now]
    return openKeys({ db, deks: openDeks({ db, kek: openKekFile(kekFile), now, keysPerEpoch: 3 }), now })
  }
  return { store, clock, kekFile, open }
}

test('a key opens to the address of its row, also for the next process, and is zeroed after its use', (t) => {
  const { open } = world(t)
  const { address } = open().create('X-1')
  const keys = open()
  let kept: Buffer | undefined
  keys.use(keys.ofAddress(address)!, (key) => {
    kept = key
    assert.equal(computeAddress(`0x${key.toString('hex')}`).toLowerCase(), `0x${address.toString('hex')}`)
  })
  assert.deepEqual(kept, Buffer.alloc(32))
})

test('a key is zeroed also when its use fails', (t) => {
  const keys = world(t).open()
  const account = keys.create('X-1')
  let kept: Buffer | undefined
  const failing = (key: Buffer) => {
    kept = key
    throw new Error('no signature')
  }
  assert.throws(() => keys.use(account, failing), /no signature/)
  assert.deepEqual(kept, Buffer.alloc(32))
})

test('a data key serves its number of accounts and 90 days, and older accounts still open', (t) => {
  const { open, clock } = world(t)
  let keys = open()
  const epochs = ['a', 'b', 'c', 'd'].map((id) => keys.create(`X-${id}`).epoch)
  assert.deepEqual(epochs, [1, 1, 1, 2])
  clock.now = 90 * DAY + 1
  keys = open()
  assert.equal(keys.create('X-e').epoch, 3)
  for (const id of ['a', 'd', 'e']) keys.use(keys.ofUser(`X-${id}`)!, () => {})
  assert.equal(keys.count(), 5)
})

test('every field of a row is bound to its key', (t) => {
  const keys = world(t).open()
  const account = keys.create('X-1')
  const other = keys.create('X-2')
  for (const changes of [
    { userId: 'X-2' },
    { address: other.address },
    { version: 2 },
    { epoch: 9 },
    { wrapped: other.wrapped },
    { iv: other.iv },
    { tag: other.tag },
    { tag: Buffer.alloc(2) },
    { iv: Buffer.alloc(0) },
    { wrapped: account.wrapped.subarray(1) },
    { wrapped: other.wrapped, iv: other.iv, tag: other.tag },
    { ...other, userId: 'X-1' },
  ]) {
    const use = () => keys.use({ ...account, ...changes }, () => assert.fail('opened'))
    assert.throws(use, { code: 'key_damaged' }, Object.keys(changes).join())
  }
  keys.use(account, () => {})
})

test('neither a key nor a data key lies in the store in the clear', (t) => {
  const { open, store } = world(t)
  const keys = open()
  const account = keys.create('X-1')
  keys.use(account, (key) => {
    const rows = [...store.db.prepare('SELECT * FROM accounts').all(), ...store.db.prepare('SELECT * FROM deks').all()]
    for (const value of rows.flatMap((row) => Object.values(row))) {
      if (value instanceof Uint8Array) assert.ok(!Buffer.from(value).includes(key))
    }
  })
})

test('data keys wrapped by another master key, or put under another epoch, stop the start', (t) => {
  const { open, store, kekFile } = world(t)
  open().create('X-1')
  store.db.exec('PRAGMA foreign_keys = OFF; UPDATE deks SET epoch = 5')
  assert.throws(open, StartError)
  store.db.exec('UPDATE deks SET epoch = 1')
  open()
  rmSync(kekFile)
  makeKekFile(kekFile)
  assert.throws(open, /does not open this store/)
})

test('a master key that exists is never replaced', (t) => {
  const { kekFile } = world(t)
  const aad = randomBytes(4)
  const wrapped = openKekFile(kekFile).wrap(randomBytes(32), aad)
  makeKekFile(kekFile)
  assert.equal(openKekFile(kekFile).unwrap(wrapped, aad).length, 32)
  const unreachable = join(kekFile, 'inside-a-file')
  assert.throws(() => makeKekFile(unreachable), StartError)
})

test('a start killed while it made the master key leaves no second name of it behind the next start', (t) => {
  const { kekFile } = world(t)
  linkSync(kekFile, `${kekFile}.new`)
  makeKekFile(kekFile)
  assert.ok(!existsSync(`${kekFile}.new`))
  assert.ok(existsSync(kekFile))
})

test('a master key that fails to wrap once refuses one account, and not those after it', (t) => {
  const { store, kekFile } = world(t)
  const kek = openKekFile(kekFile)
  let isAway = true
  const wrap: typeof kek.wrap = (...terms) => {
    if (isAway) throw new Error('the key service is away')
    return kek.wrap(...terms)
  }
  const [{ db }, now] = [store, () => 0]
  const keys = openKeys({ db, deks: openDeks({ db, kek: { ...kek, wrap }, now }), now })
  assert.throws(() => keys.create('X-1'), /away/)
  isAway = false
  const account = keys.create('X-1')
  keys.use(account, () => {})
  assert.equal(account.epoch, 1)
})
