import type { App } from '../app.ts'
import { textsIn } from '../store/column-values.ts'
import { isOriginAllowed } from './registry.ts'
import { slot } from '../state.ts'

const CACHE_MS = 5_000
const known = slot(
  'origins of all applications',
  (_app: Pick<App, 'clock' | 'db' | 'state'>): { origins: string[]; readAt: number } => ({
    origins: [],
    readAt: Number.NEGATIVE_INFINITY,
  }),
)

/**
 * Returns whether pages of an origin may call the API. No cookie opens the API, so the origins of all applications form
 * one list; the token decides what a page may do.
 */
export async function allowsOrigin(app: Pick<App, 'clock' | 'db' | 'state'>, origin: string): Promise<boolean> {
  const list = known.of(app)
  if (app.clock.wall() - list.readAt >= CACHE_MS) {
    const rows = await app.db
      .selectFrom('applications')
      .select('allowed_origins')
      .where('suspended_at', 'is', null)
      .execute()
    Object.assign(list, {
      origins: [...new Set(rows.flatMap((row) => textsIn(row.allowed_origins)))],
      readAt: app.clock.wall(),
    })
  }
  return isOriginAllowed({ allowedOrigins: list.origins }, origin)
}
