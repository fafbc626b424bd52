/**
 * The delivery of webhooks as a process of its own, to be killed: on the database or the folder that the environment names,
 * for ever.
 */
import { flushCompileCache } from 'node:module'
import type { App } from '../../src/app.ts'
import { systemClock } from '../../src/clock.ts'
import { readConfig } from '../../src/config.ts'
import { sealKeysOf, type SealKey } from '../../src/oauth/seal-keys.ts'
import { openState } from '../../src/state.ts'
import { openEmbedded, openPostgres } from '../../src/store/db.ts'
import { openTelemetry } from '../../src/telemetry.ts'
import { startDelivering } from '../../src/webhooks/worker.ts'
import { answerStatements } from './statements.ts'

const { CHAOS_DATABASE, CHAOS_FOLDER, CHAOS_SEALS } = process.env

const db =
  CHAOS_FOLDER === undefined
    ? await openPostgres({ url: CHAOS_DATABASE!, pool: 4, onError: () => {} })
    : await openEmbedded({ dir: CHAOS_FOLDER })
// Written now, because a process that is killed writes nothing at its end; the next one starts in half the time.
flushCompileCache()
startDelivering({
  config: readConfig({ NODE_ENV: 'test', DATABASE_URL: CHAOS_DATABASE }, 'server'),
  db,
  auth: null,
  sealKeys: sealKeysOf(JSON.parse(CHAOS_SEALS!) as SealKey[]),
  telemetry: openTelemetry('chaos', process.env.CHAOS_LOG ?? 'silent'),
  state: openState(),
  clock: systemClock,
} as unknown as App)
answerStatements(db)
// The timers of the delivery let a process end.
setInterval(() => {}, 60_000)
