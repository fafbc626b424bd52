import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { testDatabase } from '../../test/kit/database.ts'
import { listNetworks } from '../applications/networks.ts'
import { readEvents } from '../events/read.ts'
import { sequence } from '../events/sequence.ts'
import { selectWaiting } from '../history/backfill-work.ts'
import { scriptedChain } from '../../test/nodes/scripted-chain.ts'
import { deleteOldApprovals, expireApprovals } from '../approvals/sweep.ts'
import { systemClock } from '../clock.ts'
import { sweep } from '../oauth/sweep.ts'
import type { RootDb } from './db.ts'
import { assertNarrow, grantRoles, OF_API, OF_AUTH } from './roles.ts'

/** The operator API adds webhooks, and the API delivers. */
const WEBHOOKS = ['webhooks', 'webhook_retries', 'webhook_deliveries', 'webhook_replays']

type Role = 'auth' | 'api'

/** Runs work with a database on which both programs have their roles, and a way to act as either. */
async function withRoles(
  work: (db: RootDb, as: (role: Role, work: (one: RootDb) => Promise<unknown>) => Promise<void>) => Promise<void>,
): Promise<void> {
  const { db, close } = await testDatabase()
  const suffix = `${process.pid}_${Date.now()}`
  const names = { auth: `auth_${suffix}`, api: `api_${suffix}` }
  try {
    for (const name of Object.values(names)) await sql.raw(`create role ${name}`).execute(db)
    await grantRoles(db, names)
    await work(db, (role, act) =>
      db.connection().execute(async (one) => {
        await sql.raw(`set role ${names[role]}`).execute(one)
        try {
          await act(one)
        } finally {
          await sql`reset role`.execute(one)
        }
      }),
    )
  } finally {
    for (const name of Object.values(names)) {
      await sql.raw(`drop owned by ${name}`).execute(db)
      await sql.raw(`drop role ${name}`).execute(db)
    }
    await close()
  }
}

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
  // Tables that decide about sign-ins are written by only one of the two roles.
  const both = OF_AUTH.whole.filter((name) => OF_API.whole.includes(name))
  assert.deepEqual(both, ['networks', 'activity', 'signing_log_head', ...WEBHOOKS])
})

test('the API may read what puts pasts into order, and the authorization server how far they are', () =>
  withRoles(async (_db, as) => {
    const { chain } = scriptedChain()
    await as('api', async (one) => {
      assert.deepEqual((await selectWaiting(one, { chainId: chain.chainId, fromBlock: 3, atMost: 1 })).accountIds, [])
    })
    await as('auth', async (one) => void (await listNetworks(one)))
  }))

test('each program deletes what has expired with its own rights', () =>
  withRoles(async (_db, as) => {
    await as('auth', (one) => sweep(one))
    await as('api', async (one) => {
      await expireApprovals({ db: one, clock: systemClock })
      await deleteOldApprovals(one, 100)
    })
  }))

test('what either program changes is noted with its own rights, and the API moves it into the feed and reads it', () =>
  withRoles(async (db, as) => {
    const each = async (one: RootDb, statements: string[]) => {
      for (const statement of statements) await sql.raw(statement).execute(one)
    }
    const account = `'00000000-0000-8000-8000-000000000001'::uuid`
    const word = `decode(repeat('ab', 32), 'hex')`
    await as('auth', (one) =>
      each(one, [
        `insert into applications (client_id, name, chain_id, kind, redirect_uris, permissions, allowed_origins, secret_hashes)
          values ('shop', 'Shop', 31337, 'public', '[]', '["events:read"]', '[]', '[]')`,
        `insert into accounts (account_id, user_id, address) values (${account}, 'DEV-alice', '\\x01')`,
        `insert into identities (provider, subject, username, account_id) values ('DEV', 'alice', 'alice', ${account})`,
        `insert into application_users values ('shop', ${account})`,
        `insert into consents (account_id, client_id, permissions) values (${account}, 'shop', '["users:read"]')`,
        `update accounts set frozen_at = now()`,
      ]),
    )
    await as('api', (one) =>
      each(one, [
        `insert into transactions (id, account_id, client_id, chain_id, sender, nonce, target, value, data, abi, gas_limit, max_fee, state, hash, transitions)
          values ('tx_1', ${account}, 'shop', 31337, '\\x01', 0, '\\x02', ${word}, '', '', 21000, ${word}, 'SUBMITTED', ${word}, '[{"state": "SUBMITTED", "at": ""}]')`,
        `update transactions set state = 'MINED', block_number = 1, block_hash = ${word}, transitions = transitions || '[{"state": "MINED", "at": ""}]'`,
        `insert into approvals (id, intent_id, account_id, client_id, chain_id, content, rule, state, expires_at)
          values ('apr_1', 'sig_1', ${account}, 'shop', 31337, '{}', 'ask', 'waiting', now())`,
        `insert into signatures (id, account_id, client_id, chain_id, kind, content, hash, class, summary)
          values ('sig_1', ${account}, 'shop', 31337, 'text', 'Hello', ${word}, 'text', '{}')`,
        `update signatures set signature = ${word}`,
        `insert into stopped_lanes (chain_id, sender, nonce, reason) values (31337, '\\x01', 4, 'foreign_nonce')`,
      ]),
    )
    await as('auth', (one) => each(one, [`update approvals set state = 'approved'`]))
    const types: string[] = []
    await as('api', async (one) => {
      while ((await sequence(one)) > 0);
      const { events } = await readEvents({ db: one, networks: new Map() }, { clientId: 'shop', accountId: null }, { after: null, types: null, limit: 100 }) // prettier-ignore
      types.push(...events.map(({ type }) => type))
    })
    assert.deepEqual(types, ['user.created', 'consent.granted', 'account.frozen', 'transaction.submitted', 'transaction.mined', 'approval.requested', 'signature.created', 'account.stopped', 'approval.granted']) // prettier-ignore
    await as('auth', (one) => each(one, [`delete from consents`, `delete from application_users`]))
    const { rows } = await sql<{ type: string }>`select type from events where type like 'account.%'`.execute(db)
    assert.deepEqual(rows, [])
  }))

test('a role that can do any one thing that signs people in, or lifts what stops them, is refused for the API by that name', async () => {
  const { db, close } = await testDatabase()
  const role = `narrow_${process.pid}_${Date.now()}`
  const problemOfRole = () =>
    db.connection().execute(async (one) => {
      await sql.raw(`set role ${role}`).execute(one)
      try {
        await assertNarrow(one as typeof db)
        return null
      } catch (error) {
        return /can (.*): the API needs/.exec((error as Error).message)![1]!
      } finally {
        await sql`reset role`.execute(one)
      }
    })
  const each: Record<string, string[]> = {
    'read e-mail addresses': ['select (email) on identities'],
    'read secrets of applications': ['select (secret_hashes) on applications'],
    'read sessions, codes and visits to providers': [
      'select (payload) on oauth_records',
      'select (code_verifier) on sign_ins',
    ],
    'make sessions, codes and visits to providers': ['insert on oauth_records', 'update (user_id) on oauth_records', 'insert on sign_ins', 'update (nonce) on sign_ins'], // prettier-ignore
    'change consents of users': ['insert on consents', 'update (permissions) on consents'],
    'change identity providers': ['insert on application_providers', 'update on application_providers', 'insert on provider_issuers', 'update (issuer) on provider_issuers'], // prettier-ignore
    'read wrapped keys': ['select on wrapped_keys', 'select on wrapped_data_keys'],
    'make sponsors': ['insert on sponsors', 'update on sponsors'],
    'read or change the operators of the console': [
      'select (role) on operators',
      'insert on operators',
      'update (role) on operators',
    ],
    'add ways to sign in': [
      'insert on identities',
      'insert (subject) on identities',
      'update (account_id) on identities',
    ],
    'add or move accounts': ['insert on accounts', 'insert (address) on accounts', 'update (address) on accounts'],
    'lift a freeze': ['update (frozen_at) on accounts', 'update (unfrozen_at) on accounts'],
    'undo revocations': ['delete on revoked_grants', 'update (suspended_at) on applications'],
  }
  try {
    await sql.raw(`create role ${role}`).execute(db)
    await sql.raw(`grant usage on schema public to ${role}`).execute(db)
    assert.equal(await problemOfRole(), null)
    for (const [problem, grants] of Object.entries(each))
      for (const grant of grants) {
        await sql.raw(`grant ${grant} to ${role}`).execute(db)
        assert.equal(await problemOfRole(), problem, grant)
        await sql.raw(`revoke ${grant} from ${role}`).execute(db)
      }
    await assert.rejects(assertNarrow(db), (error: Error) => {
      assert.equal(
        /can (.*): the API needs/.exec(error.message)![1],
        Object.keys(each).join(', '),
        'the owner can all of it',
      )
      return true
    })
  } finally {
    await sql.raw(`drop owned by ${role}`).execute(db)
    await sql.raw(`drop role ${role}`).execute(db)
    await close()
  }
})
