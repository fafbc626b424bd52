import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { testDatabase } from '../../test/kit/database.ts'
import { listNetworks } from '../applications/networks.ts'
import { nextByNeed } from '../history/backfill-need.ts'
import { readFirstBlock, sweepWishes } from '../history/backfill-wishes.ts'
import { scriptedChain } from '../../test/nodes/scripted-chain.ts'
import type { RootDb } from './db.ts'
import { assertNarrow, grantRoles, OF_API, OF_AUTH } from './roles.ts'

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

const as = (db: RootDb, role: string, work: (one: RootDb) => Promise<unknown>): Promise<void> =>
  db.connection().execute(async (one) => {
    await sql.raw(`set role ${role}`).execute(one)
    try {
      await work(one as RootDb)
    } finally {
      await sql`reset role`.execute(one)
    }
  })

test('the API may read what puts pasts into order, and the authorization server how far they are', async () => {
  const { db, close } = await testDatabase()
  const [auth, api] = ['auth', 'api'].map((name) => `${name}_${process.pid}_${Date.now()}`) as [string, string]
  try {
    for (const role of [auth, api]) await sql.raw(`create role ${role}`).execute(db)
    await grantRoles(db, { auth, api })
    const { chain } = scriptedChain()
    await as(db, api, async (one) => {
      const fromBlock = await readFirstBlock(one, chain, 3)
      await sweepWishes(one, { chainId: chain.chainId, fromBlock })
      assert.deepEqual((await nextByNeed(one, chain, { fromBlock, atMost: 1 })).accountIds, [])
    })
    await as(db, auth, async (one) => void (await listNetworks(one)))
  } finally {
    for (const role of [auth, api]) {
      await sql.raw(`drop owned by ${role}`).execute(db)
      await sql.raw(`drop role ${role}`).execute(db)
    }
    await close()
  }
})

test('a role that may lift freezes is too wide for the API, and so is the owner of the tables', async () => {
  const { db, close } = await testDatabase()
  const narrow = `narrow_${process.pid}_${Date.now()}`
  const asNarrow = () => as(db, narrow, assertNarrow)
  try {
    await assert.rejects(assertNarrow(db), /can .*lift a freeze, lift what was revoked/)
    await sql.raw(`create role ${narrow}`).execute(db)
    await sql.raw(`grant usage on schema public to ${narrow}`).execute(db)
    await asNarrow()
    for (const column of ['frozen_at', 'unfrozen_at']) {
      await sql.raw(`grant update (${column}) on accounts to ${narrow}`).execute(db)
      await assert.rejects(asNarrow(), /can lift a freeze:/)
      await sql.raw(`revoke update (${column}) on accounts from ${narrow}`).execute(db)
    }
  } finally {
    await sql.raw(`drop owned by ${narrow}`).execute(db)
    await sql.raw(`drop role ${narrow}`).execute(db)
    await close()
  }
})
