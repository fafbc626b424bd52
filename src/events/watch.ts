import type { App } from '../app.ts'
import type { Timer } from '../clock.ts'
import { slot } from '../state.ts'

/** milliseconds between two looks at the ends of the watched feeds */
const LOOK_MS = 100

type Watcher = { clientId: string; after: number; wake: () => void }
type FeedWatch = { watchers: Set<Watcher>; timer: Timer | null }

/** One query per interval for all readers of a process that wait. */
const watches = slot('readers of events that wait', (_app: App): FeedWatch => ({ watchers: new Set(), timer: null }))

/**
 * Resolves when a feed has an event after a number, after a time-out, or when the signal is aborted. If the database is
 * unavailable it waits on.
 */
export async function waitForEvents(
  app: App,
  { clientId, after }: { clientId: string; after: number },
  { ms, signal }: { ms: number; signal: AbortSignal },
): Promise<void> {
  if (signal.aborted) return
  const watch = watches.of(app)
  const { promise, resolve } = Promise.withResolvers<void>()
  const watcher: Watcher = { clientId, after, wake: resolve }
  watch.watchers.add(watcher)
  const timer = app.clock.after(ms, resolve)
  // Removed again: a stream waits many times with one signal.
  signal.addEventListener('abort', watcher.wake)
  watch.timer ??= look(app, watch)
  await promise
  timer.cancel()
  signal.removeEventListener('abort', watcher.wake)
  watch.watchers.delete(watcher)
}

function look(app: App, watch: FeedWatch): Timer {
  return app.clock
    .after(LOOK_MS, async () => {
      const clientIds = [...new Set([...watch.watchers].map(({ clientId }) => clientId))]
      try {
        const rows =
          clientIds.length === 0
            ? []
            : await app.db
                .selectFrom('feeds')
                .select(['client_id', 'seq'])
                .where('client_id', 'in', clientIds)
                .execute()
        const ends = new Map(rows.map(({ client_id: clientId, seq }) => [clientId, seq]))
        for (const { clientId, after, wake } of watch.watchers) if ((ends.get(clientId) ?? 0) > after) wake()
      } catch (error) {
        app.telemetry.log.debug('feeds_not_read', {}, error)
      }
      watch.timer = watch.watchers.size === 0 ? null : look(app, watch)
    })
    .unref()
}
