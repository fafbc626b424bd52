import assert from 'node:assert/strict'
import { after, before, beforeEach } from 'node:test'
import type { App } from '../src/app.ts'
import type { Chain } from '../src/chain/network.ts'
import type { Block } from '../src/chain/rpc/block.ts'
import { readConfig } from '../src/config.ts'
import type { BlockListener, FollowedBlock } from '../src/follower/block.ts'
import { startFollower } from '../src/follower/follow.ts'
import type { Hex } from '../src/ids.ts'
import { toHex } from '../src/hex.ts'
import type { Db } from '../src/store/db.ts'
import type { Database } from '../src/store/rows.ts'
import { openState } from '../src/state.ts'
import { openTelemetry } from '../src/telemetry.ts'
import { testDatabase, type TestDatabase } from './kit/database.ts'
import { addressOf, type ScriptedBlock, type ScriptedChain, type ScriptedTransaction } from './nodes/scripted-chain.ts'
import { signerAt } from './scripted-transactions.ts'
import { until } from './kit/until.ts'
import { systemClock } from '../src/clock.ts'

/**
 * For tests of the follower alone: a real database, a scripted chain (test/nodes/scripted-chain.ts) and nothing of an App that the
 * follower and its listeners do not use. The whole program stands in test/world.ts, writes in test/writing.ts.
 * @param empties  tables that each test finds empty; with `cursors` those of the history, too
 */
export function followerStage(empties: readonly (keyof Database)[] = ['blocks', 'cursors', 'networks']) {
  let database: TestDatabase
  const logged: string[] = []
  const telemetry = openTelemetry('test', 'silent')
  telemetry.log.info = (event) => void logged.push(event)
  telemetry.log.warn = (event) => void logged.push(event)
  // Most senders here have not signed what they send, which native currency is checked for.
  const config = { ...readConfig({}, 'server'), FOLLOW_INTERVAL_MS: 3, NATIVE_HISTORY: 'off' as const }
  const app = { config, telemetry, state: openState(), clock: systemClock } as App
  before(async () => {
    database = await testDatabase()
    Object.assign(app, { db: database.db })
  })
  beforeEach(async () => {
    logged.length = 0
    const both = empties.includes('cursors') ? [...empties, 'history_cursors' as const] : empties
    for (const table of both) await app.db.deleteFrom(table).execute()
  })
  after(() => database.close())

  // Who looks at transfers waits for them, too.
  const waitsFor = empties.includes('transfers') ? (['cursors', 'history_cursors'] as const) : (['cursors'] as const)
  const settled = async (script: ScriptedChain) => {
    for (const cursor of waitsFor) await atHead(app.db, cursor, () => script.blocks.at(-1)!.hash)
  }
  /** Follows a chain while the work lasts. */
  async function following(
    script: ScriptedChain,
    listener: BlockListener | null,
    work: () => Promise<unknown>,
    chain: Chain = script.chain,
  ): Promise<void> {
    const follower = startFollower(app, chain, listener === null ? [] : [listener])
    try {
      await work()
    } finally {
      await follower.stop()
    }
  }

  return {
    app,
    /** events of the log since the test began */
    logged,
    cursor: () => app.db.selectFrom('cursors').selectAll().executeTakeFirstOrThrow(),
    settled,
    following,
    /** Follows a chain to its newest block. */
    followed: (script: ScriptedChain, listener: BlockListener | null, chain?: Chain) =>
      following(script, listener, () => settled(script), chain),
    storedHashes: async () =>
      (await app.db.selectFrom('blocks').select('hash').orderBy('number').execute()).map(({ hash }) => toHex(hash)),
  }
}

/** Resolves when a cursor is at the newest block. */
export const atHead = (
  db: Db,
  cursor: 'cursors' | 'history_cursors',
  newest: () => Promise<Hex> | Hex,
): Promise<boolean> =>
  until(`${cursor} is at the head`, async () => {
    const row = await db.selectFrom(cursor).select('block_hash').executeTakeFirst()
    return row !== undefined && toHex(row.block_hash) === (await newest())
  })

export const TRANSACTION: ScriptedTransaction = {
  from: signerAt(0xa1),
  transfers: [
    {
      type: 'ERC20',
      token: addressOf(0x70),
      from: addressOf(0xa1),
      to: addressOf(0xa2),
      items: [{ id: null, value: 5n }],
    },
  ],
}

export const headOf = ({ number, hash, parentHash, timestamp }: ScriptedBlock): Block => ({
  ...{ number, hash, parentHash, timestamp, baseFee: null },
})

/** Remembers what it is told as a chain of its own: the canonical one, if the follower does its work. */
export function recorder() {
  const told: FollowedBlock[] = []
  const events: string[] = []
  let finalized = -1
  const listener: BlockListener = {
    onBlock: async (_db, _app, _chain, block) => {
      assert.equal(block.number, told.length === 0 ? block.number : told.at(-1)!.number + 1, 'blocks come in order')
      told.push(block)
      events.push(`block ${block.number}`)
    },
    onRetract: async (_db, _app, _chain, fromNumber) => {
      while (told.length > 0 && told.at(-1)!.number >= fromNumber) told.pop()
      finalized = Math.min(finalized, fromNumber - 1)
      events.push(`retract ${fromNumber}`)
    },
    onFinalize: async (_db, _app, _chain, throughNumber) => {
      assert.ok(throughNumber > finalized, 'finality moves forward')
      finalized = throughNumber
      events.push(`finalize ${throughNumber}`)
    },
  }
  return { listener, told, events, finalized: () => finalized }
}
