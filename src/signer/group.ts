import type { DatabaseSync } from 'node:sqlite'
import { crashPoint } from './crash.ts'
import { isSqliteError } from './store.ts'

/**
 * Commits the writes of many requests together. A job runs alone inside the open transaction and sees the writes of the jobs before
 * it. Its caller gets the result only after the commit is on disk. A commit blocks this process, so requests that arrive during it
 * wait in the socket and form the next group.
 *
 * A job makes its checks first and its writes last: an error that it throws rejects that job only. An error of the database or the
 * witness ends the process through `fatal`. The state on disk is then unknown until the store is opened again.
 */
export type RunGrouped = <T>(order: number, job: () => T) => Promise<T>

type PendingJob = {
  order: number
  job: () => unknown
  resolve: (value: unknown) => void
  reject: (error: unknown) => void
}

/** Jobs per transaction: limits how long one group delays the others (about 25 ms of signatures). */
const MAX_JOBS = 128

/** Opens the group: commits waiting jobs together, at most MAX_JOBS per transaction, in ascending order. */
export function openGroup({
  db,
  committing = () => {},
  committed,
  fatal,
}: {
  db: DatabaseSync
  /** called before each commit, in its transaction: for writes that the jobs of a group share */
  committing?: () => void
  /** called after each commit, before its answers */
  committed: () => void
  fatal: (error: unknown) => void
}): RunGrouped {
  const begin = db.prepare('BEGIN IMMEDIATE')
  const commit = db.prepare('COMMIT')
  const queue: PendingJob[] = []
  let isPlanned = false
  let hasFailed = false

  return (order, job) =>
    new Promise((resolve, reject) => {
      const waiting = { order, job, resolve: resolve as (value: unknown) => void, reject }
      // A freeze goes first: under load the queue is thousands of signatures long.
      if (order < -1) queue.unshift(waiting)
      else queue.push(waiting)
      plan()
    })

  function plan(): void {
    if (isPlanned || hasFailed) return
    isPlanned = true
    setImmediate(run)
  }

  function run(): void {
    isPlanned = false
    try {
      for (const settle of runTogether(queue.splice(0, MAX_JOBS))) settle()
    } catch (error) {
      hasFailed = true
      fatal(error)
      return
    }
    if (queue.length > 0) plan()
  }

  function runTogether(jobs: PendingJob[]): (() => void)[] {
    begin.run()
    // Run lower nonces first, so that requests that overtook each other on the way leave no gap.
    const settled = jobs.toSorted((a, b) => a.order - b.order).map(runOne)
    committing()
    crashPoint('signer.before-commit')
    commit.run()
    crashPoint('signer.after-commit')
    committed()
    crashPoint('signer.after-witness')
    return settled
  }
}

function runOne({ job, resolve, reject }: PendingJob): () => void {
  try {
    const value = job()
    return () => resolve(value)
  } catch (error) {
    if (isSqliteError(error)) throw error
    return () => reject(error)
  }
}
