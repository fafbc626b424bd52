import type { DatabaseSync } from 'node:sqlite'
import type { Logger } from '../../log.ts'
import { crashPoint } from '../crash.ts'
import type { RunGrouped } from '../group.ts'
import { KekUnavailable, type Kek } from '../kek/provider.ts'
import type { Keys } from './keys.ts'
import { Refusal, StartError } from '../refusal.ts'

/** The progress of `rotate-dek`, and the providers of the master keys that wrap the data keys. */
export type RotationState = {
  accounts: number
  /** user keys that a newer data key has not wrapped yet; 0 if there are none */
  left: number
  /** user keys of this run that did not open or gave another address; they remain unchanged */
  damaged: number
  dataKeys: number
  providers: string[]
  /** the next master key wraps the data keys already: nothing was done */
  isUnchanged?: true
}

/**
 * Wraps keys again while the signer signs. User keys get a new data key, in batches that are committed together with signatures.
 * Data keys get another master key, all in one commit. The store is readable at any moment, even if the process is killed. No
 * address changes: each is derived again from the opened key.
 */
export type Rotation = {
  /** starts a rotation or continues an unfinished one. When it returns, the newest version of the master key wraps every data key */
  rotateDek: () => Promise<RotationState>
  /** @throws bad_request  if no next master key is configured; signer_unavailable, with the reason, if it cannot be used */
  rotateKek: () => Promise<RotationState>
  state: () => RotationState
  /** resolves when no rotation is running */
  idle: () => Promise<void>
}

/** Keys per job: 13 ms that a signature may have to wait (docs/evidence/performance.md). */
const BATCH = 128
/** Runs after all signatures of its group. */
const LAST = Number.MAX_SAFE_INTEGER

/**
 * Opens the rotation, and continues one that a previous process left unfinished.
 * @param nextKek  opens the next master key; null if none is configured
 */
export function openRotation({
  db,
  keys,
  group,
  log,
  nextKek,
}: {
  db: DatabaseSync
  keys: Keys
  group: RunGrouped
  log: Logger
  nextKek: (() => Promise<Kek>) | null
}): Rotation {
  const { deks, pageBelow, move, countBelow } = keys.rotating
  const read = db.prepare('SELECT rewrap_below AS below FROM wrapping')
  const write = db.prepare('UPDATE wrapping SET rewrap_below = ?')
  const below = (): number | null => (read.get() as { below: number | null }).below
  let left = 0
  let damaged = 0
  let running: Promise<void> | null = null
  let asking: Promise<void> | null = null
  // A previous process ended during a rotation.
  if (below() !== null) run()

  return {
    async rotateDek() {
      // Concurrent callers share one start; two starts would move and count the same keys twice.
      asking ??= begin().finally(() => (asking = null))
      await asking
      return state()
    },
    async rotateKek() {
      if (nextKek === null) throw new Refusal('bad_request', 'The signer has no next master key. Nothing was rewrapped. Set SIGNER_KEK_NEXT or SIGNER_KEK_NEXT_FILE, then restart the signer. After any restart, the signer must find the key that opens its store.') // prettier-ignore
      const next = await usable(nextKek)
      if (await usable(() => deks.isBy(next))) return { ...state(), isUnchanged: true }
      for (let isDone = false; !isDone;) {
        const takeover = await usable(() => deks.wrapBy(next))
        isDone = await group(LAST, () => takeOver(takeover))
      }
      crashPoint('rotation.wrapped')
      log.warn('master_key_rotated', { provider: next.provider, dataKeys: deks.rows().length })
      return state()
    },
    state,
    idle: async () => running ?? undefined,
  }

  /** Starts a rotation, or continues an unfinished one. */
  async function begin(): Promise<void> {
    const isContinuing = running !== null
    // Wraps the existing data keys by the newest version of the master key as well, so that older versions can be disabled. This
    // includes data keys of a rotation that began before the last start.
    for (let isDone = false; !isDone;) {
      const renewal = await usable(() => deks.wrapByNewest())
      isDone = renewal === null || (await group(LAST, () => takeOver(renewal)))
    }
    if (isContinuing) return
    for (let isBegun = false; !isBegun;) {
      await usable(() => deks.prepare('always'))
      isBegun = await group(LAST, () => {
        if (below() !== null) return true
        const epoch = deks.begin()
        if (epoch !== null) write.run(epoch)
        return epoch !== null
      })
    }
    crashPoint('rotation.begun')
    run()
  }

  /** Applies a takeover; inside a transaction. */
  function takeOver(takeover: Awaited<ReturnType<typeof deks.wrapBy>>): boolean {
    if (!deks.takeOver(takeover)) return false
    keys.nextGeneration()
    crashPoint('rotation.wrapping')
    return true
  }

  function state(): RotationState {
    const rows = deks.rows()
    const providers = [...new Set(rows.map(({ provider }) => provider))]
    return { accounts: keys.count(), left, damaged, dataKeys: rows.length, providers }
  }

  function run(): void {
    damaged = 0
    left = countBelow(below()!)
    log.info('data_keys_rotating', { left })
    running = moveAll(below()!)
      .then(
        () => log.warn('data_keys_rotated', { damaged }),
        // Errors of the store end the process in the group.
        (error: unknown) => log.error('rotation_failed', {}, error),
      )
      .finally(() => (running = null))
  }

  async function moveAll(epoch: number): Promise<void> {
    for (let after = 0; ;) {
      // If the master key is unavailable, the newest data key wraps more keys than its limit.
      await deks.prepare().catch(unlessUnavailable)
      const { count, through } = await group(LAST, () => moveSome(epoch, after))
      if (count === 0) break
      left -= count
      after = through
    }
    crashPoint('rotation.moved')
    await group(LAST, () => {
      write.run(null)
      keys.nextGeneration()
    })
    left = 0
  }

  function moveSome(epoch: number, after: number): { count: number; through: number } {
    const { accounts, through } = pageBelow(epoch, after, BATCH)
    for (const error of move(accounts)) {
      damaged += 1
      log.error('key_damaged', { during: 'rotation' }, error)
    }
    if (accounts.length > 0) crashPoint('rotation.moving')
    return { count: accounts.length, through }
  }
}

/** Ignores the error that the master key is unavailable, and throws any other. */
export function unlessUnavailable(error: unknown): void {
  if (!(error instanceof KekUnavailable)) throw error
}

/** Converts a StartError of the master key into a refusal, because the program is already running. */
async function usable<T>(use: () => Promise<T>): Promise<T> {
  try {
    return await use()
  } catch (error) {
    if (error instanceof StartError) throw new Refusal('signer_unavailable', error.message)
    throw error
  }
}
