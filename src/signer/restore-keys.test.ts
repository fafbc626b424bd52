import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { makeKekFile, openKekFile } from './kek.ts'
import { openKeys } from './keys.ts'
import { checkWitness } from './ledger.ts'
import { restoreKeys } from './restore-keys.ts'
import { openSigningLog } from './signing-log.ts'
import { openStore, type Store } from './store.ts'
import { readWitness } from './witness.ts'
import { wrappedPage } from './wrapped.ts'
import type { WrappedDataKey, WrappedKey } from './wire.ts'

/** KEYS_RESTORED=10000 is the proof; what is different at 10,000 is the time it takes. */
const MANY = Number(process.env.KEYS_RESTORED ?? 1_200)

async function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-restore-keys-'))
  makeKekFile(join(folder, 'kek'))
  const kek = openKekFile(join(folder, 'kek'))
  const stores: Store[] = []
  t.after(() => {
    for (const store of stores) store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const open = (name: string) => {
    const store = openStore(join(folder, name))
    stores.push(store)
    const { db } = store
    const log = openSigningLog(db, kek, Date.now, 500)
    return { store, log, keys: openKeys({ db, deks: log.deks, now: Date.now }) }
  }
  return { folder, kek, open }
}

/** Accounts as the verb makes them, and what a second place has of them from the verb `wrapped`. */
function make(
  { store, keys, log: { ledger, heads } }: ReturnType<Awaited<ReturnType<typeof world>>['open']>,
  count: number,
) {
  store.db.exec('BEGIN IMMEDIATE')
  for (let n = 0; n < count; n++) {
    const { userId, address } = keys.create(`X-${n}`)
    ledger.append({ at: 0, kind: 'account', userId, address, rule: 'one-account-per-user' })
  }
  heads.seal()
  store.db.exec('COMMIT')
  const second = { dataKeys: [] as WrappedDataKey[], keys: [] as WrappedKey[] }
  for (let after = 0; ;) {
    const page = wrappedPage(keys, { after })
    second.keys.push(...page.keys)
    second.dataKeys = page.dataKeys
    if (page.isEnd) return second
    after = page.through
  }
}

async function* linesOf({ dataKeys, keys }: { dataKeys: WrappedDataKey[]; keys: WrappedKey[] }) {
  for (const dataKey of dataKeys) yield JSON.stringify({ dataKey })
  for (const key of keys) yield JSON.stringify({ key })
  yield JSON.stringify({ end: { keys: keys.length } })
}

test(`the disk is gone after ${MANY} accounts: every key comes back to its address, and nothing is signed unreconciled`, async (t) => {
  const { kek, open } = await world(t)
  const second = make(open('lost'), MANY)
  assert.equal(second.keys.length, MANY)
  const { store } = open('new')
  const done = await restoreKeys(store, kek, linesOf(second))
  assert.deepEqual({ ...done, refused: done.refused.length }, { restored: MANY, present: 0, refused: 0, lostRecords: MANY }) // prettier-ignore
  const { deks, ledger } = openSigningLog(store.db, kek, Date.now)
  const restored = openKeys({ db: store.db, deks, now: Date.now })
  assert.equal(restored.count(), MANY)
  let opened = 0
  for (const { userId, address } of second.keys) {
    const account = restored.ofUser(userId)!
    assert.equal(`0x${account.address.toString('hex')}`, address)
    // Derives the address from the key, and throws where it is another.
    restored.use(account, () => (opened += 1))
  }
  assert.equal(opened, MANY)
  assert.throws(() => checkWitness(store.db, ledger.head(), readWitness(store.witnessPath)), /witness/)
  const again = await restoreKeys(store, kek, linesOf(second))
  assert.deepEqual([again.restored, again.present], [0, MANY])
})

test('rows that are missing in a store that is otherwise sound come back without a word in its ledger', async (t) => {
  const { kek, open } = await world(t)
  const sound = open('sound')
  const second = make(sound, 5)
  sound.store.db.exec(`DELETE FROM accounts WHERE user_id IN ('X-1', 'X-3')`)
  const { restored, present, lostRecords } = await restoreKeys(sound.store, kek, linesOf(second))
  assert.deepEqual([restored, present, lostRecords], [2, 3, 0])
  assert.equal(openSigningLog(sound.store.db, kek, Date.now).ledger.head().count, 5)
})

test('what does not fit is refused by its user, and the others come', async (t) => {
  const { folder, kek, open } = await world(t)
  const { dataKeys, keys } = make(open('lost'), 8)
  const store = open('new')
  make(store, 1)
  const other = keys[7]!
  const bent: WrappedKey[] = [
    keys[0]!,
    { ...keys[1]!, address: other.address },
    { ...keys[2]!, userId: 'X-someone' },
    { ...keys[3]!, wrapped: other.wrapped },
    { ...keys[4]!, dataKeyId: `0x${'ab'.repeat(16)}` },
    { ...keys[5]!, version: 2 },
    keys[6]!,
  ]
  const { restored, refused } = await restoreKeys(store.store, kek, linesOf({ dataKeys, keys: bent }))
  assert.equal(restored, 1)
  const altered = 'its bytes were altered, or give another address'
  assert.deepEqual(refused, [
    { userId: 'X-0', reason: 'the store has another account of this user' },
    { userId: 'X-1', reason: altered },
    { userId: 'X-someone', reason: altered },
    { userId: 'X-3', reason: altered },
    { userId: 'X-4', reason: 'its data key is not in the file' },
    { userId: 'X-5', reason: altered },
  ])
  makeKekFile(join(folder, 'another'))
  const stranger = openKekFile(join(folder, 'another'))
  const elsewhere = openStore(join(folder, 'elsewhere'))
  t.after(() => elsewhere.close())
  const none = await restoreKeys(elsewhere, stranger, linesOf({ dataKeys, keys }))
  assert.deepEqual([none.restored, none.refused.length], [0, 8])
  assert.equal(none.refused[0]!.reason, 'the master key (KEK) does not open its data key')
})

test('a file that was cut off says so', async (t) => {
  const { kek, open } = await world(t)
  const second = make(open('lost'), 3)
  async function* cut() {
    let left = 3
    for await (const line of linesOf(second)) if (left-- > 0) yield line
  }
  await assert.rejects(restoreKeys(open('new').store, kek, cut()), /not whole/)
})
