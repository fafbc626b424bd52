import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Rpc } from '../chain/rpc/rpc.ts'
import { fromHex } from '../hex.ts'
import { testDatabase } from '../../test/kit/database.ts'
import { addressOf } from '../../test/nodes/scripted-chain.ts'
import { explainDifference } from './sum-causes.ts'

const ALICE = addressOf(0xa1)
const ACCOUNT_ID = '00000000-0000-8000-8000-0000000000a1'
const CHAIN = 31_337

test('a difference of native currency is excused by internal transfers that are not known below the block from which on they are, not in it', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  await db
    .insertInto('accounts')
    .values({ account_id: ACCOUNT_ID, user_id: 'DEV-a', address: fromHex(ALICE), created_at: new Date(0) })
    .execute()
  const now = new Date(1_800_000_000_000)
  await db.insertInto('history_marks').values({ chain_id: CHAIN, at: now, block_number: 0 }).execute()
  await db.insertInto('history_cursors').values({ chain_id: CHAIN, block_number: 9, block_hash: Buffer.alloc(32), epoch: 1 } as never).execute() // prettier-ignore
  const note = { chain_id: CHAIN, from_block: 1, from_at: now, internal_from_at: now, to_block: 9, to_hash: null }
  await db
    .insertInto('native_coverage')
    .values({ ...note, internal_from_block: 1 })
    .execute()
  // Five wei that nothing tells of come in block 4.
  const rpc = {
    batch: async (calls: { params: unknown[] }[]) => calls.map(({ params }) => (Number(params[1]) < 4 ? '0x7' : '0xc')),
  } as unknown as Rpc
  const sum = {
    ...{ token: null, type: 'NATIVE' as const, tokenId: null, accountId: ACCOUNT_ID, address: ALICE },
    ...{ block: 9, from: 0, opening: 7n, net: 0n, omitted: 0, balance: 12n },
  }
  for (const [internalFrom, cause] of [
    [3, 'balance_without_transfer'],
    [4, 'balance_without_transfer'],
    [5, 'internal_unknown'],
    [null, 'internal_unknown'],
  ] as const) {
    await db.updateTable('native_coverage').set({ internal_from_block: internalFrom }).execute()
    assert.deepEqual(await explainDifference({ db }, { chainId: CHAIN }, { sum, rpc }), { block: 4, cause })
  }
})
