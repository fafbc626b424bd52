import { createHash } from 'node:crypto'

/** A static file of the pages. Its URL contains its content hash, so a cached copy never expires. */
export type StaticAsset = { route: string; path: string; type: string; content: string | Buffer }

export function asset(route: string, type: string, content: string | Buffer): StaticAsset {
  const hash = createHash('sha256').update(content).digest('base64url').slice(0, 12)
  return { route, path: `${route}?v=${hash}`, type, content }
}
