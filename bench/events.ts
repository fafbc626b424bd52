/**
 * `npm run bench:events [-- --seconds=4 --rounds=3 --facts=100000]`: what the feed of events costs a write, how fast facts get into
 * feeds, and how late. Writes with their facts against the same writes with the triggers disabled, in turns, in one run. On a
 * throw-away PostgreSQL, or on the cluster of TEST_DATABASE_URL. Prints figures, writes nothing.
 */
import { parseArgs } from 'node:util'
import { sql } from 'kysely'
import { sequence } from '../src/events/sequence.ts'
import { openPostgres } from '../src/store/db.ts'
import { addressOfUser, fund } from './fund.ts'
import { load } from './load.ts'
import { startNode, startProgram } from './place.ts'
import { openStage } from './stage.ts'

const { values: flags } = parseArgs({
  options: {
    seconds: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '3' },
    facts: { type: 'string', default: '100000' },
  },
})
const ACCOUNTS = 100
const CONNECTIONS = 32
const TRIGGERS = [
  ['transactions', 'transactions_stored'],
  ['transactions', 'transactions_moved'],
] as const

const stage = await openStage()
try {
  const node = stage.begun(await startNode({ flags: ['--gas-limit', '300000000'] }))
  const { erc20 } = node.contracts
  const program = stage.begun(await startProgram(node.url, { settings: { MAX_PENDING_WRITES: '1000000' } }))
  if (program.databaseUrl === null) throw new Error('this bench needs PostgreSQL')
  const people = await program.people(Array.from({ length: ACCOUNTS }, (_, index) => `bench-${index}`))
  await fund(
    node.url,
    erc20,
    await Promise.all(people.map(({ userId, token }) => addressOfUser(program.url, userId, token))),
  )
  const db = await openPostgres({
    url: program.databaseUrl,
    pool: 4,
    prepares: true,
    pooler: 'none',
    deadlineMs: 600_000,
    onError: () => {},
  })
  stage.begun({ end: () => db.destroy() })

  let numbers = 0
  const write = async (seconds: number): Promise<number> => {
    const { rate, failures } = await load(
      program.url,
      { connections: CONNECTIONS, seconds },
      () => {
        const number = numbers++
        const body = JSON.stringify({ address: erc20, abi: 'transfer(address to, uint256 amount)', args: [`0x${'b0b'.padStart(40, '0')}`, String(number)] }) // prettier-ignore
        return {
          ...{ method: 'POST' as const, path: '/v1/contracts/method/write', body },
          headers: `authorization: Bearer ${people[number % ACCOUNTS]!.token}\r\n`,
        }
      },
      () => {},
    )
    if (failures > 0) throw new Error(`${failures} writes were refused`)
    await program.settled()
    return rate
  }
  const setTriggers = async (state: 'enable' | 'disable') => {
    for (const [table, trigger] of TRIGGERS)
      await sql.raw(`alter table ${table} ${state} trigger ${trigger}`).execute(db)
  }
  const rates: Record<'enable' | 'disable', number[]> = { enable: [], disable: [] }
  await write(1)
  for (let round = 0; round < Number(flags.rounds); round++)
    for (const state of round % 2 === 0 ? (['enable', 'disable'] as const) : (['disable', 'enable'] as const)) {
      await setTriggers(state)
      rates[state].push(await write(Number(flags.seconds)))
    }
  await setTriggers('enable')
  const mean = (list: number[]) => list.reduce((sum, one) => sum + one, 0) / list.length
  console.log(
    `writes, ${CONNECTIONS} connections: ${mean(rates.enable).toFixed(0)}/s with events, ${mean(rates.disable).toFixed(0)}/s without: ratio ${(mean(rates.enable) / mean(rates.disable)).toFixed(2)}`,
  )

  const { rows: lag } = await sql<{ p50: number; p99: number; n: number }>`
    select percentile_cont(0.5) within group (order by late) as p50, percentile_cont(0.99) within group (order by late) as p99, count(*)::int as n
    from (select seq / 1000.0 - extract(epoch from at) * 1000 as late from events where type = 'transaction.submitted') as lags`.execute(
    db,
  )
  console.log(
    `from the fact to its number: p50 ${Number(lag[0]!.p50).toFixed(0)} ms, p99 ${Number(lag[0]!.p99).toFixed(0)} ms, ${lag[0]!.n} events under this load`,
  )

  const facts = Number(flags.facts)
  await sql`insert into facts (kind, chain_id, client_id, subject, data)
    select 'write', 31337, 'demo', 'transaction:tx_' || n, jsonb_build_object('id', 'tx_' || n, 'state', 'SUBMITTED', 'hash', repeat('ab', 32), 'before', null,
      'steps', jsonb_build_array(jsonb_build_object('state', 'SUBMITTED', 'at', now()))) from generate_series(1, ${facts}::int) as n`.execute(
    db,
  )
  await sql`analyze facts`.execute(db)
  const copied = performance.now()
  await sql`create table copied as select 'demo' as client_id, seq, gen_random_uuid() as id, kind, subject, data, at from facts`.execute(
    db,
  )
  await sql`alter table copied add primary key (client_id, seq)`.execute(db)
  const copyMs = performance.now() - copied
  const started = performance.now()
  // The program moves facts as well: one of both works at a time.
  for (let left = true; left;) {
    await sequence(db)
    left = (await sql`select 1 from facts limit 1`.execute(db)).rows.length > 0
  }
  const ms = performance.now() - started
  console.log(
    `${facts} facts into a feed: ${((facts / ms) * 1_000).toFixed(0)}/s; the same rows copied by one statement: ${((facts / copyMs) * 1_000).toFixed(0)}/s`,
  )
} finally {
  await stage.end()
}
