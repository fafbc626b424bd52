import { retrying, type RootDb } from '../store/db.ts'
import { isOriginAllowed } from './registry.ts'

const CACHE_MS = 5_000
const known = new WeakMap<RootDb, { origins: string[]; readAt: number }>()

/**
 * Whether pages of an origin may call the API. No cookie opens the API, so the origins of all applications count as
 * one list; what a page may do is decided by the token it holds.
 */
export async function allowsOrigin(db: RootDb, origin: string): Promise<boolean> {
  let list = known.get(db)
  if (list === undefined || Date.now() - list.readAt >= CACHE_MS) {
    const rows = await retrying(() =>
      db.selectFrom('applications').select('allowed_origins').where('suspended_at', 'is', null).execute(),
    )
    list = { origins: [...new Set(rows.flatMap((row) => row.allowed_origins))], readAt: Date.now() }
    known.set(db, list)
  }
  return isOriginAllowed({ allowedOrigins: list.origins }, origin)
}
