import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { parseTransaction, type TransactionSerializableEIP1559 } from 'viem'
import { rehash } from '../../../test/signing-log-store.ts'
import { sponsored } from '../../../test/sponsored-world.ts'
import { CHAIN_ID, SOMEWHERE } from '../../../test/kit/signer.ts'
import { GAS_PAIRS } from '../../gas/addresses.ts'
import type { Hex } from '../../ids.ts'
import { verifyLog } from '../../verify-log/main.ts'
import { DATABASE_FILE } from '../store.ts'
import { outerFaults } from './verify-operations.ts'
import { verifyStore } from './verify.ts'

test('what was signed for sponsors is looked at again by another library: each change of it is found with all hashes computed anew', async (t) => {
  const { place, signer, ofAlice, ofBob, outer, alice, folder } = await sponsored(t)
  const [first, second] = [
    await signer.signOperation(ofAlice({ authorizationNonce: 0 })),
    await signer.signOperation(ofBob({ sequence: '1' })),
  ]
  await signer.signOuter(outer([first, second], { authorizations: [{ from: alice, nonce: 0 }] }))
  await signer.end('SIGTERM')
  const lines: string[] = []
  // The other checker reads the new records by the same rule as all, their MACs too.
  assert.equal(verifyLog([folder, '--kek-file', place.env.SIGNER_KEK_FILE!], (line) => lines.push(line)), 0, lines.join('\n')) // prettier-ignore
  assert.deepEqual(verifyStore(folder).problems, [])
  const tampers: [what: string, sql: string, found: RegExp][] = [
    ['another deadline', `UPDATE ledger SET raw = CAST(substr(raw, 1, 80) || x'ff' || substr(raw, 82) AS BLOB) WHERE kind = 'operation'`, /its hash does not match/], // prettier-ignore
    ['another signature', `UPDATE ledger SET raw = CAST(substr(raw, 1, 90) || x'0102' || substr(raw, 93) AS BLOB) WHERE kind = 'operation'`, /another account signed it|not a signed transaction/], // prettier-ignore
    ['another id', `UPDATE ledger SET effect = zeroblob(32) WHERE kind = 'operation' AND intent_id = 'op_0'`, /its bytes have a different id/], // prettier-ignore
    ['another network', `UPDATE ledger SET chain_id = 5 WHERE kind = 'operation' AND intent_id = 'op_0'`, /its hash does not match/], // prettier-ignore
    ['another gas limit', `UPDATE ledger SET gas = '1' WHERE kind = 'operation' AND intent_id = 'op_0'`, /a different gas limit/], // prettier-ignore
    [
      'of another nonce',
      `UPDATE ledger SET nonce = 7 WHERE kind = 'authorization'`,
      /belong to another chain or nonce/,
    ],
    ['of other code', `UPDATE ledger SET effect = zeroblob(20) WHERE kind = 'authorization'`, /authorizes other code/],
    ['not for that operation', `UPDATE ledger SET intent_id = 'op_9' WHERE kind = 'authorization'`, /Authorizations without an operation: 1/], // prettier-ignore
    ['signed for nobody', `UPDATE ledger SET intent_id = 'op_9', effect = zeroblob(32) WHERE kind = 'operation' AND intent_id = 'op_1'`, /includes an operation that was not signed before/], // prettier-ignore
    ['sent by a person', `UPDATE ledger SET user_id = 'DISCORD-1' WHERE rule = 'sponsored-operations'`, /First signatures without a token: 1/], // prettier-ignore
    ['sent by another rule', `UPDATE ledger SET rule = 'default-allow' WHERE rule = 'sponsored-operations'`, /First signatures without a token: 1/], // prettier-ignore
    ['not remembered', `DELETE FROM carried WHERE operation = (SELECT min(operation) FROM carried)`, /that sponsors submitted and that differ from the ledger/], // prettier-ignore
    [
      'remembered of another',
      `INSERT INTO carried VALUES (1, 1)`,
      /that sponsors submitted and that differ from the ledger/,
    ],
  ].map(([what, sql, found]) => [what as string, sql as string, found as RegExp])
  for (const [what, sql, found] of tampers) {
    const db = new DatabaseSync(join(folder, DATABASE_FILE))
    db.exec('CREATE TEMP TABLE kept AS SELECT * FROM ledger; CREATE TEMP TABLE carried_kept AS SELECT * FROM carried')
    db.exec(sql)
    rehash(db)
    const { problems } = verifyStore(folder)
    assert.ok(problems.some((each) => found.test(each)), `${what}: ${problems.join(' ')}`) // prettier-ignore
    db.exec('DELETE FROM ledger; INSERT INTO ledger SELECT * FROM kept')
    db.exec('DELETE FROM carried; INSERT INTO carried SELECT * FROM carried_kept')
    rehash(db)
    db.close()
  }
  assert.deepEqual(verifyStore(folder).problems, [])
})

test('a sponsor’s transaction that sends coins of its own, goes to nobody or elsewhere, or has another’s authorization, is named, whoever signed it', async (t) => {
  const { signer, ofBob, outer, folder } = await sponsored(t)
  const first = await signer.signOperation(ofBob())
  const { raw } = await signer.signOuter(outer([first]))
  await signer.end('SIGTERM')
  const db = new DatabaseSync(join(folder, DATABASE_FILE))
  t.after(() => db.close())
  const { type: _, r: __, s: ___, v: ____, yParity: _____, ...tx } = parseTransaction(raw) as TransactionSerializableEIP1559 // prettier-ignore
  const put = db.prepare(`UPDATE ledger SET raw = ? WHERE rule = 'sponsored-operations'`)
  const faultsOf = async (changes: Partial<TransactionSerializableEIP1559>) => {
    const signed = await privateKeyToAccount(generatePrivateKey()).signTransaction({ ...tx, type: 'eip1559', ...changes }) // prettier-ignore
    put.run(Buffer.from(signed.slice(2), 'hex'))
    return outerFaults(db)
  }
  assert.deepEqual(await faultsOf({}), [])
  // Other bytes than were signed, or the dispatcher of other code.
  const flipped = (place: number): Hex => {
    const bytes = Buffer.from(tx.data!.slice(2), 'hex')
    bytes[place]! ^= 1
    return `0x${bytes.toString('hex')}`
  }
  // Its gas limit, deadline, signature and what it calls; the calldata before it is a selector and three words.
  for (const place of [100 + 35, 100 + 40, 100 + 50, 100 + 80, 100 + 120])
    assert.match((await faultsOf({ data: flipped(place) })).join(' '), /includes an operation that was not signed before/) // prettier-ignore
  const elsewhere = await faultsOf({ to: `0x${GAS_PAIRS.calibur.dispatcher.toString('hex')}` })
  assert.match(elsewhere.join(' '), /includes an operation that was not signed before/)
  const changes: Partial<TransactionSerializableEIP1559>[] = [
    { value: 1n },
    { to: SOMEWHERE },
    { to: null },
    { data: '0x' },
    { data: `${tx.data!}00` },
  ]
  for (const change of changes) assert.match((await faultsOf(change)).join(' '), /does more than call the dispatcher/)
  const someone = privateKeyToAccount(generatePrivateKey())
  const foreign = await someone.signAuthorization({ chainId: CHAIN_ID, contractAddress: SOMEWHERE, nonce: 0 })
  const delegating = await someone.signTransaction({ ...tx, type: 'eip7702', authorizationList: [foreign] })
  put.run(Buffer.from(delegating.slice(2), 'hex'))
  assert.match(outerFaults(db).join(' '), /includes an authorization that was not signed before/)
})
