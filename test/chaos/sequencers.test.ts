// tier: all, because it stops processes for longer than they may hold their turn
import { strict as assert } from 'node:assert'
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { sql } from 'kysely'
import { openPostgres } from '../../src/store/db.ts'
import { migratedPostgres, testCluster } from '../kit/database.ts'
import { until } from '../kit/until.ts'
import { untilNumbered } from '../stored-events.ts'

const skip = testCluster === null ? 'needs TEST_DATABASE_URL: the embedded database has one process' : false
const WRITERS = 4
const SUBJECTS = 5
/** facts of one statement */
const FACTS = 10

for (const count of [2, 3])
  test(
    `of ${count} processes that number events one is stopped in its turn and continued: no event twice, none lost, all in order`,
    { skip, timeout: 240_000 },
    async () => {
      const database = await migratedPostgres(testCluster!)
      const children: ChildProcess[] = []
      let isWriting = true
      let writers: Promise<void>[] = []
      const db = await openPostgres({ url: database.url, pool: WRITERS + 2, prepares: true, pooler: 'none', deadlineMs: 60_000, onError: () => {} }) // prettier-ignore
      try {
        await sql`insert into applications (client_id, name, chain_id, kind, redirect_uris, permissions, allowed_origins, secret_hashes)
          values ('shop', 'Shop', 31337, 'public', '[]', '["events:read"]', '[]', '[]')`.execute(db)
        const name = (index: number) => `sequencer-${index}`
        for (let index = 0; index < count; index++) {
          const child = fork(new URL('sequencer.ts', import.meta.url).pathname, {
            execArgv: ['--disable-warning=ExperimentalWarning'],
            env: { ...process.env, DATABASE_URL: `${database.url}?application_name=${name(index)}` },
          })
          children.push(child)
          await once(child, 'message')
        }

        let places = 0
        writers = Array.from({ length: WRITERS }, async (_, writer) => {
          for (let place = 0; isWriting; place += FACTS) {
            await sql`insert into facts (kind, chain_id, client_id, subject, data)
              select 'write', 31337, 'shop', subject, jsonb_build_object('id', subject || '-' || place, 'state', 'SUBMITTED', 'hash', to_hex(place), 'before', null,
                'steps', jsonb_build_array(jsonb_build_object('state', 'SUBMITTED', 'at', now(), 'hash', to_hex(place))))
              from generate_series(${place}::int, ${place + FACTS - 1}::int) as place,
                lateral (select ${`transaction:${writer}-`} || place % ${SUBJECTS}::int as subject) as subjects order by place`.execute(
              db,
            )
            places += FACTS
          }
        })
        const newest = async (): Promise<number> =>
          (await sql<{ seq: number }>`select coalesce(max(seq), 0)::int8 as seq from feeds`.execute(db)).rows[0]!.seq
        const holds = async (index: number): Promise<boolean> =>
          (
            await sql`select from pg_stat_activity where application_name = ${name(index)} and state = 'idle in transaction'
              and datname = current_database()`.execute(db)
          ).rows.length > 0

        for (let index = 0; index < count; index++) {
          await until(`process ${index} is stopped in its turn`, async () => {
            children[index]!.kill('SIGSTOP')
            if ((await holds(index)) && (await holds(index))) return true
            children[index]!.kill('SIGCONT')
            return false
          }, 60_000) // prettier-ignore
          const stoppedAt = await newest()
          await until('another process numbers what follows', async () => (await newest()) > stoppedAt, 20_000)
          // It ends its turn, if it still can: the database must not let it.
          children[index]!.kill('SIGCONT')
        }
        for (let index = 0; index < count; index++)
          await until(`process ${index} takes turns again`, () => holds(index), 60_000)
        isWriting = false
        await Promise.all(writers)
        await untilNumbered(db, 60_000)

        const { rows } = await sql<{ subject: string; place: number }>`
          select subject, ('x' || lpad(data->>'hash', 16, '0'))::bit(64)::int8 as place from events where client_id = 'shop' order by seq`.execute(
          db,
        )
        assert.equal(rows.length, places)
        for (const [subject, events] of Map.groupBy(rows, (row) => row.subject))
          assert.deepEqual(
            events.map(({ place }) => place),
            Array.from({ length: events.length }, (_, index) => Number(subject.split('-')[1]) + index * SUBJECTS),
            subject,
          )
      } finally {
        isWriting = false
        await Promise.allSettled(writers)
        for (const child of children) child.kill('SIGKILL')
        await db.destroy()
        await database.drop()
      }
    },
  )
