import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { openLog, type Logger } from '../../log.ts'
import { openGoverned } from '../../../test/policy-world.ts'
import { ALICE, ask, BOB } from '../../../test/kit/signer.ts'
import { LedgerDamaged } from '../refusal.ts'
import { DATABASE_FILE } from '../store.ts'
import { verifyStore } from '../programs/verify.ts'

const DAY = { periodDuration: 86_400 }
const RULES = [
  { name: 'rest', effect: 'allow' },
  { name: 'person', effect: 'limit', per: ['user'], native: { periodAmount: '10', ...DAY } },
  { name: 'all', effect: 'limit', native: { periodAmount: '100', ...DAY } },
]

/** Creates a signer of two users: Alice has used 9 of her 10, Bob 2 of his. */
async function world(t: TestContext) {
  const counted: unknown[] = []
  const log = { ...openLog('signer', 'silent'), warn: (event: string, facts: unknown) => counted.push([event, facts]) } as Logger // prettier-ignore
  const place = await openGoverned({ policy: JSON.stringify({ version: 1, rules: RULES }), now: Date.now, log })
  t.after(place.close)
  const [alice, bob] = [await place.account(ALICE), await place.account(BOB)]
  const sign = (userId: string, nonce: number, value: string) =>
    place.sign(ask(userId === ALICE ? alice : bob, { nonce, value, intentId: `${userId}_${nonce}` }), { userId, clientId: 'shop' }) // prettier-ignore
  await sign(ALICE, 0, '9')
  await sign(BOB, 0, '2')
  return {
    ...{ place, sign, counted },
    /** Checks that manipulations have no effect: Alice has 1 left, Bob 8, and the table matches the ledger. */
    async assertCounted(nonce = 1) {
      await assert.rejects(sign(ALICE, nonce, '2'), /The rule person rejects/)
      await assert.rejects(sign(BOB, nonce, '9'), /The rule person rejects/)
      assert.deepEqual(verifyStore(place.folder).problems, [])
    },
  }
}

const read = (db: DatabaseSync, sql: string) => db.prepare(sql).all()
const metersOf = (db: DatabaseSync) => read(db, 'SELECT meter, window FROM meters ORDER BY meter')
const sealOf = (db: DatabaseSync) => (read(db, 'SELECT meters FROM ledger_head')[0] as { meters: Uint8Array }).meters

const lower = `UPDATE meters SET window = replace(window, '"9"', '"1"') WHERE meter LIKE '%${ALICE}%'`
for (const [what, edit] of Object.entries<string>({
  lowered: lower,
  removed: `DELETE FROM meters WHERE meter LIKE '%${ALICE}%'`,
  'all removed': 'DELETE FROM meters',
  'moved to another person': `UPDATE meters SET window = (SELECT window FROM meters WHERE meter LIKE '%${BOB}%') WHERE meter LIKE '%${ALICE}%'`,
  exchanged: `UPDATE meters SET meter = iif(meter LIKE '%${ALICE}%', replace(meter, '${ALICE}', 'X'), replace(meter, '${BOB}', '${ALICE}')) WHERE meter LIKE '%DISCORD%'`,
  'dated to another day': `UPDATE meters SET window = json_set(window, '$[1]', 1, '$[2][0][0]', 1) WHERE meter LIKE '%${ALICE}%'`,
  'no window any more': `UPDATE meters SET window = 'nothing' WHERE meter LIKE '%${ALICE}%'`,
  'lowered, the seal removed': `${lower}; UPDATE ledger_head SET meters = NULL`,
  'lowered, the seal of nothing': `${lower}; UPDATE ledger_head SET meters = zeroblob(44)`,
  'lowered, the seal of an epoch that is none': `${lower}; UPDATE ledger_head SET meters = CAST(X'00000009' || substr(meters, 5) AS BLOB)`,
  'raised, against someone': `UPDATE meters SET window = replace(window, '"2"', '"10"') WHERE meter LIKE '%${BOB}%'`,
}))
  test(`a meter that was ${what} while the signer was stopped is counted again at its start`, async (t) => {
    const { place, assertCounted, counted } = await world(t)
    place.restart((db) => {
      const before = metersOf(db)
      db.exec(edit)
      if (what !== 'exchanged') assert.notDeepEqual(metersOf(db), before)
    })
    await assertCounted()
    assert.deepEqual(counted, [['meters_recounted', { records: 4, charges: 4 }]])
    place.restart()
    assert.equal(counted.length, 1)
  })

for (const [what, edit] of Object.entries<string>({
  'whose names are bytes': `CREATE TABLE other (meter PRIMARY KEY, window); INSERT INTO other SELECT CAST(meter AS BLOB), window FROM meters; DROP TABLE meters; ALTER TABLE other RENAME TO meters`,
  'that has rows twice': `CREATE TABLE other (meter, window); INSERT INTO other SELECT meter, json_set(window, '$[1]', 1, '$[2][0][0]', 1) FROM meters; INSERT INTO other SELECT * FROM other; INSERT INTO other SELECT * FROM meters; DROP TABLE meters; ALTER TABLE other RENAME TO meters`,
  'that a trigger empties': `CREATE TRIGGER again AFTER UPDATE ON ledger_head BEGIN DELETE FROM meters; END`,
}))
  test(`with a table of meters ${what} the signer does not start, and verify says so`, async (t) => {
    const { place } = await world(t)
    assert.throws(
      () => place.restart((db) => db.exec(edit)),
      (error) => error instanceof LedgerDamaged && /^The store was changed by another program: /.test(error.message),
    )
    assert.match(verifyStore(place.folder).problems.join(), /The store was changed by another program/)
  })

/** Creates a table that is registered with the SQL text of the earlier one, which SQLite trusts. */
function replaceTable(db: DatabaseSync, name: string, make: string): void {
  db.enableDefensive(false)
  const { sql } = db.prepare('SELECT sql FROM sqlite_schema WHERE name = ?').get(name) as { sql: string }
  db.exec(`${make}; DROP TABLE ${name}; ALTER TABLE other RENAME TO ${name}; PRAGMA writable_schema = ON`)
  db.prepare('UPDATE sqlite_schema SET sql = ? WHERE name = ?').run(sql, name)
  db.exec('PRAGMA writable_schema = RESET')
}

const MADE = 'CREATE TABLE other (meter TEXT NOT NULL, window TEXT NOT NULL, n INTEGER'
for (const [what, make] of Object.entries<string>({
  // An even number of equal rows adds nothing to the sum, and a search finds the first row of a name.
  'that is there twice more as nothing': `${MADE}, PRIMARY KEY (meter, window, n)) STRICT, WITHOUT ROWID;
    INSERT INTO other SELECT meter, json_set(window, '$[1]', 1, '$[2][0][0]', 1), n FROM meters, (SELECT 1 AS n UNION SELECT 2);
    INSERT INTO other SELECT meter, window, 3 FROM meters`,
  'that lies where no search finds it': `${MADE}, PRIMARY KEY (meter DESC)) STRICT, WITHOUT ROWID; INSERT INTO other SELECT meter, window, 0 FROM meters`,
}))
  test(`a meter ${what}, in a table of the right text, is counted again`, async (t) => {
    const { place, assertCounted, counted } = await world(t)
    place.restart((db) => replaceTable(db, 'meters', make))
    assert.deepEqual(counted, [['meters_recounted', { records: 4, charges: 4 }]])
    await assertCounted()
  })

test('older meters put back with their seal gain nothing: what the ledger charged since is counted on top', async (t) => {
  const { place, sign, assertCounted } = await world(t)
  let older: ReturnType<typeof metersOf> = []
  let seal: Uint8Array = new Uint8Array()
  place.restart((db) => ((older = metersOf(db)), (seal = sealOf(db))))
  await sign(ALICE, 1, '1')
  await sign(BOB, 1, '3')
  place.restart((db) => {
    db.exec('DELETE FROM meters')
    const put = db.prepare('INSERT INTO meters (meter, window) VALUES (?, ?)')
    for (const { meter, window } of older) put.run(meter!, window!)
    db.prepare('UPDATE ledger_head SET meters = ?').run(seal)
  })
  await assert.rejects(sign(ALICE, 2, '1'), /The rule person rejects/)
  await assert.rejects(sign(BOB, 2, '6'), /The rule person rejects/)
  assert.deepEqual(verifyStore(place.folder).problems, [])
  // Combine the older seal with the current number of records.
  place.restart((db) => {
    const forged = Buffer.concat([seal.subarray(0, 4), sealOf(db).subarray(4, 12), seal.subarray(12)])
    db.exec('DELETE FROM meters')
    const put = db.prepare('INSERT INTO meters (meter, window) VALUES (?, ?)')
    for (const { meter, window } of older) put.run(meter!, window!)
    db.prepare('UPDATE ledger_head SET meters = ?').run(forged)
  })
  await assert.rejects(sign(ALICE, 2, '1'), /The rule person rejects/)
  // Combine one older row with the newer seal.
  place.restart((db) => db.prepare('UPDATE meters SET window = ? WHERE meter = ?').run(older[1]!.window!, older[1]!.meter!)) // prettier-ignore
  await assertCounted(2)
})

test('a meter that was lowered while the signer runs is counted again at the next start, also when it was written since', async (t) => {
  const { place, sign, assertCounted } = await world(t)
  const other = new DatabaseSync(join(place.folder, DATABASE_FILE))
  other.exec(lower)
  other.close()
  await sign(BOB, 1, '1')
  place.restart()
  await assert.rejects(sign(ALICE, 1, '2'), /The rule person rejects/)
  place.restart((db) => db.exec(lower))
  await sign(ALICE, 1, '1')
  place.restart()
  await assert.rejects(sign(ALICE, 2, '1'), /The rule person rejects/)
  await assertCounted(2)
})

test('without an edit nothing is counted again, however often it starts, and after kills', async (t) => {
  const { place, sign, assertCounted, counted } = await world(t)
  let [before, seals] = [[] as unknown[], new Set<string>()]
  place.restart((db) => (before = metersOf(db)))
  place.restart((db) => {
    assert.deepEqual(metersOf(db), before)
    seals = seals.add(Buffer.from(sealOf(db)).toString('hex'))
  })
  place.restart((db) => (seals = seals.add(Buffer.from(sealOf(db)).toString('hex'))))
  assert.equal(seals.size, 1)
  for (const how of ['before-commit', 'after-commit'] as const) {
    place.dieAfter(1, how)
    await sign(BOB, 1, '1').catch(() => {})
  }
  assert.equal(place.deaths(), 2)
  await assertCounted(2)
  assert.deepEqual(counted, [])
})

test('where a record that has to be counted was altered too, far back, the signer does not start', async (t) => {
  const { place, sign, assertCounted } = await world(t)
  // Add more records than a start verifies at the end of the ledger.
  for (let n = 0; n < 1_001; n++) await place.account(`DISCORD-${1_000 + n}`)
  await assertCounted()
  const stripped = `UPDATE ledger SET spent = NULL WHERE spent IS NOT NULL`
  // While the meters are unchanged, nothing is counted again.
  place.restart((db) => db.exec(stripped))
  await assert.rejects(sign(ALICE, 1, '2'), /The rule person rejects/)
  assert.throws(
    () => place.restart((db) => db.exec(lower)),
    (error) => error instanceof LedgerDamaged && /Record 3 of the ledger was altered/.test(error.message),
  )
})
