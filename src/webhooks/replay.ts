import { sql } from 'kysely'
import type { App } from '../app.ts'
import { readStored, type EventFilter } from '../events/read.ts'
import type { WireEvent } from '../events/wire.ts'
import type { Answer } from './post.ts'
import { probeDelayOf } from './schedule.ts'

/** events that are read at a time; the cursor is stored after each page */
const PAGE = 16
/** failed answers in a row after which a replay ends */
const MAX_FAILURES = 20

type Replayed = { id: string; clientId: string; epoch: number; types: EventFilter }

/**
 * Sends a range of the feed again, one event at a time, beside new events. An event that fails is repeated
 * later, and the others wait behind it.
 */
export async function runReplay(
  app: App,
  { id, clientId, epoch, types }: Replayed,
  {
    send,
    maySend,
    noteDeleted,
  }: { send: (event: WireEvent) => Promise<Answer>; maySend: () => boolean; noteDeleted: () => void },
): Promise<void> {
  const { rows } = await sql<{ cursor: number; until_seq: number; failures: number }>`
    select cursor, until_seq, failures from webhook_replays where webhook_id = ${id} and due_at <= now()`.execute(
    app.db,
  )
  const [replay] = rows
  if (replay === undefined) return
  let { cursor, failures } = replay
  while (maySend()) {
    const page = await readStored(app, { clientId, accountId: null }, { after: cursor, types, limit: PAGE })
    if (page.isCut) noteDeleted()
    // The page can have newer events too. Its last number is then behind the range, so the replay is over.
    const inRange = page.events.filter(({ sequence }) => sequence <= replay.until_seq)
    let [delivered, delayMs] = [0, 0]
    for (const event of inRange) {
      if (!maySend()) break
      const answer = await send(event)
      if (!answer.isOk) {
        failures++
        delayMs = probeDelayOf(failures + 10, answer.retryAfterMs)
        break
      }
      ;[failures, cursor] = [0, event.sequence]
      delivered++
    }
    const isPageDone = delivered === inRange.length
    if (isPageDone) cursor = page.after
    const isOver = failures >= MAX_FAILURES || cursor >= replay.until_seq || (isPageDone && page.isEnd)
    const isOurs = await storeReplay(app, { id, epoch, cursor, failures, delivered, delayMs, isOver })
    if (isOver && failures > 0) app.telemetry.log.warn('webhook_replay_ended', { webhook: id })
    if (!isOurs || isOver || !isPageDone) return
  }
}

async function storeReplay(
  { db }: Pick<App, 'db'>,
  {
    id,
    epoch,
    cursor,
    failures,
    delivered,
    delayMs,
    isOver,
  }: {
    id: string
    epoch: number
    cursor: number
    failures: number
    delivered: number
    delayMs: number
    isOver: boolean
  },
): Promise<boolean> {
  const isOurs = sql`exists (select from webhooks w where w.id = ${id} and w.epoch = ${epoch}::bigint)`
  const { numAffectedRows: changed = 0n } = isOver
    ? await sql`delete from webhook_replays where webhook_id = ${id} and ${isOurs}`.execute(db)
    : await sql`
        update webhook_replays set cursor = ${cursor}::bigint, failures = ${failures}::int, delivered = delivered + ${delivered}::bigint,
          due_at = now() + make_interval(secs => ${delayMs / 1_000}::float8)
        where webhook_id = ${id} and ${isOurs}`.execute(db)
  return changed > 0n
}
