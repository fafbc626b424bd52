import { setTimeout as pause } from 'node:timers/promises'
import { sql } from 'kysely'
import { openPostgres } from '../../src/store/db.ts'
import { startCluster } from '../chaos/cluster.ts'

/** Where the tests of mutants keep their databases. */
export type Databases = {
  env: Record<string, string>
  /** drops what killed tests left, but for what the next ones are copied from */
  tidy: () => Promise<void>
  stop: () => Promise<void>
}

/**
 * A PostgreSQL cluster of one's own where its programs are on PATH: a test file costs a third of the time that it
 * costs on the embedded database, which is used where there is none.
 */
export async function openDatabases(): Promise<Databases> {
  const cluster = await startCluster()
  if (cluster === null) return { env: {}, tidy: async () => {}, stop: async () => {} }
  const admin = await openPostgres({ url: cluster.url, pool: 1, onError: () => {} })
  // A machine under load opens the port before the cluster has started.
  for (const endMs = performance.now() + 60_000; performance.now() < endMs; await pause(100)) {
    if (
      await sql`select`.execute(admin).then(
        () => true,
        () => false,
      )
    )
      break
  }
  // Nothing here outlives the run.
  for (const setting of ['fsync', 'synchronous_commit', 'full_page_writes']) {
    await sql.raw(`alter system set ${setting} = off`).execute(admin)
  }
  await sql`select pg_reload_conf()`.execute(admin)
  return {
    env: { TEST_DATABASE_URL: cluster.url },
    tidy: async () => {
      const { rows } = await sql<{ name: string }>`
        select datname as name from pg_database where datname like 'chatelaine_%' and datname not like 'chatelaine_template_%'`.execute(
        admin,
      )
      for (const { name } of rows) await sql.raw(`drop database if exists ${name} with (force)`).execute(admin)
    },
    stop: async () => {
      await admin.destroy()
      await cluster.stop()
    },
  }
}
