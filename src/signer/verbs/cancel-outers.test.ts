import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { encodeFunctionData, parseTransaction, recoverTransactionAddress } from 'viem'
import { artefact } from '../../../test/gas/stage.ts'
import { ALICE, ask, CHAIN_ID, refusal, SOMEWHERE } from '../../../test/kit/signer.ts'
import { HOUSE, SPACE, sponsored } from '../../../test/sponsored-world.ts'
import { readGasContracts } from '../../gas/contracts.ts'
import { cancelOuter } from './cancel-outer.ts'
import { Refusal } from '../refusal.ts'
import { frozenEntry, revoked, type CancelOuterRequest, type Hex } from '../../signer-wire/wire.ts'

const { dispatcher } = readGasContracts()
const { abi } = artefact('Dispatcher')
const denied = (rule: string) => (error: unknown) =>
  refusal('policy_denied')(error) && (error as Error).message.includes(`The rule ${rule} rejects`)

/** A sponsor's transaction with an operation of Alice's, who delegates in it, and one of Bob's; and a cancel of it that is good but for what a test changes. */
async function carried(t: Parameters<typeof sponsored>[0], more: Record<string, string> = {}) {
  const world = await sponsored(t, more)
  const { signer, ofAlice, ofBob, outer, house, alice, tokens } = world
  const operations = [
    await signer.signOperation(ofAlice({ authorizationNonce: 0 })),
    await signer.signOperation(ofBob({ sequence: '1' })),
  ]
  const authorizations = [{ from: alice, nonce: 0 }]
  const sent = await signer.signOuter(outer(operations, { nonce: 5, authorizations }))
  const cancel = (changes: Partial<CancelOuterRequest> = {}): CancelOuterRequest => ({
    ...{ intentId: 'outer_5', chainId: CHAIN_ID, from: house, nonce: 5, gas: '120000', authorizations },
    ...{ maxFeePerGas: '2000', maxPriorityFeePerGas: '200', sequences: ['0'], accessToken: tokens.alice },
    ...changes,
  })
  return { ...world, sent, operations, authorizations, cancel }
}
function without(request: CancelOuterRequest): CancelOuterRequest {
  const { accessToken: _, ...rest } = request
  return rest
}

test('a person’s id is used up at the nonce of what carries it, with its authorizations, for their own token; recorded and the same forever', async (t) => {
  const { signer, again, cancel, sent, house, rows, problems } = await carried(t)
  const signed = await signer.cancelOuter(cancel())
  assert.deepEqual(
    [signed.kind, signed.rule, signed.nonce, signed.stored],
    ['cancel', 'sponsored-operations', 5, false],
  )
  const tx = parseTransaction(signed.raw)
  const data = encodeFunctionData({ abi, functionName: 'cancel', args: [SPACE, [0n]] })
  assert.deepEqual([tx.type, tx.to?.toLowerCase(), tx.value ?? 0n, tx.nonce, tx.data], ['eip7702', dispatcher, 0n, 5, data]) // prettier-ignore
  const [kept] = tx.authorizationList!
  assert.deepEqual(kept, parseTransaction(sent.raw).authorizationList![0])
  const from = await recoverTransactionAddress({ serializedTransaction: signed.raw as never })
  assert.equal(from.toLowerCase(), house.toLowerCase())
  const record = rows().at(-1)!
  assert.deepEqual([record.kind, record.user_id, record.client_id, record.token_id, record.rule], ['cancel', HOUSE, null, null, 'sponsored-operations']) // prettier-ignore
  assert.match(String(record.evidence), /"token_sha256":"/)
  assert.deepEqual(problems(), [])
  assert.deepEqual(await signer.cancelOuter(without(cancel())), { ...signed, stored: true })
  // A fee bump without a token does not change the effect.
  const dearer = { maxFeePerGas: '3000', maxPriorityFeePerGas: '300' }
  const raised = await signer.cancelOuter(without(cancel(dearer)))
  assert.deepEqual([raised.kind, raised.stored, parseTransaction(raised.raw).data], ['cancel', false, data])
  await signer.end('SIGKILL')
  const next = await again()
  assert.deepEqual(await next.cancelOuter(cancel(dearer)), { ...raised, stored: true })
  assert.deepEqual(problems(), [])
})

test('nothing else is such a cancel: another’s id, none that is in it, no token, another nonce or intent, somebody else’s account', async (t) => {
  const { signer, place, cancel, outer, operations, alice, bob, house, tokens, rows, problems } = await carried(t, { SIGNER_CHAINS: `${CHAIN_ID} 1` }) // prettier-ignore
  await signer.sign(ask(alice, { intentId: 'own', nonce: 1, accessToken: tokens.alice }))
  const before = rows()
  const refused: [what: string, request: CancelOuterRequest, why: (error: unknown) => boolean][] = [
    ['another’s id', cancel({ sequences: ['1'] }), refusal('forbidden_user')],
    ['another’s beside one’s own', cancel({ sequences: ['0', '1'] }), refusal('forbidden_user')],
    ['with another’s token', cancel({ accessToken: tokens.bob }), refusal('forbidden_user')],
    ['without a token', without(cancel()), refusal('invalid_token')],
    ['with a bad token', cancel({ accessToken: 'x' }), refusal('invalid_token')],
    ['with a token of another network', cancel({ accessToken: await place.token(ALICE, { chain_id: 1 }) }), refusal('insufficient_scope')], // prettier-ignore
    ['with a token that only reads', cancel({ accessToken: await place.token(ALICE, { scope: 'openid' }) }), refusal('insufficient_scope')], // prettier-ignore
    ['an id that is not in it', cancel({ sequences: ['2'] }), refusal('bad_request')],
    ['one twice', cancel({ sequences: ['0', '0'] }), refusal('bad_request')],
    ['at a nonce with nothing', cancel({ nonce: 6 }), refusal('nonce_conflict')],
    ['of another intent', cancel({ intentId: 'outer_9' }), refusal('nonce_conflict')],
    ['of a person', cancel({ from: alice, nonce: 1, intentId: 'own' }), refusal('forbidden_user')],
    ['of nobody', cancel({ from: SOMEWHERE }), refusal('unknown_account')],
    ['with an authorization of somebody who signed none', cancel({ authorizations: [{ from: bob, nonce: 0 }] }), refusal('bad_request')], // prettier-ignore
    ['with one of somebody who is not in it', cancel({ authorizations: [{ from: house, nonce: 0 }] }), refusal('bad_request')], // prettier-ignore
    ['with data', { ...cancel(), data: '0x' } as never, refusal('bad_request')],
    ['to somebody', { ...cancel(), to: SOMEWHERE } as never, refusal('bad_request')],
    ['at a fee that does not outbid', cancel({ maxFeePerGas: '1001' }), refusal('replacement_underpriced')],
    ['at a fee that nobody pays', cancel({ maxFeePerGas: `1${'0'.repeat(14)}` }), denied('max-total-fee')],
    ['on a network that is not served', cancel({ chainId: 5 }), refusal('insufficient_scope')],
    ['on none', cancel({ chainId: 0 }), refusal('bad_request')],
  ]
  for (const [what, request, why] of refused) await assert.rejects(signer.cancelOuter(request), why, what)
  assert.deepEqual(rows(), before)
  // The cancellation may also use up Bob's own operation.
  assert.equal((await signer.cancelOuter(cancel({ sequences: ['1'], accessToken: tokens.bob }))).kind, 'cancel')
  // After that, the transaction itself gets no fee bump.
  const raise = outer(operations, { nonce: 5, intentId: 'outer_5', kind: 'replace', maxFeePerGas: '9000', maxPriorityFeePerGas: '900', authorizations: [{ from: alice, nonce: 0 }] }) // prettier-ignore
  await assert.rejects(signer.signOuter(raise), refusal('nonce_conflict'))
  assert.deepEqual(problems(), [])
})

test('a nonce has one cancel: none by the other verb, and none of other ids, comes after it', async (t) => {
  const { signer, cancel, house, tokens, problems } = await carried(t)
  const plain = (fee: string): Parameters<typeof signer.sign>[0] => ({
    ...{ intentId: 'outer_5', chainId: CHAIN_ID, from: house, nonce: 5, to: house, value: '0', data: '0x' as Hex },
    ...{ gas: '21000', maxFeePerGas: fee, maxPriorityFeePerGas: fee, kind: 'cancel' },
  })
  // A cancellation of no operation only frees the nonce, and needs no token.
  const nothing = without(cancel({ sequences: [] }))
  const freed = await signer.cancelOuter(nothing)
  assert.equal(parseTransaction(freed.raw).type, 'eip7702')
  const dearer = { maxFeePerGas: '3000', maxPriorityFeePerGas: '300' }
  await assert.rejects(signer.cancelOuter(cancel({ ...dearer, accessToken: tokens.alice })), refusal('nonce_conflict'))
  await assert.rejects(signer.cancelOuter({ ...nothing, ...dearer, authorizations: [] }), refusal('nonce_conflict'))
  await assert.rejects(signer.sign(plain('9000')), refusal('nonce_conflict'))
  assert.equal((await signer.cancelOuter({ ...nothing, ...dearer })).stored, false)
  assert.deepEqual(problems(), [])
})

test('who is frozen uses nothing up, and a fee is bounded as one that nobody’s token is for', async (t) => {
  const { signer, place, cancel, rows } = await carried(t, { SIGNER_MAX_RAISE: '3', SIGNER_MAX_FILL_FEE_WEI: '1' })
  // 300,000 gas at 1,000 were agreed to: three times that. A freeze of a person writes that their requests for a key have ended.
  const signed = () => rows().filter(({ kind }) => kind !== 'export-cancel').length
  const before = signed()
  await assert.rejects(signer.cancelOuter(cancel({ gas: '450001' })), denied('max-raise'))
  let at = Date.now()
  const bring = async (subject: string, isFrozen: boolean) =>
    signer.bringRevocations([await place.revocations({ entries: [frozenEntry(subject, { isFrozen, at: ++at })] })])
  for (const [subject, code] of [
    [revoked.user(ALICE), 'account_frozen'],
    [revoked.user(HOUSE), 'account_frozen'],
    [revoked.application('shop'), 'application_suspended'],
  ] as const) {
    await bring(subject, true)
    await assert.rejects(signer.cancelOuter(cancel()), refusal(code), subject)
    await bring(subject, false)
  }
  assert.equal(signed(), before)
  // No one agreed to the cost of a cancellation, so the next one may not triple it again.
  await signer.cancelOuter(cancel({ gas: '450000' }))
  await assert.rejects(signer.cancelOuter(cancel({ gas: '450000', maxFeePerGas: '3000', maxPriorityFeePerGas: '300' })), denied('max-raise')) // prettier-ignore
})

test('cancels of a sponsor’s nonces cost together what a network’s hour allows, whoever asks for them', async (t) => {
  const { signer, operations, authorizations, outer, cancel, problems } = await carried(t, {
    SIGNER_MAX_FILL_FEE_WEI: '1',
    SIGNER_MAX_UNATTENDED_FEE_WEI: String(2n * 120_000n * 2_000n - 1n),
  })
  await signer.signOuter(outer(operations, { nonce: 6, authorizations }))
  await signer.cancelOuter(cancel())
  const next = { intentId: 'outer_6', nonce: 6 }
  await assert.rejects(signer.cancelOuter(cancel(next)), denied('max-unattended-fee'))
  await signer.cancelOuter(cancel({ ...next, gas: '119999' }))
  assert.deepEqual(problems(), [])
})

test('what is recorded of it is verified: ids that are not in what it takes the place of are a fault', async (t) => {
  const { signer, cancel, folder, problems } = await carried(t)
  await signer.cancelOuter(cancel())
  await signer.end('SIGKILL')
  const db = new DatabaseSync(join(folder, 'signer.sqlite'))
  // Change the record as if the cancelled transaction had included no operations.
  db.exec(`UPDATE ledger SET rule = 'default-allow' WHERE kind = 'send'`)
  db.close()
  assert.ok(problems().some((problem) => problem.includes('it cancels a transaction without operations')))
})

test('a freeze of the person that comes while the cancel waits for its turn holds for it', async () => {
  let isFrozen = false
  const frozen = (userId: string) => {
    if (isFrozen && userId === ALICE) throw new Refusal('account_frozen', 'frozen')
  }
  const inside = {
    keys: { ofAddress: () => ({ userId: HOUSE, address: Buffer.alloc(20, 1) }) },
    tokens: { check: () => ({ userId: ALICE, clientId: 'shop', chainId: CHAIN_ID, scopes: ['contracts:write'] }) },
    limits: { chains: null, maxFeeWei: 10n ** 18n },
    freezes: { assertMoves: ({ userId }: { userId: string }) => frozen(userId), isApplicationFrozen: () => false },
    assertUnattended: () => {},
    now: () => 0,
    group: async (_order: number, job: () => unknown) => {
      isFrozen = true
      return job()
    },
  }
  const house = `0x${'01'.repeat(20)}` as const
  const request = { intentId: 'outer_5', chainId: CHAIN_ID, from: house, nonce: 5, gas: '120000', authorizations: [], maxFeePerGas: '2000', maxPriorityFeePerGas: '200', sequences: ['0'], accessToken: 'token' } // prettier-ignore
  await assert.rejects(cancelOuter(inside as never, request), { code: 'account_frozen' })
})
