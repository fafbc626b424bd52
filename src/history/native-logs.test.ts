import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NATIVE_TRANSFER_LOGGER, TRANSFER_TOPIC } from '../abi/transfers.ts'
import type { KeptBlock, Log } from '../follower/block.ts'
import type { Hex } from '../ids.ts'
import { addressOf } from '../../test/nodes/scripted-chain.ts'
import { logsNative, readNativeLogs } from './native-logs.ts'

const [ALICE, BOB] = [addressOf(0xa1), addressOf(0xb0)]
const wordOf = (hex: string): Hex => `0x${hex.slice(2).padStart(64, '0')}`
const logOf = (from: Hex, to: Hex, value: number, address = NATIVE_TRANSFER_LOGGER): Log => ({
  ...{ address, topics: [TRANSFER_TOPIC, wordOf(from), wordOf(to)], data: wordOf(`0x${value.toString(16)}`) },
  logIndex: 0,
})
type Told = { from?: Hex; to?: Hex | null; value?: bigint; status?: boolean | null; logs?: Log[] }
const says = (...told: Told[]): boolean | null =>
  logsNative(
    { receipts: told.map(({ status = true, logs = [] }) => ({ status, logs })) } as unknown as KeptBlock,
    told.map(({ from = ALICE, to = BOB, value = 1n }) => ({ from, to, value }) as never),
  )

test('a block says whether its network logs native currency by the first transaction that moves some', () => {
  assert.equal(says({}), false)
  assert.equal(says({ logs: [logOf(ALICE, BOB, 1)] }), true)
  assert.equal(says({ value: 0n, logs: [logOf(BOB, ALICE, 1)] }), true)
  // A log of this form by a token is no native currency log.
  assert.equal(says({ logs: [logOf(ALICE, BOB, 1, addressOf(0x70))] }), false)
})

test('a block says nothing of it by what no network logs: nothing, what failed or is not known, what is sent to oneself or creates', () => {
  for (const one of [{ value: 0n }, { status: false }, { status: null }, { to: ALICE }, { to: null }])
    assert.equal(
      says(one),
      null,
      JSON.stringify(one, (_, value: unknown) => String(value)),
    )
  assert.equal(says(), null)
  assert.equal(says({ to: ALICE }, {}), false)
})

test('internal transfers are all logs but that of the transaction’s own value, which is not there for what is sent to oneself', () => {
  const logs = [logOf(ALICE, BOB, 5), logOf(ALICE, BOB, 5), logOf(BOB, ALICE, 2)]
  const read = (own: { from: Hex; to: Hex | null; value: bigint }) =>
    readNativeLogs({ logs }, own).map(({ value }) => value)
  assert.deepEqual(read({ from: ALICE, to: BOB, value: 5n }), [5n, 2n])
  for (const own of [
    { from: ALICE, to: BOB, value: 6n },
    { from: ALICE, to: ALICE, value: 5n },
    { from: BOB, to: BOB, value: 5n },
    { from: ALICE, to: null, value: 5n },
    { from: ALICE, to: BOB, value: 0n },
  ])
    assert.deepEqual(read(own), [5n, 5n, 2n])
})
