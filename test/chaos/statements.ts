import type { ChildProcess } from 'node:child_process'
import { CompiledQuery, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import { handleOf, type RootDb } from '../../src/store/db.ts'

let lastQuestion = 0

/** A database that another process holds: the process runs each statement for us, by `answerStatements`. */
export function throughProcess(current: () => ChildProcess | null): RootDb {
  const ask = (text: string, parameters: readonly unknown[]) => {
    const child = current()
    if (child === null || !child.connected) return Promise.reject(new Error('nobody is there to be asked'))
    const id = ++lastQuestion
    const { promise, resolve, reject } = Promise.withResolvers<{ rows: never[] }>()
    const hear = (answer: { id: number; rows?: never[]; error?: string }) => {
      if (answer.id !== id) return
      end()
      if (answer.rows === undefined) reject(new Error(answer.error))
      else resolve({ rows: answer.rows })
    }
    const die = () => (end(), reject(new Error('whoever was asked has died')))
    const end = () => child.off('message', hear).off('exit', die)
    child.on('message', hear).on('exit', die)
    child.send({ id, text, parameters }, (error) => error !== null && die())
    return promise
  }
  const connection = {
    executeQuery: (query: { sql: string; parameters: readonly unknown[] }) => ask(query.sql, query.parameters),
    streamQuery: () => {
      throw new Error('not through another process')
    },
  }
  const nothing = async () => {}
  return handleOf({
    createAdapter: () => new PostgresAdapter(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
    createDriver: () => ({
      ...{ init: nothing, beginTransaction: nothing, commitTransaction: nothing, rollbackTransaction: nothing },
      ...{ acquireConnection: async () => connection, releaseConnection: nothing, destroy: nothing },
    }),
  })
}

/** Runs statements that arrive as messages for whoever sent them: the embedded database lets nobody else in. */
export function answerStatements(db: RootDb): void {
  process.on('message', ({ id, text, parameters }: { id: number; text: string; parameters: unknown[] }) => {
    db.executeQuery(CompiledQuery.raw(text, parameters)).then(
      ({ rows }) => process.send?.({ id, rows }),
      (error: unknown) => process.send?.({ id, error: String(error) }),
    )
  })
}
