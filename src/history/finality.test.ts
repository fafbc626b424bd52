import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import type { KyselyPlugin } from 'kysely'
import type { App } from '../app.ts'
import type { Rpc } from '../chain/rpc/rpc.ts'
import type { Caller } from '../http/bearer.ts'
import type { Hex } from '../ids.ts'
import { fromHex } from '../hex.ts'
import { fillPast } from '../../test/fill-past.ts'
import { followerStage } from '../../test/follower-stage.ts'
import { addressOf, scriptedChain, type ScriptedChain, type ScriptedTransfer } from '../../test/nodes/scripted-chain.ts'
import { indexTransfers } from './index-transfers.ts'
import type { HistoryParameters } from './query.ts'
import { readHistory } from './read.ts'
import { chainLike } from '../../test/opened.ts'

const ALICE = addressOf(0xa1)
const ACCOUNT = '00000000-0000-8000-8000-0000000000a1'
const FINALITY = 5
const coins = (value: bigint): ScriptedTransfer => ({
  ...{ type: 'ERC20', token: addressOf(0x70), from: addressOf(0x57), to: ALICE },
  items: [{ id: null, value }],
})

suite('the history at the edge of what is final, and of what failed', () => {
  const { app, followed } = followerStage(['accounts', 'blocks', 'cursors', 'transfers', 'tokens'])

  const reader: Caller = {
    ...{ userId: 'DEV-alice', accountId: ACCOUNT, address: ALICE, clientId: 'demo', chainId: 31337 },
    ...{ scopes: new Set(['wallet:read']), grantId: 'g', tokenId: 't', expiresAt: 2 ** 40, token: 'x' },
  } as Caller
  const addAccount = () =>
    app.db.insertInto('accounts').values({ account_id: ACCOUNT, user_id: 'DEV-alice', address: fromHex(ALICE) }).execute() // prettier-ignore
  const follow = (script: ScriptedChain, rpc: Rpc = script.chain.rpc, verification = script.chain.verification) =>
    followed(script, { ...indexTransfers, afterCommit: () => {} }, chainLike(script.chain, { rpc, verification }))
  /** Creates ten blocks with a transfer each, whose amount is the block's number. */
  const tenBlocks = () => {
    const script = scriptedChain({ isDevelopment: true, finality: FINALITY })
    for (let number = 1; number <= 10; number++)
      script.mine({ from: addressOf(0x57), transfers: [coins(BigInt(number))] })
    return script
  }
  const storedBlocks = async () =>
    (await app.db.selectFrom('transfers').select('block_number').orderBy('block_number').execute()).map((row) => row.block_number) // prettier-ignore
  const fill = (script: ScriptedChain) => fillPast(app, script.chain)

  test('a transfer is final with its own block, and its block is the first that the filter shows', async () => {
    const script = tenBlocks()
    await addAccount()
    await follow(script)
    const served = { ...app, chains: new Map([[31337, script.chain]]) } as App
    const { entries, finalizedTo, indexedTo } = await readHistory(served, reader, 'DEV-alice', {})
    assert.deepEqual([finalizedTo, indexedTo], [5, 10])
    const states = Object.fromEntries(entries.map(({ blockNumber, status }) => [blockNumber, status]))
    assert.deepEqual([states[5], states[6]], ['FINALIZED', 'CONFIRMED'])
    const final = await readHistory(served, reader, 'DEV-alice', { finality: 'finalized' })
    assert.deepEqual(
      final.entries.map(({ blockNumber }) => blockNumber),
      [5, 4, 3, 2, 1],
    )
  })

  /** Reads a page, and does `happens` between its reads of the cursor and of the rows. */
  async function pageWhile(script: ScriptedChain, happens: () => Promise<unknown>, parameters: HistoryParameters = {}) {
    let isFirst = true
    const between: KyselyPlugin = {
      transformQuery: ({ node }) => node,
      transformResult: async ({ result }) => {
        if (isFirst && result.rows.some((row) => 'followed' in row)) {
          isFirst = false
          await happens()
        }
        return result
      },
    }
    const served = { ...app, db: app.db.withPlugin(between), chains: new Map([[31337, script.chain]]) } as App
    const page = await readHistory(served, reader, 'DEV-alice', parameters)
    assert.equal(isFirst, false)
    return { ...page, entries: page.entries.map(({ blockNumber, status }) => `${blockNumber} ${status}`) }
  }
  const move = (followed: number, indexed: number) =>
    app.db.transaction().execute(async (db) => {
      await db
        .updateTable('cursors')
        .set({ block_number: followed, finalized_number: Math.min(5, followed) })
        .execute()
      await db.updateTable('history_cursors').set({ block_number: indexed }).execute()
      await db.deleteFrom('transfers').where('block_number', '>', followed).execute()
    })

  test('a page is whole up to the block that it names, whatever is reorganised between its statements', async () => {
    const script = tenBlocks()
    await addAccount()
    await follow(script)
    const rowsTo = (to: number, final: number) =>
      Array.from({ length: to }, (_, index) => `${to - index} ${to - index <= final ? 'FINALIZED' : 'CONFIRMED'}`)
    const lost = await pageWhile(script, () => move(7, 7))
    assert.deepEqual([lost.indexedTo, lost.finalizedTo, lost.entries], [7, 5, rowsTo(7, 5)])
    // If the history advances in between, the new rows appear only on the next request.
    const grown = await pageWhile(script, () => move(20, 20))
    assert.deepEqual([grown.indexedTo, grown.entries], [7, rowsTo(7, 5)])
    // A server without the history's cursor has stored rows that this one does not count on.
    const older = await pageWhile(script, () => move(7, 6), { limit: '3' })
    assert.deepEqual([older.indexedTo, older.entries, older.nextCursor !== null], [6, rowsTo(6, 5).slice(0, 2), true])
    // An operator rewinds below the final block.
    const final = await pageWhile(script, () => move(3, 3), { finality: 'finalized' })
    assert.deepEqual([final.indexedTo, final.finalizedTo, final.entries], [3, 3, rowsTo(3, 3)])
    // The chain was rewound and followed again in between: the rows above exist, and are not final any more.
    await move(10, 10)
    const again = await pageWhile(script, () => app.db.updateTable('cursors').set({ finalized_number: 2 }).execute(), { finality: 'finalized' }) // prettier-ignore
    assert.deepEqual([again.finalizedTo, again.entries], [2, rowsTo(2, 2)])
    const gone = await pageWhile(script, () => move(-1, -1))
    assert.deepEqual([gone.indexedTo, gone.finalizedTo, gone.entries, gone.nextCursor], [null, null, [], null])
  })

  test('a backfill asks for logs up to the final block, and stores nothing above it', async () => {
    const script = tenBlocks()
    await follow(script)
    await addAccount()
    const asked: number[] = []
    script.onAsk = (method, params) => {
      if (method === 'eth_getLogs') asked.push(Number((params[0] as { toBlock: Hex }).toBlock))
    }
    assert.deepEqual(await fill(script), { nextBlock: 6, target: 10 })
    assert.deepEqual(await storedBlocks(), [1, 2, 3, 4, 5])
    assert.deepEqual(new Set(asked), new Set([5]))
  })

  test('what is final no more when a backfill would store it is not stored', async () => {
    const script = tenBlocks()
    await follow(script)
    await addAccount()
    let isFirst = true
    script.onAsk = async (method) => {
      if (method !== 'eth_getLogs' || !isFirst) return
      isFirst = false
      // A development chain lost blocks while the node was asked.
      await app.db.updateTable('cursors').set({ finalized_number: 3 }).execute()
    }
    assert.equal((await fill(script)).nextBlock, 4)
    assert.deepEqual(await storedBlocks(), [1, 2, 3])
  })

  for (const verification of ['bloom', 'count'] as const)
    test(`logs that a node gives to a failed transaction are no transfers (${verification})`, async () => {
      const script = tenBlocks()
      await addAccount()
      const { rpc } = script.chain
      const failing: Rpc = {
        ...rpc,
        batch: async (calls) =>
          (await rpc.batch(calls)).map((answer, index) => {
            const receipts = answer as { status: string; blockHash: Hex }[]
            if (calls[index]!.method === 'eth_getBlockReceipts')
              for (const receipt of receipts) if (receipt.blockHash === script.blocks[4]!.hash) receipt.status = '0x0'
            return answer
          }),
      }
      await follow(script, failing, verification)
      assert.deepEqual(await storedBlocks(), [1, 2, 3, 5, 6, 7, 8, 9, 10])
      const tokens = await app.db.selectFrom('tokens').select('address').execute()
      assert.equal(tokens.length, 1)
    })

  test('a token that only a failed transaction names is never met', async () => {
    const script = scriptedChain({ isDevelopment: true, finality: FINALITY })
    script.mine({ from: addressOf(0x57), transfers: [coins(1n)] })
    await addAccount()
    const { rpc } = script.chain
    const failing: Rpc = {
      ...rpc,
      batch: async (calls) => {
        const answers = await rpc.batch(calls)
        for (const [index, { method }] of calls.entries())
          if (method === 'eth_getBlockReceipts')
            for (const receipt of answers[index] as { status: string }[]) receipt.status = '0x0'
        return answers
      },
    }
    await follow(script, failing)
    assert.deepEqual(await storedBlocks(), [])
    assert.deepEqual(await app.db.selectFrom('tokens').select('address').execute(), [])
  })
})
