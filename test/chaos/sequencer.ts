/** A process that numbers events, as each server does, and does nothing else; the test that started it stops and continues it. */
import { systemClock } from '../../src/clock.ts'
import { startSequencing } from '../../src/events/sequence.ts'
import { openPostgres } from '../../src/store/db.ts'
import { openTelemetry } from '../../src/telemetry.ts'

const db = await openPostgres({
  ...{ url: process.env.DATABASE_URL!, pool: 2, prepares: true, pooler: 'none', deadlineMs: 20_000 },
  onError: () => {},
})
startSequencing({ clock: systemClock, db, telemetry: openTelemetry('test', 'silent') })
process.on('disconnect', () => process.exit())
process.send!('numbering')
