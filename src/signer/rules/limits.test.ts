// tier: default, because limits of what is signed
import assert from 'node:assert/strict'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { getAddress } from 'viem'
import { ALICE, ask, BOB, CHAIN_ID, makePlace, refusal, SOMEWHERE, startSigner } from '../../../test/kit/signer.ts'
import { openGoverned } from '../../../test/policy-world.ts'
import { until } from '../../../test/kit/until.ts'
import { RESERVED_RULES } from '../policy/document.ts'
import { DATABASE_FILE } from '../store.ts'
import { verifyStore } from '../programs/verify.ts'
import type { SignRequest } from '../../signer-wire/wire.ts'

const REST = { name: 'rest', effect: 'allow' }
const DAY = { periodDuration: 86_400 }
const TOKEN = getAddress(SOMEWHERE)

/** A running signer of a development installation with a policy, an account of Alice's, and files that can be exchanged. */
async function governed(t: TestContext, rules: unknown[], more: Record<string, string> = {}) {
  const place = await makePlace()
  const file = join(place.folder, 'policy.json')
  const write = (version: number, changes: Record<string, unknown>) => {
    writeFileSync(`${file}.new`, JSON.stringify({ version, ...changes }))
    // Replace the file atomically, as file watchers need it.
    renameSync(`${file}.new`, file)
  }
  write(1, { rules })
  const env = { ...place.env, SIGNER_POLICY_FILE: file }
  const start = (changes: Record<string, string> = {}) => startSigner({ env: { ...env, ...more, ...changes } })
  const signer = await start()
  const running = new Set([signer])
  t.after(async () => {
    for (const each of running) await each.end('SIGKILL')
    place.clear()
  })
  const { address } = await signer.createAccount({ userId: ALICE })
  const accessToken = await place.token(ALICE)
  const again = async (changes?: Record<string, string>) => {
    const next = await start(changes)
    running.add(next)
    return next
  }
  const request = (nonce: number, changes: Partial<SignRequest> = {}) =>
    ask(address, { nonce, accessToken, ...changes })
  const whole = () => assert.deepEqual(verifyStore(place.env.SIGNER_DIR!).problems, [])
  return { place, file, write, signer, again, address, request, whole }
}

const denied = (rule: string) => (error: unknown) =>
  refusal('policy_denied')(error) && (error as Error).message.includes(`The rule ${rule} rejects`)

test('of a hundred calls at once with room for ten, exactly ten are signed, and a restart counts the same', async (t) => {
  const rules = [REST, { name: 'day', effect: 'limit', per: ['user'], native: { periodAmount: '10', ...DAY } }]
  const { signer, again, request, whole } = await governed(t, rules)
  const calls = Array.from({ length: 100 }, (_, nonce) => request(nonce))
  const answers = await Promise.allSettled(calls.map((call) => signer.sign(call)))
  const signed = answers.flatMap((answer, index) => (answer.status === 'fulfilled' ? [calls[index]!] : []))
  assert.equal(signed.length, 10)
  for (const answer of answers)
    if (answer.status === 'rejected') assert.ok(denied('day')(answer.reason) || refusal('nonce_gap')(answer.reason))
  await signer.end('SIGKILL')
  const next = await again()
  const unsigned = calls.find((call) => !signed.includes(call))!
  await assert.rejects(next.sign(unsigned), denied('day'))
  // Signed requests are returned again, whatever is left of the limit, and are charged once.
  for (const call of signed) assert.equal((await next.sign(call)).stored, true)
  await assert.rejects(next.sign({ ...signed[0]!, intentId: 'other' }), refusal('nonce_conflict'))
  whole()
})

test('a raise or cancel without a token passes a full limit and charges nothing; with one it is charged its fees', async (t) => {
  const rules = [
    REST,
    { name: 'once', effect: 'limit', count: { periodAmount: '1', ...DAY }, native: { periodAmount: '1', ...DAY } },
    { name: 'fees', effect: 'limit', fees: { periodAmount: String(21_000 * 2_000), ...DAY } },
  ]
  const { signer, request, whole } = await governed(t, rules)
  const priced = (price: number, changes: Partial<SignRequest>) => request(0, { maxFeePerGas: String(price), maxPriorityFeePerGas: String(Math.floor(price / 10)), ...changes }) // prettier-ignore
  await signer.sign(priced(1_000, {}))
  const { accessToken: _, ...raise } = priced(1_500, { kind: 'replace' })
  assert.equal((await signer.sign(raise)).kind, 'replace')
  // 1,000 were charged, and the fee bump without a token was not. So up to a limit of 2,000, 1,000 are left.
  await assert.rejects(signer.sign(priced(2_001, { kind: 'replace' })), denied('fees'))
  assert.equal((await signer.sign(priced(2_000, { kind: 'replace' }))).stored, false)
  await assert.rejects(
    signer.sign(priced(2_200, { kind: 'cancel', to: priced(1, {}).from, value: '0' })),
    denied('fees'),
  )
  const { accessToken: __, ...cancel } = priced(2_200, { kind: 'cancel', to: priced(1, {}).from, value: '0' })
  assert.equal((await signer.sign(cancel)).kind, 'cancel')
  await assert.rejects(signer.sign(request(1, { gas: '0' })), denied('once'))
  whole()
})

test('a first cancel with a token counts as a transaction, and its fees count for limits of other contracts and functions', async (t) => {
  const fees = { perCall: '42000000', periodAmount: '63000000', ...DAY }
  const rules = [
    REST,
    { name: 'three', effect: 'limit', per: ['user'], count: { periodAmount: '3', ...DAY } },
    { name: 'fees', effect: 'limit', per: ['user'], class: ['CALL'], to: [TOKEN], functions: ['0x12345678'], fees },
    { name: 'elsewhere', effect: 'limit', clients: ['game'], fees: { perCall: '1' }, count: { periodAmount: '0', ...DAY } }, // prettier-ignore
  ]
  const { signer, request, address, whole } = await governed(t, rules)
  const cancel = (nonce: number, price: number, changes: Partial<SignRequest> = {}) =>
    request(nonce, { kind: 'cancel', to: address, value: '0', maxFeePerGas: String(price), maxPriorityFeePerGas: String(price / 10), ...changes }) // prettier-ignore
  await assert.rejects(signer.sign(cancel(0, 100_000_000)), denied('fees'))
  await signer.sign(request(0))
  assert.equal((await signer.sign(cancel(1, 2_000))).kind, 'cancel')
  await assert.rejects(signer.sign(cancel(2, 1_010)), denied('fees'))
  assert.equal((await signer.sign(cancel(2, 1_000))).kind, 'cancel')
  await assert.rejects(signer.sign(request(3)), denied('three'))
  await assert.rejects(signer.sign(cancel(3, 10)), denied('three'))
  // The account queue is not blocked: the write can be cancelled, with a token within the limits, without one always.
  await assert.rejects(signer.sign(cancel(0, 50_000, { intentId: 'tx_0' })), denied('fees'))
  assert.equal((await signer.sign(cancel(0, 2_000, { accessToken: undefined }))).kind, 'cancel')
  whole()
})

test('of a limit that others use too, a check and a refusal say the name and the time, and not how much is used', async (t) => {
  const rules = [
    REST,
    { name: 'breaker', effect: 'limit', per: ['chainId'], native: { periodAmount: '1000', ...DAY } },
    { name: 'person', effect: 'limit', per: ['user', 'chainId'], native: { periodAmount: '900', ...DAY } },
  ]
  const { signer, request, place } = await governed(t, rules)
  await signer.sign(request(0, { value: '700' }))
  const { address: bob } = await signer.createAccount({ userId: BOB })
  const accessToken = await place.token(BOB)
  const { limits } = await signer.check(ask(bob, { accessToken, intentId: 'bob' }))
  assert.deepEqual(limits, [
    { rule: 'breaker', limit: 'native.periodAmount', resetsAt: limits![0]!.resetsAt },
    { rule: 'person', limit: 'native.periodAmount', amount: '900', used: '0', left: '900', resetsAt: null },
  ])
  await assert.rejects(signer.sign(ask(bob, { accessToken, intentId: 'bob', value: '400' })), (error: Error) => {
    assert.match(error.message, /The rule breaker .*: native\.periodAmount does not cover this transaction, more is available from 20[\d-]+T[\d:.]+Z\. Nothing was signed\.$/) // prettier-ignore
    return !/700|1000|300/.test(error.message.replace(/from .*$/, ''))
  })
  await assert.rejects(signer.sign(request(1, { value: '250' })), /The rule person .* used 700, needed 250/)
})

test('a check names the rule and the room left, and takes none of it', async (t) => {
  const rules = [REST, { name: 'day', effect: 'limit', per: ['user'], native: { periodAmount: '100', ...DAY } }]
  const { signer, request } = await governed(t, rules)
  const limit = { rule: 'day', limit: 'native.periodAmount', amount: '100' }
  for (let round = 0; round < 3; round++)
    assert.deepEqual(await signer.check(request(0, { value: '70' })), {
      ...{ kind: 'send', rule: 'rest', stored: false, requires: null },
      limits: [{ ...limit, used: '0', left: '100', resetsAt: null }],
    })
  await signer.sign(request(0, { value: '70' }))
  const { limits } = await signer.check(request(1, { value: '30' }))
  assert.deepEqual(limits, [{ ...limit, used: '70', left: '30', resetsAt: limits![0]!.resetsAt }])
  const hours = (Date.parse(limits![0]!.resetsAt!) - Date.now()) / 3_600_000
  assert.ok(hours > 23.9 && hours < 24.9)
  await assert.rejects(signer.check(request(1, { value: '31' })), denied('day'))
  assert.equal((await signer.check(request(0, { value: '70' }))).stored, true)
})

for (const point of ['signer.before-commit', 'signer.after-commit', 'signer.after-witness'])
  test(`killed ${point}, the signature and what it spends are both there or neither is`, async (t) => {
    const rules = [REST, { name: 'day', effect: 'limit', native: { periodAmount: '10', ...DAY } }]
    const { signer, again, request, whole } = await governed(t, rules)
    await signer.end('SIGTERM')
    const doomed = await again({ CRASH_AT: point })
    await assert.rejects(doomed.sign(request(0, { value: '10' })), refusal('signer_unavailable'))
    assert.equal(await doomed.ended, 'SIGKILL')
    const revived = await again()
    whole()
    const isKept = point !== 'signer.before-commit'
    const other = revived.sign(request(1, { value: '1' }))
    if (isKept) await assert.rejects(other, denied('day'))
    else await other
    const whatWas = revived.sign(request(0, { value: '10' }))
    if (isKept) assert.equal((await whatWas).stored, true)
    else await assert.rejects(whatWas, denied('day'))
    whole()
  })

test('the file is looked at each second; what is older, edited or missing changes nothing, before and after a restart', async (t) => {
  const { signer, again, file, write, request } = await governed(t, [REST])
  const first = (await signer.health()).policy!
  assert.deepEqual([first.version, first.state, first.problem, first.since! <= Date.now()], [1, 'file', null, true])
  await signer.sign(request(0))
  write(3, { rules: [{ name: 'none', effect: 'deny' }, REST] })
  // The file is read without a request for the state.
  await until('the third version', () =>
    signer.check(request(1)).then(
      () => false,
      () => true,
    ),
  )
  await assert.rejects(signer.sign(request(1)), denied('none'))
  assert.equal((await signer.health()).policy?.version, 3)
  const state = async (wanted: string) => {
    await until(wanted, async () => (await signer.health()).policy?.state === wanted)
    const { version, problem } = (await signer.health()).policy!
    assert.equal(version, 3)
    assert.match(problem!, /./)
    await assert.rejects(signer.sign(request(1)), denied('none'))
  }
  write(2, { rules: [REST] })
  await state('refused')
  write(3, { rules: [REST] })
  // A request for the state reads the file.
  await state('refused')
  writeFileSync(file, '{"version": 4, "rules"')
  await state('refused')
  renameSync(file, `${file}.away`)
  await state('missing')
  write(2, { rules: [REST] })
  await state('refused')
  assert.equal(signer.stderr().match(/policy_refused.*2 is older than 3|2 is older than 3.*policy_refused/g)!.length, 2)
  await signer.end('SIGTERM')
  for (const more of [undefined, { SIGNER_POLICY_FILE: '' }, { SIGNER_POLICY_FILE: `${file}.nowhere` }]) {
    const next = await again(more)
    assert.equal((await next.health()).policy!.version, 3)
    await assert.rejects(next.sign(request(1)), denied('none'))
    await next.end('SIGTERM')
  }
  write(5, { rules: [REST] })
  const last = await again()
  assert.equal((await last.health()).policy!.version, 5)
  assert.equal((await last.sign(request(1))).rule, 'rest')
})

test('a signer that is to have a policy does not start without one, and says why', async (t) => {
  const place = await makePlace()
  t.after(place.clear)
  const file = join(place.folder, 'policy.json')
  const start = () => startSigner({ env: { ...place.env, SIGNER_POLICY_FILE: file } })
  await assert.rejects(start(), /SIGNER_POLICY_FILE cannot be used, and no policy was in force before: it is missing/)
  writeFileSync(file, JSON.stringify({ version: 1, rules: [{ ...REST, native: {} }] }))
  await assert.rejects(start(), /rules\[0\]: unknown field "native"/)
})

test('a kept policy that cannot be read keeps the signer from starting', async (t) => {
  const { signer, again, place } = await governed(t, [REST])
  await signer.end('SIGTERM')
  const db = new DatabaseSync(join(place.env.SIGNER_DIR!, DATABASE_FILE))
  db.exec(`UPDATE policy SET document = '{"version": 1}'`)
  db.close()
  await assert.rejects(again(), /The stored policy in SIGNER_DIR cannot be read: rules: expected a list/)
})

test('a kept policy that is older than the one the ledger was decided by, changed or gone is found at a start and by verify', async (t) => {
  const { signer, again, place, write, request, file, whole } = await governed(t, [REST])
  const path = join(place.env.SIGNER_DIR!, DATABASE_FILE)
  const kept = () => {
    const db = new DatabaseSync(path)
    const { document } = db.prepare('SELECT document FROM policy').get() as { document: string }
    db.close()
    return document
  }
  const old = kept()
  write(2, { rules: [{ ...REST, name: 'second' }] })
  await until('the second version', async () => (await signer.health()).policy?.version === 2)
  await signer.sign(request(0))
  await signer.end('SIGTERM')
  whole()
  const right = kept()
  renameSync(file, `${file}.away`)
  for (const [document, said] of [
    [old, /version 1, is older: the ledger's records were decided by version 2/],
    [right.replace('second', 'third'), /was changed: the ledger's records were decided by version 2/],
    [null, /is gone: the ledger's records were decided by version 2/],
  ] as const) {
    const db = new DatabaseSync(path)
    if (document === null) db.exec('DELETE FROM policy')
    else db.prepare('UPDATE policy SET document = ?').run(document)
    db.close()
    await assert.rejects(again({ SIGNER_POLICY_FILE: '' }), said)
    assert.match(verifyStore(place.env.SIGNER_DIR!).problems.join('\n'), said)
  }
  // An older file does not replace the policy, and a valid newer one does.
  write(1, { rules: [REST] })
  await assert.rejects(again(), /is older/)
  renameSync(`${file}.away`, file)
  const next = await again()
  assert.equal((await next.health()).policy!.version, 2)
  whole()
})

test('what a policy freezes is frozen for raises and cancels too, until a version that does not name it', async (t) => {
  const { signer, write, request, place } = await governed(t, [REST])
  await signer.sign(request(0))
  const { accessToken: _, ...raise } = request(0, {
    kind: 'replace',
    maxFeePerGas: '1100',
    maxPriorityFeePerGas: '110',
  })
  let version = 1
  const put = async (freeze: Record<string, unknown>) => {
    write(++version, { rules: [REST], freeze })
    await until('the version', async () => (await signer.health()).policy?.version === version)
  }
  for (const [freeze, code] of [
    [{ users: [ALICE] }, 'account_frozen'],
    [{ chains: [CHAIN_ID] }, 'policy_denied'],
    [{ everything: true }, 'policy_denied'],
    [{ clients: ['shop'] }, 'application_suspended'],
  ] as const) {
    await put(freeze)
    await assert.rejects(signer.sign(request(1)), refusal(code))
    await assert.rejects(signer.sign(raise), refusal(code))
  }
  await put({ users: [BOB], chains: [1], clients: ['game'] })
  assert.equal((await signer.sign(raise)).kind, 'replace')
  await signer.sign(request(1))
  assert.notEqual(await place.token(BOB), '')
})

test('verify recounts what was spent: a meter that was lowered or removed is found', async (t) => {
  const rules = [REST, { name: 'day', effect: 'limit', native: { periodAmount: '10', ...DAY } }]
  const { signer, place, request, whole } = await governed(t, rules)
  await signer.sign(request(0, { value: '9' }))
  await signer.end('SIGTERM')
  whole()
  const db = new DatabaseSync(join(place.env.SIGNER_DIR!, DATABASE_FILE))
  t.after(() => db.close())
  const problems = () => verifyStore(place.env.SIGNER_DIR!).problems
  const { policy, spent } = db.prepare('SELECT policy, spent FROM ledger ORDER BY seq DESC LIMIT 1').get() as Record<string, string> // prettier-ignore
  assert.match(policy!, /^1 [\w-]{43}$/)
  assert.deepEqual(JSON.parse(spent!), [{ meter: '["day","native"]', amount: '9', limit: '10', period: 86_400 }])
  db.exec(`UPDATE meters SET window = replace(window, '"9"', '"1"')`)
  assert.deepEqual(problems(), ['Meters that differ from what the ledger charged: 1.'])
  db.exec('DELETE FROM meters')
  assert.deepEqual(problems(), ['Meters that differ from what the ledger charged: 1.'])
})

test('limits that a clock ahead had filled count from the next start, not until its date; verify counts the same', async (t) => {
  const rules = [REST, { name: 'day', effect: 'limit', native: { periodAmount: '10', ...DAY } }]
  const day = 86_400_000
  let clock = 1_700_000_000_000
  const place = await openGoverned({ policy: JSON.stringify({ version: 1, rules }), now: () => clock })
  t.after(place.close)
  const real = clock
  const address = await place.account(ALICE)
  const by = { userId: ALICE, clientId: 'shop' }
  const sign = (nonce: number, value: string) => place.sign(ask(address, { nonce, value }), by)
  clock = real + 400 * day
  await sign(0, '9')
  clock = real
  // Setting the clock back while the signer runs frees nothing.
  await assert.rejects(sign(1, '2'), /The rule day rejects/)
  clock = real + 2 * day
  await assert.rejects(sign(1, '2'), /The rule day rejects/)
  place.restart()
  await assert.rejects(sign(1, '2'), /The rule day rejects/)
  clock += day + day / 30
  await sign(1, '2')
  await assert.rejects(sign(2, '9'), /The rule day rejects/)
  place.restart()
  await assert.rejects(sign(2, '9'), /The rule day rejects/)
  await sign(2, '8')
  assert.deepEqual(verifyStore(place.folder).problems, [])
})

test('a start by a clock that is far behind frees nothing once the clock is right', async (t) => {
  const rules = [REST, { name: 'day', effect: 'limit', native: { periodAmount: '10', ...DAY } }]
  let clock = 1_700_000_000_000
  const place = await openGoverned({ policy: JSON.stringify({ version: 1, rules }), now: () => clock })
  t.after(place.close)
  const address = await place.account(ALICE)
  const sign = (nonce: number, value: string) => place.sign(ask(address, { nonce, value }), { userId: ALICE, clientId: 'shop' }) // prettier-ignore
  await sign(0, '9')
  clock = 0
  place.restart()
  clock = 1_700_000_000_000 + 3_600_000
  await assert.rejects(sign(1, '2'), /The rule day rejects/)
  assert.deepEqual(verifyStore(place.folder).problems, [])
})

test('no rule of a document has the name of a built-in one', () => {
  const built = ['rules/policy.ts', 'verbs/sign.ts', 'rules/top-up.ts', 'policy/evaluate.ts'].flatMap((file) =>
    [...readFileSync(join(import.meta.dirname, '..', file), 'utf8').matchAll(/(?:rule|name): '([a-z-]+)'/g)].map(
      ([, name]) => name!,
    ),
  )
  assert.ok(built.length >= 15, built.join(' '))
  assert.deepEqual(
    built.filter((name) => !RESERVED_RULES.has(name)),
    [],
  )
})
