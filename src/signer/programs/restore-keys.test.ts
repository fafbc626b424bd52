import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { attestationOf } from '../verbs/attest.ts'
import { verifierKeyOf } from '../ledger/heads.ts'
import { makeKekFile, openKekFile } from '../kek/file.ts'
import { openKeys } from '../keys/keys.ts'
import { checkWitness } from '../ledger/ledger.ts'
import { restoreKeys } from './restore-keys.ts'
import { openSigningLog } from '../ledger/signing-log.ts'
import { openStore, type Store } from '../store.ts'
import { openWitness, readWitness } from '../ledger/witness.ts'
import { wrappedPage } from '../verbs/wrapped.ts'
import { readVerifierKey } from '../../signer-wire/verifier.ts'
import { type WrappedDataKey, type WrappedKey } from '../../signer-wire/wire.ts'

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
  const open = async (name: string) => {
    const store = openStore(join(folder, name))
    stores.push(store)
    const { db } = store
    const log = await openSigningLog(db, kek, Date.now, 500)
    return { store, log, keys: openKeys({ db, deks: log.deks, now: Date.now }) }
  }
  return { folder, kek, open }
}

/** Accounts as the verb makes them, and what a second place has of them from the verb `wrapped`. */
async function make(
  { store, keys, log: { deks, ledger, heads } }: Awaited<ReturnType<Awaited<ReturnType<typeof world>>['open']>>,
  count: number,
) {
  store.db.exec('BEGIN IMMEDIATE')
  for (let n = 0; n < count; n++) {
    await deks.prepare()
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

async function* texts(lines: string[]) {
  yield* lines
}

test(`the disk is gone after ${MANY} accounts: every key comes back to its address, and nothing is signed unreconciled`, async (t) => {
  const { kek, open } = await world(t)
  const second = await make(await open('lost'), MANY)
  assert.equal(second.keys.length, MANY)
  const { store } = await open('new')
  const done = await restoreKeys(store, kek, linesOf(second))
  assert.deepEqual({ ...done, refused: done.refused.length }, { restored: MANY, present: 0, refused: 0, unattested: MANY, marked: 0, unmarked: 0, lostRecords: MANY }) // prettier-ignore
  const { deks, ledger } = await openSigningLog(store.db, kek, Date.now)
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
  const sound = await open('sound')
  const second = await make(sound, 5)
  sound.store.db.exec(`DELETE FROM accounts WHERE user_id IN ('X-1', 'X-3')`)
  const { restored, present, lostRecords } = await restoreKeys(sound.store, kek, linesOf(second))
  assert.deepEqual([restored, present, lostRecords], [2, 3, 0])
  assert.equal((await openSigningLog(sound.store.db, kek, Date.now)).ledger.head().count, 5)
})

test('what does not fit is refused by its user, and the others come', async (t) => {
  const { folder, kek, open } = await world(t)
  const { dataKeys, keys } = await make(await open('lost'), 8)
  const store = await open('new')
  await make(store, 1)
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
  const altered = 'its bytes were altered, or belong to another address'
  assert.deepEqual(refused, [
    { row: 'X-0', reason: 'the store has another account of this user' },
    { row: 'X-1', reason: altered },
    { row: 'X-someone', reason: altered },
    { row: 'X-3', reason: altered },
    { row: 'X-4', reason: 'its data key is not in the file' },
    { row: 'X-5', reason: altered },
  ])
  makeKekFile(join(folder, 'another'))
  const stranger = openKekFile(join(folder, 'another'))
  const elsewhere = openStore(join(folder, 'elsewhere'))
  t.after(() => elsewhere.close())
  const none = await restoreKeys(elsewhere, stranger, linesOf({ dataKeys, keys }))
  assert.deepEqual([none.restored, none.refused.length], [0, 8])
  assert.equal(none.refused[0]!.reason, 'the master key (KEK) does not open its data key')
})

test('a row that cannot be read is refused by its user, or by its line, and the others come', async (t) => {
  const { kek, open } = await world(t)
  const { dataKeys, keys } = await make(await open('lost'), 12)
  const noRow = 'its row is not from `account export-keys`'
  const noLine = 'the line is not from `account export-keys`'
  const bent = keys.map((key) => ({ key }) as Record<string, unknown>)
  const poison: [change: unknown, row: string, reason: string][] = [
    [{ key: { ...keys[0], tag: '0x0102' } }, 'X-0', noRow],
    [{ key: { ...keys[1], iv: '0x' } }, 'X-1', noRow],
    [{ key: { ...keys[2], iv: `0x${'01'.repeat(8)}` } }, 'X-2', noRow],
    [{ key: { ...keys[3], wrapped: `0x${'zz'.repeat(32)}` } }, 'X-3', noRow],
    [{ key: { userId: 'X-4' } }, 'X-4', noRow],
    [{ key: { ...keys[5], version: 'one' } }, 'X-5', noRow],
    [{ key: { ...keys[6], userId: 6 } }, 'line 8', noRow],
    [{ key: { ...keys[7], userId: 'X-7\u001b[2J' } }, 'line 9', 'its bytes were altered, or belong to another address'],
    [{ key: null }, 'line 10', noLine],
    [null, 'line 11', noLine],
    [7, 'line 12', noLine],
  ]
  const lines = [{ dataKey: dataKeys[0] }, ...poison.map(([change]) => change), bent[11], { end: { keys: 12 } }]
  const { store } = await open('new')
  const done = await restoreKeys(store, kek, texts(lines.map((line) => JSON.stringify(line))))
  assert.deepEqual([done.restored, done.refused], [1, poison.map(([, row, reason]) => ({ row, reason }))])
  const more = await restoreKeys(
    store,
    kek,
    texts([
      JSON.stringify({ dataKey: { ...dataKeys[0], id: 1 } }),
      JSON.stringify({ dataKey: { ...dataKeys[0], wrapped: 7 } }),
      '{',
      JSON.stringify({ key: keys[0] }),
      JSON.stringify({ end: { keys: 1 } }),
    ]),
  )
  assert.deepEqual(more.refused, [
    { row: 'line 1', reason: 'the line is not a data key' },
    { row: 'line 3', reason: noLine },
    { row: 'X-0', reason: 'the master key (KEK) does not open its data key' },
  ])
})

test('with the identity of before, only what that has attested comes back; a store that is still itself needs none named', async (t) => {
  const { kek, open } = await world(t)
  const [lost, foreign] = [await open('lost'), await open('foreign')]
  const { dataKeys, keys } = await make(lost, 4)
  const { identity } = lost.log
  const by = (signer: typeof identity, n: number) => attestationOf(signer, lost.keys, lost.keys.ofUser(`X-${n}`)!)
  const attestations = [by(identity, 0), by(identity, 0), by(foreign.log.identity, 2), null]
  const file = { dataKeys, keys: keys.map((key, n) => ({ ...key, attestation: attestations[n]! })) }
  const expected = readVerifierKey(verifierKeyOf(identity))
  const named = await restoreKeys((await open('new')).store, kek, linesOf(file), { expected })
  assert.deepEqual([named.restored, named.unattested], [1, 0])
  const reason = 'the given identity did not attest its address'
  assert.deepEqual(
    named.refused,
    [1, 2, 3].map((n) => ({ row: `X-${n}`, reason })),
  )
  const unnamed = await restoreKeys((await open('newer')).store, kek, linesOf(file))
  assert.deepEqual([unnamed.restored, unnamed.unattested, unnamed.refused], [4, 4, []])
  lost.store.db.exec('DELETE FROM accounts')
  const own = await restoreKeys(lost.store, kek, linesOf(file))
  assert.deepEqual([own.restored, own.unattested], [4, 3])
})

test('whatever a row holds, the one after it comes', async (t) => {
  const { kek, open } = await world(t)
  const { dataKeys, keys } = await make(await open('lost'), 2)
  const [victim, next] = keys as [WrappedKey, WrappedKey]
  const values = ['', '0x', '0x00', `0x${'00'.repeat(12)}`, `0x${'ff'.repeat(16)}`, `0x${'00'.repeat(32)}`, null, -1, 1.5, 1e300, [], {}, true, undefined] // prettier-ignore
  let runs = 0
  for (const field of Object.keys(victim) as Exclude<keyof WrappedKey, 'elsewhere'>[]) {
    for (const value of [...values, String(victim[field]).slice(0, -1), `${victim[field]}0`]) {
      const { store } = await open(`new-${runs++}`)
      const key = { ...victim, [field]: value } as WrappedKey
      const done = await restoreKeys(store, kek, linesOf({ dataKeys, keys: [key, next] }))
      assert.deepEqual([done.restored, done.refused.length], [1, 1], `${field}: ${JSON.stringify(value)}`)
    }
  }
})

test('an older store with a witness is not signed on after keys came whose accounts its ledger has lost', async (t) => {
  const { kek, open } = await world(t)
  const second = await make(await open('newer'), 5)
  const older = await open('older')
  await make(older, 2)
  openWitness(older.store.witnessPath, older.log.ledger.head()).close()
  const { restored, refused, lostRecords } = await restoreKeys(older.store, kek, linesOf(second))
  assert.deepEqual([restored, refused.length, lostRecords], [3, 2, 3])
  const { ledger } = await openSigningLog(older.store.db, kek, Date.now)
  assert.throws(() => checkWitness(older.store.db, ledger.head(), readWitness(older.store.witnessPath)), /witness/)
})

test('a key whose user the ledger names with another address is refused, also where the row of theirs is gone', async (t) => {
  const { kek, open } = await world(t)
  const second = await make(await open('lost'), 2)
  const sound = await open('sound')
  await make(sound, 1)
  sound.store.db.exec('DELETE FROM accounts')
  const { restored, refused } = await restoreKeys(sound.store, kek, linesOf(second))
  assert.deepEqual([restored, refused], [1, [{ row: 'X-0', reason: 'the ledger has another address for this user' }]])
})

test('an address that the store has under another user is refused', async (t) => {
  const { kek, open } = await world(t)
  const sound = await open('sound')
  const second = await make(sound, 3)
  sound.store.db.exec(`UPDATE accounts SET user_id = 'X-other' WHERE user_id = 'X-1'`)
  const { restored, present, refused } = await restoreKeys(sound.store, kek, linesOf(second))
  assert.deepEqual([restored, present], [0, 2])
  assert.deepEqual(refused, [{ row: 'X-1', reason: 'the store has this address for another user' }])
})

test('a file that was cut off says so', async (t) => {
  const { kek, open } = await world(t)
  const second = await make(await open('lost'), 3)
  async function* cut() {
    let left = 3
    for await (const line of linesOf(second)) if (left-- > 0) yield line
  }
  await assert.rejects(restoreKeys((await open('new')).store, kek, cut()), /key file is incomplete/)
  for (const keys of [2, 4, undefined, '3'])
    await assert.rejects(
      restoreKeys((await open(`new-${keys}`)).store, kek, linesAndEnd(second.keys, keys)),
      /key file is incomplete/,
      String(keys),
    )
  function linesAndEnd(keys: WrappedKey[], end: unknown) {
    return texts([...keys.map((key) => JSON.stringify({ key })), JSON.stringify({ end: { keys: end } })])
  }
})
