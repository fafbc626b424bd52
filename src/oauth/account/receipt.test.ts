import assert from 'node:assert/strict'
import { test } from 'node:test'
import { en } from '../../texts/en.ts'
import { secondsToNextLook } from './receipt.ts'
import type { SentTransaction } from './slices.ts'

test('the page of a pending transaction looks again, more rarely the longer it takes, and ends when the transaction is settled', () => {
  const sentAt = new Date(1_000_000)
  for (const [ageSeconds, seconds] of [
    [-5, 3],
    [0, 3],
    [45, 5],
    [300, 30],
    [86_400, 60],
  ] as const)
    // prettier-ignore
    assert.equal(secondsToNextLook({ state: 'SUBMITTED', sentAt }, sentAt.getTime() + ageSeconds * 1_000), seconds)
  for (const state of Object.keys(en.account.states) as SentTransaction['state'][])
    if (state !== 'SUBMITTED') assert.equal(secondsToNextLook({ state, sentAt }, sentAt.getTime()), null, state)
})
