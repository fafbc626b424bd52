import type { DatabaseSync } from 'node:sqlite'
import { opensAny } from './deks.ts'
import { openKek } from '../kek/open.ts'
import { KekUnavailable, type Kek, type KekSetting } from '../kek/provider.ts'

/** Where the master key is, and where the one is that `rotate-kek` goes over to. */
export type KekSettings = { kek: KekSetting; kekNext: KekSetting | undefined }

/**
 * The master key that opens a store: after `rotate-kek` the next one, until the settings say so. Where the store names its
 * provider and only one of the two has it, the other is not asked: a token counts its wrong PINs.
 * @throws StartError  when it cannot be used
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
    // Of two of one kind one is away: the other may be the one.
    const current = await openKek(kek)
    if (await opensAny(db, current)) return current
    throw error
  }
}

/** Of the two the one that does not open the store; null where there is none. @throws StartError */
export async function openOtherKek(db: DatabaseSync, { kek, kekNext }: KekSettings): Promise<Kek | null> {
  const next = kekNext === undefined ? null : await openKek(kekNext, 'if there')
  return next !== null && (await opensAny(db, next)) ? openKek(kek) : next
}
