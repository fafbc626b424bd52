import type { DatabaseSync } from 'node:sqlite'
import { crashPoint } from './crash.ts'
import { isSqliteError } from './store.ts'

/**
 * Commits the writes of many requests together. A job runs alone, inside the open transaction, and sees what the
 * jobs before it wrote; its caller hears of it only after the commit is on the disk. A commit blocks this process,
 * so whatever arrives meanwhile waits in the socket and becomes the next group.
 *
 * A job does its checks first and its writes last: what it throws itself refuses that job alone. An error of the
 * database or of the witness ends the process through `fatal`: what is on the disk is then unknown, and only opening
 * the store again can tell.
 */
export type RunGrouped = <T>(order: number, job: () => T) => Promise<T>

type PendingJob = {
  order: number
  job: () => unknown
  resolve: (value: unknown) => void
  reject: (error: unknown) => void
}

/** Jobs per transaction: bounds how long one group keeps the others waiting (about 25 ms of signatures). */
const MAX_JOBS = 128

export function openGroup({
  db,
  committing = () => {},
  committed,
  fatal,
}: {
  db: DatabaseSync
  /** called before each commit, in its transaction: for what the jobs of a group write together */
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
      // A freeze waits behind nobody: under load the queue is thousands of signatures long.
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
    // Lower nonces first: requests that overtook each other on the way are no gap.
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
