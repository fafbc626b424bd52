import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseTransaction, recoverTransactionAddress } from 'viem'
import { ALICE, ask, BOB, CHAIN_ID, refusal, SOMEWHERE, makePlace } from '../../../test/kit/signer.ts'
import { dispatchOf, HOUSE, inSeconds, sponsored } from '../../../test/sponsored-world.ts'
import { until } from '../../../test/kit/until.ts'
import { readGasContracts } from '../../gas/contracts.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import { frozenEntry, revoked, type Hex, type SignOuterRequest } from '../../signer-wire/wire.ts'

const { dispatcher, delegate } = readGasContracts()
const denied = (rule: string) => (error: unknown) =>
  refusal('policy_denied')(error) && (error as Error).message.includes(`The rule ${rule} rejects`)
/** Checks a refusal that names one operation. */
const without = (operation: number, because?: string) => (error: unknown) =>
  error instanceof SignerRefused &&
  error.code === 'operation_refused' &&
  error.facts.operation === operation &&
  (because === undefined || error.facts.because === because)

test('a sponsor’s transaction to the dispatcher with what people signed: type 2, or 4 where accounts delegate in it, recorded and the same forever', async (t) => {
  const { signer, again, ofAlice, ofBob, outer, house, alice, rows, problems } = await sponsored(t)
  const [first, second] = [
    await signer.signOperation(ofAlice({ authorizationNonce: 0 })),
    await signer.signOperation(ofBob({ sequence: '1' })),
  ]
  const plain = await signer.signOuter(outer([first, second], { nonce: 5 }))
  assert.deepEqual([plain.kind, plain.rule, plain.stored, plain.nonce], ['send', 'sponsored-operations', false, 5])
  const tx = parseTransaction(plain.raw)
  assert.deepEqual([tx.type, tx.to?.toLowerCase(), tx.value ?? 0n, tx.nonce, tx.chainId], ['eip1559', dispatcher, 0n, 5, CHAIN_ID]) // prettier-ignore
  assert.equal(tx.data, dispatchOf([first.packed, second.packed]))
  const from = await recoverTransactionAddress({ serializedTransaction: plain.raw as never })
  assert.equal(from.toLowerCase(), house.toLowerCase())
  const request = outer([first, second], { nonce: 6, authorizations: [{ from: alice, nonce: 0 }] })
  const delegating = await signer.signOuter(request)
  const typed = parseTransaction(delegating.raw)
  assert.equal(typed.type, 'eip7702')
  const [authorization] = typed.authorizationList!
  assert.deepEqual([authorization!.address.toLowerCase(), authorization!.nonce ?? 0, authorization!.r], [delegate, 0, first.authorization!.r]) // prettier-ignore
  const record = rows().at(-1)!
  assert.deepEqual(
    [record.kind, record.user_id, record.client_id, record.token_id, record.rule],
    ['send', HOUSE, null, null, 'sponsored-operations'],
  )
  assert.deepEqual(problems(), [])
  const found = await signer.recall({ intentId: 'op_0' })
  assert.deepEqual(
    found.operation!.outers.map(({ hash, nonce, intentId }) => [hash, nonce, intentId]),
    [
      [plain.hash, 5, 'outer_5'],
      [delegating.hash, 6, 'outer_6'],
    ],
  )
  const { attempts } = await signer.recall({ chainId: CHAIN_ID, from: house, nonce: 6 })
  assert.deepEqual(attempts.map(({ raw, intentId }) => [raw, intentId]), [[delegating.raw, 'outer_6']]) // prettier-ignore
  await signer.end('SIGKILL')
  const next = await again()
  assert.deepEqual(await next.signOuter(request), { ...delegating, stored: true })
  assert.deepEqual(problems(), [])
})

test('only what this ledger holds is carried, byte for byte, of this network and for a sponsor; nothing else is a transaction of it', async (t) => {
  const { signer, place, ofAlice, ofBob, outer, house, alice, bob, tokens, rows, problems } = await sponsored(t, {
    SIGNER_CHAINS: `${CHAIN_ID} 1`,
  })
  const [first, second] = [
    await signer.signOperation(ofAlice({ authorizationNonce: 0 })),
    await signer.signOperation(ofBob({ sequence: '6' })),
  ]
  await signer.signOperation(ofAlice({ sequence: '2', space: SOMEWHERE }))
  const elsewhere = await signer.signOperation(ofAlice({ sequence: '3', chainId: 1, accessToken: await place.token(ALICE, { chain_id: 1 }), authorizationNonce: 4 })) // prettier-ignore
  const changed = (packed: Hex, place: number): Hex => {
    const bytes = Buffer.from(packed.slice(2), 'hex')
    bytes[place]! ^= 1
    return `0x${bytes.toString('hex')}`
  }
  const before = rows()
  const both = [first, second]
  const data = outer(both).data
  const length = first.packed.length / 2 - 1
  const of = (...packed: Hex[]) => outer([], { data: dispatchOf(packed) })
  const refused: [what: string, request: SignOuterRequest, why: (error: unknown) => boolean][] = [
    ['of nobody', outer(both, { from: SOMEWHERE }), refusal('unknown_account')],
    ['of a person', outer(both, { from: alice }), refusal('forbidden_user')],
    ['nothing', outer([]), refusal('bad_request')],
    ['a call of another function', outer([], { data: `0x095ea7b3${data.slice(10)}` }), refusal('bad_request')],
    ['no call', outer([], { data: '0x' }), refusal('bad_request')],
    ['something behind it', outer([], { data: `${data}00` }), refusal('bad_request')],
    ['a word behind it', outer([], { data: `${data}${'00'.repeat(32)}` }), refusal('bad_request')],
    ['one cut off', of(first.packed, `0x${second.packed.slice(2, -2)}`), refusal('bad_request')],
    ['one twice', outer([first, first]), refusal('bad_request')],
    ['of another space', outer([], { data: dispatchOf([first.packed], SOMEWHERE) }), without(0)],
    ['of another network', outer(both, { chainId: 1 }), without(0)],
    ['one of another network', outer([first, elsewhere]), without(1)],
    ['an authorization that nobody signed', outer(both, { authorizations: [{ from: bob, nonce: 0 }] }), refusal('bad_request')], // prettier-ignore
    ['an authorization for another nonce', outer(both, { authorizations: [{ from: alice, nonce: 1 }] }), refusal('bad_request')], // prettier-ignore
    ['an authorization of another network', outer(both, { authorizations: [{ from: alice, nonce: 4 }] }), refusal('bad_request')], // prettier-ignore
    ['an authorization twice', outer(both, { authorizations: [{ from: alice, nonce: 0 }, { from: alice, nonce: 0 }] }), refusal('bad_request')], // prettier-ignore
    ['an authorization of one without an operation', outer([second], { authorizations: [{ from: alice, nonce: 0 }] }), refusal('bad_request')], // prettier-ignore
    ['authorizations that are no list', outer(both, { authorizations: {} as never }), refusal('bad_request')],
    ['value', { ...outer(both), value: '1' } as never, refusal('bad_request')],
    ['to elsewhere', { ...outer(both), to: SOMEWHERE } as never, refusal('bad_request')],
    ['with a token', { ...outer(both), accessToken: tokens.alice } as never, refusal('bad_request')],
    ['a cancel', { ...outer(both), kind: 'cancel' } as never, refusal('bad_request')],
    ['a legacy price', { ...outer(both), gasPrice: '1' } as never, refusal('bad_request')],
    ['a tip above the fee', outer(both, { maxPriorityFeePerGas: '1001' }), refusal('bad_request')],
    ['at a fee that nobody pays', outer(both, { maxFeePerGas: `1${'0'.repeat(14)}` }), denied('max-total-fee')],
    ['on a network that is not served', outer(both, { chainId: 5 }), denied('chain-not-listed')],
    ['on no network', outer(both, { chainId: 0 }), refusal('bad_request')],
  ]
  // Every byte is compared: account, sequence, limit, deadline, signature, calls.
  for (let at = 0; at < length; at++) {
    if (at >= 105 && at < 109) continue
    refused.push([`byte ${at}`, of(second.packed, changed(first.packed, at)), without(1)])
  }
  for (const [what, request, why] of refused) await assert.rejects(signer.signOuter(request), why, what)
  // More operations than one transaction may have.
  const many = Array.from({ length: 151 }, (_, index): Hex => `0x${first.packed.slice(2, 42)}${index.toString(16).padStart(24, '0')}${first.packed.slice(66)}`) // prettier-ignore
  await assert.rejects(signer.signOuter(of(...many)), refusal('bad_request'))
  // The maximum number is checked: the first operation is recorded, the second is not.
  await assert.rejects(signer.signOuter(of(...many.slice(0, 150))), without(1))
  assert.deepEqual(rows(), before)
  // The tip may be the whole fee.
  await signer.signOuter(outer(both, { authorizations: [{ from: alice, nonce: 0 }], maxPriorityFeePerGas: '1000' }))
  // The verb `sign` does not include operations: neither without a token nor with a user's token.
  const through = { from: house, to: dispatcher, value: '0', data, nonce: 1, intentId: 'tx_1' }
  await assert.rejects(signer.sign(ask(house, through)), refusal('invalid_token'))
  await assert.rejects(signer.sign(ask(house, { ...through, accessToken: tokens.alice })), denied('top-up-to'))
  assert.deepEqual(problems(), [])
})

test('a nonce of a sponsor has one effect, its authorizations included; raises are bounded, and a cancel frees the lane', async (t) => {
  const { signer, ofAlice, ofBob, outer, house, alice, tokens, rows, problems } = await sponsored(t)
  const [first, second] = [
    await signer.signOperation(ofAlice({ authorizationNonce: 0 })),
    await signer.signOperation(ofBob({ sequence: '1' })),
  ]
  const authorizations = [{ from: alice, nonce: 0 }]
  await signer.signOuter(outer([first, second]))
  const before = rows()
  const dearer = { maxFeePerGas: '2000', maxPriorityFeePerGas: '200' }
  const raise = { kind: 'replace', ...dearer } as const
  const other: [string, SignOuterRequest, string][] = [
    ['another intent', outer([first, second], { intentId: 'outer_x', ...raise }), 'nonce_conflict'],
    ['without one of them', outer([first], raise), 'nonce_conflict'],
    ['in another order', outer([second, first], raise), 'nonce_conflict'],
    ['with an authorization', outer([first, second], { ...raise, authorizations }), 'nonce_conflict'],
    ['sent again at other fees', outer([first, second], dearer), 'nonce_conflict'],
    ['by little more', outer([first, second], { ...raise, maxFeePerGas: '1050' }), 'replacement_underpriced'],
    ['with less gas', outer([first, second], { ...raise, gas: '299999' }), 'policy_denied'],
    ['the intent under another nonce', outer([first, second], { nonce: 1, intentId: 'outer_0' }), 'intent_conflict'],
    ['far ahead', outer([first, second], { nonce: 18 }), 'nonce_gap'],
    ['an intent that is an operation', outer([first, second], { nonce: 1, intentId: 'op_0' }), 'intent_conflict'],
  ]
  for (const [what, request, code] of other) await assert.rejects(signer.signOuter(request), refusal(code), what)
  // The cost of a fee bump was checked only by this verb.
  const data = outer([first, second]).data
  const asTransaction = { intentId: 'outer_0', to: dispatcher, value: '0', data, gas: '300000', ...raise }
  await assert.rejects(signer.sign(ask(house, asTransaction)), denied('sponsored-only'))
  await assert.rejects(signer.check(ask(house, asTransaction)), denied('sponsored-only'))
  assert.deepEqual(rows(), before)
  const raised = await signer.signOuter(outer([first, second], raise))
  assert.deepEqual([raised.kind, raised.stored], ['replace', false])
  assert.equal((await signer.signOuter(outer([first, second], raise))).stored, true)
  // A delegating first attempt gets a fee bump in the same way.
  await signer.signOuter(outer([first], { nonce: 1, authorizations }))
  await assert.rejects(signer.signOuter(outer([first], { nonce: 1, ...raise })), refusal('nonce_conflict'))
  const again = await signer.signOuter(outer([first], { nonce: 1, ...raise, authorizations }))
  assert.equal(parseTransaction(again.raw).type, 'eip7702')
  // A cancellation without a token, as for any nonce.
  const cancel = { kind: 'cancel', to: house, value: '0', maxFeePerGas: '4000', maxPriorityFeePerGas: '400' } as const
  assert.equal((await signer.sign(ask(house, { ...cancel, intentId: 'outer_0' }))).kind, 'cancel')
  await assert.rejects(signer.signOuter(outer([first, second], { kind: 'replace', maxFeePerGas: '9000', maxPriorityFeePerGas: '900' })), refusal('nonce_conflict')) // prettier-ignore
  // A nonce of a top-up.
  await signer.sign(ask(house, { nonce: 2, to: alice, accessToken: tokens.alice, intentId: 'up' }))
  await assert.rejects(signer.signOuter(outer([second], { nonce: 2 })), refusal('nonce_conflict'))
  await assert.rejects(signer.signOuter(outer([second], { nonce: 2, intentId: 'up', ...raise })), refusal('nonce_conflict')) // prettier-ignore
  assert.deepEqual(problems(), [])
})

test('a nonce of a sponsor that was never signed is filled, however many of its transactions with operations lie beside it', async (t) => {
  const { signer, ofAlice, outer, house, problems } = await sponsored(t, { SIGNER_MAX_FILLS: '3' })
  const first = await signer.signOperation(ofAlice())
  const fill = (nonce: number) =>
    signer.sign(ask(house, { intentId: `fill_${nonce}`, nonce, kind: 'cancel', to: house, value: '0' }))
  const send = (nonce: number) => signer.signOuter(outer([first], { nonce }))
  for (const nonce of [0, 1, 2, 4]) await send(nonce)
  // Fill nonces left by a process that died: below later signatures, and as the newest.
  assert.equal((await fill(3)).kind, 'cancel')
  assert.equal((await fill(5)).kind, 'cancel')
  // Consecutive gap-filling transactions are limited; a transaction with operations ends their row.
  for (const nonce of [6, 7]) await fill(nonce)
  await assert.rejects(fill(8), refusal('invalid_token'))
  await send(8)
  assert.equal((await fill(9)).kind, 'cancel')
  assert.deepEqual(problems(), [])
})

test('a raise costs at most so many times the first attempt, and all of them what a network’s hour allows', async (t) => {
  const fee = 300_000n * 1_000n
  const { signer, again, ofAlice, outer, problems } = await sponsored(t, {
    SIGNER_MAX_FILL_FEE_WEI: '1000',
    SIGNER_MAX_UNATTENDED_FEE_WEI: String((fee * 21n) / 2n),
  })
  const first = await signer.signOperation(ofAlice())
  const raise = (nonce: number, times: number) =>
    outer([first], { nonce, kind: 'replace', maxFeePerGas: String(1_000 * times), maxPriorityFeePerGas: String(100 * times) }) // prettier-ignore
  for (const nonce of [0, 1]) await signer.signOuter(outer([first], { nonce }))
  await signer.signOuter(raise(0, 2))
  // The limit is eight times the agreed fee, not the bumped fee.
  await assert.rejects(signer.signOuter(raise(0, 9)), denied('max-raise'))
  await signer.signOuter(raise(0, 8))
  await assert.rejects(signer.signOuter(raise(1, 3)), denied('max-unattended-fee'))
  await signer.signOuter(raise(1, 2))
  assert.deepEqual(problems(), [])
  // A restart counts the same: fees of users' operations are not part of that hour.
  await signer.end('SIGKILL')
  const next = await again()
  await assert.rejects(next.signOuter(raise(1, 3)), denied('max-unattended-fee'))
  await next.signOuter(raise(1, 2.25))
})

test('who is frozen now is not carried, nor is what is over; without them the others are', async (t) => {
  const { place, signer, ofAlice, ofBob, outer } = await sponsored(t)
  const kiosk = await place.token(BOB, { client_id: 'kiosk' })
  const first = await signer.signOperation(ofAlice({ sequence: '1' }))
  const second = await signer.signOperation(ofBob({ sequence: '2', accessToken: kiosk }))
  const shortUntil = inSeconds(2)
  const short = await signer.signOperation(ofBob({ sequence: '3', deadline: shortUntil, accessToken: kiosk }))
  let at = Date.now()
  const bring = async (subject: string, isFrozen: boolean) =>
    signer.bringRevocations([await place.revocations({ entries: [frozenEntry(subject, { isFrozen, at: ++at })] })])
  const stored = outer([second, first], { nonce: 1 })
  await signer.signOuter(stored)
  const raise = { kind: 'replace', maxFeePerGas: '2000', maxPriorityFeePerGas: '200' } as const
  for (const [subject, because] of [
    [revoked.user(ALICE), 'account_frozen'],
    [revoked.application('shop'), 'application_suspended'],
  ] as const) {
    await bring(subject, true)
    await assert.rejects(signer.signOuter(outer([second, first])), without(1, because), subject)
    await assert.rejects(signer.signOuter(stored), without(1), subject)
    await assert.rejects(signer.signOuter({ ...stored, ...raise }), without(1), subject)
    await bring(subject, false)
  }
  await bring(revoked.user(HOUSE), true)
  await assert.rejects(signer.signOuter(outer([second, first])), refusal('account_frozen'))
  await assert.rejects(signer.signOuter(stored), refusal('account_frozen'))
  await bring(revoked.user(HOUSE), false)
  const both = outer([second, short], { nonce: 2 })
  await signer.signOuter(both)
  await until('its deadline', async () => Date.now() / 1_000 >= shortUntil + 1)
  await assert.rejects(signer.signOuter(outer([second, short], { nonce: 3 })), without(1, 'operation_expired'))
  await assert.rejects(signer.signOuter({ ...both, ...raise }), without(1))
  // Stored signatures are returned again.
  assert.equal((await signer.signOuter(both)).stored, true)
  await signer.signOuter(outer([second, first], { nonce: 3 }))
})

test('what a policy freezes is neither signed nor carried', async (t) => {
  const { folder, clear } = await makePlace()
  t.after(clear)
  const file = join(folder, 'policy.json')
  const rules = [{ name: 'all', effect: 'allow' }]
  writeFileSync(file, JSON.stringify({ version: 1, rules }))
  const { signer, ofAlice, outer } = await sponsored(t, { SIGNER_POLICY_FILE: file })
  const first = await signer.signOperation(ofAlice())
  assert.equal(first.rule, 'all')
  await signer.signOuter(outer([first]))
  for (const [version, freeze, carried, signed] of [
    [2, { users: [ALICE] }, without(0), 'account_frozen'],
    [3, { users: [HOUSE] }, refusal('account_frozen'), null],
    [4, { clients: ['shop'] }, without(0), 'application_suspended'],
    [5, { everything: true }, refusal('policy_denied'), 'policy_denied'],
  ] as const) {
    writeFileSync(file, JSON.stringify({ version, rules, freeze }))
    await until('the version', async () => (await signer.health()).policy?.version === version)
    await assert.rejects(signer.signOuter(outer([first], { nonce: 1 })), carried)
    if (signed !== null) await assert.rejects(signer.signOperation(ofAlice({ sequence: '1' })), refusal(signed))
  }
})

test('at any moment one transaction has a nonce, and no operation is lost or doubled in a storm of requests', async (t) => {
  const { signer, ofAlice, ofBob, outer, problems, rows } = await sponsored(t)
  const operations = await Promise.all(
    Array.from({ length: 12 }, (_, index) =>
      signer.signOperation((index % 2 === 0 ? ofAlice : ofBob)({ sequence: String(index) })),
    ),
  )
  const asked = Array.from({ length: 60 }, (_, index) =>
    outer(operations.slice(index % 7, (index % 7) + 3), { nonce: index % 5, intentId: `outer_${index % 9}` }),
  )
  const answers = await Promise.allSettled(asked.map((each) => signer.signOuter(each)))
  const signed = answers.filter(({ status }) => status === 'fulfilled')
  assert.ok(signed.length >= 1)
  const outers = rows().filter(({ rule }) => rule === 'sponsored-operations')
  assert.equal(new Set(outers.map(({ nonce }) => nonce)).size, outers.length)
  assert.equal(new Set(outers.map(({ intent_id: intent }) => intent)).size, outers.length)
  assert.deepEqual(problems(), [])
})
