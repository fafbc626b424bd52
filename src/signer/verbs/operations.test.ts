import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recoverAddress } from 'viem'
import { recoverAuthorizationAddress } from 'viem/utils'
import { typedDigest } from '../../../test/gas/typed.ts'
import { bytesOf, hexOf } from '../../../test/gas/stage.ts'
import { ALICE, ask, CHAIN_ID, refusal, SOMEWHERE } from '../../../test/kit/signer.ts'
import { openGoverned } from '../../../test/policy-world.ts'
import { askOperation, inSeconds, SPACE, sponsored } from '../../../test/sponsored-world.ts'
import { readGasContracts } from '../../gas/contracts.ts'
import { compact } from '../../gas/operation.ts'
import { Refusal } from '../refusal.ts'
import { frozenEntry, revoked, type Hex, type SignOperationRequest } from '../../signer-wire/wire.ts'

const { dispatcher, delegate } = readGasContracts()
const denied = (rule: string) => (error: unknown) =>
  refusal('policy_denied')(error) && (error as Error).message.includes(`The rule ${rule} rejects`)

const digestOf = ({ chainId, from, space, sequence, calls, gasLimit, deadline }: SignOperationRequest): Hex =>
  hexOf(
    typedDigest({
      ...{ chainId, account: bytesOf(from), space: bytesOf(space), sequence: BigInt(sequence), deadline },
      ...{ dispatcher: bytesOf(dispatcher), gasLimit: Number(gasLimit) },
      calls: calls.map(({ to, value, data }) => ({ to: bytesOf(to), value: BigInt(value), data: bytesOf(data) })),
    }),
  )

test('an operation is what viem makes of it as typed data, signed by the person’s account, recorded with its token, and the same forever', async (t) => {
  const { signer, again, ofAlice, alice, rows, problems } = await sponsored(t)
  const request = ofAlice({ sequence: String(2n ** 95n), requestHash: `0x${'ab'.repeat(32)}` })
  assert.deepEqual(await signer.checkOperation(request), { rule: 'default-allow', stored: false, requires: null })
  const before = rows()
  const first = await signer.signOperation(request)
  assert.deepEqual([first.rule, first.stored, first.authorization], ['default-allow', false, undefined])
  assert.equal(first.digest, digestOf(request))
  const { r, s, yParity } = first.signature
  const by = await recoverAddress({ hash: first.digest, signature: { r, s, yParity } })
  assert.equal(by.toLowerCase(), alice.toLowerCase())
  const { vs } = compact({ r: bytesOf(r), s: bytesOf(s), recovery: yParity })
  assert.ok(first.packed.startsWith(alice.toLowerCase()))
  assert.ok(first.packed.includes(`${r.slice(2)}${vs.toString('hex')}`))
  const [record, ...others] = rows().slice(before.length)
  assert.deepEqual(others, [])
  assert.deepEqual(
    [record!.kind, record!.user_id, record!.client_id, record!.nonce, record!.intent_id, record!.gas, record!.rule],
    ['operation', ALICE, 'shop', null, request.intentId, request.gasLimit, 'default-allow'],
  )
  assert.equal(hexOf(record!.hash as Buffer), first.digest)
  assert.equal(hexOf(record!.effect as Buffer), `${SPACE}${(2n ** 95n).toString(16).padStart(24, '0')}`)
  assert.equal(hexOf(record!.raw as Buffer), `${dispatcher}${SPACE.slice(2)}${first.packed.slice(2)}`)
  assert.match((JSON.parse(record!.evidence as string) as { token_sha256: string }).token_sha256, /^[\w-]{43}$/)
  assert.deepEqual(problems(), [])
  await signer.end('SIGKILL')
  const next = await again()
  assert.deepEqual(await next.signOperation(request), { ...first, stored: true })
  assert.deepEqual(await next.checkOperation(request), { rule: 'default-allow', stored: true, requires: null })
  assert.equal(rows().length, before.length + 1)
})

test('an intent has one operation and an id one intent: anything else under either is refused, and a transaction is neither', async (t) => {
  const { signer, ofAlice, ofBob, alice, house, tokens, rows, problems } = await sponsored(t, {
    SIGNER_CHAINS: `${CHAIN_ID} 1`,
  })
  const first = ofAlice({ sequence: '7' })
  await signer.signOperation(first)
  await signer.sign(ask(alice, { accessToken: tokens.alice, intentId: 'tx_own' }))
  const before = rows()
  const call = first.calls[0]!
  const otherwise: Partial<SignOperationRequest>[] = [
    { sequence: '8' },
    { space: SOMEWHERE },
    { calls: [call, call] },
    { calls: [{ ...call, to: house }] },
    { calls: [{ ...call, value: '2' }] },
    { calls: [{ ...call, data: '0x' }] },
    { gasLimit: '60001' },
    { deadline: first.deadline + 1 },
  ]
  for (const change of otherwise) {
    await assert.rejects(signer.signOperation({ ...first, ...change }), refusal('intent_conflict'), JSON.stringify(change)) // prettier-ignore
    await assert.rejects(signer.checkOperation({ ...first, ...change }), refusal('intent_conflict'))
  }
  const bobs = ofBob({ sequence: '9' })
  await assert.rejects(signer.signOperation({ ...bobs, intentId: first.intentId }), refusal('intent_conflict'))
  await assert.rejects(signer.signOperation({ ...first, intentId: 'op_other' }), refusal('sequence_conflict'))
  await assert.rejects(signer.signOperation({ ...bobs, sequence: '7' }), refusal('sequence_conflict'))
  await assert.rejects(signer.checkOperation({ ...bobs, sequence: '7' }), refusal('sequence_conflict'))
  await assert.rejects(signer.signOperation({ ...bobs, intentId: 'tx_own' }), refusal('intent_conflict'))
  await assert.rejects(signer.sign(ask(alice, { accessToken: tokens.alice, nonce: 1, intentId: first.intentId })), refusal('intent_conflict')) // prettier-ignore
  assert.deepEqual(rows(), before)
  // Ids differ by network and by space.
  await signer.signOperation(ofBob({ sequence: '7', space: SOMEWHERE, intentId: 'op_space' }))
  // A dry run needs no id.
  const { sequence: _, ...dry } = ofBob({ intentId: 'op_dry' })
  assert.equal((await signer.checkOperation(dry)).stored, false)
  await assert.rejects(signer.signOperation(dry as never), refusal('bad_request'))
  await signer.signOperation(bobs)
  assert.deepEqual(problems(), [])
})

test('without the person’s own live token for the network nothing is signed, an authorization neither', async (t) => {
  const { place, signer, ofAlice, ofBob, house, tokens, bob, rows } = await sponsored(t, {
    SIGNER_CHAINS: `${CHAIN_ID} 1`,
    SIGNER_REVOCATIONS_SECONDS: '60',
  })
  const before = rows()
  const revokedToken = await place.token(ALICE, { gid: 'gone' })
  await signer.bringRevocations([await place.revocations({ entries: [revoked.grant('gone')] })])
  const refused: [what: string, request: SignOperationRequest, why: (error: unknown) => boolean][] = [
    ['another person’s', ofAlice({ accessToken: tokens.bob }), refusal('forbidden_user')],
    ['for another person', ofAlice({ from: bob }), refusal('forbidden_user')],
    ['for a sponsor', ofAlice({ from: house }), refusal('forbidden_user')],
    ['of a sponsor', ofAlice({ accessToken: await place.token('SPONSOR-HOUSE') }), refusal('forbidden_user')],
    ['none that anybody signed', ofAlice({ accessToken: 'e30.e30.e30' }), refusal('invalid_token')],
    ['none', ofAlice({ accessToken: undefined as never }), refusal('bad_request')],
    ['null', ofAlice({ accessToken: null as never }), refusal('bad_request')],
    ['empty', ofAlice({ accessToken: '' }), refusal('invalid_token')],
    ['revoked', ofAlice({ accessToken: revokedToken }), refusal('invalid_token')],
    ['without the scope', ofAlice({ accessToken: await place.token(ALICE, { scope: 'openid' }) }), refusal('insufficient_scope')], // prettier-ignore
    ['of another network', ofAlice({ chainId: 1 }), refusal('insufficient_scope')],
    ['on a network that is not served', ofAlice({ chainId: 5, accessToken: await place.token(ALICE, { chain_id: 5 }) }), denied('chain-not-listed')], // prettier-ignore
    ['for nobody', ofAlice({ from: SOMEWHERE }), refusal('unknown_account')],
  ]
  for (const [what, request, why] of refused)
    for (const each of [request, { ...request, authorizationNonce: 0 }]) {
      await assert.rejects(signer.signOperation(each), why, what)
      await assert.rejects(signer.checkOperation(each), why, what)
    }
  assert.deepEqual(rows(), before)
  await signer.signOperation(ofBob({ authorizationNonce: 0 }))
})

test('a request that is not exactly one is refused: no digest, no network of all, no address of ours to choose, nothing unknown', async (t) => {
  const { signer, ofAlice, rows } = await sponsored(t)
  const before = rows()
  const call = ofAlice().calls[0]!
  const wrong: Record<string, unknown>[] = [
    { chainId: 0 },
    { chainId: -1 },
    { chainId: '1' },
    { digest: `0x${'11'.repeat(32)}` },
    { hash: `0x${'11'.repeat(32)}` },
    { dispatcher: SOMEWHERE },
    { delegate: SOMEWHERE },
    { address: SOMEWHERE },
    { sequence: '-1' },
    { sequence: String(2n ** 96n) },
    { sequence: 1 },
    { sequence: '01' },
    { space: '0x' },
    { space: `0x${'11'.repeat(32)}` },
    { calls: [] },
    { calls: Array.from({ length: 21 }, () => call) },
    { calls: call },
    { calls: [{ ...call, to: null }] },
    { calls: [{ ...call, to: '0x' }] },
    { calls: [{ ...call, value: '-1' }] },
    { calls: [{ ...call, value: String(2n ** 256n) }] },
    { calls: [{ ...call, data: '0x1' }] },
    { calls: [{ ...call, operation: 1 }] },
    { calls: [{ to: call.to, value: '1' }] },
    { gasLimit: '0' },
    { gasLimit: String(2n ** 32n) },
    { gasLimit: 60_000 },
    { deadline: 0 },
    { deadline: 1.5 },
    { deadline: 2 ** 40 },
    { deadline: String(inSeconds(60)) },
    { requestHash: '0x11' },
    { authorizationNonce: -1 },
    { authorizationNonce: '0' },
    { authorizationNonce: null },
    { nonce: 0 },
    { kind: 'send' },
    { intentId: '' },
  ]
  for (const change of wrong) {
    await assert.rejects(signer.signOperation({ ...ofAlice(), ...change }), refusal('bad_request'), JSON.stringify(change)) // prettier-ignore
    await assert.rejects(signer.checkOperation({ ...ofAlice(), ...change }), refusal('bad_request'))
  }
  assert.deepEqual(rows(), before)
  await signer.signOperation(ofAlice({ calls: Array.from({ length: 20 }, () => call) }))
})

test('a deadline lies within the hour that is ahead of the signer’s clock', async () => {
  const now = 1_700_000_000_000
  const policy = JSON.stringify({ version: 1, rules: [{ name: 'all', effect: 'allow' }] })
  const signer = await openGoverned({ policy, now: () => now })
  try {
    const alice = await signer.account(ALICE)
    const signIn = (seconds: number) => {
      const request = askOperation(alice, '', { deadline: now / 1_000 + seconds, sequence: String(1e6 + seconds), intentId: `op_${seconds}` }) // prettier-ignore
      return signer.signOperation(request, { userId: ALICE, clientId: 'shop' })
    }
    for (const seconds of [-60, -1, 0, 3_601])
      await assert.rejects(signIn(seconds), (error) => {
        assert.ok(error instanceof Refusal && error.code === 'clocks_apart')
        const told = [now, now + seconds * 1_000].map((at) => new Date(at).toISOString())
        return told.every((time) => error.message.includes(time))
      })
    await signIn(3_600)
    await signIn(1)
  } finally {
    signer.close()
  }
})

test('in development a deadline may be as far ahead as the clock of a chain is, and not be over', async (t) => {
  const { signer, ofAlice } = await sponsored(t)
  for (const ask of [signer.signOperation, signer.checkOperation])
    await assert.rejects(ask(ofAlice({ deadline: inSeconds(-1) })), refusal('clocks_apart'))
  await signer.signOperation(ofAlice({ deadline: inSeconds(10 * 365 * 86_400) }))
})

test('an authorization is to the delegate alone, on one network, by the account, and the same again for whatever operation asks', async (t) => {
  const { signer, ofAlice, alice, rows, problems } = await sponsored(t)
  const before = rows().length
  const { authorization: first, stored } = await signer.signOperation(ofAlice({ authorizationNonce: 0 }))
  assert.equal(stored, false)
  assert.deepEqual([first!.chainId, first!.address, first!.nonce], [CHAIN_ID, delegate, 0])
  const by = await recoverAuthorizationAddress({ authorization: first! })
  assert.equal(by.toLowerCase(), alice.toLowerCase())
  assert.deepEqual(rows().slice(before).map(({ kind, nonce, intent_id: intent }) => [kind, nonce, intent]), [['operation', null, 'op_0'], ['authorization', 0, 'op_0']]) // prettier-ignore
  const repeated = await signer.signOperation(ofAlice({ authorizationNonce: 0 }))
  assert.deepEqual([repeated.authorization, repeated.stored], [first, true])
  const second = await signer.signOperation(ofAlice({ authorizationNonce: 0, sequence: '1' }))
  assert.deepEqual([second.authorization, second.stored], [first, false])
  assert.equal(rows().length, before + 3)
  // A stored operation may be requested together with an unsigned authorization, and the reverse.
  await signer.signOperation(ofAlice({ sequence: '2' }))
  const third = await signer.signOperation(ofAlice({ sequence: '2', authorizationNonce: 1 }))
  assert.deepEqual([third.stored, third.authorization!.nonce], [true, 1])
  assert.deepEqual(problems(), [])
})

test('a nonce has an authorization or a transaction, never both, and no nonce far ahead is taken', async (t) => {
  const { signer, again, ofAlice, alice, tokens, rows, problems } = await sponsored(t)
  const send = (nonce: number, changes = {}) => ask(alice, { nonce, accessToken: tokens.alice, intentId: `tx_${nonce}`, ...changes }) // prettier-ignore
  await signer.sign(send(0))
  await assert.rejects(signer.signOperation(ofAlice({ authorizationNonce: 0 })), refusal('nonce_conflict'))
  await assert.rejects(signer.checkOperation(ofAlice({ authorizationNonce: 0 })), refusal('nonce_conflict'))
  // No part of the request was signed.
  assert.deepEqual(rows().filter(({ kind }) => kind === 'operation'), []) // prettier-ignore
  await signer.signOperation(ofAlice({ authorizationNonce: 1 }))
  await signer.end('SIGKILL')
  const next = await again()
  const cancel = { kind: 'cancel', to: alice, value: '0' } as const
  for (const changes of [
    {},
    { kind: 'replace' },
    cancel,
    { ...cancel, accessToken: undefined },
    { intentId: 'op_0', kind: 'replace' },
    { intentId: 'op_0', ...cancel },
  ] as const)
    await assert.rejects(
      next.sign(send(1, changes)),
      (error) => refusal('nonce_conflict')(error) || refusal('intent_conflict')(error),
      JSON.stringify(changes),
    )
  await next.sign(send(2))
  const ahead = (nonce: number) => ofAlice({ sequence: '9', authorizationNonce: nonce })
  await assert.rejects(next.signOperation(ahead(40)), refusal('nonce_gap'))
  await next.signOperation(ahead(3))
  // A nonce of an authorization is no gap.
  await next.sign(send(4))
  await next.sign(send(20))
  assert.deepEqual(problems(), [])
})

test('one of many at once gets an id, an intent, a nonce; all the others see that it is taken', async (t) => {
  const { signer, ofAlice, ofBob, alice, tokens, rows, problems } = await sponsored(t)
  const asked = Array.from({ length: 40 }, (_, index) =>
    index % 2 === 0
      ? ofAlice({ intentId: `op_${index % 8}`, sequence: String(index % 4), authorizationNonce: 0, gasLimit: String(50_000 + index) }) // prettier-ignore
      : ofBob({ intentId: `op_${index % 8}`, sequence: String(index % 4) }),
  )
  const sends = Array.from({ length: 10 }, (_, index) =>
    signer.sign(ask(alice, { accessToken: tokens.alice, intentId: `tx_${index}` })),
  )
  await Promise.allSettled([...asked.map((each) => signer.signOperation(each)), ...sends])
  const signed = rows().filter(({ kind }) => kind !== 'account')
  const operations = signed.filter(({ kind }) => kind === 'operation')
  const idOf = ({ effect }: (typeof signed)[number]): Hex => hexOf(effect as Buffer)
  assert.equal(new Set(operations.map(idOf)).size, operations.length)
  assert.equal(new Set(operations.map(({ intent_id: intent }) => intent)).size, operations.length)
  const ofNonce = signed.filter(({ kind, user_id: user }) => kind !== 'operation' && user === ALICE)
  assert.equal(ofNonce.length, 1)
  assert.ok(operations.length > 0 && operations.length <= 4)
  assert.deepEqual(problems(), [])
})

test('who or what is frozen signs no operation, stored or new, and a list that is too old is none', async (t) => {
  const { place, signer, ofAlice, ofBob } = await sponsored(t)
  await signer.signOperation(ofAlice())
  let at = Date.now()
  const bring = async (subject: string, isFrozen: boolean) =>
    signer.bringRevocations([await place.revocations({ entries: [frozenEntry(subject, { isFrozen, at: ++at })] })])
  for (const [subject, code] of [
    [revoked.user(ALICE), 'account_frozen'],
    [revoked.application('shop'), 'application_suspended'],
  ] as const) {
    await bring(subject, true)
    for (const request of [ofAlice(), ofAlice({ sequence: '1', authorizationNonce: 0 })]) {
      await assert.rejects(signer.signOperation(request), refusal(code), subject)
      await assert.rejects(signer.checkOperation(request), refusal(code), subject)
    }
    if (subject === revoked.user(ALICE)) await signer.checkOperation(ofBob({ sequence: '5' }))
    await bring(subject, false)
  }
  await signer.signOperation(ofAlice({ sequence: '1' }))
  await signer.end('SIGKILL')
})

test('a list of what is revoked that is too old stops operations', async (t) => {
  const { place, signer, ofAlice, rows } = await sponsored(t, { SIGNER_REVOCATIONS_SECONDS: '60' })
  const before = rows().length
  await assert.rejects(signer.signOperation(ofAlice({ authorizationNonce: 0 })), refusal('revocations_stale'))
  await signer.bringRevocations([await place.revocations({ secondsAgo: 120, entries: [] })]).catch(() => {})
  await assert.rejects(signer.signOperation(ofAlice({ authorizationNonce: 0 })), refusal('revocations_stale'))
  assert.equal(rows().length, before)
  await signer.bringRevocations([await place.revocations({ entries: [] })])
  await signer.signOperation(ofAlice())
})

test('what was signed for an intent is found again, with its calls and its authorization', async (t) => {
  const { signer, ofAlice, ofBob, alice, bob } = await sponsored(t)
  const request = ofAlice({
    ...{ sequence: '77', authorizationNonce: 3, requestHash: `0x${'cd'.repeat(32)}` },
    calls: [
      { to: SOMEWHERE, value: '0', data: '0x' },
      { to: bob.toLowerCase() as Hex, value: String(2n ** 255n), data: `0x${'ee'.repeat(100)}` },
    ],
  })
  const signed = await signer.signOperation(request)
  await signer.signOperation(ofBob({ sequence: '78' }))
  const { operation, authorization, attempts } = await signer.recall({ intentId: request.intentId })
  const { accessToken: _, authorizationNonce: __, ...asked } = request
  const { authorization: delegation, stored: ___, ...answered } = signed
  const { seq, signedAt, ...found } = operation!
  assert.deepEqual(found, { ...asked, from: alice.toLowerCase(), ...answered, userId: ALICE, clientId: 'shop', outers: [] }) // prettier-ignore
  assert.ok(Date.now() - signedAt < 60_000)
  assert.deepEqual(attempts, [])
  assert.deepEqual(authorization, { ...delegation, seq: seq + 1, signedAt, intentId: request.intentId, from: alice.toLowerCase() }) // prettier-ignore
  const atNonce = await signer.recall({ chainId: CHAIN_ID, from: alice, nonce: 3 })
  assert.deepEqual(atNonce, { attempts: [], hasMore: false, authorization })
  const since = await signer.recallSince({ after: 0 })
  assert.deepEqual(since.signatures, [])
  assert.deepEqual(since.operations!.map(({ intentId, space, sequence, hash }) => [intentId, space, sequence, hash])[0], [request.intentId, SPACE, '77', signed.digest]) // prettier-ignore
  assert.equal(since.operations!.length, 2)
  assert.deepEqual(since.authorizations, [{ seq: seq + 1, intentId: request.intentId, chainId: CHAIN_ID, from: alice.toLowerCase(), nonce: 3 }]) // prettier-ignore
})
