import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ALICE, refusal, SOMEWHERE } from '../../../test/kit/signer.ts'
import { GAS_LIMIT, HOUSE, RESERVE, sponsored } from '../../../test/sponsored-world.ts'
import { SignerRefused } from '../../signer-wire/client.ts'
import {
  frozenEntry,
  revoked,
  type CheckOperationRequest,
  type Hex,
  type SignOperationRequest,
} from '../../signer-wire/wire.ts'

/** wei per gas, and gas units, of the tests' requests */
const [PRICE, GAS] = [1_000n, 300_000n]
/** wei that one operation is charged to its user, and one transaction to its sponsor */
const [SHARE, WHOLE] = [GAS_LIMIT * PRICE, GAS * PRICE]
const LIMITS = { SIGNER_GAS_PER_USER_WEI: String(2n * SHARE), SIGNER_GAS_PER_SPONSOR_WEI: String(2n * WHOLE) }

/** Returns a dry run of an operation that a sponsor would send alone. */
const dry = (
  asked: SignOperationRequest,
  sponsor: Hex,
  carried: Partial<CheckOperationRequest['carried']> = {},
): CheckOperationRequest => ({
  ...asked,
  intentId: 'op_dry',
  sequence: '99',
  carried: { sponsor, price: String(PRICE), wei: String(WHOLE), ...carried },
})
const denied = (rule: string) => (error: unknown) =>
  refusal('policy_denied')(error) && (error as Error).message.includes(`The rule ${rule} rejects`)
const noRoom = (error: unknown) =>
  error instanceof SignerRefused &&
  error.code === 'operation_refused' &&
  error.facts.operation === 0 &&
  error.message.includes('The rule sponsored-per-user rejects')

test('where sponsors pay for nothing a dry run says so, and of a server that does not ask it does not', async (t) => {
  for (const off of ['SIGNER_GAS_PER_USER_WEI', 'SIGNER_GAS_PER_SPONSOR_WEI']) {
    const { signer, ofAlice, outer, house, rows } = await sponsored(t, { ...LIMITS, [off]: '0' })
    const before = rows()
    await assert.rejects(signer.checkOperation(dry(ofAlice(), house)), denied('sponsored-off'))
    const { carried: _, ...unasked } = dry(ofAlice(), house)
    assert.deepEqual(await signer.checkOperation(unasked), { rule: 'default-allow', stored: false, requires: null })
    assert.deepEqual(rows(), before)
    await assert.rejects(signer.signOuter(outer([await signer.signOperation(ofAlice())])), denied('sponsored-off'))
  }
})

test('a dry run is refused at the limit of the person, and at that of the sponsor, where the transaction would be', async (t) => {
  const { signer, ofAlice, ofBob, outer, house } = await sponsored(t, LIMITS)
  const { address: reserve } = await signer.createAccount({ userId: RESERVE })
  assert.deepEqual(await signer.checkOperation(dry(ofAlice(), house)), {
    rule: 'default-allow',
    stored: false,
    requires: null,
  })
  await assert.rejects(signer.checkOperation(dry(ofAlice(), house, { price: String(2n * PRICE + 1n) })), noRoom)
  await assert.rejects(
    signer.checkOperation(dry(ofAlice(), house, { wei: String(2n * WHOLE + 1n) })),
    denied('sponsored-per-sponsor'),
  )
  for (const nonce of [0, 1]) {
    const signed = await signer.signOperation(ofAlice({ sequence: String(nonce) }))
    await signer.signOuter(outer([signed], { nonce }))
  }
  // The user's limit counts all sponsors, and is checked first.
  for (const sponsor of [house, reserve]) await assert.rejects(signer.checkOperation(dry(ofAlice(), sponsor)), noRoom)
  await assert.rejects(signer.checkOperation(dry(ofBob(), house)), denied('sponsored-per-sponsor'))
  assert.equal((await signer.checkOperation(dry(ofBob(), reserve))).stored, false)
})

test('dry runs count nothing: after a hundred the write has all its room', async (t) => {
  const { signer, ofAlice, outer, house, rows, problems } = await sponsored(t, {
    SIGNER_GAS_PER_USER_WEI: String(SHARE),
    SIGNER_GAS_PER_SPONSOR_WEI: String(WHOLE),
  })
  const before = rows()
  await Promise.all(Array.from({ length: 100 }, () => signer.checkOperation(dry(ofAlice(), house))))
  assert.deepEqual(rows(), before)
  assert.equal((await signer.signOuter(outer([await signer.signOperation(ofAlice())]))).stored, false)
  await assert.rejects(signer.checkOperation(dry(ofAlice({ sequence: '1' }), house)), noRoom)
  assert.deepEqual(problems(), [])
})

test('who could not send the transaction is refused in a dry run as there: nobody’s account, a person’s, a frozen sponsor, above the fee of one transaction', async (t) => {
  const { place, signer, ofAlice, outer, house, bob } = await sponsored(t, { ...LIMITS, SIGNER_MAX_FEE_WEI: String(WHOLE) }) // prettier-ignore
  const signed = await signer.signOperation(ofAlice())
  const refused = async (sponsor: Hex, why: (error: unknown) => boolean) => {
    await assert.rejects(signer.signOuter(outer([signed], { from: sponsor })), why)
    await assert.rejects(signer.checkOperation(dry(ofAlice(), sponsor)), why)
  }
  await refused(SOMEWHERE, refusal('unknown_account'))
  await refused(bob, refusal('forbidden_user'))
  const dear = String(WHOLE + 1n)
  await assert.rejects(signer.checkOperation(dry(ofAlice(), house, { wei: dear })), denied('max-total-fee'))
  const frozen = frozenEntry(revoked.user(HOUSE), { isFrozen: true, at: Date.now() })
  await signer.bringRevocations([await place.revocations({ entries: [frozen] })])
  await refused(house, refusal('account_frozen'))
  // Refusals that concern the user come first, because the user signs first.
  const own = frozenEntry(revoked.user(ALICE), { isFrozen: true, at: Date.now() })
  await signer.bringRevocations([await place.revocations({ entries: [own] })])
  await assert.rejects(signer.checkOperation(dry(ofAlice(), SOMEWHERE)), refusal('account_frozen'))
})

test('what carrying costs is asked of a dry run alone, in decimal digits, with nothing beside it', async (t) => {
  const { signer, ofAlice, house } = await sponsored(t, LIMITS)
  const { carried } = dry(ofAlice(), house)
  await assert.rejects(signer.signOperation({ ...ofAlice(), carried } as never), refusal('bad_request'))
  const wrong: unknown[] = [
    ...[null, 0, '', [], {}, house],
    ...[
      { ...carried, price: 1 },
      { ...carried, price: '-1' },
      { ...carried, wei: '0x1' },
      { ...carried, wei: '1.5' },
    ],
    ...[
      { ...carried, wei: String(2n ** 256n) },
      { ...carried, sponsor: 'house' },
      { ...carried, gas: '1' },
    ],
    ...[
      { price: '1', wei: '1' },
      { sponsor: house, wei: '1' },
      { sponsor: house, price: '1' },
    ],
  ]
  for (const each of wrong)
    await assert.rejects(
      signer.checkOperation({ ...dry(ofAlice(), house), carried: each as never }),
      refusal('bad_request'),
      JSON.stringify(each),
    )
})
