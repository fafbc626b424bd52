import assert from 'node:assert/strict'
import { CompiledQuery, RawNode, type KyselyPlugin } from 'kysely'
import type { Db, RootDb } from '../src/store/db.ts'

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
      looked += looksOf(planIn(result.rows[0]!))
      return result
    },
  }
  await query(db.withPlugin(explain))
  return looked
}

type Read = { statement: string; looked: number }

/** A database that collects its reads. `reads` does something and then explains each read that it made. */
export function watchReads(db: RootDb): { db: RootDb; reads: (work: () => Promise<unknown>) => Promise<Read[]> } {
  const sent: { sql: string; parameters: readonly unknown[] }[] = []
  const collect: KyselyPlugin = {
    transformQuery: ({ node, queryId }) => {
      const { sql, parameters } = db.getExecutor().compileQuery(node, queryId)
      if (/^\s*(\/\*.*\*\/)?\s*(select|with)\b/.test(sql)) sent.push({ sql, parameters })
      return node
    },
    transformResult: async ({ result }) => result,
  }
  return {
    db: db.withPlugin(collect),
    reads: async (work) => {
      sent.length = 0
      await work()
      const reads: Read[] = []
      for (const { sql, parameters } of sent.splice(0)) {
        const { rows } = await db.executeQuery(
          CompiledQuery.raw(`explain (analyze, format json) ${sql}`, [...parameters]),
        )
        reads.push({ statement: sql, looked: looksOf(planIn(rows[0] as object)) })
      }
      return reads
    },
  }
}

function planIn(row: object): Plan {
  const [text] = Object.values(row)
  return (typeof text === 'string' ? JSON.parse(text) : text)[0].Plan
}

function looksOf(plan: Plan): number {
  const seen = ['Actual Rows', 'Rows Removed by Filter', 'Rows Removed by Index Recheck']
    .map((key) => Number(plan[key] ?? 0))
    .reduce((sum, count) => sum + count, 0)
  const isScan = String(plan['Node Type']).includes('Scan')
  return (isScan ? seen * plan['Actual Loops'] : 0) + (plan.Plans ?? []).map(looksOf).reduce((a, b) => a + b, 0)
}
