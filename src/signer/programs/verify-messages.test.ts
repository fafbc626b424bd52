import assert from 'node:assert/strict'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { SAMPLES } from '../../../test/kit/messages.ts'
import { ALICE, CHAIN_ID } from '../../../test/kit/signer.ts'
import { openGoverned } from '../../../test/policy-world.ts'
import { DATABASE_FILE } from '../store.ts'
import { verifyStore } from './verify.ts'
import { approvalDigest } from '../../signer-wire/approval.ts'

const AT = 1_790_000_000_000
const DEMANDED = /^Signatures without the approval that a rule demands: 1\.$/
const UNSAID = /^Messages whose evidence does not say whether an approval was demanded: 1\.$/

/** A signer, and how a message is signed with the user's approval. */
async function world(t: TestContext, rules: unknown[] | null) {
  const policy = rules === null ? null : JSON.stringify({ version: 1, rules })
  const signer = await openGoverned({ policy, now: () => AT })
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
  return { folder: signer.folder, from, signed }
}

let copies = 0
function assertFound(whole: string, change: (db: DatabaseSync) => void, problem: RegExp): void {
  const folder = `${whole}-${copies++}`
  cpSync(whole, folder, { recursive: true })
  const db = new DatabaseSync(join(folder, DATABASE_FILE))
  change(db)
  db.close()
  const { problems } = verifyStore(folder)
  rmSync(folder, { recursive: true })
  assert.ok(problems.some((one) => problem.test(one)), `${problem}: ${problems.join(' ')}`) // prettier-ignore
}

test('verify finds a message without the approval that a rule demands, with any policy', async (t) => {
  const rest = { name: 'rest', effect: 'allow' }
  for (const rules of [null, [rest], [rest, { name: 'ask', effect: 'require', tier: 'approval' }]]) {
    const { folder, signed } = await world(t, rules)
    await signed('first', { text: 'Hello' })
    assert.deepEqual(verifyStore(folder).problems, [])
    for (const [removed, problem] of [
      [`'$.approval_jti'`, DEMANDED],
      [`'$.approval_sha256', '$.approval_jti'`, DEMANDED],
      [`'$.requires', '$.approval_sha256', '$.approval_jti'`, UNSAID],
    ] as const)
      assertFound(folder, (db) => db.exec(`UPDATE ledger SET evidence = json_remove(evidence, ${removed}) WHERE intent_id = 'first'`), problem) // prettier-ignore
  }
})

test('verify finds a message whose content, signature, network, form or approval is another', async (t) => {
  const { folder: whole, from, signed } = await world(t, null)
  await signed('first', { text: 'Hello' })
  await signed('second', { text: 'Hello again' })
  await signed('typed', SAMPLES.allowance({ address: from, chainId: CHAIN_ID, at: AT }))
  assert.deepEqual(verifyStore(whole).problems, [])
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
    [`evidence = '{' WHERE intent_id = 'first'`, UNSAID],
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
  for (const [change, problem] of all) assertFound(whole, change, problem)
})
