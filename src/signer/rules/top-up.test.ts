import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { Transaction } from 'ethers'
import { openGoverned } from '../../../test/policy-world.ts'
import { ALICE, ask, BOB, CHAIN_ID, makePlace, refusal, SOMEWHERE, startSigner } from '../../../test/kit/signer.ts'
import { until } from '../../../test/kit/until.ts'
import { readPolicy } from '../policy/document.ts'
import { Refusal } from '../refusal.ts'
import { replayLedger } from '../programs/replay.ts'
import { DATABASE_FILE } from '../store.ts'
import { verifyStore } from '../programs/verify.ts'
import { frozenEntry, revoked, type SignRequest } from '../../signer-wire/wire.ts'

const HOUSE = 'SPONSOR-HOUSE'
const RESERVE = 'SPONSOR-RESERVE_2'
/** wei: cost of `ask` without its value */
const FEE = 21_000n * 1_000n

/** A running signer of a development installation with a sponsor and two people. */
async function funded(t: TestContext, more: Record<string, string> = {}) {
  const place = await makePlace()
  const start = () => startSigner({ env: { ...place.env, ...more } })
  const signer = await start()
  const running = new Set([signer])
  t.after(async () => {
    for (const each of running) await each.end('SIGKILL')
    place.clear()
  })
  const [house, alice, bob] = await Promise.all([HOUSE, ALICE, BOB].map((userId) => signer.createAccount({ userId })))
  const [sponsor, to] = [house!.address, alice!.address]
  const accessToken = await place.token(ALICE)
  const topUp = (nonce: number, changes: Partial<SignRequest> = {}) =>
    ask(sponsor, { intentId: `up_${nonce}`, nonce, to, value: '1000', accessToken, ...changes })
  const again = async () => {
    const next = await start()
    running.add(next)
    return next
  }
  const whole = () => assert.deepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
  const records = () => rows(place.env.SIGNER_DIR!)
  return { place, signer, again, sponsor, alice: to, bob: bob!.address, accessToken, topUp, whole, records }
}

type Row = Record<string, string | number | null>

function rows(folder: string): Row[] {
  const db = new DatabaseSync(join(folder, DATABASE_FILE), { readOnly: true })
  try {
    return db.prepare(`SELECT * FROM ledger ORDER BY seq`).all() as Row[]
  } finally {
    db.close()
  }
}

/** Checks a refusal over the socket, or of a signer within this process. */
const denied = (rule: string) => (error: unknown) =>
  (refusal('policy_denied')(error) || (error instanceof Refusal && error.code === 'policy_denied')) &&
  (error as Error).message.includes(`The rule ${rule} rejects`)

test('a person’s token has a sponsor send them funds: the record names sponsor, application and token, and what it took of both limits', async (t) => {
  const { signer, topUp, sponsor, alice, records, whole } = await funded(t)
  const before = records().length
  assert.deepEqual(await signer.check(topUp(0)), {
    ...{ kind: 'send', rule: 'top-up', stored: false, requires: null },
    limits: [
      { rule: 'top-up-per-user', limit: 'topUp.periodAmount', amount: `1${'0'.repeat(18)}`, used: '0', left: `1${'0'.repeat(18)}`, resetsAt: null }, // prettier-ignore
      { rule: 'top-up-per-sponsor', limit: 'topUp.periodAmount', resetsAt: null },
    ],
  })
  assert.equal(records().length, before)
  const signed = await signer.sign(topUp(0))
  assert.deepEqual([signed.kind, signed.rule, signed.stored], ['send', 'top-up', false])
  const tx = Transaction.from(signed.raw)
  assert.deepEqual([tx.from!.toLowerCase(), tx.to!.toLowerCase(), tx.value], [sponsor.toLowerCase(), alice.toLowerCase(), 1_000n]) // prettier-ignore
  const record = records().at(-1)!
  assert.deepEqual([record.user_id, record.client_id, record.rule, record.policy], [HOUSE, 'shop', 'top-up', null])
  const evidence = JSON.parse(record.evidence as string) as Record<string, string>
  assert.match(evidence.token_sha256!, /^[\w-]{43}$/)
  assert.deepEqual([evidence.jti, evidence.client_id, evidence.rule], [record.token_id, 'shop', 'top-up'])
  const amount = String(1_000n + FEE)
  assert.deepEqual(JSON.parse(record.spent as string), [
    { meter: `["top-up-per-user","topUp","user ${ALICE}","chain ${CHAIN_ID}"]`, amount, limit: `1${'0'.repeat(18)}`, period: 86_400 }, // prettier-ignore
    { meter: `["top-up-per-sponsor","topUp","user ${HOUSE}","chain ${CHAIN_ID}"]`, amount, limit: `1${'0'.repeat(21)}`, period: 86_400 }, // prettier-ignore
  ])
  whole()
})

test('with a token nothing but funds for its own person is signed with a sponsor’s account', async (t) => {
  const house = await funded(t, { SIGNER_CHAINS: `${CHAIN_ID} 1` })
  const { signer, place, topUp, sponsor, alice, bob, records, whole } = house
  const stranger = await place.token('DISCORD-3')
  await signer.sign(topUp(0))
  const odd = new Map<string, SignRequest['from']>()
  for (const userId of [
    'SPONSOR-house',
    'SPONSOR-HOUSE-2',
    `SPONSOR-${'A'.repeat(33)}`,
    'OIDC-SPONSOR-HOUSE',
    'SPONSORS-HOUSE',
  ])
    odd.set(userId, (await signer.createAccount({ userId })).address)
  const before = records()
  const priced = { maxFeePerGas: '2000', maxPriorityFeePerGas: '200' }
  const refused: [what: string, request: SignRequest, why: (error: unknown) => boolean][] = [
    ['to somebody else', topUp(1, { to: SOMEWHERE }), denied('top-up-to')],
    ['to another person', topUp(1, { to: bob }), denied('top-up-to')],
    ['to the sponsor', topUp(1, { to: sponsor }), denied('top-up-to')],
    ['with the token of another person', topUp(1, { accessToken: await place.token(BOB) }), denied('top-up-to')],
    ['with the token of one without an account', topUp(1, { accessToken: stranger }), denied('top-up-to')],
    ['with data', topUp(1, { data: '0x00' }), denied('top-up-data')],
    ['making a contract', topUp(1, { to: null as never }), denied('no-contract-creation')],
    ['making a contract of data', topUp(1, { to: '0x', data: '0x6000' }), denied('no-contract-creation')],
    ['at a fee that nobody pays', topUp(1, { maxFeePerGas: `1${'0'.repeat(14)}` }), denied('max-total-fee')],
    ['on a network that is not served', topUp(1, { chainId: 5, accessToken: await place.token(ALICE, { chain_id: 5 }) }), denied('chain-not-listed')], // prettier-ignore
    ['on another network than the token’s', topUp(1, { chainId: 1 }), refusal('insufficient_scope')],
    ['without the scope', topUp(1, { accessToken: await place.token(ALICE, { scope: 'openid wallet:read' }) }), refusal('insufficient_scope')], // prettier-ignore
    ['without a token', topUp(1, { accessToken: undefined }), refusal('invalid_token')],
    ['with a token that nobody signed', topUp(1, { accessToken: 'e30.e30.e30' }), refusal('invalid_token')],
    ['a raise', topUp(0, { kind: 'replace', ...priced }), refusal('forbidden_user')],
    ['a cancel', topUp(0, { kind: 'cancel', to: sponsor, value: '0', ...priced }), refusal('forbidden_user')],
    ['a cancel of a new nonce', topUp(1, { kind: 'cancel', to: sponsor, value: '0' }), refusal('forbidden_user')],
    ['from another person', topUp(1, { from: bob }), refusal('forbidden_user')],
    ['from nobody', topUp(1, { from: SOMEWHERE }), refusal('unknown_account')],
  ]
  for (const [what, from] of odd) refused.push([`from ${what}`, topUp(1, { from }), refusal('forbidden_user')])
  for (const [what, request, why] of refused) {
    await assert.rejects(signer.sign(request), why, what)
    await assert.rejects(signer.check(request), why, what)
  }
  assert.deepEqual(records(), before)
  // It was what the table changes.
  await signer.sign(topUp(1))
  // A user whose id from the provider looks like a sponsor's is still a user.
  const accessToken = await place.token('OIDC-SPONSOR-HOUSE')
  await signer.sign(ask(odd.get('OIDC-SPONSOR-HOUSE')!, { accessToken, intentId: 'odd' }))
  // The received funds belong to the user, whose own account is not restricted.
  const own = await signer.sign(ask(alice, { accessToken: house.accessToken, data: '0x12345678' }))
  assert.equal(own.rule, 'default-allow')
  whole()
})

test('a token for a sponsor is refused by every verb that takes one', async (t) => {
  const { signer, place, topUp, sponsor, bob, records } = await funded(t, { SIGNER_EXPORT: 'on' })
  await signer.createAccount({ userId: RESERVE })
  const before = records()
  for (const userId of [HOUSE, RESERVE, 'SPONSOR-nobody', 'SPONSOR-']) {
    const accessToken = await place.token(userId)
    for (const request of [
      topUp(0, { accessToken }),
      topUp(0, { accessToken, to: sponsor }),
      topUp(0, { accessToken, to: SOMEWHERE }),
      topUp(0, { accessToken, kind: 'cancel', to: sponsor, value: '0' }),
      topUp(0, { accessToken, from: bob }),
      topUp(0, { accessToken, from: SOMEWHERE }),
    ]) {
      await assert.rejects(signer.sign(request), refusal('forbidden_user'), userId)
      await assert.rejects(signer.check(request), refusal('forbidden_user'), userId)
    }
    const ofExport = (purpose: 'ask' | 'take') => place.exportToken(userId, purpose)
    await assert.rejects(signer.askKey({ token: await ofExport('ask') }), refusal('forbidden_user'))
    await assert.rejects(signer.takeKey({ token: await ofExport('take') }), refusal('forbidden_user'))
  }
  assert.deepEqual(records(), before)
  assert.equal((await signer.keyExport({ userId: HOUSE })).state, 'none')
})

test('a frozen sponsor, person, application or network stops a top-up, and what is not frozen goes on', async (t) => {
  const { signer, place, topUp, bob } = await funded(t)
  const other = { accessToken: await place.token(BOB), to: bob }
  let at = Date.now()
  const bring = async (subject: string, isFrozen: boolean) =>
    signer.bringRevocations([await place.revocations({ entries: [frozenEntry(subject, { isFrozen, at: ++at })] })])
  for (const [subject, code] of [
    [revoked.user(ALICE), 'account_frozen'],
    [revoked.user(HOUSE), 'account_frozen'],
    [revoked.application('shop'), 'application_suspended'],
  ] as const) {
    await bring(subject, true)
    await assert.rejects(signer.sign(topUp(0)), refusal(code), subject)
    await assert.rejects(signer.check(topUp(0)), refusal(code), subject)
    if (subject === revoked.user(ALICE)) await signer.check(topUp(0, other))
    else await assert.rejects(signer.check(topUp(0, other)), refusal(code), subject)
    await bring(subject, false)
    await signer.check(topUp(0))
  }
  await bring(revoked.user(ALICE), true)
  await signer.sign(topUp(0, other))
})

test('what a policy freezes is frozen for top-ups, though its rules are not asked', async (t) => {
  const place = await makePlace()
  t.after(() => place.clear())
  const file = join(place.folder, 'policy.json')
  const rules = [{ name: 'none', effect: 'deny' }]
  writeFileSync(file, JSON.stringify({ version: 1, rules }))
  const { signer, topUp } = await funded(t, { SIGNER_POLICY_FILE: file })
  assert.equal((await signer.sign(topUp(0))).rule, 'top-up')
  for (const [version, freeze, code] of [
    [2, { users: [ALICE] }, 'account_frozen'],
    [3, { users: [HOUSE] }, 'account_frozen'],
    [4, { clients: ['shop'] }, 'application_suspended'],
    [5, { everything: true }, 'policy_denied'],
  ] as const) {
    writeFileSync(file, JSON.stringify({ version, rules, freeze }))
    await until('the version', async () => (await signer.health()).policy?.version === version)
    await assert.rejects(signer.sign(topUp(1)), refusal(code))
    await assert.rejects(signer.check(topUp(1)), refusal(code))
  }
})

test('asked for again, a top-up is the bytes that were stored and is charged once; another one in its place is refused', async (t) => {
  const { signer, again, topUp, place, bob, records, whole } = await funded(t, {
    SIGNER_TOPUP_PER_USER_WEI: String(1_000n + FEE),
  })
  const first = await signer.sign(topUp(0))
  await assert.rejects(signer.sign(topUp(1)), denied('top-up-per-user'))
  const count = records().length
  await signer.end('SIGKILL')
  const next = await again()
  for (const accessToken of [topUp(0).accessToken, await place.token(ALICE)]) {
    const repeated = await next.sign(topUp(0, { accessToken }))
    assert.deepEqual([repeated.raw, repeated.stored], [first.raw, true])
    assert.equal((await next.check(topUp(0, { accessToken }))).stored, true)
  }
  const accessToken = await place.token(BOB)
  await assert.rejects(next.sign(topUp(0, { accessToken })), denied('top-up-to'))
  await assert.rejects(next.sign(topUp(0, { accessToken, to: bob })), refusal('nonce_conflict'))
  await assert.rejects(next.sign(topUp(0, { accessToken, to: bob, intentId: 'other' })), refusal('nonce_conflict'))
  await assert.rejects(next.sign(topUp(0, { value: '999' })), refusal('nonce_conflict'))
  await assert.rejects(next.sign(topUp(1, { intentId: 'up_0' })), refusal('intent_conflict'))
  assert.equal(records().length, count)
  whole()
})

test('without a token a top-up is raised and cancelled by the rules of every account, and charged to no limit of top-ups', async (t) => {
  const { signer, topUp, sponsor, records, whole } = await funded(t, { SIGNER_MAX_FILL_FEE_WEI: '21000' })
  await signer.sign(topUp(0))
  const raised = (price: number, changes: Partial<SignRequest> = {}) =>
    topUp(0, { accessToken: undefined, kind: 'replace', maxFeePerGas: String(price), maxPriorityFeePerGas: String(price / 10), ...changes }) // prettier-ignore
  await assert.rejects(signer.sign(raised(9_000)), denied('max-raise'))
  await assert.rejects(signer.sign(raised(2_000, { value: '2000' })), refusal('nonce_conflict'))
  assert.equal((await signer.sign(raised(2_000))).kind, 'replace')
  assert.equal((await signer.sign(raised(4_000, { kind: 'cancel', to: sponsor, value: '0' }))).kind, 'cancel')
  assert.deepEqual(records().slice(-2).map(({ spent, rule }) => [spent, rule]), [[null, 'default-allow'], [null, 'default-allow']]) // prettier-ignore
  await signer.sign(topUp(1))
  whole()
})

/** A signer within this process with a test clock, whose policy rejects everything. */
async function clocked(t: TestContext, topUp: { perUser: bigint; perSponsor: bigint }) {
  const time = { now: 1_700_000_000_000 }
  const policy = JSON.stringify({ version: 1, rules: [{ name: 'none', effect: 'deny' }] })
  const place = await openGoverned({ policy, now: () => time.now, topUp })
  t.after(place.close)
  const userIds = [HOUSE, RESERVE, ALICE, BOB]
  const addresses = new Map<string, `0x${string}`>()
  for (const userId of userIds) addresses.set(userId, await place.account(userId))
  const nonces = new Map<string, number>()
  /** Requests a top-up. `all`: value and fee. A nonce is used up only by a signature. */
  const give = async (userId: string, all: bigint, { by = HOUSE, chainId = CHAIN_ID } = {}) => {
    const lane = `${by} ${chainId}`
    const nonce = nonces.get(lane) ?? 0
    const request = ask(addresses.get(by)!, {
      ...{ chainId, nonce, intentId: `${lane.replace(' ', '_')}_${nonce}`, to: addresses.get(userId)! },
      ...{ value: String(all - 21n), gas: '21', maxFeePerGas: '1', maxPriorityFeePerGas: '1' },
    })
    const signed = await place.sign(request, { userId, clientId: 'shop' })
    nonces.set(lane, nonce + 1)
    return signed
  }
  const whole = () => assert.deepEqual(verifyStore(place.folder).problems, [])
  return { time, place, give, addresses, whole }
}

test('value and fee count to the wei; a refusal says when there is room again, and nothing of what others used', async (t) => {
  const { give, whole } = await clocked(t, { perUser: 100n, perSponsor: 250n })
  await give(ALICE, 60n)
  await assert.rejects(
    give(ALICE, 41n),
    /The rule top-up-per-user rejects this transaction: topUp\.periodAmount is 100 in 86400 seconds, used 60, needed 41, more is available from 20\d\d-\d\d-\d\dT[\d:.]+Z\. Nothing was signed\.$/,
  )
  await give(ALICE, 40n)
  await assert.rejects(give(ALICE, 21n), denied('top-up-per-user'))
  await give(BOB, 100n)
  await give(BOB, 100n, { by: RESERVE, chainId: 10 })
  await give(ALICE, 100n, { chainId: 10 })
  whole()
})

test('a sponsor’s limit is shared by all people on a network; another sponsor and another network have their own', async (t) => {
  const { give, whole } = await clocked(t, { perUser: 100n, perSponsor: 150n })
  await give(ALICE, 100n)
  await assert.rejects(give(BOB, 51n), (error: Error) => {
    assert.match(error.message, /^The rule top-up-per-sponsor rejects this transaction: topUp\.periodAmount does not cover this transaction, more is available from 20[\d-]+T[\d:.]+Z\. Nothing was signed\.$/) // prettier-ignore
    const resetsAt = /20[\d-]+T[\d:.]+Z/.exec(error.message)![0]
    assert.deepEqual((error as Refusal).facts, { rule: 'top-up-per-sponsor', resetsAt })
    return true
  })
  await give(BOB, 50n)
  await assert.rejects(give(BOB, 21n), denied('top-up-per-sponsor'))
  // A top-up of one sponsor also counts in the user's limit at other sponsors.
  await assert.rejects(give(ALICE, 21n, { by: RESERVE }), denied('top-up-per-user'))
  await give(BOB, 50n, { by: RESERVE })
  await assert.rejects(give(BOB, 21n, { by: RESERVE }), denied('top-up-per-user'))
  await assert.doesNotReject(give(ALICE, 100n, { chainId: 10 }))
  await assert.rejects(give(ALICE, 21n, { chainId: 10, by: RESERVE }), denied('top-up-per-user'))
  whole()
})

test('what was refused by one limit takes nothing of the other', async (t) => {
  const { give, whole } = await clocked(t, { perUser: 100n, perSponsor: 120n })
  await give(ALICE, 90n)
  await assert.rejects(give(ALICE, 30n), denied('top-up-per-user'))
  await assert.rejects(give(BOB, 31n), denied('top-up-per-sponsor'))
  await give(BOB, 30n)
  await give(BOB, 70n, { by: RESERVE })
  await assert.rejects(give(BOB, 21n, { by: RESERVE }), denied('top-up-per-user'))
  whole()
})

test('a day rolls: what was given counts for 24 hours and no clock that is set back, and no restart, frees it', async (t) => {
  const { time, place, give, whole } = await clocked(t, { perUser: 100n, perSponsor: 1_000n })
  const hour = 3_600_000
  const start = time.now
  await give(ALICE, 50n)
  time.now = start + 12 * hour
  await give(ALICE, 50n)
  place.restart()
  for (const hours of [0, 6, 12, 18, 23.99]) {
    time.now = start + hours * hour
    await assert.rejects(give(ALICE, 21n), denied('top-up-per-user'), `${hours}`)
  }
  place.restart()
  // An amount counts for up to a 60th of a day longer.
  time.now = start + 24.8 * hour
  await assert.doesNotReject(give(ALICE, 50n))
  await assert.rejects(give(ALICE, 21n), denied('top-up-per-user'))
  time.now = start + 35.99 * hour
  await assert.rejects(give(ALICE, 21n), denied('top-up-per-user'))
  time.now = start + 36.8 * hour
  await give(ALICE, 50n)
  whole()
})

test('a policy that is tried on the ledger is not asked about top-ups', async (t) => {
  const { place, give } = await clocked(t, { perUser: 100n, perSponsor: 100n })
  await give(ALICE, 100n)
  const policy = readPolicy(JSON.stringify({ version: 1, rules: [{ name: 'none', effect: 'deny' }] }))
  assert.deepEqual([...replayLedger(place.folder, policy)], [])
})

test('a top-up goes to the address that the person’s key gives, not to one that was written over it', async (t) => {
  const { signer, again, place, topUp } = await funded(t)
  await signer.end('SIGTERM')
  const db = new DatabaseSync(join(place.env.SIGNER_DIR!, DATABASE_FILE))
  db.prepare('UPDATE accounts SET address = ? WHERE user_id = ?').run(Buffer.alloc(20, 0xc0), ALICE)
  db.close()
  const next = await again()
  await assert.rejects(next.sign(topUp(0, { to: SOMEWHERE })), refusal('key_damaged'))
  await assert.rejects(next.sign(topUp(0)), refusal('key_damaged'))
})

test('with a limit at 0 there are no top-ups, and those that were signed are handed out', async (t) => {
  const { signer, topUp, place } = await funded(t)
  const { raw } = await signer.sign(topUp(0))
  await signer.end('SIGTERM')
  const closed = await startSigner({ env: { ...place.env, SIGNER_TOPUP_PER_USER_WEI: '0' } })
  t.after(() => closed.end('SIGKILL'))
  await assert.rejects(closed.sign(topUp(1)), denied('top-up-off'))
  await assert.rejects(closed.check(topUp(1)), denied('top-up-off'))
  assert.equal((await closed.sign(topUp(0))).raw, raw)
})
