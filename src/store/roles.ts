import { sql } from 'kysely'
import type { Db, RootDb } from './db.ts'
import type { Database } from './rows.ts'

type Table = keyof Database
type Grants = {
  /** tables with all rows, to read and write */
  whole: Table[]
  read: Table[]
  /** tables that may be read except for these columns */
  without: Partial<Record<Table, string[]>>
  more: string[]
}

/** Grants of the authorization server: users, applications, consents, and their secrets. */
export const OF_AUTH: Grants = {
  whole: ['accounts', 'accounts_attested', 'identities', 'wrapped_data_keys', 'wrapped_keys', 'wrapped_keys_copied', 'networks', 'applications', 'application_providers', 'application_users', 'oauth_records', 'revoked_grants', 'consents', 'provider_issuers', 'sign_ins', 'sponsors', 'withdrawals', 'operator_actions', 'operator_head', 'operators', 'activity', 'requested_changes', 'signing_log_head', 'webhooks', 'webhook_retries', 'webhook_deliveries', 'webhook_replays'], // prettier-ignore
  read: [
    'migrations',
    'application_usage',
    'gas_spent',
    'gas_spent_on_network',
    'low_sponsors',
    'stopped_lanes',
    'transactions',
    'operations',
    'signatures',
    'approvals',
    'carried',
    'cursors',
    'history_cursors',
    'waits',
    'native_coverage',
    'backfill_work',
    'feeds',
  ],
  // The authorization server may read the attempts of transactions, but not their signed bytes.
  without: { attempts: ['raw'] },
  more: [
    'update on stopped_lanes',
    'update (state, token, decided_at) on approvals',
    'insert on facts',
    'select, delete on events',
    // A revocation locks the row, so that no event of the account gets its number meanwhile.
    'select, update on sequencer',
  ],
}

/**
 * Grants of the API: transactions, blocks and data derived from them. It may read the identities of users, but nothing
 * that signs users in.
 */
export const OF_API: Grants = {
  whole: ['application_usage', 'networks', 'strangers', 'transactions', 'attempts', 'signatures', 'approvals', 'swept', 'ledger_cursor', 'signing_log_head', 'stopped_lanes', 'waits', 'blocks', 'cursors', 'history_cursors', 'transfers', 'history_marks', 'coverage', 'native_coverage', 'tokens', 'backfill_work', 'top_ups', 'gas_spent', 'gas_spent_on_network', 'low_sponsors', 'operations', 'carried', 'operation_sequences', 'activity', 'facts', 'sequencer', 'feeds', 'events', 'denials', 'low_balances', 'final_transfers', 'retracted_blocks', 'webhooks', 'webhook_retries', 'webhook_deliveries', 'webhook_replays'], // prettier-ignore
  read: [
    'migrations',
    'accounts',
    'accounts_attested',
    'application_providers',
    'application_users',
    'consents',
    'revoked_grants',
    'sponsors',
    'withdrawals',
    'requested_changes',
  ],
  without: { identities: ['email', 'email_verified'], applications: ['secret_hashes'] },
  // Locking a row requires the privilege to update one of its columns. `accounts.created_at` is harmless: only the
  // history uses it, to judge from which block it is complete. Someone who controls the API could make it claim too
  // much.
  more: [
    'update (created_at) on accounts',
    'update (transaction_id, refusal) on withdrawals',
    'update (claimed_at, done_at, refusal) on requested_changes',
  ],
}

/**
 * Grants each program's role the rights that it needs, and revokes all others. It works in one transaction, also while the
 * programs run. Only the owner of the tables can do this.
 */
export async function grantRoles(root: RootDb, roles: { auth: string; api: string }): Promise<void> {
  await root.transaction().execute(async (db) => {
    await grant(db, roles.auth, OF_AUTH)
    await grant(db, roles.api, OF_API)
  })
}

async function grant(db: Db, name: string, { whole, read, without, more }: Grants): Promise<void> {
  const role = sql.id(name)
  const run = (what: string) => sql`grant ${sql.raw(what)} to ${role}`.execute(db)
  await sql`revoke all on all tables in schema ${sql.raw(await schemaOf(db))} from ${role}`.execute(db)
  await sql`grant usage on schema ${sql.raw(await schemaOf(db))} to ${role}`.execute(db)
  await run(`select, insert, update, delete on ${whole.join(', ')}`)
  await run(`select on ${read.join(', ')}`)
  for (const [table, hidden] of Object.entries(without)) {
    const columns = (await columnsOf(db, table)).filter((column) => !hidden.includes(column))
    await run(`select (${columns.join(', ')}) on ${table}`)
  }
  for (const one of more) await run(one)
}

async function schemaOf(db: Db): Promise<string> {
  const { rows } = await sql<{ name: string }>`select quote_ident(current_schema()) as name`.execute(db)
  return rows[0]!.name
}

async function columnsOf(db: Db, table: string): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select column_name as name from information_schema.columns where table_schema = current_schema() and table_name = ${table}`.execute(
    db,
  )
  return rows.map(({ name }) => name)
}

/** Actions that the API's role must not be able to do, even if the API is compromised. */
const FORBIDDEN = {
  'read e-mail addresses': sql`has_column_privilege('identities', 'email', 'select')`,
  'read secrets of applications': sql`has_column_privilege('applications', 'secret_hashes', 'select')`,
  'read sessions, codes and visits to providers': sql`has_any_column_privilege('oauth_records', 'select') or has_any_column_privilege('sign_ins', 'select')`,
  'make sessions, codes and visits to providers': sql`has_any_column_privilege('oauth_records', 'insert, update') or has_any_column_privilege('sign_ins', 'insert, update')`,
  'change consents of users': sql`has_any_column_privilege('consents', 'insert, update')`,
  'change identity providers': sql`has_any_column_privilege('application_providers', 'insert, update') or has_any_column_privilege('provider_issuers', 'insert, update')`,
  'read wrapped keys': sql`has_any_column_privilege('wrapped_keys', 'select') or has_any_column_privilege('wrapped_data_keys', 'select')`,
  'make sponsors': sql`has_any_column_privilege('sponsors', 'insert, update')`,
  'read or change the operators of the console': sql`has_any_column_privilege('operators', 'select, insert, update')`,
  'add ways to sign in': sql`has_any_column_privilege('identities', 'insert, update')`,
  'add or move accounts': sql`has_any_column_privilege('accounts', 'insert') or has_column_privilege('accounts', 'address', 'update')`,
  'lift a freeze': sql`has_column_privilege('accounts', 'frozen_at', 'update') or has_column_privilege('accounts', 'unfrozen_at', 'update')`,
  'undo revocations': sql`has_table_privilege('revoked_grants', 'delete') or has_any_column_privilege('applications', 'update')`,
}

/** Returns what the role of this connection can do and the API must not. */
export async function findForbidden(db: RootDb): Promise<string[]> {
  const can: string[] = []
  for (const [what, privilege] of Object.entries(FORBIDDEN)) {
    const { rows } = await sql<{ can: boolean }>`select ${privilege} as can`.execute(db)
    if (rows[0]!.can) can.push(what)
  }
  return can
}

/** Returns the tables that the role of this connection cannot use as these grants say. */
export async function findMissingGrants(db: RootDb, { whole, read, without }: Grants): Promise<string[]> {
  const wanted = [
    ...whole.map((table) => ({ table, privileges: ['select', 'insert', 'update', 'delete'] })),
    ...read.map((table) => ({ table, privileges: ['select'] })),
  ]
  const missing: string[] = []
  for (const { table, privileges } of wanted)
    for (const privilege of privileges) {
      const { rows } = await sql<{ can: boolean }>`select has_table_privilege(${table}, ${privilege}) as can`.execute(
        db,
      )
      if (!rows[0]!.can) missing.push(`${privilege} on ${table}`)
    }
  for (const table of Object.keys(without)) {
    const { rows } = await sql<{ can: boolean }>`select has_any_column_privilege(${table}, 'select') as can`.execute(db)
    if (!rows[0]!.can) missing.push(`select on ${table}`)
  }
  return missing
}

/** Checks that the role of this connection is not too powerful for the API. @throws Error naming what it can do */
export async function assertNarrow(db: RootDb): Promise<void> {
  const can = await findForbidden(db)
  if (can.length > 0)
    throw new Error(
      `the role of DATABASE_URL can ${can.join(', ')}: the API needs a role of its own, see chatelaine database roles`,
    )
}
