import { strict as assert } from 'node:assert'
import { after, before, test } from 'node:test'
import { fakeApp, type FakeApp } from '../../../test/fake-app.ts'
import { newTransactionId } from '../../ids.ts'
import { fromHex } from '../../hex.ts'
import type { TransactionRow } from '../intent.ts'
import { markFinal, revertToPending } from '../settle/states.ts'

/** Rows that a rollback and finality change, with several networks in one table. */
let world: FakeApp
before(async () => {
  world = await fakeApp()
})
after(() => world.close())

const OTHER = 1
const mined = (block: number, more: Partial<TransactionRow> = {}): Partial<TransactionRow> => ({
  ...{ state: 'MINED', block_number: block, block_hash: Buffer.alloc(32, block), succeeded: true, gas_used: 21_000 },
  ...more,
})
async function rows(name: string, all: Record<string, Partial<TransactionRow>>): Promise<() => Promise<object>> {
  const writer = await world.account(name)
  const ids: [string, string][] = []
  for (const [index, [what, given]] of Object.entries(all).entries()) {
    const isBare = given.hash === null
    ids.push([what, (await world.row(writer, { nonce: index, ...given }, isBare ? null : { broadcast_at: new Date() })).id]) // prettier-ignore
  }
  return async () => {
    const now: Record<string, unknown> = {}
    for (const [what, id] of ids) {
      const { state, is_final, block_number, transitions } = await world.rowOf(id)
      now[what] = [state, is_final, block_number, transitions.map((step) => step.state)]
    }
    return now
  }
}

test('a rollback takes back what is in its blocks, final or not, and nothing below, elsewhere or in no block', async () => {
  const read = await rows('rollback', {
    below: mined(4),
    finalBelow: mined(4, { state: 'FINALIZED', is_final: true }),
    lowest: mined(5),
    above: mined(6, { state: 'REVERTED', succeeded: false }),
    final: mined(5, { state: 'FINALIZED', is_final: true }),
    cancelled: mined(6, { state: 'CANCELLED', is_cancel: true }),
    bare: { ...mined(6, { state: 'REPLACED' }), hash: null },
    waiting: {},
    failed: { state: 'FAILED', is_final: true },
    elsewhere: mined(6, { chain_id: OTHER }),
  })
  await world.db.transaction().execute((db) => revertToPending(db, world.app, world.chain.chainId, 5))
  const back = ['SUBMITTED', false, null, ['SUBMITTED']]
  assert.deepEqual(await read(), {
    below: ['MINED', false, 4, []],
    finalBelow: ['FINALIZED', true, 4, []],
    ...{ lowest: back, above: back, final: back, cancelled: back },
    bare: ['BOUND', false, null, ['BOUND']],
    waiting: ['SUBMITTED', false, null, []],
    failed: ['FAILED', true, null, []],
    elsewhere: ['MINED', false, 6, []],
  })
  const sent = await world.db
    .selectFrom('attempts as a')
    .innerJoin('transactions as t', 't.id', 'a.transaction_id')
    .select('t.nonce')
    .where('a.broadcast_at', 'is', null)
    .orderBy('t.nonce')
    .execute()
  assert.deepEqual(
    sent.map(({ nonce }) => nonce),
    [2, 3, 4, 5],
    'these are to be sent again at once',
  )
})

test('final is what is in blocks up to that number, on that network; what ended otherwise keeps its state', async () => {
  const read = await rows('final', {
    below: mined(4),
    highest: mined(5),
    reverted: mined(5, { state: 'REVERTED', succeeded: false }),
    replaced: mined(3, { state: 'REPLACED' }),
    already: mined(2, { state: 'FINALIZED', is_final: true }),
    above: mined(6),
    waiting: {},
    elsewhere: mined(4, { chain_id: OTHER }),
  })
  await world.db.transaction().execute((db) => markFinal(db, world.app, world.chain.chainId, 5))
  assert.deepEqual(await read(), {
    below: ['FINALIZED', true, 4, ['FINALIZED']],
    highest: ['FINALIZED', true, 5, ['FINALIZED']],
    reverted: ['REVERTED', true, 5, ['FINALIZED']],
    replaced: ['REPLACED', true, 3, ['FINALIZED']],
    already: ['FINALIZED', true, 2, []],
    above: ['MINED', false, 6, []],
    waiting: ['SUBMITTED', false, null, []],
    elsewhere: ['MINED', false, 4, []],
  })
})

test('of operations, too, a block takes back and makes final what is on its network', async () => {
  const { accountId, address } = await world.account('operations')
  const ids = new Map<string, string>()
  const put = async (name: string, chainId: number, block: number, sequence: number) => {
    ids.set(name, newTransactionId())
    const mined = {
      state: 'MINED',
      block_number: block,
      block_hash: Buffer.alloc(32, block),
      outer_id: 'tx_1',
    } as const
    const signed = { space: Buffer.alloc(20, 1), sequence, calls: Buffer.of(0), gas_limit: 1, deadline: 1 }
    await world.db
      .insertInto('operations')
      .values({
        ...{
          id: ids.get(name)!,
          account_id: accountId,
          client_id: 'demo',
          chain_id: chainId,
          sender: fromHex(address),
        },
        ...{ abi: '', charged: '0' },
        ...{ ...signed, ...mined, hour: new Date(), transitions: '[]' },
      })
      .execute()
  }
  const here = world.chain.chainId
  const all = [['below', here, 4], ['highest', here, 5], ['above', here, 6], ['elsewhere', OTHER, 5]] as const // prettier-ignore
  for (const [index, [name, chainId, block]] of all.entries()) await put(name, chainId, block, index)
  const states = async () => {
    const rows = await world.db.selectFrom('operations').select(['id', 'state', 'is_final']).execute()
    return Object.fromEntries(
      [...ids].map(([name, id]) => {
        const { state, is_final: isFinal } = rows.find((row) => row.id === id)!
        return [name, [state, isFinal]]
      }),
    )
  }
  await world.db.transaction().execute((db) => markFinal(db, world.app, here, 5))
  const done = ['FINALIZED', true]
  assert.deepEqual(await states(), { below: done, highest: done, above: ['MINED', false], elsewhere: ['MINED', false] })
  await world.db.transaction().execute((db) => revertToPending(db, world.app, here, 5))
  const back = ['SUBMITTED', false]
  assert.deepEqual(await states(), { below: done, highest: back, above: back, elsewhere: ['MINED', false] })
})
