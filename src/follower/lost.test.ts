import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import type { App } from '../app.ts'
import type { Chain } from '../chain/network.ts'
import { readConfig } from '../config.ts'
import { toHex } from '../store/bytes.ts'
import { openTelemetry } from '../telemetry.ts'
import { testDatabase, type TestDatabase } from '../../test/database.ts'
import { scriptedChain, type ScriptedChain } from '../../test/scripted-chain.ts'
import { until } from '../../test/until.ts'
import { indexedTo } from './cursor.ts'
import { startFollower } from './follow.ts'

let database: TestDatabase
let app: App
before(async () => {
  database = await testDatabase()
  const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 3 }
  app = { config, db: database.db, telemetry: openTelemetry('test', 'silent'), now: Date.now } as App
})
beforeEach(async () => {
  for (const table of ['blocks', 'cursors', 'networks'] as const) await app.db.deleteFrom(table).execute()
})
after(() => database.close())

const isAtHead = async ({ blocks }: ScriptedChain): Promise<boolean> => {
  const row = await app.db.selectFrom('cursors').select('block_hash').executeTakeFirst()
  return row !== undefined && toHex(row.block_hash) === blocks.at(-1)!.hash
}

/** Follows a chain of 20 blocks, loses some, and does the work meanwhile. */
async function losing(
  { depth, settings, finality }: { depth: number; settings: Partial<Chain>; finality: number | 'finalized' },
  work: (script: ScriptedChain) => Promise<void>,
): Promise<void> {
  const script = scriptedChain({ finality })
  Object.assign(script.chain, settings)
  for (let count = 0; count < 20; count++) script.mine()
  const follower = startFollower(app, script.chain, [])
  try {
    await until('the cursor is at the head', () => isAtHead(script))
    const lost = new Set(script.lose(depth).map(({ hash }) => hash))
    // A node that has lost blocks knows them no longer by their hashes, either.
    const rpc = script.chain.rpc
    script.chain.rpc = {
      ...rpc,
      call: (async (method: string, params: unknown[]) =>
        method === 'eth_getBlockByHash' && lost.has(params[0] as never)
          ? null
          : rpc.call(method, params)) as typeof rpc.call,
    }
    await work(script)
  } finally {
    await follower.stop()
  }
}

test('a node that has lost blocks above finality is followed back, without waiting for its head to pass ours', () =>
  losing({ depth: 3, settings: { lostAfterMs: 20 }, finality: 12 }, async (script) => {
    await until('the cursor is at the head', () => isAtHead(script))
    assert.equal(script.chain.head.current()?.number, 17)
    assert.equal((await indexedTo(app.db, 31337)).halted, null)
  }))

test('one that has lost blocks below finality stops the follower, which says so', () =>
  losing({ depth: 10, settings: { lostAfterMs: 20 }, finality: 4 }, async () => {
    await until('the follower halted', async () => (await indexedTo(app.db, 31337)).halted !== null)
    assert.match((await indexedTo(app.db, 31337)).halted!, /below the finalized block 16/)
  }))

test('in development even that heals', () =>
  losing({ depth: 5, settings: { isDevelopment: true }, finality: 4 }, async (script) => {
    await until('the cursor is at the head', () => isAtHead(script))
    assert.deepEqual(await indexedTo(app.db, 31337), { indexedTo: 15, finalizedTo: 15, halted: null })
    script.mine()
    await until('it goes on', () => isAtHead(script))
  }))

test('in development the chain may lose more than was followed: it is followed from its beginning', () =>
  losing({ depth: 19, settings: { isDevelopment: true }, finality: 4 }, async (script) => {
    await until('the cursor is at the head', () => isAtHead(script))
    assert.equal((await indexedTo(app.db, 31337)).indexedTo, 1)
  }))
