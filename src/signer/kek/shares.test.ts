import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { combineShares, multiply, readShare, ShareError, splitKey, writeShare, type KeyShare } from './shares.ts'

const says = (sentence: RegExp) => (error: unknown) => error instanceof ShareError && sentence.test(error.message)

const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length }).map((one) => Buffer.from(one))

test('the field is that of FIPS 197 §4, and every element but 0 has one inverse', () => {
  assert.equal(multiply(0x57, 0x83), 0xc1)
  assert.equal(multiply(0x57, 0x13), 0xfe)
  for (let a = 1; a < 256; a++) {
    const inverses = Array.from({ length: 256 }, (_, b) => b).filter((b) => multiply(a, b) === 1)
    assert.equal(inverses.length, 1)
  }
})

test('a split with coefficients that are known gives these values', () => {
  // f(x) = 42 + 7 x + 1 x² in every byte of the key.
  const known = [Buffer.alloc(4, 9), Buffer.alloc(40, 7), Buffer.alloc(40, 1)]
  const shares = splitKey(Buffer.alloc(32, 42), { of: 3, need: 3 }, (() => Buffer.from(known.shift()!)) as typeof randomBytes) // prettier-ignore
  assert.deepEqual(shares.map(({ values }) => values[0]), [42 ^ 7 ^ 1, 42 ^ 14 ^ 4, 42 ^ 9 ^ 5]) // prettier-ignore
  assert.deepEqual(combineShares(shares), Buffer.alloc(32, 42))
})

test('any that are enough give the key, in any order, also typed', () => {
  const one = fc.record({ key: bytes(32), need: fc.integer({ min: 2, max: 5 }), more: fc.integer({ min: 0, max: 4 }), seed: fc.infiniteStream(fc.nat()) }) // prettier-ignore
  fc.assert(
    fc.property(one, ({ key, need, more, seed }) => {
      const shares = splitKey(key, { of: need + more, need })
      const some = shares
        .map((share) => ({ share, at: seed.next().value as number }))
        .toSorted((a, b) => a.at - b.at)
        .slice(0, need)
      const typed = some.map(({ share }) => readShare(writeShare(share).split('\n').slice(1).join('\n').toLowerCase().replaceAll('0', 'o').replaceAll(' ', '-'), 'x')) // prettier-ignore
      assert.deepEqual(combineShares(typed), key)
    }),
    { numRuns: 60 },
  )
})

test('two of three say nothing: for every byte that the key may have there is exactly one polynomial through both', () => {
  const shares = splitKey(randomBytes(32), { of: 5, need: 3 })
  for (const [a, b] of [
    [0, 1],
    [1, 4],
    [2, 3],
  ] as const)
    // prettier-ignore
    for (const at of [0, 31, 39]) {
      const found = new Map<number, number>()
      for (let second = 0; second < 256; second++)
        for (let first = 0; first < 256; first++) {
          const secret = [shares[a]!, shares[b]!].map(({ number: x, values }) => values[at]! ^ multiply(first, x) ^ multiply(second, multiply(x, x))) // prettier-ignore
          if (secret[0] === secret[1]) found.set(secret[0]!, (found.get(secret[0]!) ?? 0) + 1)
        }
      assert.equal(found.size, 256)
      assert.ok([...found.values()].every((count) => count === 1))
    }
})

test('a single mistake in typing is found in the share that has it', () => {
  const text = writeShare(splitKey(randomBytes(32), { of: 3, need: 2 })[1]!)
  const [head, ...rows] = text.trimEnd().split('\n')
  assert.match(head!, /^Share 2 of 3 .*; 2 of them give it\. Set [0-9a-f]{8}\.$/)
  const typed = rows.join('\n')
  for (let at = 0; at < typed.length; at++) {
    if (/\s/.test(typed[at]!)) continue
    const other = typed[at] === '7' ? '8' : '7'
    assert.throws(() => readShare(typed.slice(0, at) + other + typed.slice(at + 1), 'second'), says(/^second (has a mistake|is not a share)/)) // prettier-ignore
    assert.throws(() => readShare(typed.slice(0, at) + typed.slice(at + 1), 'second'), says(/^second/))
  }
  for (const nonsense of ['', 'U', 'Share 1', typed + typed]) assert.throws(() => readShare(nonsense, 'x'), ShareError)
})

test('shares of two sets, too few, one twice and a wrong one are refused by their numbers', () => {
  const key = randomBytes(32)
  const [shares, others] = [splitKey(key, { of: 5, need: 3 }), splitKey(key, { of: 5, need: 3 })]
  const pick = (...numbers: number[]): KeyShare[] => numbers.map((number) => shares[number - 1]!)
  assert.throws(() => combineShares([...pick(1, 2), others[3]!]), says(/^Share 4 is of another set than share 1/))
  assert.throws(() => combineShares(pick(1, 5)), says(/3 shares are needed, and 2 were given/))
  assert.throws(() => combineShares(pick(1, 5, 5)), says(/given twice/))
  assert.throws(() => combineShares([]), says(/No share/))
  const bent = { ...shares[1]!, values: Buffer.from(shares[1]!.values).fill(0, 3, 4) }
  bent.values[3] = shares[1]!.values[3]! ^ 1
  assert.throws(() => combineShares([...pick(1, 5), bent]), says(/at least one of them is wrong/))
  assert.throws(() => combineShares([bent, ...pick(1, 5, 4)]), says(/^Share 2 is wrong: the others fit together/))
  assert.throws(() => combineShares([...pick(1, 5, 4), bent]), says(/^Share 2 is wrong/))
  assert.deepEqual(combineShares(pick(4, 2, 5, 1, 3)), key)
  for (const [of, need] of [
    [5, 1],
    [2, 3],
    [256, 3],
    [2.5, 2],
    [0, 0],
  ] as const)
    // prettier-ignore
    assert.throws(() => splitKey(key, { of, need }), ShareError)
})
