import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { sql } from 'kysely'
import { openBrowser } from '../../test/kit/browser.ts'
import { watchReads } from '../../test/looked-at.ts'
import { addressOf, rehearse, type Rehearsal } from '../../test/rehearsal.ts'
import { fromHex } from '../hex.ts'
import { accountIdOf } from '../ids.ts'
import { putOperator } from '../operator/operators.ts'
import { listOfAccount, listPayments } from '../transactions/read/list-own.ts'

/** Rows of each table. One user has all transactions, and one application has all users. */
const ROWS = 3_000
/** Rows and index entries that one statement of a page may look at: its rows, and those of a few joins. */
const PAGE = 300
const owner = { accountId: accountIdOf('DEV', 'whale'), chainId: 31_337, address: addressOf('DEV-whale') }
const id = (at: number): string => `tx_${String(at).padStart(10, '0')}`

suite('what a page reads does not grow with the rows', () => {
  let world: Rehearsal
  let watched: ReturnType<typeof watchReads>
  let browser: ReturnType<typeof openBrowser>
  before(async () => {
    world = await rehearse({ env: { RATE_LIMITS: 'off' }, slow: (db) => (watched = watchReads(db)).db })
    await openBrowser(world.origin).signIn('/account', 'whale')
    await putOperator(world.app, { userId: 'DEV-opal', role: 'owner' })
    browser = openBrowser(world.origin)
    await browser.signIn('/console', 'opal')
    await fill(world)
  })
  after(() => world.close())

  const PAGES: [what: string, path: string, most?: number][] = [
    ['the overview, which counts a thousand stopped accounts', '/console', 1_100],
    ['a transaction by its id', `/console/search?q=${id(1_000)}`],
    ['a transaction by its hash', `/console/search?q=0x${(1_000).toString(16).padStart(64, '0')}`],
    ['a user by id', '/console/search?q=DEV-user1000'],
    ['a name that all begin with', '/console/search?q=user', 5_100],
    ['a name that nobody has', '/console/search?q=nobody'],
    ['a transaction', `/console/transactions/${id(1_000)}`],
    ['an open transaction behind all others', `/console/transactions/${id(ROWS)}`],
    ['a user', '/console/users/DEV-user1000'],
    ['the user of all transactions', '/console/users/DEV-whale'],
    ['applications', '/console/applications'],
    ['the application of all users', '/console/applications/demo'],
    ['audit log', '/console/audit'],
    ['audit log, in the middle', `/console/audit?before=${ROWS / 2}`],
  ]
  for (const [what, path, most = PAGE] of PAGES)
    test(what, async () => {
      const reads = await watched.reads(async () => assert.equal((await browser.go(path)).status, 200))
      assert.ok(reads.length > 0)
      for (const { statement, looked } of reads) assert.ok(looked <= most, `${looked} rows: ${statement}`)
    })

  const bounded = async (work: () => Promise<{ entries: object[] }>, found: number): Promise<void> => {
    const reads = await watched.reads(async () => assert.equal((await work()).entries.length, found))
    for (const { statement, looked } of reads) assert.ok(looked <= PAGE, `${looked} rows: ${statement}`)
  }
  test('writes of an application that sent few of them', () =>
    bounded(() => listOfAccount(world.app, owner, { limit: 25, clientId: 'rare' }), 3))
  test('payments of an account that paid seldom', () =>
    bounded(() => listPayments(world.app, owner, { limit: 25, direction: 'out' }), 3))
})

async function fill({ app: { db } }: Rehearsal): Promise<void> {
  const each = sql`generate_series(1, ${ROWS}::int) as i`
  const account = sql`lpad(to_hex(i), 32, '0')::uuid`
  const at = sql`timestamptz '2026-01-01' + i * interval '1 second'`
  const address = sql`substr(sha256(('DEV-user' || i)::bytea), 1, 20)`
  const whale = fromHex(owner.address)
  for (const statement of [
    sql`insert into networks (chain_id, name, genesis_hash) values (31337, 'devnet', ${Buffer.alloc(32)})`,
    sql`insert into accounts (account_id, user_id, address, created_at, attestation)
      select ${account}, 'DEV-user' || i, ${address}, ${at}, decode(repeat('00', 64), 'hex') from ${each}`,
    sql`insert into identities (provider, subject, account_id, username, email, created_at)
      select 'DEV', 'user' || i, ${account}, 'user' || i, 'user' || i || '@example.com', ${at} from ${each}`,
    sql`insert into application_users (client_id, account_id, created_at) select 'demo', ${account}, ${at} from ${each}`,
    sql`insert into transactions (id, account_id, client_id, chain_id, sender, nonce, target, value, data, abi, gas_limit, max_fee, state, hash, block_number, transitions, created_at)
      select 'tx_' || lpad(i::text, 10, '0'), ${owner.accountId}::uuid, case when i in (5, 6, 7) then 'rare' else 'demo' end, 31337, ${whale}::bytea, i,
        decode(repeat('aa', 20), 'hex'), decode(lpad(case when i % 500 = 0 then '1' else '0' end, 64, '0'), 'hex'), decode('a9059cbb', 'hex'), '', 60000,
        decode(repeat('00', 32), 'hex'), case when i = ${ROWS} or i > 1000 and i <= 2000 then 'SUBMITTED' else 'MINED' end,
        decode(lpad(to_hex(i), 64, '0'), 'hex'), i, '[]', ${at} from ${each}`,
    sql`insert into attempts (chain_id, hash, transaction_id, gas_limit, max_fee, created_at)
      select 31337, hash, id, gas_limit, max_fee, created_at from transactions`,
    sql`insert into stopped_lanes (chain_id, sender, nonce, reason, created_at) select 31337, ${address}, 1, 'foreign transaction', ${at} from ${each}`,
    sql`insert into operator_actions (seq, at, actor, via, action, target, record)
      select i, ${at}, 'DEV-opal', 'console', 'freeze', 'DEV-user' || i, decode(repeat('00', 32), 'hex') from ${each}`,
    sql`analyze`,
  ])
    await statement.execute(db)
}
