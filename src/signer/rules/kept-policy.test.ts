import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { openLog } from '../../log.ts'
import { openGroup } from '../group.ts'
import { makeKekFile, openKekFile } from '../kek/file.ts'
import { openUnwitnessed } from '../ledger/ledger.ts'
import { openPolicyInForce } from './policy-in-force.ts'
import { recordOf, type LedgerRow } from '../ledger/record.ts'
import { LedgerDamaged } from '../refusal.ts'
import { openSigningLog } from '../ledger/signing-log.ts'
import { openStore } from '../store.ts'
import { systemClock } from '../../clock.ts'

/** More records than a start searches at the end of the ledger. */
const LATER = 1_001

/** Creates a store without a policy, whose ledger has an old record that names version 2. */
async function world(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-kept-policy-'))
  const store = openStore(join(folder, 'store'))
  t.after(() => {
    store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  makeKekFile(join(folder, 'kek'))
  const { db } = store
  const { ledger, deks } = await openSigningLog(db, openKekFile(join(folder, 'kek')), Date.now)
  const append = (n: number, policy: string | null) =>
    ledger.append({ kind: 'account', at: n, userId: `X-${n}`, address: Buffer.alloc(20, n), rule: 'new', policy })
  db.exec('BEGIN')
  append(1, null)
  append(2, `2 ${'ab'.repeat(32)}`)
  for (let n = 0; n < LATER; n++) append(3 + n, null)
  db.exec('COMMIT')
  const group = openGroup({ db, committed() {}, fatal: (error) => assert.fail(String(error)) })
  const common = { db, group, macs: deks.macs, folder, isDevelopment: true, log: openLog('signer', 'silent') }
  return { db, macs: deks.macs, open: () => openPolicyInForce({ clock: systemClock, ...common, file: undefined }) }
}

test('a record far back says which policy decided last, and one that was edited is not believed', async (t) => {
  const { db, macs, open } = await world(t)
  assert.throws(open, /is gone: the ledger's records were decided by version 2/)
  const edit = (sql: string) => {
    db.exec(sql)
    // The records that a start searches are intact.
    openUnwitnessed(db, macs)
    assert.throws(open, (error) => error instanceof LedgerDamaged && /Record 2 of the ledger was altered/.test(error.message)) // prettier-ignore
  }
  edit(`UPDATE ledger SET policy = '1 00' WHERE seq = 2`)
  edit(`DELETE FROM ledger WHERE seq = 1`)
})

test('a record far back whose hash was computed again, with that of the policy, is not by this signer', async (t) => {
  const { db, open } = await world(t)
  const [before, row] = db.prepare('SELECT * FROM ledger WHERE seq < 3 ORDER BY seq').all() as LedgerRow[]
  const record = recordOf(before!.record, { ...row!, policy: '1 00' })
  db.prepare('UPDATE ledger SET policy = ?, record = ? WHERE seq = 2').run('1 00', record)
  assert.throws(open, (error) => error instanceof LedgerDamaged && /Record 2 .* was not written by this signer/.test(error.message)) // prettier-ignore
})
