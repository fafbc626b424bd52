import assert from 'node:assert/strict'
import { sql } from 'kysely'
import type { App } from '../src/app.ts'
import { readEvents } from '../src/events/read.ts'
import { sequence } from '../src/events/sequence.ts'

/** Outcomes of a transaction that an application acts on. */
const OUTCOMES = ['mined', 'reverted', 'cancelled', 'failed', 'replaced']

/**
 * A server of an application, as docs/build/events.md describes it: it goes on from its cursor, knows each event by its id, and has one
 * effect for each transaction, which a retraction takes back.
 */
export type FeedConsumer = {
  /** Reads the feed to its end. */
  read(): Promise<void>
  /** the outcome that stands for a transaction */
  outcomeOf(id: string): string | undefined
  /** the ids of all events of a transaction, in order of their first arrival */
  idsOf(id: string): string[]
  /** how often an outcome of a transaction took effect and was not taken back */
  effectsOf(id: string): number
  /** number of events that came again under a known id */
  repeated(): number
}

/** Gives the application `demo` a feed, and a server that reads it. */
export async function feedConsumer(app: App): Promise<FeedConsumer> {
  await sql`update applications set permissions = permissions || '["events:read"]' where client_id = 'demo'`.execute(
    app.db,
  )
  const known = new Map<string, unknown>()
  const effects = new Map<string, number>()
  let repeated = 0
  const outcomes = new Map<string, { event: string; type: string }>()
  let after = 0
  return {
    outcomeOf: (id) => outcomes.get(id)?.type,
    idsOf: (id) => [...known].filter(([, of]) => of === id).map(([event]) => event),
    effectsOf: (id) => effects.get(id) ?? 0,
    repeated: () => repeated,
    async read() {
      while ((await sequence(app.db)) > 0);
      for (let isEnd = false; !isEnd;) {
        const page = await readEvents(app, { clientId: 'demo', accountId: null }, { after, types: null, limit: 100 })
        isEnd = page.isEnd
        after = page.after
        for (const { id, type, data } of page.events) {
          if (known.has(id)) {
            repeated++
            continue
          }
          known.set(id, data.id)
          const [group, name] = type.split('.') as [string, string]
          if (group !== 'transaction') continue
          const of = data.id as string
          if (OUTCOMES.includes(name)) {
            outcomes.set(of, { event: id, type: name })
            effects.set(of, (effects.get(of) ?? 0) + 1)
          } else if (name === 'retracted' && outcomes.get(of)?.event === data.retracts) {
            outcomes.delete(of)
            effects.set(of, effects.get(of)! - 1)
          }
        }
      }
    },
  }
}

/** Checks that a transaction's outcome in the feed is its state. */
export function assertOutcome(consumer: FeedConsumer, id: string, state: string): void {
  const name = state === 'SUBMITTED' ? undefined : state === 'FINALIZED' ? 'mined' : state.toLowerCase()
  assert.equal(consumer.outcomeOf(id), name, `${id} is ${state}`)
}
