import type { DatabaseSync } from 'node:sqlite'
import { opensAny } from './deks.ts'
import { openKek } from '../kek/open.ts'
import { KekUnavailable, type Kek, type KekSetting } from '../kek/provider.ts'

/** The locations of the master key, and of the one that `rotate-kek` changes to. */
export type KekSettings = { kek: KekSetting; kekNext: KekSetting | undefined }

/**
 * Opens the master key that opens a store. After `rotate-kek` that is the next one, until the settings are updated. If only one of
 * the two has the provider that the store names, the other is not tried, because a token counts wrong PINs.
 * @throws StartError  if it cannot be used
 */
export async function openKekOf(db: DatabaseSync, { kek, kekNext }: KekSettings): Promise<Kek> {
  const row = db.prepare('SELECT provider FROM deks ORDER BY epoch LIMIT 1').get() as { provider: string } | undefined
  if (row === undefined || kekNext === undefined || kekNext.provider !== row.provider) return openKek(kek)
  if (kek.provider !== row.provider) return openKek(kekNext)
  try {
    const next = await openKek(kekNext, 'if there')
    return next !== null && (await opensAny(db, next)) ? next : await openKek(kek)
  } catch (error) {
    if (!(error instanceof KekUnavailable)) throw error
    // Both have the same provider and the next one is unavailable, so the current one may be the right one.
    const current = await openKek(kek)
    if (await opensAny(db, current)) return current
    throw error
  }
}

/** Opens the configured master key that does not open the store; null if there is none. @throws StartError */
export async function openOtherKek(db: DatabaseSync, { kek, kekNext }: KekSettings): Promise<Kek | null> {
  const next = kekNext === undefined ? null : await openKek(kekNext, 'if there')
  return next !== null && (await opensAny(db, next)) ? openKek(kek) : next
}
