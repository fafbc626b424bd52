import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as fc from 'fast-check'
import { isFill, judge, termsOf, type SignedAttempt, type SigningFacts } from './judge.ts'
import { Refusal } from '../refusal.ts'
import { readSignRequest, type SignOrder } from '../request.ts'
import { ask as requestFrom } from '../../../test/kit/signer.ts'
import type { Hex, SignRequest } from '../../signer-wire/wire.ts'

const SELF: Hex = `0x${'5e'.repeat(20)}`

const ask = (changes: Partial<SignRequest> = {}): SignOrder => readSignRequest(requestFrom(SELF, changes))
const CANCEL = { kind: 'cancel', to: SELF, value: '0', data: '0x' } as const
const RAISED = { maxFeePerGas: '1100', maxPriorityFeePerGas: '110' }
const RAISED_TWICE = { maxFeePerGas: '1210', maxPriorityFeePerGas: '121' }

/** A ledger of one account on one chain, in memory, in place of the SQL of `ledger.ts`. */
function memory() {
  const held: (SignedAttempt & { nonce: number; isVouched: boolean })[] = []
  const between = (low: number, high: number) => held.filter(({ nonce }) => nonce >= low && nonce <= high)
  const count = (nonces: number[]) => new Set(nonces).size
  function factsOf(
    { intentId, tx: { nonce } }: SignOrder,
    isVouched: boolean,
    maxFills = 16,
    floor = 0,
    isHeldElsewhere = false,
  ): SigningFacts<SignedAttempt> {
    const nonces = held.map((attempt) => attempt.nonce)
    return {
      attempts: held.filter((attempt) => attempt.nonce === nonce),
      isDelegation: false,
      isElsewhere: held.some((attempt) => attempt.intentId === intentId && attempt.nonce !== nonce),
      isVouched,
      isHeldElsewhere: () => isHeldElsewhere,
      maxFills,
      floor,
      lane: () => (held.length === 0 ? null : { lowest: Math.min(...nonces), highest: Math.max(...nonces) }),
      unsignedBetween: (low, high) => Math.max(0, high - low + 1) - count(between(low, high).map((a) => a.nonce)),
      unvouchedBetween: (low, high) => {
        const vouched = new Set(held.filter((a) => a.isVouched).map((a) => a.nonce))
        return between(low, high)
          .map((a) => a.nonce)
          .filter((n) => !vouched.has(n))
      },
    }
  }
  return {
    held,
    isFill: (changes: Partial<SignRequest>, isVouched = false) =>
      isFill(ask(changes), changes.kind ?? 'send', factsOf(ask(changes), isVouched)),
    /** Judges a request and remembers a signature. Returns 'stored', the kind, or the code of the refusal. */
    try(changes: Partial<SignRequest>, isVouched = true, maxFills = 16, floor = 0, isHeldElsewhere = false): string {
      const request = ask(changes)
      try {
        const verdict = judge(request, factsOf(request, isVouched, maxFills, floor, isHeldElsewhere))
        if ('stored' in verdict) return 'stored'
        held.push({ ...termsOf(request), kind: verdict.sign, nonce: request.tx.nonce, isVouched })
        return verdict.sign
      } catch (error) {
        if (error instanceof Refusal) return error.code
        throw error
      }
    },
  }
}

describe('a nonce that was signed', () => {
  test('the identical request gets the stored bytes, with a token or without', () => {
    const ledger = memory()
    assert.equal(ledger.try({}), 'send')
    assert.equal(ledger.try({}), 'stored')
    assert.equal(ledger.try({}, false), 'stored')
    assert.equal(ledger.held.length, 1)
  })

  test('another recipient, value or data is refused at any fee, the very same included', () => {
    const ledger = memory()
    ledger.try({})
    for (const change of [{ to: SELF }, { value: '2' }, { data: '0x00' as Hex }]) {
      assert.equal(ledger.try(change), 'nonce_conflict')
      assert.equal(ledger.try({ ...change, kind: 'replace' }), 'nonce_conflict')
      assert.equal(ledger.try({ ...change, ...RAISED }), 'nonce_conflict')
      assert.equal(ledger.try({ ...change, ...RAISED, kind: 'replace' }, false), 'nonce_conflict')
    }
  })

  test('a legacy fee and a ceiling of the same height are two requests', () => {
    const ledger = memory()
    const legacy = { gasPrice: '1000', maxFeePerGas: undefined, maxPriorityFeePerGas: undefined }
    assert.equal(ledger.try(legacy), 'send')
    const ceiling = { kind: 'replace', maxFeePerGas: '1000', maxPriorityFeePerGas: '1000' } as const
    assert.equal(ledger.try(ceiling), 'replacement_underpriced')
    assert.equal(ledger.try(legacy), 'stored')
  })

  test('another intent is refused even with the same effect: each is a write of its own', () => {
    const ledger = memory()
    ledger.try({ intentId: 'first' })
    assert.equal(ledger.try({ intentId: 'second' }), 'nonce_conflict')
    assert.equal(ledger.try({ intentId: 'second', ...RAISED, kind: 'replace' }), 'nonce_conflict')
  })

  test('an intent that has a nonce gets no other, not even to cancel', () => {
    const ledger = memory()
    ledger.try({ intentId: 'one', nonce: 0 })
    assert.equal(ledger.try({ intentId: 'one', nonce: 1 }), 'intent_conflict')
    assert.equal(ledger.try({ ...CANCEL, intentId: 'one', nonce: 1 }), 'intent_conflict')
  })

  test('a replacement raises both fees by 10 % over every earlier attempt, and needs no token', () => {
    const ledger = memory()
    ledger.try({})
    const replace = (max: number, priority: number) =>
      ledger.try({ kind: 'replace', maxFeePerGas: `${max}`, maxPriorityFeePerGas: `${priority}` }, false)
    assert.equal(replace(1100, 100), 'replacement_underpriced')
    assert.equal(replace(1000, 110), 'replacement_underpriced')
    assert.equal(replace(1099, 110), 'replacement_underpriced')
    assert.equal(replace(1100, 109), 'replacement_underpriced')
    assert.equal(replace(1100, 110), 'replace')
    assert.equal(replace(1100, 110), 'stored')
    assert.equal(replace(1209, 121), 'replacement_underpriced')
    assert.equal(replace(1210, 121), 'replace')
  })

  test('a replacement, and a raised cancel, may have more gas; never another effect, and never without the higher fees', () => {
    const ledger = memory()
    ledger.try({})
    const more = { ...RAISED, kind: 'replace', gas: '60000' } as const
    assert.equal(ledger.try({ ...more, maxPriorityFeePerGas: '100' }, false), 'replacement_underpriced')
    assert.equal(ledger.try({ ...more, data: '0x00' }, false), 'nonce_conflict')
    assert.equal(ledger.try({ kind: 'replace', gas: '60000' }, false), 'replacement_underpriced')
    assert.equal(ledger.try(more, false), 'replace')
    const cancel = { ...CANCEL, maxFeePerGas: '10000', maxPriorityFeePerGas: '1000' }
    assert.equal(ledger.try(cancel), 'cancel')
    const dearer = { ...cancel, maxFeePerGas: '11000', maxPriorityFeePerGas: '1100', gas: '90000' }
    assert.equal(ledger.try(dearer, false), 'cancel')
    assert.equal(ledger.held.at(-1)!.gas, 90_000n)
  })

  test('a first signature is no raise: who asks again at other terms is told that there is one', () => {
    const ledger = memory()
    ledger.try({})
    assert.equal(ledger.try(RAISED), 'nonce_conflict')
    assert.equal(ledger.try({ gas: '22000' }), 'nonce_conflict')
    assert.equal(ledger.try({ ...RAISED, kind: 'replace' }, false), 'replace')
  })

  test('what belongs to one intent is not cancelled for another, with a token or without', () => {
    const ledger = memory()
    ledger.try({})
    for (const isVouched of [true, false])
      assert.equal(ledger.try({ ...CANCEL, ...RAISED, intentId: 'tx_other' }, isVouched), 'nonce_conflict')
    assert.equal(ledger.try({ ...CANCEL, ...RAISED }, false), 'cancel')
    assert.equal(ledger.try({ ...CANCEL, ...RAISED_TWICE, intentId: 'tx_other' }), 'nonce_conflict')
  })

  test('a cancel outbids the original and needs no token; it does nothing', () => {
    const ledger = memory()
    ledger.try({})
    assert.equal(ledger.try(CANCEL, false), 'replacement_underpriced')
    assert.equal(ledger.try({ ...CANCEL, ...RAISED, value: '1' }, false), 'bad_request')
    assert.equal(ledger.try({ ...CANCEL, ...RAISED, data: '0x00' }, false), 'bad_request')
    assert.equal(ledger.try({ ...CANCEL, ...RAISED, to: requestFrom(SELF).to }, false), 'bad_request')
    assert.equal(ledger.try({ ...CANCEL, ...RAISED }, false), 'cancel')
  })

  test('a self-transfer of nothing is no cancel unless it says so', () => {
    const ledger = memory()
    ledger.try({})
    assert.equal(ledger.try({ ...CANCEL, ...RAISED, kind: 'send' }), 'nonce_conflict')
    assert.equal(ledger.try({ ...CANCEL, ...RAISED, kind: 'replace' }), 'nonce_conflict')
  })

  test('a transfer of nothing to itself and a cancel of it are two attempts, although their bytes would be the same', () => {
    const ledger = memory()
    ledger.try({ ...CANCEL, kind: 'send' })
    assert.equal(ledger.try(CANCEL), 'replacement_underpriced')
    assert.equal(ledger.try({ ...CANCEL, ...RAISED }), 'cancel')
    assert.equal(ledger.try({ ...CANCEL, kind: 'send', ...RAISED_TWICE }), 'nonce_conflict')
  })

  test('after a cancel the original is neither raised nor signed, its bytes are still told, the cancel is raised', () => {
    const ledger = memory()
    ledger.try({})
    ledger.try({ ...CANCEL, ...RAISED }, false)
    assert.equal(ledger.try({ kind: 'replace', ...RAISED_TWICE }), 'nonce_conflict')
    assert.equal(ledger.try({}), 'stored')
    assert.equal(ledger.try({ ...CANCEL, ...RAISED }, false), 'stored')
    assert.equal(ledger.try({ ...CANCEL, ...RAISED_TWICE, kind: 'replace' }, false), 'cancel')
  })
})

describe('a nonce that was never signed', () => {
  test('needs a token, except to be filled by a cancel', () => {
    const ledger = memory()
    assert.equal(ledger.try({}, false), 'invalid_token')
    assert.equal(ledger.try(CANCEL, false), 'cancel')
  })

  test('has nothing that could be replaced, also with a token', () => {
    assert.equal(memory().try({ kind: 'replace' }, true), 'nonce_conflict')
    assert.equal(memory().try({ kind: 'replace' }, false), 'invalid_token')
  })

  test('once filled by a cancel, by its own user too, takes its original no more', () => {
    for (const isVouched of [true, false]) {
      const ledger = memory()
      assert.equal(ledger.try(CANCEL, isVouched), 'cancel')
      assert.equal(ledger.try({}), 'nonce_conflict')
      assert.equal(ledger.try({ ...RAISED, kind: 'replace' }), 'nonce_conflict')
    }
  })

  test('may be anything for the first time of an account, for it may be imported', () => {
    assert.equal(memory().try({ nonce: 4_711 }), 'send')
  })

  test('may be 16 ahead of the last, and not 17', () => {
    const ledger = memory()
    ledger.try({ nonce: 10 })
    assert.equal(ledger.try({ nonce: 27 }), 'nonce_gap')
    assert.equal(ledger.try({ nonce: 26 }), 'send')
  })

  test('may be any with a token where the key is held elsewhere too, and 16 ahead without', () => {
    const ledger = memory()
    ledger.try({ nonce: 10 })
    assert.equal(ledger.try({ nonce: 90, ...CANCEL, intentId: 'fill' }, false, 16, 0, true), 'nonce_gap')
    assert.equal(ledger.try({ nonce: 90 }, true, 16, 0, true), 'send')
    assert.equal(ledger.try({ nonce: 90, intentId: 'other' }, true, 16, 0, true), 'nonce_conflict')
  })

  test('is filled up to 16 below the first without a token, and not 17', () => {
    const ledger = memory()
    ledger.try({ nonce: 100 })
    assert.equal(ledger.try({ nonce: 83, ...CANCEL }, false), 'nonce_gap')
    assert.equal(ledger.try({ nonce: 84, ...CANCEL }, false), 'cancel')
  })

  test('does not run away over a hole: 16 behind it is the end until the hole is filled', () => {
    const ledger = memory()
    ledger.try({ nonce: 0 })
    for (let nonce = 2; nonce <= 17; nonce++) assert.equal(ledger.try({ nonce }), 'send')
    assert.equal(ledger.try({ nonce: 18 }), 'nonce_gap')
    assert.equal(ledger.try({ nonce: 1, ...CANCEL, intentId: 'fill' }, false), 'cancel')
    assert.equal(ledger.try({ nonce: 18 }), 'send')
  })

  test('cannot be reached in steps of 16', () => {
    const ledger = memory()
    ledger.try({ nonce: 0 })
    ledger.try({ nonce: 16 })
    for (let nonce = 18; nonce < 80; nonce++) assert.equal(ledger.try({ nonce }), 'nonce_gap')
  })

  test('below what the chain had counted when the ledger was restored is used; from there on lanes go on', () => {
    const ledger = memory()
    const send = (nonce: number, isVouched = true) =>
      ledger.try({ nonce, ...(isVouched ? {} : { ...CANCEL, intentId: `fill_${nonce}` }) }, isVouched, 16, 100)
    // These nonces were signed before the copy was made, so their bytes are known and returned.
    for (const nonce of [0, 1, 2]) ledger.try({ nonce })
    assert.equal(send(1), 'stored')
    for (const nonce of [3, 50, 99])
      assert.deepEqual([send(nonce), send(nonce, false)], ['nonce_conflict', 'nonce_conflict'])
    assert.equal(send(117), 'nonce_gap')
    assert.equal(send(116), 'nonce_gap')
    assert.equal(send(115), 'send')
    assert.equal(send(100), 'send')
    assert.equal(send(101, false), 'cancel')

    const untouched = memory()
    const first = (nonce: number) => untouched.try({ nonce }, true, 16, 7)
    assert.deepEqual([first(6), first(23), first(7)], ['nonce_conflict', 'nonce_gap', 'send'])
  })

  test('may come after a later one: the first sixteen may arrive in any order', () => {
    const ledger = memory()
    for (let nonce = 15; nonce >= 0; nonce--) assert.equal(ledger.try({ nonce }), 'send')
  })

  test('the bound of nonces filled without a token is the operator’s', () => {
    const ledger = memory()
    const fill = (nonce: number) => ledger.try({ nonce, ...CANCEL }, false, 3)
    for (const nonce of [5, 6, 7]) assert.equal(fill(nonce), 'cancel')
    assert.equal(fill(8), 'invalid_token')
    assert.equal(fill(4), 'invalid_token')
    assert.equal(ledger.try({ nonce: 8 }), 'send')
    assert.equal(fill(9), 'cancel')
  })

  test('a hole below what its user signed for is filled, however many were before it', () => {
    const ledger = memory()
    const fill = (nonce: number) => ledger.try({ nonce, ...CANCEL }, false)
    for (let nonce = 0; nonce < 16; nonce++) assert.equal(fill(nonce), 'cancel')
    assert.equal(fill(16), 'invalid_token')
    assert.equal(ledger.try({ nonce: 18 }), 'send')
    assert.equal(fill(16), 'cancel')
    assert.equal(fill(17), 'cancel')
    assert.equal(fill(19), 'cancel')
  })

  test('filled for nobody is a cancel of what no token was ever shown for', () => {
    const ledger = memory()
    const raised = { ...CANCEL, ...RAISED }
    assert.ok(ledger.isFill(CANCEL))
    assert.ok(!ledger.isFill(CANCEL, true))
    ledger.try(CANCEL, false)
    assert.ok(ledger.isFill(raised))
    ledger.try({ nonce: 1 })
    assert.ok(!ledger.isFill({ ...raised, nonce: 1 }))
    // The user cancelled it with a token. A fee bump of the cancellation needs no token.
    ledger.try({ ...raised, nonce: 1 })
    assert.ok(!ledger.isFill({ ...CANCEL, ...RAISED_TWICE, nonce: 1 }))
    assert.ok(!ledger.isFill({ nonce: 2 }))
  })

  test('without a token sixteen in a row are the end also from above, and over a hole', () => {
    const ledger = memory()
    const fill = (nonce: number) => ledger.try({ nonce, ...CANCEL }, false)
    for (let nonce = 1_000; nonce > 984; nonce--) assert.equal(fill(nonce), 'cancel')
    assert.equal(fill(984), 'invalid_token')
    assert.equal(fill(983), 'cancel')
    assert.equal(fill(984), 'invalid_token')
  })

  test('whatever is filled in whatever order, no seventeen in a row are without a token', () => {
    const nonces = fc.array(fc.integer({ min: 0, max: 60 }), { minLength: 60, maxLength: 200 })
    fc.assert(
      fc.property(nonces, (asked) => {
        const ledger = memory()
        for (const nonce of asked) ledger.try({ nonce, ...CANCEL }, false)
        const filled = new Set(ledger.held.map(({ nonce }) => nonce))
        let run = 0
        for (let nonce = 0; nonce <= 60; nonce++) {
          run = filled.has(nonce) ? run + 1 : 0
          assert.ok(run <= 16)
        }
      }),
      { numRuns: 200 },
    )
  })

  test('filled at an absurd number without a token, does not lock its user out', () => {
    const ledger = memory()
    assert.equal(ledger.try({ nonce: Number.MAX_SAFE_INTEGER, ...CANCEL, intentId: 'spite' }, false), 'cancel')
    assert.equal(ledger.try({ nonce: 0, ...CANCEL, intentId: 'far' }, false), 'nonce_gap')
    for (let nonce = 0; nonce <= 40; nonce++) assert.equal(ledger.try({ nonce }), 'send')
    assert.equal(ledger.try({ nonce: 58 }), 'nonce_gap')
  })
})

test('whatever is asked in whatever order, no nonce gets a second effect but its cancel', () => {
  const request = fc.record({
    nonce: fc.integer({ min: 0, max: 4 }),
    intentId: fc.constantFrom('a', 'b', 'c', 'd'),
    kind: fc.constantFrom('send', 'replace', 'cancel'),
    value: fc.constantFrom('0', '1', '2'),
    to: fc.constantFrom(SELF, requestFrom(SELF).to),
    maxFeePerGas: fc.constantFrom('1000', '1100', '1210', '1331', '2000'),
    maxPriorityFeePerGas: fc.constantFrom('100', '110', '121', '134', '200'),
  })
  fc.assert(
    fc.property(fc.array(fc.tuple(request, fc.boolean()), { maxLength: 60 }), (requests) => {
      const ledger = memory()
      for (const [changes, isVouched] of requests) ledger.try(changes, isVouched)
      const owners = new Map<string, number>()
      for (let nonce = 0; nonce <= 4; nonce++) {
        const attempts = ledger.held.filter((attempt) => attempt.nonce === nonce)
        const effects = new Set(
          attempts.filter(({ kind }) => kind !== 'cancel').map(({ effect }) => effect.toString('hex')),
        )
        assert.ok(effects.size <= 1)
        const cancelledAt = attempts.findIndex(({ kind }) => kind === 'cancel')
        if (cancelledAt !== -1) assert.ok(attempts.slice(cancelledAt).every(({ kind }) => kind === 'cancel'))
        for (const { intentId } of attempts) {
          assert.equal(owners.get(intentId) ?? nonce, nonce)
          owners.set(intentId, nonce)
        }
      }
    }),
    { numRuns: 300 },
  )
})
