import assert from 'node:assert/strict'
import { copyFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { command } from '../../../test/kit/command.ts'
import { countingNode } from '../../../test/nodes/counting-node.ts'
import { openGoverned } from '../../../test/policy-world.ts'
import { productionSigner } from '../../../test/production-signer.ts'
import { ALICE, ask, BOB, refusal, type Place } from '../../../test/kit/signer.ts'
import { askOperation, askOuter, GAS_LIMIT, HOUSE, RESERVE, sponsored } from '../../../test/sponsored-world.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import { Refusal } from '../refusal.ts'
import { readSettings } from '../settings.ts'
import { DATABASE_FILE } from '../store.ts'
import { verifyStore } from '../programs/verify.ts'

/** wei per gas, and gas units, of the tests' requests */
const [PRICE, GAS] = [1_000n, 300_000n]
/** wei that one operation is charged to its user, and one transaction to its sponsor */
const [SHARE, WHOLE] = [GAS_LIMIT * PRICE, GAS * PRICE]

const denied = (rule: string, why = '') => (error: unknown) =>
  refusal('policy_denied')(error) && new RegExp(`The rule ${rule} rejects this transaction: ${why}`).test((error as Error).message) // prettier-ignore
const noRoom =
  (operation: number, why = '') =>
  (error: unknown) =>
    (error instanceof SignerRefused || error instanceof Refusal) &&
    error.facts.operation === operation &&
    error.facts.because === 'policy_denied' &&
    error.facts.rule === 'sponsored-per-user' &&
    error.facts.resetsAt !== undefined &&
    new RegExp(`The rule sponsored-per-user rejects this transaction: ${why}`).test(error.message)

test('in production no sponsor pays for operations until the operator sets both limits, and then within them', async (t) => {
  const { env, offer, newKey, trust, start } = await productionSigner(t)
  const key = await newKey('first')
  offer(key.jwk)
  assert.equal((await trust('--accept', key.fingerprint)).code, 0)
  const settings: [Record<string, bigint>, string | null][] = [
    [{}, 'sponsored-off'],
    [{ SIGNER_GAS_PER_USER_WEI: SHARE }, 'sponsored-off'],
    [{ SIGNER_GAS_PER_SPONSOR_WEI: WHOLE }, 'sponsored-off'],
    [{ SIGNER_GAS_PER_USER_WEI: SHARE, SIGNER_GAS_PER_SPONSOR_WEI: 0n }, 'sponsored-off'],
    [{ SIGNER_GAS_PER_USER_WEI: SHARE - 1n, SIGNER_GAS_PER_SPONSOR_WEI: WHOLE }, 'sponsored-per-user'],
    [{ SIGNER_GAS_PER_USER_WEI: SHARE, SIGNER_GAS_PER_SPONSOR_WEI: WHOLE - 1n }, 'sponsored-per-sponsor'],
    [{ SIGNER_GAS_PER_USER_WEI: SHARE, SIGNER_GAS_PER_SPONSOR_WEI: WHOLE }, null],
  ]
  for (const [index, [values, answer]] of settings.entries()) {
    for (const name of ['SIGNER_GAS_PER_USER_WEI', 'SIGNER_GAS_PER_SPONSOR_WEI']) delete env[name]
    Object.assign(env, Object.fromEntries(Object.entries(values).map(([name, wei]) => [name, String(wei)])))
    const signer = await start()
    t.after(() => signer.end('SIGKILL'))
    await signer.bringRevocations([await key.list()])
    const { address: alice } = await signer.createAccount({ userId: ALICE })
    const { address: house } = await signer.createAccount({ userId: HOUSE })
    // Signing an operation charges no gas limit.
    const signed = await signer.signOperation(askOperation(alice, await key.token(), { sequence: String(index) }))
    const request = askOuter(house, [signed])
    if (answer === null) assert.equal((await signer.signOuter(request)).stored, false)
    else await assert.rejects(signer.signOuter(request), answer === 'sponsored-per-user' ? noRoom(0) : denied(answer))
    await signer.end('SIGTERM')
  }
})

test('in development a person’s operations may cost one of the native currency a day, and a sponsor’s a thousand', () => {
  const env = { SIGNER_SOCKET: '/a', SIGNER_DIR: '/b', SIGNER_KEK_FILE: '/c', SIGNER_JWKS_FILE: '/d' }
  const origin = { SIGNER_ISSUER: 'https://a.example/oauth', SIGNER_AUDIENCE: 'https://a.example/v1', SIGNER_CHAINS: '1' } // prettier-ignore
  const limitsOf = (isDevelopment: boolean, more: Record<string, string> = {}) => {
    const { gasPerUserWei, gasPerSponsorWei } = readSettings({ ...env, ...origin, ...more }, { isDevelopment }).limits
    return [gasPerUserWei, gasPerSponsorWei]
  }
  assert.deepEqual(limitsOf(true), [10n ** 18n, 10n ** 21n])
  assert.deepEqual(limitsOf(false), [0n, 0n])
  assert.deepEqual(limitsOf(false, { SIGNER_GAS_PER_USER_WEI: '7', SIGNER_GAS_PER_SPONSOR_WEI: '8' }), [7n, 8n])
})

test('a person is charged the gas they signed for and a sponsor all of it, to the wei, each time that it is packed, and a raise by what it is dearer', async (t) => {
  const { signer, ofAlice, ofBob, outer, rows, house, problems } = await sponsored(t, {
    SIGNER_GAS_PER_USER_WEI: String(4n * SHARE),
    SIGNER_GAS_PER_SPONSOR_WEI: String(4n * WHOLE),
  })
  const [one, two, bobs] = [
    await signer.signOperation(ofAlice({ sequence: '1' })),
    await signer.signOperation(ofAlice({ sequence: '2' })),
    await signer.signOperation(ofBob({ sequence: '3' })),
  ]
  const { address: reserve } = await signer.createAccount({ userId: RESERVE })
  const spent = () =>
    (JSON.parse(rows().at(-1)!.spent as string) as { meter: string; amount: string }[]).map(({ meter, amount }) => [
      (JSON.parse(meter) as string[])[2],
      BigInt(amount),
    ])
  await signer.signOuter(outer([one, bobs, two]))
  assert.deepEqual(spent(), [[`user ${ALICE}`, 2n * SHARE], [`user ${BOB}`, SHARE], [`user ${HOUSE}`, WHOLE]]) // prettier-ignore
  const raise = { kind: 'replace', maxFeePerGas: '1500', maxPriorityFeePerGas: '150' } as const
  await signer.signOuter(outer([one, bobs, two], raise))
  assert.deepEqual(spent(), [[`user ${ALICE}`, SHARE], [`user ${BOB}`, SHARE / 2n], [`user ${HOUSE}`, WHOLE / 2n]]) // prettier-ignore
  // Another sponsor includes it again, and the same meter of the user is charged.
  await signer.signOuter(askOuter(reserve, [one], { intentId: 'reserve_0' }))
  assert.deepEqual(spent(), [
    [`user ${ALICE}`, SHARE],
    [`user ${RESERVE}`, WHOLE],
  ])
  const before = rows().length
  // Bob's operation comes first, and his limit is not reached.
  await assert.rejects(signer.signOuter(outer([bobs, two], { nonce: 1 })), noRoom(1))
  await assert.rejects(signer.signOuter(outer([one, bobs, two], { ...raise, maxFeePerGas: '2500', maxPriorityFeePerGas: '250' })), noRoom(0)) // prettier-ignore
  assert.equal(rows().length, before)
  await signer.signOuter(outer([bobs], { nonce: 1 }))
  await signer.signOuter(outer([bobs], { nonce: 2 }))
  // Half a transaction of the sponsor's limit is left. The error names no amounts, because the limit is shared.
  const half = { nonce: 3, maxFeePerGas: '500', maxPriorityFeePerGas: '1' }
  await assert.rejects(
    signer.signOuter(outer([bobs], { ...half, gas: '300001' })),
    denied('sponsored-per-sponsor', 'sponsored.periodAmount does not cover this transaction'),
  )
  await signer.signOuter(outer([bobs], half))
  // A cancellation has the limits of requests without a token.
  await signer.sign(ask(house, { nonce: 0, intentId: 'outer_0', kind: 'cancel', to: house, value: '0', maxFeePerGas: '3000', maxPriorityFeePerGas: '300' })) // prettier-ignore
  assert.deepEqual(problems(), [])
})

test('a transaction that is raised again and again takes of a person’s limit what its dearest attempt costs, and no more', async (t) => {
  const { signer, ofAlice, ofBob, outer, problems } = await sponsored(t, {
    SIGNER_GAS_PER_USER_WEI: String(2n * SHARE),
  })
  const [one, two] = [await signer.signOperation(ofAlice()), await signer.signOperation(ofBob({ sequence: '1' }))]
  const raisedTo = (price: number) =>
    outer([one, two], { kind: 'replace', maxFeePerGas: String(price), maxPriorityFeePerGas: String(price / 10) })
  await signer.signOuter(outer([one, two]))
  for (const price of [1_200, 1_500, 2_000]) assert.equal((await signer.signOuter(raisedTo(price))).kind, 'replace')
  // Twice the first price reaches the limit exactly.
  await assert.rejects(signer.signOuter(raisedTo(2_200)), noRoom(0))
  await assert.rejects(signer.signOuter(outer([two], { nonce: 1, maxFeePerGas: '1', maxPriorityFeePerGas: '1' })), noRoom(0)) // prettier-ignore
  assert.deepEqual(problems(), [])
})

test('of many transactions at once with room for three, three are signed; a restart counts the same, and a day later there is room', async () => {
  let clock = 1_700_000_000_000
  const policy = JSON.stringify({ version: 1, rules: [{ name: 'all', effect: 'allow' }] })
  const gas = { perUser: 3n * SHARE, perSponsor: 100n * WHOLE }
  const signer = await openGoverned({ policy, now: () => clock, gas })
  try {
    const [alice, house] = [await signer.account(ALICE), await signer.account(HOUSE)]
    const by = { userId: ALICE, clientId: 'shop' }
    const sign = (sequence: number) =>
      signer.signOperation(
        askOperation(alice, '', { sequence: String(sequence), deadline: Math.floor(clock / 1_000) + 3_600 }),
        by,
      )
    const first = await sign(1)
    const outers = Array.from({ length: 10 }, (_, nonce) => askOuter(house, [first], { nonce }))
    const answers = await Promise.allSettled(outers.map((each) => signer.signOuter(each)))
    assert.equal(answers.filter(({ status }) => status === 'fulfilled').length, 3)
    signer.restart()
    await assert.rejects(signer.signOuter(askOuter(house, [first], { nonce: 4 })), noRoom(0))
    clock += 86_400_000 - 1
    const second = await sign(2)
    await assert.rejects(signer.signOuter(askOuter(house, [second], { nonce: 4 })), noRoom(0))
    clock += 2 * 1_440_000
    await signer.signOuter(askOuter(house, [second], { nonce: 4 }))
    assert.deepEqual(verifyStore(signer.folder).problems, [])
  } finally {
    signer.close()
  }
})

async function accept(place: Place, ...args: string[]): Promise<string> {
  const { out, err } = await command(place.env, ['signer', 'accept-restore', ...args])
  return out + err
}

test('after a restore no operation is signed for the hour that a lost one may live, then only above all ids that were lost; what is held is carried on', async (t) => {
  const { place, signer, again, ofAlice, ofBob, outer, alice, bob, house, problems, tokens } = await sponsored(t)
  const kept = await signer.signOperation(ofAlice({ sequence: '1', authorizationNonce: 0 }))
  assert.deepEqual((await signer.health()).operations!.sequenceFloor, '0')
  assert.equal((await signer.health()).operations!.from, null)
  await signer.end('SIGTERM')
  const store = join(place.env.SIGNER_DIR!, DATABASE_FILE)
  copyFileSync(store, join(place.folder, 'old'))
  const later = await again()
  const lost = await later.signOperation(ofAlice({ sequence: '2', intentId: 'op_lost', authorizationNonce: 1 }))
  await later.signOuter(outer([kept, lost], { nonce: 0 }))
  await later.end('SIGTERM')
  copyFileSync(join(place.folder, 'old'), store)
  const counts: Record<string, [string, string]> = { [alice.toLowerCase()]: ['0x2', '0x2'], [house.toLowerCase()]: ['0x0', '0x1'] } // prettier-ignore
  const url = await countingNode(t, counts)
  const shown = await accept(place, '--rpc-url', url)
  const acceptedAt = Date.now()
  const done = await accept(place, '--rpc-url', url, '--accept', /--accept ([0-9a-f]{16})$/m.exec(shown)![1]!)
  assert.match(done, /Accepted as record/)

  const file = join(place.folder, 'policy.json')
  const limit = {
    name: 'day',
    effect: 'limit',
    per: ['user'],
    native: { periodAmount: '1000', periodDuration: 86_400 },
  }
  writeFileSync(file, JSON.stringify({ version: 1, rules: [limit, { name: 'rest', effect: 'allow' }] }))
  const next = await again({ SIGNER_POLICY_FILE: file })
  const { operations } = await next.health()
  const floor = BigInt(operations!.sequenceFloor)
  assert.ok(floor >= BigInt(acceptedAt) << 12n && floor < BigInt(Number.MAX_SAFE_INTEGER))
  assert.ok(operations!.from! >= acceptedAt + 3_600_000)
  for (const sequence of ['2', '3', String(floor - 1n)])
    await assert.rejects(next.signOperation(ofAlice({ sequence, intentId: 'op_lost' })), refusal('sequence_conflict'))
  const above = ofAlice({ sequence: String(floor), intentId: 'op_lost' })
  await assert.rejects(next.signOperation(above), refusal('operations_paused'))
  await assert.rejects(next.checkOperation(above), refusal('operations_paused'))
  await assert.rejects(next.signOperation(ofBob({ sequence: String(floor) })), refusal('operations_paused'))
  // Operations in the ledger are returned, at nonces that the chain has not counted.
  assert.equal((await next.signOperation(ofAlice({ sequence: '1', authorizationNonce: 0 }))).stored, true)
  await assert.rejects(next.signOperation(ofAlice({ sequence: '1', authorizationNonce: 1 })), refusal('nonce_conflict'))
  await assert.rejects(next.signOuter(outer([kept], { nonce: 0 })), refusal('nonce_conflict'))
  await assert.rejects(next.signOuter(outer([lost], { nonce: 1 })), (error) => error instanceof SignerRefused && error.facts.operation === 0) // prettier-ignore
  // The sponsor lost nonces, so the used amount of its limit is unknown.
  await assert.rejects(next.signOuter(outer([kept], { nonce: 1 })), noRoom(0, 'sponsored.periodAmount counts as used after a restore')) // prettier-ignore
  await assert.rejects(next.sign(ask(bob, { accessToken: tokens.bob, intentId: 'own' })), denied('day', 'native.periodAmount counts as used after a restore')) // prettier-ignore
  assert.deepEqual(problems(), [])
})

test('after a restore what a sponsor carries waits for the first list, as all that needs no token', async (t) => {
  const { place, signer, again, ofAlice, outer } = await sponsored(t)
  const first = await signer.signOperation(ofAlice())
  await signer.end('SIGTERM')
  const file = join(place.env.SIGNER_DIR!, 'witness')
  rmSync(file)
  const shown = await accept(place, '--without-networks')
  const done = await accept(place, '--without-networks', '--accept', /--accept ([0-9a-f]{16})$/m.exec(shown)![1]!)
  assert.match(done, /Accepted as record/)
  const next = await again({ SIGNER_REVOCATIONS_SECONDS: '60' })
  await assert.rejects(next.signOuter(outer([first])), refusal('revocations_stale'))
  await next.bringRevocations([await place.revocations({ entries: [] })])
  await next.signOuter(outer([first]))
})

test('an hour after the last of several restores operations are signed again, above its floor', async () => {
  let clock = 1_700_000_000_000
  const policy = JSON.stringify({ version: 1, rules: [{ name: 'all', effect: 'allow' }] })
  const signer = await openGoverned({ policy, now: () => clock, gas: { perUser: 10n ** 18n, perSponsor: 10n ** 18n } })
  try {
    const [alice, by] = [await signer.account(ALICE), { userId: ALICE, clientId: 'shop' }]
    const request = (sequence: bigint) =>
      askOperation(alice, '', { sequence: String(sequence), deadline: Math.floor(clock / 1_000) + 600 })
    signer.acceptRestore()
    const first = BigInt(clock) << 12n
    clock += 2 * 3_600_000
    signer.acceptRestore()
    const floor = BigInt(clock) << 12n
    clock += 3_600_000 - 1
    await assert.rejects(signer.signOperation(request(floor), by), /lost open operations/)
    clock += 1
    for (const lost of [first, floor - 1n])
      await assert.rejects(signer.signOperation(request(lost), by), /may have been used/)
    await signer.signOperation(request(floor), by)
  } finally {
    signer.close()
  }
})
