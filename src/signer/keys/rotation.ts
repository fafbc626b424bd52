import type { DatabaseSync } from 'node:sqlite'
import type { Logger } from '../../log.ts'
import { crashPoint } from '../crash.ts'
import type { RunGrouped } from '../group.ts'
import { KekUnavailable, type Kek } from '../kek/provider.ts'
import type { Keys } from './keys.ts'
import { Refusal, StartError } from '../refusal.ts'

/** How far `rotate-dek` is, and what wraps the data keys. */
export type RotationState = {
  accounts: number
  /** keys that are still to be wrapped by a newer data key; 0 when none are */
  left: number
  /** keys of this run that did not open, or gave another address: they stay as they are */
  damaged: number
  dataKeys: number
  providers: string[]
  /** the next master key wraps them already: nothing was done */
  isUnchanged?: true
}

/**
 * Wraps keys anew while the signer signs: user keys by new data keys, in batches that are committed with the signatures of the
 * moment; data keys by another master key, all in one commit. What is in the store opens at any moment, whenever the process
 * is killed. No address changes: each is derived again from the key that was opened.
 */
export type Rotation = {
  /** Begins, or continues what was begun. Once it answers, the newest version of the master key wraps every data key, in either case. */
  rotateDek: () => Promise<RotationState>
  /** @throws bad_request  where there is no next master key; signer_unavailable, with the reason, where it cannot be used */
  rotateKek: () => Promise<RotationState>
  state: () => RotationState
  /** resolves when nothing is being wrapped anew */
  idle: () => Promise<void>
}

/** Keys in one job: 13 ms that a signature may wait for (docs/evidence/performance.md). */
const BATCH = 128
/** After all signatures of its group. */
const LAST = Number.MAX_SAFE_INTEGER

/** @param nextKek  opens the master key that takes over; null where none is set */
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
  // A process before this one was ended in the middle.
  if (below() !== null) run()

  return {
    async rotateDek() {
      // Who asks meanwhile waits for the same beginning: two would move, and count, the same keys.
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

  /** Where another rotation is not finished, that one continues. */
  async function begin(): Promise<void> {
    const isContinuing = running !== null
    // Data keys that stay are wrapped anew as well, those of a rotation from before a start too, so that older versions of a
    // master key can be switched off.
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

  /** Inside a transaction. */
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
        // What the store says of itself ends the process, by the group.
        (error: unknown) => log.error('rotation_failed', {}, error),
      )
      .finally(() => (running = null))
  }

  async function moveAll(epoch: number): Promise<void> {
    for (let after = 0; ;) {
      // Without the master key the newest data key takes more keys than it would.
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

export function unlessUnavailable(error: unknown): void {
  if (!(error instanceof KekUnavailable)) throw error
}

/** What a master key says at the start of the program is a refusal while it runs. */
async function usable<T>(use: () => Promise<T>): Promise<T> {
  try {
    return await use()
  } catch (error) {
    if (error instanceof StartError) throw new Refusal('signer_unavailable', error.message)
    throw error
  }
}
