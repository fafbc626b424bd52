import assert from 'node:assert/strict'
import { RawNode, type KyselyPlugin } from 'kysely'
import type { Db } from '../src/store/db.ts'

type Plan = { 'Actual Loops': number; Plans?: Plan[] } & Record<string, unknown>

/**
 * Rows and index entries that the database looked at for a query. It is answered with plans instead of rows, so
 * it has to bear that it finds nothing.
 */
export async function lookedAt(db: Db, query: (db: Db) => Promise<unknown>): Promise<number> {
  let looked = 0
  const explain: KyselyPlugin = {
    transformQuery: ({ node }) => {
      assert.ok(RawNode.is(node))
      const [first, ...rest] = node.sqlFragments
      return { ...node, sqlFragments: [`explain (analyze, format json) ${first}`, ...rest] }
    },
    transformResult: async ({ result }) => {
      const [text] = Object.values(result.rows[0]!)
      looked += looksOf((typeof text === 'string' ? JSON.parse(text) : text)[0].Plan)
      return result
    },
  }
  await query(db.withPlugin(explain))
  return looked
}

function looksOf(plan: Plan): number {
  const seen = ['Actual Rows', 'Rows Removed by Filter', 'Rows Removed by Index Recheck']
    .map((key) => Number(plan[key] ?? 0))
    .reduce((sum, count) => sum + count, 0)
  const isScan = String(plan['Node Type']).includes('Scan')
  return (isScan ? seen * plan['Actual Loops'] : 0) + (plan.Plans ?? []).map(looksOf).reduce((a, b) => a + b, 0)
}
