import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { generateKeyPair } from 'jose'
import { login as signIn, LOGIN_HOST, permit, SAMPLES } from '../../../test/kit/messages.ts'
import {
  ALICE,
  ask,
  BOB,
  CHAIN_ID,
  makePlace,
  refusal,
  SOMEWHERE,
  type BentApproval,
} from '../../../test/kit/signer.ts'
import { sponsored } from '../../../test/sponsored-world.ts'
import { GAS_PAIRS } from '../../gas/addresses.ts'
import { toHex } from '../../hex.ts'
import type { SignerRefused } from '../../signer-wire/client.ts'
import { DATABASE_FILE } from '../store.ts'
import { approvalDigest, type ApprovalClaims, type ApprovedContent } from '../../signer-wire/approval.ts'
import { frozenEntry, type Hex, type MessageContent, type SignMessageRequest } from '../../signer-wire/wire.ts'

const SCOPE = 'openid contracts:write messages:sign'
const NO_HASH: Hex = `0x${'00'.repeat(32)}`

/** A running signer, a token of Alice for messages, and the claims of her approvals. */
async function world(t: Parameters<typeof sponsored>[0], rules: unknown[] | null = null) {
  const { folder, clear } = await makePlace()
  t.after(async () => clear())
  const file = join(folder, 'policy.json')
  if (rules !== null) writeFileSync(file, JSON.stringify({ version: 1, rules }))
  const here = await sponsored(t, { SIGNER_CHAINS: `${CHAIN_ID}`, ...(rules === null ? {} : { SIGNER_POLICY_FILE: file }) }) // prettier-ignore
  const { place, alice, rows } = here
  const tokenFor = (userId: string, claims: Record<string, unknown> = {}) => place.token(userId, { scope: SCOPE, domains: [LOGIN_HOST], ...claims }) // prettier-ignore
  const accessToken = await tokenFor(ALICE)
  const request = (changes: Partial<SignMessageRequest> = {}, content: MessageContent = { text: 'Hello' }): SignMessageRequest => ({ intentId: 'intent', accessToken, chainId: CHAIN_ID, from: alice, ...content, ...changes }) // prettier-ignore
  const claims = (content: ApprovedContent, changes: Partial<ApprovalClaims> = {}): ApprovalClaims => ({
    ...{ client_id: 'shop', chain_id: CHAIN_ID, intent: 'intent' },
    digest: approvalDigest({ chainId: CHAIN_ID, from: alice, content }),
    ...changes,
  })
  return {
    ...here,
    tokenFor,
    accessToken,
    request,
    claims,
    /** number of recorded signatures */
    records: () => rows().filter(({ intent_id: intent }) => intent !== null).length,
  }
}

test('an approval is of one user, application, network, account, intent and content, for one minute, by a trusted key', async (t) => {
  const { place, signer, bob, tokenFor, accessToken, request, claims, records, rows, problems } = await world(t)
  const { hash: message, requires } = await signer.checkMessage(request())
  assert.notEqual(requires, null)
  const other = await generateKeyPair('ES256')
  const good = claims({ message })
  const approve = (changes: Partial<ApprovalClaims> = {}, bent: BentApproval = {}, userId = ALICE) => place.approval(userId, { ...good, ...changes }, bent) // prettier-ignore
  const digestFor = (changes: { chainId?: number; from?: Hex }) => approvalDigest({ chainId: CHAIN_ID, from: request().from, content: { message }, ...changes }) // prettier-ignore
  const required: [what: string, approval: string | undefined, changes?: Partial<SignMessageRequest>][] = [
    ['none', undefined],
    ['no token', 'approval'],
    ['an empty text', ''],
    ['another intent', await approve({ intent: 'other' })],
    ['shown under another intent', await approve(), { intentId: 'other' }],
    ['an edited text', await approve(), { text: 'Hello!' } as Partial<SignMessageRequest>],
    ['another content', await approve({ digest: claims({ message: NO_HASH }).digest })],
    ['the message as a call', await approve({ digest: claims({ calls: [] }).digest })],
    ['the digest alone', await approve({ digest: message.slice(2) })],
    ['another account', await approve({ digest: digestFor({ from: bob }) })],
    ['the digest of another network', await approve({ digest: digestFor({ chainId: 1 }) })],
    ['another network', await approve({ chain_id: 1 })],
    ['the network as a text', await approve({ chain_id: String(CHAIN_ID) as never })],
    ['another user', await approve({}, {}, BOB)],
    ['another application', await approve({ client_id: 'game' })],
    ['a token of another application', await approve(), { accessToken: await tokenFor(ALICE, { client_id: 'game' }) }],
    ['expired', await approve({}, { secondsAgo: 120 })],
    ['valid for too long', await approve({}, { seconds: 61 })],
    ['from the future', await approve({}, { secondsAgo: -3_600 })],
    ['another key', await approve({}, { key: other.privateKey })],
    ['another issuer', await approve({}, { issuer: 'http://localhost:4000' })],
    ['another audience', await approve({}, { audience: 'http://localhost:4000/v1' })],
    ['the type of an access token', await approve({}, { typ: 'at+jwt' })],
    ['the type of an export token', await approve({}, { typ: 'chatelaine-export+jwt' })],
    ['an access token', accessToken],
    ['an access token with the claims', await place.token(ALICE, good)],
    ['an export token', await place.exportToken(ALICE, 'ask', good)],
    ['a list of revocations', await place.revocations({ entries: [] })],
  ]
  for (const [what, approval, changes = {}] of required) {
    const asked = request({ ...(approval === undefined ? {} : { approval }), ...changes })
    await assert.rejects(signer.signMessage(asked), needs('message-approval'), what)
    assert.notEqual((await signer.checkMessage(asked)).requires, null, what)
  }
  await assert.rejects(signer.signMessage(request({ accessToken: await approve() })), refusal('invalid_token'))
  await assert.rejects(signer.signMessage(request({ approval: 'x'.repeat(8_193) })), refusal('bad_request'))
  assert.equal(records(), 0)

  const approval = await approve()
  assert.equal((await signer.checkMessage(request({ approval }))).requires, null)
  const signed = await signer.signMessage(request({ approval }))
  const { jti } = JSON.parse(Buffer.from(approval.split('.')[1]!, 'base64url').toString()) as { jti: string }
  const evidence = JSON.parse(rows().at(-1)!.evidence as string) as Record<string, string>
  assert.deepEqual([evidence.requires, evidence.approval_jti], ['message-approval', jti])
  assert.match(evidence.approval_sha256!, /^[\w-]{43}$/)
  // The account's list shows the user the message; a server that replays the ledger does not need it.
  const [listed] = (await signer.signatures({ userId: ALICE })).signatures
  const { signature } = signed
  assert.deepEqual(listed!.message, { kind: 'text', content: 'Hello', class: 'text', signature })
  assert.deepEqual([listed!.kind, listed!.nonce, listed!.hash, listed!.clientId], ['message', null, message, 'shop'])
  const { isEnd, signatures, operations, authorizations } = await signer.recallSince({ after: 0 })
  assert.deepEqual([isEnd, signatures, operations, authorizations], [true, [], [], []])
  // The record has used up the approval: only the same bytes are returned, with the approval or without.
  assert.deepEqual(await signer.signMessage(request()), { ...signed, stored: true })
  assert.deepEqual(await signer.signMessage(request({ approval })), { ...signed, stored: true })
  await assert.rejects(signer.signMessage(request({ approval }, { text: 'Hello!' })), refusal('intent_conflict'))
  await assert.rejects(signer.signMessage(request({ approval, intentId: 'other' })), refusal('approval_required'))
  assert.equal(records(), 1)

  // A freeze arrives between the approval and the signature.
  const late = await place.approval(ALICE, { ...good, intent: 'late' })
  const entry = frozenEntry(`user ${ALICE}`, { isFrozen: true, at: Date.now() })
  await signer.bringRevocations([await place.revocations({ entries: [entry] })])
  await assert.rejects(signer.signMessage(request({ approval: late, intentId: 'late' })), refusal('account_frozen'))
  await assert.rejects(signer.signMessage(request({ approval })), refusal('account_frozen'))
  assert.equal(records(), 1)
  assert.deepEqual(problems(), [])
})

test('nothing but a message that its user’s token allows is signed: no digest, no foreign sign-in, no operation', async (t) => {
  const { signer, alice, bob, house, tokenFor, request, records, ofAlice } = await world(t)
  const facts = { address: alice, chainId: CHAIN_ID, at: Date.now() }
  const [login, allowance] = [SAMPLES.login(facts), permit(facts)]
  const typed = (changes: Record<string, unknown>, domain: Record<string, unknown> = {}) => {
    const data = JSON.parse(allowance.typedData) as { domain: object }
    return { typedData: JSON.stringify({ ...data, ...changes, domain: { ...data.domain, ...domain } }) }
  }
  const operation = (
    verifyingContract: Hex,
    domain: Record<string, unknown> = { name: 'Chatelaine', version: '1' },
  ) => ({
    typedData: JSON.stringify({
      types: { Mail: [{ name: 'contents', type: 'string' }] },
      primaryType: 'Mail',
      domain: { ...domain, chainId: CHAIN_ID, verifyingContract },
      message: { contents: 'Hello' },
    }),
  })
  const salt = `0x${'00'.repeat(12)}${GAS_PAIRS.calibur.delegate.toString('hex')}`
  const { digest } = await signer.signOperation(ofAlice())
  const own = denied('message-own-account')
  const cases: [what: string, asked: unknown, code: (error: unknown) => boolean][] = [
    ['without the scope', request({ accessToken: await tokenFor(ALICE, { scope: 'contracts:write' }) }, login), refusal('insufficient_scope')], // prettier-ignore
    ['moves tokens, without the scope of writes', request({ accessToken: await tokenFor(ALICE, { scope: 'messages:sign' }) }, allowance), refusal('insufficient_scope')], // prettier-ignore
    ['of another network', request({ accessToken: await tokenFor(ALICE, { chain_id: 1 }) }, login), refusal('insufficient_scope')], // prettier-ignore
    ['with a token of another user', request({ accessToken: await tokenFor(BOB) }, login), refusal('forbidden_user')],
    ['for the account of another user', request({ from: bob }, login), refusal('forbidden_user')],
    ['for a sponsor’s account', request({ from: house }, login), refusal('forbidden_user')],
    ['for an unknown account', request({ from: SOMEWHERE }, login), refusal('unknown_account')],
    ['on a network that is not listed', request({ chainId: 1, accessToken: await tokenFor(ALICE, { chain_id: 1 }) }, SAMPLES.login({ ...facts, chainId: 1 })), denied('chain-not-listed')], // prettier-ignore
    ['nothing', { ...request(), text: undefined }, refusal('bad_request')],
    ['two contents', { ...request(), hex: '0x01' }, refusal('bad_request')],
    ['a digest', { ...request(), text: undefined, digest }, refusal('bad_request')],
    ['a digest beside a text', { ...request(), hash: digest }, refusal('bad_request')],
    ['typed data as an object', { ...request(), text: undefined, typedData: JSON.parse(allowance.typedData) as unknown }, refusal('bad_request')], // prettier-ignore
    ['without a token', { ...request(), accessToken: undefined }, refusal('bad_request')],
    ['a raw digest as bytes', request({}, { hex: digest }), denied('message-not-listed')],
    ['the digest of an operation as a text', request({}, { text: digest }), denied('message-not-listed')],
    ['without 0x', request({}, { text: digest.slice(2) }), denied('message-not-listed')],
    ['typed data that is no JSON', request({}, { typedData: '{' }), refusal('invalid_typed_data')],
    ['a name twice', request({}, { typedData: allowance.typedData.replace('"value":', '"value":"1","value":') }), refusal('invalid_typed_data')], // prettier-ignore
    ['for another network', request({}, typed({}, { chainId: 1 })), refusal('invalid_typed_data')],
    ['for network 0', request({}, typed({}, { chainId: 0 })), refusal('invalid_typed_data')],
    ['a permit of another owner', request({}, permit({ ...facts, address: bob })), refusal('invalid_typed_data')],
    ['a sign-in for another host', request({}, signIn(facts, 'evil.example')), refusal('invalid_message')],
    ['a sign-in, with a token that names no host', request({ accessToken: await tokenFor(ALICE, { domains: undefined }) }, login), refusal('invalid_message')], // prettier-ignore
    ['a sign-in, with a token whose hosts are no list', request({ accessToken: await tokenFor(ALICE, { domains: LOGIN_HOST }) }, login), refusal('invalid_message')], // prettier-ignore
    ['a sign-in of yesterday', request({}, SAMPLES.login({ ...facts, at: facts.at - 86_400_000 })), refusal('invalid_message')], // prettier-ignore
    ['an operation of the account', request({}, operation(alice)), own],
    ['an operation of another account', request({}, operation(bob)), own],
    ['an operation for Calibur', request({}, operation(bob, { name: 'Calibur', version: '1.0.0', salt })), own],
    ['for the account itself', request({}, operation(alice, { name: 'Other' })), own],
    ['for the dispatcher', request({}, operation(toHex(GAS_PAIRS.chatelaine.dispatcher), { name: 'Other' })), own],
    ['for the delegate', request({}, operation(toHex(GAS_PAIRS.chatelaine.delegate), { name: 'Other' })), own],
    ['a permit under another name', request({}, { typedData: allowance.typedData.replaceAll('"Permit"', '"Login"') }), refusal('approval_required')], // prettier-ignore
  ]
  for (const [what, asked, code] of cases) {
    await assert.rejects(signer.signMessage(asked as SignMessageRequest), code, what)
  }
  // Only the operation is recorded.
  assert.equal(records(), 1)
})

/** Checks a refusal in `assert.rejects`: the fields that a server branches on. */
const needs = (rule: string) => (error: unknown) =>
  refusal('approval_required')(error) && (error as { cause: SignerRefused }).cause.facts.rule === rule

const denied = (rule: string) => (error: unknown) =>
  refusal('policy_denied')(error) && (error as Error).message.includes(`The rule ${rule} rejects this message`)

test('a transaction and an operation with the same calls need the same approval, replacements and cancels none', async (t) => {
  const require = { name: 'ask', effect: 'require', tier: 'approval', native: { perCall: '9' } }
  const { place, signer, alice, accessToken, claims, records, rows, ofAlice, problems } = await world(t, [{ name: 'rest', effect: 'allow' }, require]) // prettier-ignore
  const call = { to: SOMEWHERE, value: '10', data: '0x' } as const
  const send = ask(alice, { ...call, accessToken, intentId: 'intent' })
  const operation = ofAlice({ calls: [call], intentId: 'operation' })
  const approve = (intent: string, changed: Partial<typeof call> | { value: string } = {}) => place.approval(ALICE, claims({ calls: [{ ...call, ...changed }] }, { intent })) // prettier-ignore
  const wrong = [undefined, await approve('other'), await approve('intent', { value: '11' }), await place.approval(BOB, claims({ calls: [call] }))] // prettier-ignore
  for (const approval of wrong) {
    const shown = approval === undefined ? {} : { approval }
    await assert.rejects(signer.sign({ ...send, ...shown }), needs('ask'))
    assert.equal((await signer.check({ ...send, ...shown })).requires, 'ask')
    await assert.rejects(signer.signOperation({ ...operation, ...shown }), needs('ask'))
    assert.equal((await signer.checkOperation({ ...operation, ...shown })).requires, 'ask')
  }
  assert.equal(records(), 0)
  const approval = await approve('intent')
  const checked = await signer.check({ ...send, approval })
  assert.deepEqual([checked.rule, checked.requires], ['rest', null])
  const { rule, raw } = await signer.sign({ ...send, approval })
  assert.equal(rule, 'rest')
  const evidence = JSON.parse(rows().at(-1)!.evidence as string) as Record<string, string>
  assert.deepEqual([evidence.requires, typeof evidence.approval_jti], ['ask', 'string'])
  assert.equal((await signer.sign(send)).raw, raw)
  await assert.rejects(signer.signOperation({ ...operation, approval }), needs('ask'))
  await signer.signOperation({ ...operation, approval: await approve('operation') })
  assert.equal((await signer.signOperation(operation)).stored, true)
  const raised = { maxFeePerGas: '2000', maxPriorityFeePerGas: '200' }
  await signer.sign({ ...send, ...raised, kind: 'replace' })
  await signer.sign({ ...send, to: alice, value: '0', maxFeePerGas: '4000', maxPriorityFeePerGas: '400', kind: 'cancel' }) // prettier-ignore
  // A batch is judged call by call, and approved as a whole.
  const [small, large] = [{ ...call, value: '9' }, call]
  const batch = ofAlice({ calls: [small, large], intentId: 'batch', sequence: '1' })
  await assert.rejects(signer.signOperation({ ...batch, approval: await approve('batch') }), needs('ask'))
  await signer.signOperation({ ...batch, approval: await place.approval(ALICE, claims({ calls: [small, large] }, { intent: 'batch' })) }) // prettier-ignore
  assert.equal(records(), 5)
  assert.deepEqual(problems(), [])
})

test('a recipient is known to a rule from the first approved payment on, and by nothing else', async (t) => {
  const rules = [
    { name: 'rest', effect: 'allow' },
    { name: 'first', effect: 'require', tier: 'approval', newRecipient: true, class: ['NATIVE'] },
  ]
  const here = await world(t, rules)
  const { place, signer, alice, bob, accessToken, claims, ofAlice, problems, again } = here
  const call = { to: SOMEWHERE, value: '1', data: '0x' } as const
  const pay = (nonce: number, changes: object = {}) => ask(alice, { ...call, nonce, accessToken, intentId: `pay_${nonce}`, ...changes }) // prettier-ignore
  const approve = (intent: string, calls: object[] = [call]) => place.approval(ALICE, claims({ calls } as ApprovedContent, { intent })) // prettier-ignore
  // Neither a refused nor a checked request adds the recipient to the known ones.
  await assert.rejects(signer.sign(pay(0)), needs('first'))
  assert.equal((await signer.check({ ...pay(0), approval: await approve('pay_0') })).requires, null)
  await assert.rejects(signer.signOperation(ofAlice({ calls: [call], intentId: 'operation' })), needs('first'))
  await signer.sign({ ...pay(0), approval: await approve('pay_0') })
  await signer.sign(pay(1, { value: '2' }))
  await signer.signOperation(ofAlice({ calls: [call], intentId: 'operation' }))
  await assert.rejects(signer.sign(pay(2, { to: bob })), needs('first'))
  await assert.rejects(signer.signOperation(ofAlice({ calls: [call, { ...call, to: bob }], intentId: 'both', sequence: '1' })), needs('first')) // prettier-ignore
  // Rows written while the signer is stopped are discarded: meters are counted again from the ledger.
  await signer.end('SIGTERM')
  const store = new DatabaseSync(join(here.folder, DATABASE_FILE))
  const { changes } = store
    .prepare(
      `INSERT INTO meters SELECT replace(meter, '${SOMEWHERE.slice(2).toLowerCase()}', '${bob.slice(2)}'), window FROM meters`,
    )
    .run()
  assert.equal(changes, 1)
  store.close()
  const next = await again()
  await next.sign(pay(2, { value: '3' }))
  await assert.rejects(next.sign(pay(3, { to: bob })), needs('first'))
  assert.deepEqual(problems(), [])
})

test('killed at any step of the commit, a message has one signature, one record and one use of its approval', async (t) => {
  const { place, signer, again, request, claims, records, problems } = await world(t)
  await signer.end('SIGTERM')
  const points = ['signer.before-commit', 'signer.after-commit', 'signer.after-witness'] as const
  for (const [index, point] of points.entries()) {
    const doomed = await again({ CRASH_AT: point })
    const asked = request({ intentId: point })
    const { hash: message } = await doomed.checkMessage(asked)
    const approved = { ...asked, approval: await place.approval(ALICE, claims({ message }, { intent: point })) }
    await assert.rejects(doomed.signMessage(approved), refusal('signer_unavailable'))
    assert.equal(await doomed.ended, 'SIGKILL')
    const next = await again()
    const first = await next.signMessage(approved)
    assert.equal(first.stored, point !== 'signer.before-commit')
    assert.deepEqual(await next.signMessage(asked), { ...first, stored: true })
    assert.equal(records(), index + 1)
    await next.end('SIGTERM')
  }
  assert.deepEqual(problems(), [])
})
