import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { recoverAddress } from 'viem'
import { recoverAuthorizationAddress } from 'viem/utils'
import { bytesOf, hexOf } from '../../../test/gas/stage.ts'
import { caliburDigest } from '../../../test/gas/typed.ts'
import { rehash } from '../../../test/signing-log-store.ts'
import { ask, CHAIN_ID, refusal, SOMEWHERE } from '../../../test/kit/signer.ts'
import { sponsored } from '../../../test/sponsored-world.ts'
import { AppError } from '../../errors.ts'
import { GAS_PAIRS } from '../../gas/addresses.ts'
import { DATABASE_FILE } from '../store.ts'
import type { Hex, SignOperationRequest } from '../../signer-wire/wire.ts'

const { dispatcher, delegate } = GAS_PAIRS.calibur
const ON = { SIGNER_CALIBUR: 'on' }
const CALIBUR = { delegate: 'calibur' } as const
const NOBODY: Hex = `0x${'00'.repeat(20)}`
const deniedBy = (rule: string) => (error: unknown) => error instanceof AppError && error.message.includes(rule)

const digestOf = ({ chainId, from, space, sequence, calls, gasLimit, deadline }: SignOperationRequest): Hex =>
  hexOf(
    caliburDigest({
      ...{ chainId, account: bytesOf(from), dispatcher, space: bytesOf(space), sequence: BigInt(sequence), deadline },
      ...{ gasLimit: Number(gasLimit) },
      calls: calls.map(({ to, value, data }) => ({ to: bytesOf(to), value: BigInt(value), data: bytesOf(data) })),
    }),
  )

test('for Calibur an account signs what Calibur asks, and an authorization of Calibur alone; it is found again as that', async (t) => {
  const { signer, again, ofAlice, alice, problems } = await sponsored(t, ON)
  const request = ofAlice({ ...CALIBUR, sequence: '5', authorizationNonce: 0 })
  const { digest, signature, authorization, packed } = await signer.signOperation(request)
  assert.equal(digest, digestOf(request))
  assert.equal((await recoverAddress({ hash: digest, signature })).toLowerCase(), alice.toLowerCase())
  const { address, ...point } = authorization!
  assert.equal(address, hexOf(delegate))
  assert.equal(
    (await recoverAuthorizationAddress({ authorization: { ...point, address } })).toLowerCase(),
    alice.toLowerCase(),
  )
  const { operation } = await signer.recall({ intentId: request.intentId })
  assert.deepEqual([operation!.delegate, operation!.packed], ['calibur', packed])
  // An operation for this project's own code names no delegate.
  const own = await signer.signOperation(ofAlice({ sequence: '6' }))
  assert.equal((await signer.recall({ intentId: 'op_6' })).operation!.delegate, undefined)
  assert.notEqual(own.digest, digest)
  assert.deepEqual(problems(), [])
  const { operations } = await signer.health()
  assert.deepEqual(operations!.delegates, ['chatelaine', 'calibur'])
  // A recorded operation remains signed, but after a restart the signer signs no new ones for Calibur.
  await signer.end('SIGTERM')
  const next = await again({ SIGNER_CALIBUR: 'off' })
  assert.deepEqual((await next.health()).operations!.delegates, ['chatelaine'])
  await assert.rejects(next.signOperation(ofAlice({ ...CALIBUR, sequence: '7' })), deniedBy('delegate-not-listed'))
  await assert.rejects(next.checkOperation(ofAlice({ ...CALIBUR, sequence: '7' })), deniedBy('delegate-not-listed'))
})

test('nothing is signed for Calibur unless its operator said so, and a delegate that is not known is none', async (t) => {
  const { signer, ofAlice, rows } = await sponsored(t)
  const before = rows()
  await assert.rejects(signer.signOperation(ofAlice({ ...CALIBUR, authorizationNonce: 0 })), deniedBy('delegate-not-listed')) // prettier-ignore
  for (const name of ['Calibur', '', 'delegate', null, 7, hexOf(delegate)])
    await assert.rejects(signer.signOperation(ofAlice({ delegate: name as never })), refusal('bad_request'))
  assert.deepEqual(rows(), before)
})

test('an account calls nothing in itself, by no operation and no transaction: Calibur would let another key in', async (t) => {
  const { signer, ofAlice, alice, tokens, rows } = await sponsored(t, ON)
  const before = rows()
  const call = { to: SOMEWHERE, value: '0', data: '0x12345678' as Hex }
  const own = { to: alice.toLowerCase() as Hex, value: '0', data: '0x12345678' as Hex }
  for (const calls of [[own], [call, own], [{ ...own, data: '0x00' as Hex }]])
    for (const more of [CALIBUR, {}])
      await assert.rejects(signer.signOperation(ofAlice({ ...more, calls })), deniedBy('no-call-of-own-account'))
  // Calibur treats the zero address as the account itself, with data and without.
  for (const data of ['0x12345678', '0x'] as const)
    await assert.rejects(signer.signOperation(ofAlice({ ...CALIBUR, calls: [call, { ...call, to: NOBODY, data }] })), deniedBy('no-call-of-own-account')) // prettier-ignore
  const send = ask(alice, { accessToken: tokens.alice, nonce: 0, intentId: 'tx_own' })
  await assert.rejects(signer.sign({ ...send, to: alice, data: '0x12345678' }), deniedBy('no-call-of-own-account'))
  await assert.rejects(signer.check({ ...send, to: alice, data: '0x00' }), deniedBy('no-call-of-own-account'))
  assert.deepEqual(rows(), before)
  // A payment to oneself is not a call: every cancellation is one.
  await signer.signOperation(ofAlice({ ...CALIBUR, calls: [{ ...own, data: '0x' }] }))
  await signer.sign({ ...send, to: alice, data: '0x' })
})

test('a sponsor sends an operation to the dispatcher it was signed for and to no other, raises it, and cancels it there', async (t) => {
  const { signer, ofAlice, ofBob, outer, tokens, problems } = await sponsored(t, ON)
  const caliburs = await signer.signOperation(ofAlice({ ...CALIBUR, sequence: '1', authorizationNonce: 0 }))
  const ours = await signer.signOperation(ofBob({ sequence: '2' }))
  // With another delegate, the bytes belong to no recorded operation.
  await assert.rejects(signer.signOuter(outer([caliburs])), refusal('operation_refused'))
  await assert.rejects(signer.signOuter(outer([ours], CALIBUR)), refusal('operation_refused'))
  await assert.rejects(signer.signOuter(outer([caliburs, ours], CALIBUR)), refusal('operation_refused'))
  await assert.rejects(signer.signOuter(outer([caliburs], { delegate: 'other' as never })), refusal('bad_request'))
  const { address: from } = await signer.createAccount({ userId: 'SPONSOR-HOUSE' })
  const alice = ofAlice().from
  const asked = outer([caliburs], { ...CALIBUR, authorizations: [{ from: alice, nonce: 0 }] })
  const { raw } = await signer.signOuter(asked)
  assert.ok(raw.includes(dispatcher.toString('hex')))
  const raised = await signer.signOuter({
    ...asked,
    kind: 'replace',
    maxFeePerGas: '2000',
    maxPriorityFeePerGas: '200',
  })
  assert.ok(raised.raw.includes(dispatcher.toString('hex')))
  // A fee bump to another dispatcher would have another effect.
  await assert.rejects(signer.signOuter({ ...asked, delegate: 'chatelaine', kind: 'replace', maxFeePerGas: '3000', maxPriorityFeePerGas: '300' }), refusal('operation_refused')) // prettier-ignore
  const cancel = await signer.cancelOuter({
    ...{ intentId: asked.intentId, chainId: CHAIN_ID, from, nonce: 0, gas: '100000', sequences: ['1'] },
    ...{
      maxFeePerGas: '4000',
      maxPriorityFeePerGas: '400',
      accessToken: tokens.alice,
      authorizations: asked.authorizations,
    },
  })
  assert.ok(cancel.raw.includes(dispatcher.toString('hex')))
  assert.deepEqual(problems(), [])
})

test('what was signed for Calibur is looked at again by another library: each change of it is found with all hashes computed anew', async (t) => {
  const { signer, ofAlice, ofBob, outer, folder, problems } = await sponsored(t, ON)
  const first = await signer.signOperation(ofAlice({ ...CALIBUR, sequence: '3', authorizationNonce: 0 }))
  await signer.signOperation(ofBob({ sequence: '4' }))
  await signer.signOuter(outer([first], CALIBUR))
  await signer.end('SIGTERM')
  assert.deepEqual(problems(), [])
  const at = (place: number, bytes: string) => `CAST(substr(raw, 1, ${place - 1}) || x'${bytes}' || substr(raw, ${place + bytes.length / 2}) AS BLOB)` // prettier-ignore
  const ours = `kind = 'operation' AND intent_id = 'op_3'`
  const opened = new DatabaseSync(join(folder, DATABASE_FILE))
  const { raw } = opened.prepare(`SELECT raw FROM ledger WHERE ${ours}`).get() as { raw: Uint8Array }
  opened.close()
  const another = (place: number) => at(place, raw[place - 1] === 0xff ? 'fe' : 'ff')
  const tampers: [what: string, sql: string, found: RegExp][] = [
    ['for our own code', `UPDATE ledger SET raw = ${at(1, GAS_PAIRS.chatelaine.dispatcher.toString('hex'))} WHERE ${ours}`, /its hash does not match/], // prettier-ignore
    ['for another contract', `UPDATE ledger SET raw = ${at(1, 'aa'.repeat(20))} WHERE ${ours}`, /for another contract/],
    ['another deadline', `UPDATE ledger SET raw = ${another(80)} WHERE ${ours}`, /its hash does not match/],
    ['another gas limit', `UPDATE ledger SET raw = ${at(73, '0000ffff')}, gas = '65535' WHERE ${ours}`, /its hash does not match/], // prettier-ignore
    ['another id', `UPDATE ledger SET raw = ${at(72, '09')} WHERE ${ours}`, /its hash does not match/],
    ['another call', `UPDATE ledger SET raw = ${another(160)} WHERE ${ours}`, /its hash does not match/],
    ['sent to another dispatcher', `UPDATE ledger SET raw = CAST(unhex(replace(hex(raw), '${dispatcher.toString('hex').toUpperCase()}', '${GAS_PAIRS.chatelaine.dispatcher.toString('hex').toUpperCase()}')) AS BLOB) WHERE rule = 'sponsored-operations'`, /was not signed before/], // prettier-ignore
  ]
  for (const [what, sql, found] of tampers) {
    const db = new DatabaseSync(join(folder, DATABASE_FILE))
    db.exec('CREATE TEMP TABLE kept AS SELECT * FROM ledger')
    db.exec(sql)
    rehash(db)
    const said = problems()
    assert.ok(
      said.some((each) => found.test(each)),
      `${what}: ${said.join(' ')}`,
    )
    db.exec('DELETE FROM ledger; INSERT INTO ledger SELECT * FROM kept')
    rehash(db)
    db.close()
  }
  assert.deepEqual(problems(), [])
})
