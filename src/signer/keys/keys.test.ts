import assert from 'node:assert/strict'
import { createCipheriv, randomBytes } from 'node:crypto'
import { existsSync, linkSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { computeAddress } from 'ethers'
import { attestationOf } from '../verbs/attest.ts'
import { canonical } from '../canonical.ts'
import { signerOf } from './curve.ts'
import { openDeks, unwrapDeks } from './deks.ts'
import { makeKekFile, openKekFile } from '../kek/file.ts'
import { openKeys } from './keys.ts'
import { KekUnavailable } from '../kek/provider.ts'
import { StartError } from '../refusal.ts'
import { openStore } from '../store.ts'
import type { KeptAccount } from './wrapping.ts'

const DAY = 86_400_000
const DIGEST = Buffer.alloc(32, 5)

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
  const open = async (kek = openKekFile(kekFile)) => {
    const [{ db }, now] = [store, () => clock.now]
    const deks = openDeks({ db, unwrapped: await unwrapDeks(db, kek), now, keysPerEpoch: 3 })
    return openKeys({ db, deks, now })
  }
  return { store, clock, kekFile, open }
}

test('a key opens to the address of its row, also for the next process, and is zeroed after its use, also one that fails', async (t) => {
  const { open } = world(t)
  const { address } = (await open()).create('X-1')
  const keys = await open()
  let kept: Buffer | undefined
  keys.use(keys.ofAddress(address)!, (key) => {
    kept = key
    assert.equal(computeAddress(`0x${key.toString('hex')}`).toLowerCase(), `0x${address.toString('hex')}`)
  })
  assert.deepEqual(kept, Buffer.alloc(32))
  const failing = (key: Buffer) => {
    kept = key
    throw new Error('no signature')
  }
  assert.throws(() => keys.use(keys.ofAddress(address)!, failing), /no signature/)
  assert.deepEqual(kept, Buffer.alloc(32))
})

test('a data key serves its number of accounts and 90 days, and older accounts still open', async (t) => {
  const { open, clock } = world(t)
  let keys = await open()
  const epochs: number[] = []
  for (const id of ['a', 'b', 'c', 'd']) {
    await keys.rotating.deks.prepare()
    epochs.push(keys.create(`X-${id}`).epoch)
  }
  assert.deepEqual(epochs, [1, 1, 1, 2])
  clock.now = 90 * DAY + 1
  keys = await open()
  await keys.rotating.deks.prepare()
  assert.equal(keys.create('X-e').epoch, 3)
  for (const id of ['a', 'd', 'e']) keys.use(keys.ofUser(`X-${id}`)!, () => {})
  assert.equal(keys.count(), 5)
})

test('every field of a row is bound to its key', async (t) => {
  const keys = await world(t).open()
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
    const changed = { ...account, ...changes }
    for (const use of [() => keys.use(changed, () => assert.fail('opened')), () => keys.sign(changed, DIGEST)])
      assert.throws(use, { code: 'key_damaged' }, Object.keys(changes).join())
  }
  keys.use(account, () => {})
  assert.deepEqual(signerOf(DIGEST, keys.sign(account, DIGEST)), account.address)
})

test('a key that was wrapped for another address than its own is opened for nothing and signs or attests nothing', async (t) => {
  const keys = await world(t).open()
  const { userId, address, version } = keys.create('X-1')
  const { epoch, dek } = keys.rotating.deks.current()
  const wrap = (key: Buffer): KeptAccount => {
    const iv = randomBytes(12)
    const terms = canonical('chatelaine user key 1', userId, address, version, epoch)
    const cipher = createCipheriv('aes-256-gcm', dek, iv).setAAD(terms)
    const wrapped = Buffer.concat([cipher.update(key), cipher.final()])
    return { userId, address, version, epoch, wrapped, iv, tag: cipher.getAuthTag() }
  }
  for (const key of [randomBytes(32), Buffer.alloc(32), Buffer.alloc(32, 0xff)]) {
    assert.throws(() => keys.use(wrap(key), () => assert.fail('opened')), { code: 'key_damaged' })
    assert.throws(() => keys.sign(wrap(key), DIGEST), { code: 'key_damaged' })
    const identity = { origin: 'a log', sign: () => assert.fail('attested') }
    assert.throws(() => attestationOf(identity, keys, wrap(key)), { code: 'key_damaged' })
  }
})

test('neither a key nor a data key lies in the store in the clear', async (t) => {
  const { open, store } = world(t)
  const keys = await open()
  const account = keys.create('X-1')
  keys.use(account, (key) => {
    const rows = [...store.db.prepare('SELECT * FROM accounts').all(), ...store.db.prepare('SELECT * FROM deks').all()]
    for (const value of rows.flatMap((row) => Object.values(row))) {
      if (value instanceof Uint8Array) assert.ok(!Buffer.from(value).includes(key))
    }
  })
})

test('data keys wrapped by another master key, or put under another epoch, stop the start', async (t) => {
  const { open, store, kekFile } = world(t)
  const first = await open()
  first.create('X-1')
  store.db.exec('PRAGMA foreign_keys = OFF; UPDATE deks SET epoch = 5')
  await assert.rejects(open(), StartError)
  store.db.exec('UPDATE deks SET epoch = 1')
  await open()
  rmSync(kekFile)
  makeKekFile(kekFile)
  await assert.rejects(open(), /does not open this store/)
})

test('a master key that exists is never replaced', async (t) => {
  const { kekFile } = world(t)
  const aad = randomBytes(4)
  const wrapped = await openKekFile(kekFile).wrap(randomBytes(32), aad)
  makeKekFile(kekFile)
  assert.equal((await openKekFile(kekFile).unwrap(wrapped, aad)).length, 32)
  const unreachable = join(kekFile, 'inside-a-file')
  assert.throws(() => makeKekFile(unreachable), StartError)
})

test('a start killed while it made the master key leaves no second name of it behind the next start', async (t) => {
  const { kekFile } = world(t)
  linkSync(kekFile, `${kekFile}.new`)
  makeKekFile(kekFile)
  assert.ok(!existsSync(`${kekFile}.new`))
  assert.ok(existsSync(kekFile))
})

test('while the master key is away the newest data key takes more accounts, and says why', async (t) => {
  const { open, kekFile, clock } = world(t)
  const kek = openKekFile(kekFile)
  let isAway = false
  const wrap: typeof kek.wrap = async (...terms) => {
    if (isAway) throw new KekUnavailable('The key service is away.')
    return kek.wrap(...terms)
  }
  const unwrap: typeof kek.unwrap = async (...terms) => {
    if (isAway) throw new KekUnavailable('The key service is away.')
    return kek.unwrap(...terms)
  }
  const keys = await open({ ...kek, wrap, unwrap })
  const { deks } = keys.rotating
  isAway = true
  await deks.prepare()
  for (const id of ['a', 'b', 'c']) assert.equal(keys.create(`X-${id}`).epoch, 1)
  assert.equal(deks.masterKey().fault, null)
  await assert.rejects(deks.prepare(), KekUnavailable)
  assert.deepEqual(deks.masterKey(), { provider: 'file', fault: 'The key service is away.' })
  const account = keys.create('X-d')
  keys.use(account, () => {})
  assert.equal(account.epoch, 1)
  assert.equal(deks.begin(), null)
  isAway = false
  await deks.probe()
  assert.equal(deks.masterKey().fault, null)
  await deks.prepare()
  assert.equal(keys.create('X-e').epoch, 2)
  isAway = true
  await deks.probe()
  assert.equal(deks.masterKey().fault, 'The key service is away.')
  // Nobody waits for it, and one that failed is left alone for a while.
  clock.now = 91 * DAY
  deks.prepareSoon()
  isAway = false
  await deks.prepare()
  assert.equal(keys.create('X-f').epoch, 3)
})

test('a data key that its master key does not open again is not used', async (t) => {
  const { open, kekFile } = world(t)
  const kek = openKekFile(kekFile)
  const other = Buffer.alloc(32, 7)
  for (const wrap of [
    async () => Buffer.alloc(60, 1),
    // It opens, as another key.
    async (_dek: Buffer, aad: Buffer) => kek.wrap(other, aad),
  ])
    await assert.rejects(open({ ...kek, wrap }), /cannot decrypt a value that it has just encrypted/)
  const keys = await open(kek)
  keys.create('X-a')
  const { deks } = keys.rotating
  await assert.rejects(deks.wrapBy({ ...kek, wrap: async () => Buffer.alloc(60, 1) }), KekUnavailable)
  assert.ok(await deks.isBy(kek))
})

test('a master key without versions wraps nothing by its newest, and what one wrapped is not taken after another took over', async (t) => {
  const { open, kekFile } = world(t)
  const kek = openKekFile(kekFile)
  assert.equal(await (await open(kek)).rotating.deks.wrapByNewest(), null)
  const keys = await open({ ...kek, isVersioned: true })
  keys.create('X-a')
  const { deks } = keys.rotating
  const before = deks.rows()[0]!.wrapped
  assert.equal(deks.takeOver((await deks.wrapByNewest())!), true)
  assert.notDeepEqual(deks.rows()[0]!.wrapped, before)
  const late = await deks.wrapByNewest()
  makeKekFile(`${kekFile}-2`)
  const next = openKekFile(`${kekFile}-2`)
  assert.equal(deks.takeOver(await deks.wrapBy(next)), true)
  assert.equal(deks.takeOver(late!), false)
  assert.ok(await deks.isBy(next))
})

test('a data key that was made for one master key is not used after another has taken over', async (t) => {
  const { open, kekFile, store } = world(t)
  const keys = await open()
  const { deks } = keys.rotating
  keys.create('X-a')
  await deks.prepare('always')
  makeKekFile(`${kekFile}-2`)
  const next = openKekFile(`${kekFile}-2`)
  const early = await deks.wrapBy(next)
  assert.equal(deks.begin(), 2)
  assert.equal(deks.takeOver(early), false)
  assert.equal(await deks.isBy(next), false)
  await deks.prepare('always')
  assert.equal(deks.takeOver(await deks.wrapBy(next)), true)
  assert.equal(deks.begin(), null)
  assert.equal(await deks.isBy(next), true)
  await deks.prepare('always')
  assert.equal(deks.begin(), 3)
  await assert.rejects(open(), /does not open this store/)
  const again = await open(next)
  again.use(again.ofUser('X-a')!, () => {})
  assert.equal(store.db.prepare('SELECT count(*) AS n FROM deks').get()!.n, 3)
})
