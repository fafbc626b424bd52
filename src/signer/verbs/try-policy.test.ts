import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { ALICE, ask, BOB, refusal, SOMEWHERE, world } from '../../../test/kit/signer.ts'
import { until } from '../../../test/kit/until.ts'
import { checksumAddress } from '../../digits.ts'
import { MAX_DRAFT_BYTES, type Hex } from '../../signer-wire/wire.ts'
import { DATABASE_FILE } from '../store.ts'

const ELSEWHERE: Hex = `0x${'c1'.repeat(20)}`
const REST = { name: 'rest', effect: 'allow' }
const deny = (name: string, to: Hex) => ({ name, effect: 'deny', to: [checksumAddress(to)] })
const policyOf = (version: number, rules: object[]) => JSON.stringify({ version, rules })

test('a draft is compared with the policy in force on what was signed, and changes nothing', async (t) => {
  const { place, address, accessToken, again, signer: first } = await world(t)
  const file = join(place.folder, 'policy.json')
  writeFileSync(file, policyOf(1, [REST]))
  await first.end('SIGTERM')
  const signer = await again({ more: { SIGNER_POLICY_FILE: file } })
  for (const [nonce, to] of [SOMEWHERE, ELSEWHERE, SOMEWHERE].entries())
    await signer.sign(ask(address, { nonce, to, accessToken }))
  writeFileSync(file, policyOf(2, [deny('not-there', ELSEWHERE), REST]))
  await until('the second policy', async () => (await signer.health()).policy?.version === 2)
  const rows = () => {
    const db = new DatabaseSync(join(place.env.SIGNER_DIR!, DATABASE_FILE), { readOnly: true })
    const all = ['ledger', 'meters', 'policy'].map((table) => db.prepare(`SELECT * FROM ${table}`).all())
    db.close()
    return all
  }
  const before = rows()
  const tried = await signer.tryPolicy({ text: policyOf(3, [deny('not-here', SOMEWHERE), REST]) })
  assert.ok(tried.problem === null)
  assert.deepEqual([tried.version, tried.signatures, tried.refused, tried.allowed], [3, 3, 2, 1])
  assert.deepEqual(
    tried.differences.map(({ intentId, refusedBy, rule, userId }) => [intentId, refusedBy, rule, userId]),
    [
      ['tx_2', 'draft', 'not-here', ALICE],
      ['tx_1', 'in force', 'not-there', ALICE],
      ['tx_0', 'draft', 'not-here', ALICE],
    ],
  )
  assert.match(tried.words.join('\n'), /not-here/)
  assert.deepEqual(rows(), before)
  assert.equal((await signer.health()).policy!.version, 2)
  // The draft is not in force.
  await assert.doesNotReject(signer.sign(ask(address, { nonce: 3, accessToken })))

  for (const text of ['', 'x', '{}', policyOf(3, [{ name: 'odd', effect: 'perhaps' }])]) {
    const { problem } = await signer.tryPolicy({ text })
    assert.ok(problem !== null && problem !== '', text)
  }
  for (const text of ['x'.repeat(MAX_DRAFT_BYTES + 1), 7 as never])
    await assert.rejects(signer.tryPolicy({ text }), refusal('bad_request'))
})

test('the signatures of one intent are listed with their rule, for its own user only', async (t) => {
  const { signer, address, accessToken } = await world(t)
  for (const nonce of [0, 1]) await signer.sign(ask(address, { nonce, accessToken }))
  const { signatures } = await signer.signatures({ userId: ALICE, intentId: 'tx_1' })
  assert.deepEqual(signatures.map(({ intentId, rule }) => [intentId, rule]), [['tx_1', 'default-allow']]) // prettier-ignore
  assert.deepEqual((await signer.signatures({ userId: BOB, intentId: 'tx_1' })).signatures, [])
  assert.deepEqual((await signer.signatures({ userId: ALICE, intentId: 'tx_1', chainId: 1 })).signatures, [])
  await assert.rejects(signer.signatures({ userId: ALICE, intentId: 'a b' }), refusal('bad_request'))
})
