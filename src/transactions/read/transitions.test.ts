import { strict as assert } from 'node:assert'
import { test } from 'node:test'
import type { Hex } from '../../ids.ts'
import { toWord } from '../../store/bytes.ts'
import type { Transition } from '../../store/column-values.ts'
import type { AttemptRow } from '../intent.ts'
import { changedAt, inOrder, readTransitions } from './transitions.ts'

const [A, B, C] = ['aa', 'bb', 'cc'].map((byte) => `0x${byte.repeat(32)}`) as [Hex, Hex, Hex]
const attempt = (hash: string, fee: bigint, isCancel = false) =>
  ({ hash: Buffer.from(hash.slice(2), 'hex'), max_fee: toWord(fee), is_cancel: isCancel }) as unknown as AttemptRow
const at = (second: number) => `2026-01-01T00:00:0${second}.000Z`
const told = (stored: Transition[], attempts: AttemptRow[]) => JSON.stringify(readTransitions(stored, attempts))

test('steps are told with the hashes that they are stored without, in the order of fields they always had', () => {
  const stored: Transition[] = [
    { at: at(0), state: 'SUBMITTED' },
    { at: at(1), state: 'MINED', blockNumber: 7 },
    { at: at(2), state: 'FINALIZED' },
  ]
  const expected = [
    { at: at(0), hash: A, state: 'SUBMITTED' },
    { at: at(1), hash: A, state: 'MINED', blockNumber: 7 },
    { at: at(2), state: 'FINALIZED' },
  ]
  assert.equal(told(stored, [attempt(A, 5n)]), JSON.stringify(expected))
  assert.equal(told(stored.slice(0, 1), [attempt(A, 5n)]), JSON.stringify(expected.slice(0, 1)))
})

test('the first bytes are the cheapest that are no cancel, in whatever order attempts come', () => {
  const stored: Transition[] = [
    { at: at(0), state: 'SUBMITTED' },
    { at: at(1), state: 'SUBMITTED', hash: B },
    { at: at(2), state: 'MINED', hash: B, blockNumber: 7 },
  ]
  const [first, ...others] = readTransitions(stored, [attempt(B, 9n), attempt(C, 1n, true), attempt(A, 5n)])
  assert.deepEqual(first, { ...stored[0], hash: A })
  assert.deepEqual(others, stored.slice(1))
})

test('what is stored with hashes, as rows from the ledger are, and steps that have none are told as they are', () => {
  const full: Transition[] = [
    { at: at(0), hash: A, state: 'SUBMITTED' },
    { at: at(1), hash: A, state: 'MINED', blockNumber: 7 },
    { at: at(2), state: 'SUBMITTED' },
    { at: at(3), hash: B, state: 'MINED', blockNumber: 8 },
  ]
  assert.equal(told(full, [attempt(B, 9n), attempt(A, 5n)]), JSON.stringify(full))
  for (const alone of [
    [],
    [{ at: at(0), state: 'REPLACED', blockNumber: 7 }],
    [{ at: at(0), state: 'FAILED' }],
    // A cancellation that filled a nonce always has its hash in the transition. Its bytes are missing here.
    [{ at: at(0), state: 'SUBMITTED' }],
  ] as Transition[][])
    assert.deepEqual(readTransitions(alone, []), alone)
  const mixed: Transition[] = [
    { at: at(0), state: 'SUBMITTED' },
    { at: at(1), state: 'REPLACED', hash: C, blockNumber: 7 },
    { at: at(2), state: 'SUBMITTED' },
  ]
  assert.deepEqual(readTransitions(mixed, [attempt(A, 5n)]), [{ ...mixed[0], hash: A }, mixed[1], mixed[2]])
  const failed: Transition[] = [mixed[0]!, { at: at(1), state: 'FAILED' }]
  assert.deepEqual(readTransitions(failed, [attempt(A, 5n)]), [{ ...mixed[0], hash: A }, failed[1]])
})

test('times of transitions never go back: bytes restored from the ledger were signed before a block lost the others', () => {
  const stored: Transition[] = [
    { at: at(0), state: 'SUBMITTED', hash: A },
    { at: at(3), state: 'MINED', hash: A, blockNumber: 7 },
    { at: at(5), state: 'SUBMITTED' },
    { at: at(2), state: 'SUBMITTED', hash: B },
    { at: at(6), state: 'MINED', hash: B, blockNumber: 8 },
  ]
  assert.deepEqual(readTransitions(stored, []), inOrder(stored))
  assert.deepEqual(inOrder(stored), stored.with(3, { ...stored[3]!, at: at(5) }))
})

test('nothing is told to have changed before it was made: a transaction that waited for that had begun before', () => {
  const [early, late] = [new Date(at(1)), new Date(at(2))]
  assert.equal(changedAt({ created_at: early, updated_at: late }), at(2))
  assert.equal(changedAt({ created_at: late, updated_at: early }), at(2))
})
