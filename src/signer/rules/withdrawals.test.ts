import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { Transaction } from 'ethers'
import { ALICE, ask, CHAIN_ID, makePlace, refusal, SOMEWHERE, startSigner } from '../../../test/kit/signer.ts'
import { openLog } from '../../log.ts'
import { askAt } from '../programs/ask-operator.ts'
import { Refusal } from '../refusal.ts'
import { adminSocketIn } from '../socket.ts'
import { DATABASE_FILE } from '../store.ts'
import { verifyStore } from '../programs/verify.ts'
import { askWithdrawal, openWithdrawals, type ShownGrant } from './withdrawals.ts'
import { frozenEntry, revoked, type SignRequest } from '../../signer-wire/wire.ts'

const HOUSE = 'SPONSOR-HOUSE'
const FEE = 21_000n * 1_000n
const denied = (rule: string) => (error: unknown) =>
  (refusal('policy_denied')(error) || (error instanceof Refusal && error.code === 'policy_denied')) &&
  (error as Error).message.includes(`The rule ${rule} rejects`)

async function funded(t: TestContext, more: Record<string, string> = {}) {
  const place = await makePlace()
  const start = () => startSigner({ env: { ...place.env, ...more } })
  const signer = await start()
  const running = new Set([signer])
  t.after(async () => {
    for (const each of running) await each.end('SIGKILL')
    place.clear()
  })
  const [house, other, alice] = await Promise.all([HOUSE, 'SPONSOR-OTHER', ALICE].map((userId) => signer.createAccount({ userId }))) // prettier-ignore
  const admin = <T>(verb: string, request: object) => askAt<T>(adminSocketIn(place.env.SIGNER_DIR!), { verb, request })
  const grant = (changes: object = {}) =>
    admin<ShownGrant>('grantWithdrawal', { sponsor: 'HOUSE', chainId: CHAIN_ID, to: SOMEWHERE, most: '1000000000', ...changes }) // prettier-ignore
  const withdrawal = (accessToken: string | undefined, changes: Partial<SignRequest> = {}) =>
    ask(house!.address, { intentId: 'w_0', value: '500', ...(accessToken === undefined ? {} : { accessToken }), ...changes }) // prettier-ignore
  const again = async () => {
    const next = await start()
    running.add(next)
    return next
  }
  const whole = () => verifyStore(place.env.SIGNER_DIR!)
  return { place, signer, again, admin, grant, withdrawal, whole, house: house!.address, other: other!.address, alice: alice!.address } // prettier-ignore
}

test('without a grant nothing of a sponsor’s is signed, whoever asks; with one it is signed for what was granted, and the record says so', async (t) => {
  const { place, signer, grant, withdrawal, whole } = await funded(t)
  await assert.rejects(signer.sign(withdrawal(undefined)), refusal('invalid_token'))
  await assert.rejects(signer.sign(withdrawal(await place.token(ALICE))), denied('top-up-to'))
  await assert.rejects(signer.sign(withdrawal(await place.token(HOUSE))), refusal('forbidden_user'))
  await assert.rejects(signer.sign(withdrawal('withdrawal_guess')), denied('sponsor-withdrawal'))
  const { grant: text } = await grant()
  assert.deepEqual(await signer.check(withdrawal(text)), {
    kind: 'send',
    rule: 'sponsor-withdrawal',
    stored: false,
    requires: null,
  })
  const signed = await signer.sign(withdrawal(text))
  assert.deepEqual([signed.kind, signed.rule, signed.stored], ['send', 'sponsor-withdrawal', false])
  const tx = Transaction.from(signed.raw)
  assert.deepEqual([tx.to!.toLowerCase(), tx.value], [SOMEWHERE, 500n])
  const db = new DatabaseSync(join(place.env.SIGNER_DIR!, DATABASE_FILE), { readOnly: true })
  const record = db.prepare('SELECT * FROM ledger ORDER BY seq DESC LIMIT 1').get() as Record<string, string>
  db.close()
  assert.deepEqual([record.user_id, record.client_id, record.rule, record.policy], [HOUSE, 'withdrawal', 'sponsor-withdrawal', null]) // prettier-ignore
  assert.ok(!JSON.stringify(record).includes(text), 'what could be shown again is not kept')
  assert.ok(!signer.stderr().includes(text), 'nor logged')
  assert.match(signer.stderr(), /SPONSOR-HOUSE.*withdrawal_granted/)
  const { problems, withdrawals } = whole()
  assert.deepEqual([problems, withdrawals], [[], 1])
})

test('a grant is for one sponsor, one network, one address and no more than its amount with the fee, and for nothing but funds', async (t) => {
  const { signer, grant, withdrawal, whole, other, house, alice } = await funded(t)
  const { grant: text } = await grant({ most: String(500n + FEE) })
  const refused: [what: string, request: SignRequest, why: (error: unknown) => boolean][] = [
    ['another address', withdrawal(text, { to: alice }), denied('sponsor-withdrawal-to')],
    ['the sponsor itself', withdrawal(text, { to: house }), denied('sponsor-withdrawal-to')],
    ['another sponsor', withdrawal(text, { from: other }), refusal('forbidden_user')],
    ['a person’s account', withdrawal(text, { from: alice }), refusal('forbidden_user')],
    ['another network', withdrawal(text, { chainId: 1 }), refusal('insufficient_scope')],
    ['more', withdrawal(text, { value: '501' }), denied('sponsor-withdrawal-most')],
    ['a higher fee', withdrawal(text, { gas: '21001' }), denied('sponsor-withdrawal-most')],
    ['a call', withdrawal(text, { data: '0x00' }), denied('sponsor-withdrawal-data')],
    ['a contract', withdrawal(text, { to: null as never }), denied('no-contract-creation')],
    ['a cancel', withdrawal(text, { kind: 'cancel', to: house, value: '0' }), denied('sponsor-withdrawal-send')],
  ]
  for (const [what, request, why] of refused) await assert.rejects(signer.sign(request), why, what)
  assert.equal((await signer.sign(withdrawal(text))).stored, false)
  await assert.rejects(
    signer.sign(withdrawal(text, { kind: 'replace', maxFeePerGas: '2000', maxPriorityFeePerGas: '200' })),
    denied('sponsor-withdrawal-send'),
  )
  assert.deepEqual(whole().problems, [])
})

test('a grant is used once: the same again gives the same bytes, another intent or nonce nothing, also at once', async (t) => {
  const { signer, grant, withdrawal, whole } = await funded(t)
  const { grant: text } = await grant()
  const all = await Promise.allSettled(
    Array.from({ length: 6 }, (_, nonce) => signer.sign(withdrawal(text, { intentId: `w_${nonce}`, nonce }))),
  )
  assert.equal(all.filter(({ status }) => status === 'fulfilled').length, 1)
  for (const one of all) if (one.status === 'rejected') assert.ok(denied('sponsor-withdrawal-once')(one.reason))
  const [first] = all
  assert.ok(first?.status === 'fulfilled')
  const again = await signer.sign(withdrawal(text))
  assert.deepEqual([again.stored, again.raw], [true, first.value.raw])
  await assert.rejects(signer.sign(withdrawal(text, { intentId: 'w_1', nonce: 1 })), denied('sponsor-withdrawal-once'))
  await assert.rejects(signer.sign(withdrawal(text, { nonce: 1 })), refusal('intent_conflict'))
  assert.equal(whole().withdrawals, 1)
})

test('a grant that another for its sponsor and network followed, or that was made before a restart, is none; frozen sponsors and networks send nothing back', async (t) => {
  const { place, signer, again, grant, withdrawal, other } = await funded(t)
  const { grant: earlier } = await grant()
  const { grant: early } = await grant({ sponsor: 'OTHER' })
  const { grant: text } = await grant({ to: other })
  await grant({ chainId: CHAIN_ID + 1 })
  await assert.rejects(signer.sign(withdrawal(earlier)), denied('sponsor-withdrawal'))
  await signer.check(withdrawal(text, { to: other }))
  await signer.check(withdrawal(early, { from: other }))
  await signer.bringRevocations([await place.revocations({ entries: [frozenEntry(revoked.user(HOUSE), { isFrozen: true, at: Date.now() })] })]) // prettier-ignore
  await assert.rejects(signer.sign(withdrawal(text)), refusal('account_frozen'))
  await signer.end('SIGKILL')
  const next = await again()
  await assert.rejects(next.sign(withdrawal(early, { from: other })), denied('sponsor-withdrawal'))
})

test('what was signed by a grant is not signed once more by another signer’s life: the intent keeps its nonce and its bytes', async (t) => {
  const { signer, again, grant, withdrawal, whole } = await funded(t)
  const { grant: first } = await grant()
  const signed = await signer.sign(withdrawal(first))
  await signer.end('SIGKILL')
  const next = await again()
  const { grant: second } = await grant()
  await assert.rejects(next.sign(withdrawal(second, { nonce: 1 })), refusal('intent_conflict'))
  const stored = await next.sign(withdrawal(second))
  assert.deepEqual([stored.stored, stored.raw], [true, signed.raw])
  assert.deepEqual([whole().problems, whole().withdrawals], [[], 1])
})

test('only the signer’s own user grants: the sockets of the servers know no such verb, and what cannot be granted is refused', async (t) => {
  const { place, grant, house } = await funded(t, { SIGNER_CHAINS: `${CHAIN_ID}` })
  await assert.rejects(
    askAt(place.env.SIGNER_SOCKET!, { verb: 'grantWithdrawal', request: {} }),
    /does not have this verb/,
  )
  for (const [changes, why] of [
    [{ sponsor: 'NOBODY' }, /does not have this sponsor/],
    [{ sponsor: 'house' }, /sponsor is not/],
    [{ sponsor: ALICE }, /sponsor is not/],
    [{ to: house }, /the sponsor itself/],
    [{ to: `0x${'00'.repeat(20)}` }, /zero address/],
    [{ to: '0x12' }, /to is not an address/],
    [{ most: '0' }, /most is 0/],
    [{ most: '1e18' }, /most is not/],
    [{ chainId: 5 }, /SIGNER_CHAINS/],
    [{ chainId: 0 }, /chainId is not/],
    [{ forever: true }, /unknown field/],
  ] as const)
    await assert.rejects(grant(changes), why)
})

test('a grant lasts an hour, by the signer’s clock, and is judged when it is signed', () => {
  let now = 0
  const keys = { ofUser: () => ({ address: Buffer.alloc(20, 1) }) as never }
  const { grant, find } = openWithdrawals({ keys, limits: { chains: null }, log: openLog('test', 'silent'), now: () => now }) // prettier-ignore
  const { grant: text } = grant({ sponsor: 'HOUSE', chainId: 1, to: SOMEWHERE, most: '10' })
  now = 3_599_999
  const found = find(text)!
  const tx = { value: 1n, gas: 1n, fees: { type: 'legacy', gasPrice: 1n } } as never
  askWithdrawal(found, { tx, intentId: 'w', at: now })
  assert.throws(() => askWithdrawal(found, { tx, intentId: 'w', at: 3_600_000 }), denied('sponsor-withdrawal'))
  now = 3_600_000
  assert.throws(() => find(text), denied('sponsor-withdrawal'))
  assert.equal(find('e30.e30.e30'), null)
})

test('a grant that another one follows while a withdrawal waits for its turn signs nothing', () => {
  const keys = { ofUser: () => ({ address: Buffer.alloc(20, 1) }) as never }
  const { grant, find } = openWithdrawals({ keys, limits: { chains: null }, log: openLog('test', 'silent'), now: () => 1 }) // prettier-ignore
  const request = { sponsor: 'HOUSE', chainId: 1, to: SOMEWHERE, most: '10' }
  const { grant: text } = grant(request)
  const found = find(text)!
  const tx = { value: 1n, gas: 1n, fees: { type: 'legacy', gasPrice: 1n } } as never
  askWithdrawal(found, { tx, intentId: 'w', at: 1 })
  grant(request)
  assert.throws(() => askWithdrawal(found, { tx, intentId: 'w', at: 1 }), denied('sponsor-withdrawal'))
})
