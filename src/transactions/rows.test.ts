import { strict as assert } from 'node:assert'
import { readdir, readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { sql } from 'kysely'
import { testDatabase } from '../../test/kit/database.ts'
import type { Db } from '../store/db.ts'
import { OPERATION_MOVES, operationRows, TRANSACTION_MOVES, transactionRows } from './rows.ts'

type Moves = Record<string, Record<string, string | readonly string[]>>
const all: Record<'transactions' | 'operations', Moves> = {
  transactions: TRANSACTION_MOVES,
  operations: OPERATION_MOVES,
}
const STATES = ['BOUND', 'VACANT', 'SUBMITTED', 'MINED', 'FINALIZED', 'REVERTED', 'FAILED', 'REPLACED', 'CANCELLED']
const OTHER = sql.lit('OTHER')

/** Inserts a row in each state, named after the state. */
async function fill(db: Db): Promise<void> {
  const account = '00000000-0000-0000-0000-000000000001'
  await sql`insert into accounts (account_id, address, user_id) values (${account}, '\\x01', 'demo:rows')`.execute(db)
  for (const [at, state] of STATES.entries()) {
    await sql`insert into transactions (id, account_id, client_id, chain_id, sender, nonce, target, value, data, abi, gas_limit, max_fee, state, transitions)
      values (${state}, ${account}, '', 1, '\\x01', ${at}::bigint, '', '', '', '', 0, '', ${state}, '[]')`.execute(db)
    await sql`insert into operations (id, account_id, client_id, chain_id, sender, space, sequence, calls, abi, gas_limit, deadline, state, charged, hour)
      values (${state}, ${account}, '', 1, '\\x01', '', ${at}::bigint, '', '', 0, 0, ${state}, 0, now())`.execute(db)
  }
}

const statesOf = async (db: Db, table: 'transactions' | 'operations'): Promise<Record<string, string>> =>
  Object.fromEntries((await db.selectFrom(table).select(['id', 'state']).execute()).map(({ id, state }) => [id, state]))

class Undone extends Error {}

test('a change of a row happens in the states that its cause has, and leaves alone rows in all others', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  await fill(db)
  for (const [name, causes] of Object.entries(all)) {
    const table = name as keyof typeof all
    const rows = table === 'transactions' ? transactionRows : operationRows
    for (const [cause, { NONE: _made, ...moves }] of Object.entries(causes)) {
      const hasSeveral = Object.values(moves).some((to) => typeof to !== 'string')
      const expected = STATES.filter((state) => moves[state] !== 'NONE').map((state) => {
        const to = moves[state] ?? state
        return [state, hasSeveral && state in moves ? 'OTHER' : to]
      })
      const isDelete = Object.values(moves).includes('NONE')
      const changeBy = {
        query: (work: Db) =>
          (rows as typeof transactionRows)
            .update(work, cause as never)
            .set({ abi: 'changed' } as never)
            .execute(),
        text: async (work: Db) => {
          const change = {
            set: sql`abi = 'changed'`,
            where: sql`true or false`,
            ...(hasSeveral ? { state: OTHER } : {}),
          }
          await sql`${rows.updating(cause as never, change)}`.execute(work)
        },
        deletion: (work: Db) => rows.delete(work, cause as never).execute(),
      }
      // A cause with several ends names the one that follows, in a text.
      const ways = hasSeveral ? (['text'] as const) : isDelete ? (['deletion'] as const) : (['query', 'text'] as const)
      if (Object.keys(moves).length === 0) continue
      for (const way of ways) {
        const undone = db.transaction().execute(async (work) => {
          await changeBy[way](work)
          assert.deepEqual(await statesOf(work, table), Object.fromEntries(expected), `${table}: ${cause} by ${way}`)
          const changed = await work.selectFrom(table).select('id').where('abi', '=', 'changed').execute()
          const left = Object.keys(moves).filter((state) => moves[state] !== 'NONE')
          assert.deepEqual(changed.map(({ id }) => id).toSorted(), left.toSorted(), `${table}: ${cause} by ${way}`)
          throw new Undone()
        })
        await assert.rejects(undone, (error) => error instanceof Undone || assert.fail(error as Error))
      }
    }
  }
})

/** Causes by the states from which they may change, written by hand in the opposite direction of the table. */
const CAUSES: Record<keyof typeof all, Record<string, string>> = {
  transactions: {
    NONE: 'bind holdForeign holdSkipped reconcile',
    VACANT: 'bindToFill reconcile replace takeOver',
    BOUND: 'claim fail freeId part putOff reconcile replace storeFill storeFirst useToDelegate vacate',
    SUBMITTED: 'fail mine reconcile replace resend storeReplacement',
    MINED: 'finalize mine retract',
    REVERTED: 'explain finalize mine retract',
    CANCELLED: 'finalize mine retract',
    FINALIZED: 'mine retract',
    REPLACED: 'finalize mine reconcile replace retract',
    FAILED: 'mine reconcile retract',
  },
  operations: {
    NONE: 'bind reconcile',
    BOUND: 'claim expire giveBack link makeWay reconcile renumber unbind',
    SUBMITTED: 'askToCancel expire expireCancelled limitPacking link settle',
    MINED: 'count finalize retract settle',
    REVERTED: 'count finalize retract settle',
    CANCELLED: 'count finalize retract settle',
    FINALIZED: 'count retract settle',
    FAILED: 'count finalize makeWay retract settle',
  },
}

test('what has ended changes by what the chain shows, and bytes are stored for what has none', () => {
  for (const [name, causes] of Object.entries(all)) {
    const found: Record<string, string[]> = {}
    for (const [cause, moves] of Object.entries(causes))
      for (const from of Object.keys(moves)) (found[from] ??= []).push(cause)
    const texts = Object.entries(found).map(([from, some]) => [from, some.toSorted().join(' ')])
    assert.deepEqual(Object.fromEntries(texts), CAUSES[name as keyof typeof all])
  }
})

test('docs/reference/states.md has every change of a row, and no other', async () => {
  const page = await readFile(new URL('../../docs/reference/states.md', import.meta.url), 'utf8')
  const [before, operations] = page.split('\n## Operation states')
  const sections = { transactions: before!.split('\n## Account queue')[0]!, operations: operations!.split('\n## ')[0]! }
  // What a proven block corrects, and what an operator takes back, the page says in a sentence.
  const CORRECTED = ['MINED', 'REVERTED', 'CANCELLED', 'REPLACED', 'FINALIZED']
  const untold: Record<keyof typeof all, Record<string, string[]>> = {
    transactions: { mine: CORRECTED, retract: ['FINALIZED', 'FAILED'] },
    operations: { settle: [...CORRECTED, 'FAILED'], retract: ['FINALIZED'] },
  }
  for (const [name, causes] of Object.entries(all)) {
    const table = name as keyof typeof all
    const written = new Set<string>()
    for (const [cause, moves] of Object.entries(causes))
      for (const [from, ends] of Object.entries(moves))
        for (const to of [ends].flat()) {
          const isStep = cause === 'finalize' && table === 'transactions'
          if (untold[table][cause]?.includes(from) === true) continue
          if (from !== to || from === 'SUBMITTED') written.add(`${from} ${to}`)
          else if (isStep) written.add(`${from} FINALIZED`)
        }
    const told = new Set<string>()
    for (const [, froms, tos] of sections[table].matchAll(
      /^\| ((?:`[A-Z]+`(?:, )?)+|–) \| ((?:`[A-Z]+`(?:, )?)+|–) \|/gm,
    ))
      for (const from of froms!.split(', '))
        for (const to of tos!.split(', ')) told.add(`${from} ${to}`.replaceAll('`', '').replaceAll('–', 'NONE'))
    assert.deepEqual([...told].toSorted(), [...written].toSorted(), table)
  }
})

test('every change of the tables has a place that makes it', async () => {
  const folder = new URL('.', import.meta.url)
  const files = (await readdir(folder, { recursive: true })).filter((name) => /(?<!\.test)\.ts$/.test(name))
  const text = (await Promise.all(files.map((file) => readFile(new URL(file, folder), 'utf8')))).join('\n')
  for (const [name, causes] of [
    ['transactionRows', TRANSACTION_MOVES],
    ['operationRows', OPERATION_MOVES],
  ] as const)
    for (const cause of Object.keys(causes))
      assert.match(text, new RegExp(`\\b${name}\\s*\\.\\w+\\([^)]*?'${cause}'`), `${name}: ${cause}`)
})
