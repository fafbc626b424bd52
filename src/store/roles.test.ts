import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { testDatabase } from '../../test/database.ts'
import { OF_API, OF_AUTH } from './roles.ts'

test('every table belongs to one of the two programs, or to both: one that nobody was given is found here', async () => {
  const { db, close } = await testDatabase()
  const { rows } = await sql<{ name: string }>`
    select table_name as name from information_schema.tables where table_schema = current_schema()`.execute(db)
  await close()
  const written = new Set<string>([...OF_AUTH.whole, ...OF_API.whole])
  assert.deepEqual(
    rows.map(({ name }) => name).filter((name) => !written.has(name)),
    ['migrations'],
  )
  // What signs people in is written by one of them alone.
  const both = OF_AUTH.whole.filter((name) => OF_API.whole.includes(name))
  assert.deepEqual(both, ['networks', 'signing_log_head'])
})
