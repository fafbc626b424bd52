import assert from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { SAMPLES } from '../../../test/kit/messages.ts'
import { ALICE, CHAIN_ID } from '../../../test/kit/signer.ts'
import { openGoverned } from '../../../test/policy-world.ts'
import { DATABASE_FILE } from '../store.ts'
import { verifyStore } from './verify.ts'
import { approvalDigest } from '../../signer-wire/approval.ts'

test('verify finds a message whose content, signature, network, form or approval is another', async (t) => {
  const at = 1_790_000_000_000
  const signer = await openGoverned({ policy: null, now: () => at })
  t.after(() => signer.close())
  const from = await signer.account(ALICE)
  const by = { userId: ALICE, clientId: 'shop' }
  const signed = async (intent: string, content: { text: string } | { typedData: string }) => {
    const request = { intentId: intent, chainId: CHAIN_ID, from, ...content }
    const { hash } = await signer.checkMessage(request, by)
    const digest = approvalDigest({ chainId: CHAIN_ID, from, content: { message: hash } })
    const approval = signer.approve(ALICE, { client_id: 'shop', chain_id: CHAIN_ID, intent, digest })
    await signer.signMessage({ ...request, approval }, by)
  }
  await signed('first', { text: 'Hello' })
  await signed('second', { text: 'Hello again' })
  await signed('typed', SAMPLES.allowance({ address: from, chainId: CHAIN_ID, at }))
  assert.deepEqual(verifyStore(signer.folder).problems, [])
  const bent: [bend: (raw: Buffer, other: Buffer) => Buffer, problem: RegExp][] = [
    [(raw) => Buffer.concat([raw, Buffer.from('!')]), /^Record 2: its hash is another\.$/],
    [(raw) => Buffer.concat([Buffer.of(1), raw.subarray(1)]), /^Record 2: its hash is another\.$/],
    [
      (raw) => Buffer.concat([Buffer.of(9), raw.subarray(1)]),
      /^Record 2: its bytes are not a signed transaction, operation or message\.$/,
    ],
    [(raw) => Buffer.concat([raw.subarray(0, 65), Buffer.of(26), raw.subarray(66)]), /^Record 2: its signature has another form\.$/], // prettier-ignore
    [
      (raw, other) => Buffer.concat([other.subarray(0, 66), raw.subarray(66)]),
      /^Record 2: another account signed it\.$/,
    ],
  ]
  const changes: [change: string, problem: RegExp][] = [
    [`chain_id = 1 WHERE intent_id = 'typed'`, /^Record 4: its bytes are of another chain\.$/],
    [`evidence = json_remove(evidence, '$.approval_jti') WHERE intent_id = 'first'`, /^Messages without the approval that their rule demands: 1\.$/], // prettier-ignore
    [`evidence = '{' WHERE intent_id = 'first'`, /^Messages without the approval that their rule demands: 1\.$/],
    [`evidence = (SELECT evidence FROM ledger WHERE intent_id = 'second') WHERE intent_id = 'first'`, /^Approvals that were used twice: 1\.$/], // prettier-ignore
    [`user_id = 'SPONSOR-X' WHERE intent_id = 'first'`, /^First signatures without a token: 1\.$/],
  ]
  const rawOf = (db: DatabaseSync, intent: string) => Buffer.from((db.prepare('SELECT raw FROM ledger WHERE intent_id = ?').get(intent) as { raw: Uint8Array }).raw) // prettier-ignore
  const all: [change: (db: DatabaseSync) => void, problem: RegExp][] = [
    ...bent.map(
      ([bend, problem]) =>
        [
          (db: DatabaseSync) => void db.prepare(`UPDATE ledger SET raw = ? WHERE intent_id = 'first'`).run(bend(rawOf(db, 'first'), rawOf(db, 'second'))), // prettier-ignore
          problem,
        ] as [(db: DatabaseSync) => void, RegExp],
    ),
    ...changes.map(([change, problem]) => [(db: DatabaseSync) => db.exec(`UPDATE ledger SET ${change}`), problem] as [(db: DatabaseSync) => void, RegExp]), // prettier-ignore
  ]
  for (const [index, [change, problem]] of all.entries()) {
    const folder = `${signer.folder}-${index}`
    cpSync(signer.folder, folder, { recursive: true })
    const db = new DatabaseSync(join(folder, DATABASE_FILE))
    change(db)
    db.close()
    const { problems } = verifyStore(folder)
    assert.ok(problems.some((one) => problem.test(one)), `${problem}: ${problems.join(' ')}`) // prettier-ignore
  }
})
