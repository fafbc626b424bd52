import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { testDatabase } from '../../test/kit/database.ts'

test('a time of the database is a date, whatever it is', async () => {
  const { db, close } = await testDatabase()
  try {
    const read = async (text: string): Promise<Date> => (await sql<{ at: Date }>`select ${text}::timestamptz as at`.execute(db)).rows[0]!.at // prettier-ignore
    const [first, last] = ['0001-01-01T00:00:00.000Z', '9999-12-31T23:59:59.999Z']
    const is = { infinity: last, '280000-01-01 00:00+00': last, '10000-01-01 00:00+00': last, '-infinity': first, '4000-01-01 00:00+00 BC': first, '0002-01-01 00:00:00+00': '0002-01-01T00:00:00.000Z', '9999-12-31 23:59:59.999+00': last, '2026-02-03 04:05:06.789012+05:30': '2026-02-02T22:35:06.789Z' } // prettier-ignore
    for (const [text, expected] of Object.entries(is)) {
      const at = await read(text)
      assert.equal(at.toISOString(), expected, text)
      // A time that was read can be written again.
      assert.equal((await sql<{ at: Date }>`select ${at}::timestamptz as at`.execute(db)).rows[0]!.at.toISOString(), expected) // prettier-ignore
    }
    assert.equal((await sql<{ at: Date | null }>`select null::timestamptz as at`.execute(db)).rows[0]!.at, null)
  } finally {
    await close()
  }
})
