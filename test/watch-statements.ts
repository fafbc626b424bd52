import { mapDatabaseError, type RootDb } from '../src/store/db.ts'

/** What is done before a statement is sent, and after it was answered; each is given its text, and may throw what a database throws. */
export type Watch = {
  onStatement: (statement: string) => void
  onAnswer: (statement: string) => Promise<void>
  /** a database whose statements are watched */
  over: (db: RootDb) => RootDb
  /** nothing is done any more */
  rest: () => void
}

export function watchStatements(): Watch {
  const nothing = { onStatement: () => {}, onAnswer: async () => {} }
  const watch: Watch = {
    ...nothing,
    rest: () => void Object.assign(watch, nothing),
    over: (db) => {
      const sent = new WeakMap<object, string>()
      return db.withPlugin({
        transformQuery: ({ node, queryId }) => {
          const { sql } = db.getExecutor().compileQuery(node, queryId)
          sent.set(queryId, sql)
          try {
            watch.onStatement(sql)
          } catch (error) {
            throw mapDatabaseError(error)
          }
          return node
        },
        transformResult: async ({ result, queryId }) => {
          await watch.onAnswer(sent.get(queryId)!).catch((error: unknown) => {
            throw mapDatabaseError(error)
          })
          return result
        },
      })
    },
  }
  return watch
}
