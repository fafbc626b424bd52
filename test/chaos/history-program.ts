/**
 * The follower and the history index as a process of their own, to be killed: on the database or the folder and the
 * node that the environment names, for ever. KILL_SEED makes it kill itself in the middle of its statements, now and
 * then. Statements that arrive as messages are run for whoever sent them: the embedded database lets nobody else in.
 */
import { flushCompileCache } from 'node:module'
import { explorerAt, type Chain } from '../../src/chain/network.ts'
import { openRpc } from '../../src/chain/rpc/rpc.ts'
import { readConfig } from '../../src/config.ts'
import type { App } from '../../src/app.ts'
import { startFollower } from '../../src/follower/follow.ts'
import { indexTransfers } from '../../src/history/index-transfers.ts'
import { openEmbedded, openPostgres } from '../../src/store/db.ts'
import { openTelemetry } from '../../src/telemetry.ts'
import { openedHead } from '../opened.ts'
import { answerStatements } from './statements.ts'
import { systemClock } from '../../src/clock.ts'

const { CHAOS_DATABASE, CHAOS_FOLDER, CHAOS_NODE, CHAOS_FINALITY, CHAOS_DEVELOPMENT, CHAOS_STRICT, KILL_SEED } =
  process.env

const db =
  CHAOS_FOLDER === undefined
    ? await openPostgres({ url: CHAOS_DATABASE!, pool: 4, onError: () => {} })
    : await openEmbedded({ dir: CHAOS_FOLDER })
// Written now, because a process that is killed writes nothing at its end; the next one starts in half the time.
flushCompileCache()
const config = { ...readConfig({ DATABASE_URL: CHAOS_DATABASE }, 'server'), FOLLOW_INTERVAL_MS: 3 }
const chain: Chain = {
  ...{ chainId: 31337, name: 'devnet', symbol: 'ETH', coin: 'Ether', decimals: 18, finality: Number(CHAOS_FINALITY) },
  ...{
    feeCapWei: 1n,
    gas: 'self' as const,
    explorer: explorerAt(''),
    verification: CHAOS_STRICT as Chain['verification'],
  },
  rpc: openRpc({ url: CHAOS_NODE!, timeoutMs: 150 }),
  ...openedHead(),
  faucet: CHAOS_DEVELOPMENT === 'yes' ? async () => {} : null,
}

/** Statements until the end, 20 to 600; it comes before a statement or after one, which includes: before a commit. */
let left =
  KILL_SEED === undefined ? Number.POSITIVE_INFINITY : 20 + ((Math.imul(Number(KILL_SEED), 2_654_435_761) >>> 0) % 580)
const strike = <T>(thing: T): T => {
  if (--left < 0) process.kill(process.pid, 'SIGKILL')
  return thing
}
const mortal = db.withPlugin({
  transformQuery: ({ node }) => strike(node),
  transformResult: async ({ result }) => strike(result),
})

const app = {
  config,
  db: mortal,
  telemetry: openTelemetry('chaos', process.env.CHAOS_LOG ?? 'silent'),
  clock: systemClock,
} as unknown as App
startFollower(app, chain, [indexTransfers])

answerStatements(db)
