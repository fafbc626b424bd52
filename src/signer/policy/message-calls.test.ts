import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as grants from '../../messages/grants.ts'
import { ALL_TOKENS, effectOfCall, type CallClass } from './calldata.ts'

const [TOKEN, BOB, ALICE] = ['cc', 'bb', 'aa'].map((byte) => Buffer.from(byte.repeat(20), 'hex')) as [Buffer, Buffer, Buffer] // prettier-ignore
const UNTIL = 1_800_000_000n

/** Amounts around every bound that a class depends on. */
const AMOUNTS = [0n, 1n, 1_000n, 2n ** 96n - 2n, 2n ** 96n - 1n, 2n ** 96n, 2n ** 127n - 2n, 2n ** 127n - 1n, 2n ** 128n - 1n, 2n ** 160n - 1n, 2n ** 255n, 2n ** 256n - 1n] // prettier-ignore

const effectOf = ({ call }: grants.Grant) => effectOfCall({ chainId: 1, from: ALICE, ...call })

function assertSame(grant: grants.Grant, classes: CallClass[], amount: bigint | null, what: string): void {
  const effect = effectOf(grant)
  assert.deepEqual(effect.classes, classes, what)
  assert.deepEqual(effect.token, amount === null ? null : { address: TOKEN.toString('hex'), amount }, what)
  assert.deepEqual(effect.recipients, [BOB.toString('hex')], what)
  assert.equal(
    grants.isUnlimited(grant),
    classes.includes('APPROVE_UNLIMITED') || classes.includes('APPROVE_ALL'),
    what,
  )
}

test('what a signature pays or allows is the same token, amount and recipient as the call that the policy judges', () => {
  for (const amount of AMOUNTS) {
    const isUnlimited = amount >= 2n ** 127n - 1n || amount === 2n ** 96n - 1n
    const classes: CallClass[] = amount === 0n ? ['REVOKE'] : isUnlimited ? ['APPROVE', 'APPROVE_UNLIMITED'] : ['APPROVE'] // prettier-ignore
    const counted = amount === 0n ? null : amount
    assertSame(grants.allows(TOKEN, BOB, amount), classes, counted, `approve ${amount}`)
    assertSame(grants.allowsDebt(TOKEN, BOB, amount), classes, counted, `approveDelegation ${amount}`)
    // Permit2 stores 160 bits; a larger amount of a message is all that it can take.
    const stored = amount < 2n ** 160n ? amount : 2n ** 160n - 1n
    assertSame(grants.allowsByPermit2(TOKEN, BOB, amount, UNTIL), classes, amount === 0n ? null : stored, `Permit2 ${amount}`) // prettier-ignore
    const { classes: paid, token, recipients } = effectOf(grants.pays(TOKEN, BOB, amount))
    assert.deepEqual([paid, token, recipients], [['TRANSFER'], { address: TOKEN.toString('hex'), amount }, [BOB.toString('hex')]]) // prettier-ignore
  }
  assertSame(grants.allowsItem(TOKEN, BOB, 42n), ['APPROVE'], 42n, 'one collectible')
  assert.deepEqual(effectOf(grants.allowsItem(TOKEN, BOB, 0n)).classes, ['APPROVE', 'APPROVE_ALL'], 'number 0')
  for (const all of [grants.allowsAll, grants.allowsMarket]) {
    assertSame(all(TOKEN, BOB, true), ['APPROVE', 'APPROVE_ALL'], ALL_TOKENS, 'everything')
    assertSame(all(TOKEN, BOB, false), ['REVOKE'], null, 'nothing any more')
  }
  const native = effectOf(grants.paysNative(BOB, 5n))
  assert.deepEqual([native.classes, native.recipients], [['NATIVE'], [BOB.toString('hex')]])
  assert.equal(grants.paysNative(BOB, 5n).call.value, 5n)
})

test('amounts and times beyond what a call can have do not wrap around', () => {
  const order = grants.allows(TOKEN, BOB, 2n ** 256n + 5n)
  assert.deepEqual(effectOf(order).token, { address: TOKEN.toString('hex'), amount: 2n ** 256n - 1n })
  const permit = grants.allowsByPermit2(TOKEN, BOB, 2n ** 256n - 1n, 2n ** 256n - 1n)
  assert.equal(permit.call.data.length, 4 + 4 * 32)
  assert.deepEqual(effectOf(permit).classes, ['APPROVE', 'APPROVE_UNLIMITED'])
})
