import { createHash } from 'node:crypto'

/** A static file of the pages. Its URL contains its content hash, so a cached copy never expires. */
export type StaticAsset = { route: string; path: string; type: string; content: string | Buffer }

/** Creates a static file. `path` is its route with the first 12 characters of the content's SHA-256. */
export function asset(route: string, type: string, content: string | Buffer): StaticAsset {
  const hash = createHash('sha256').update(content).digest('base64url').slice(0, 12)
  return { route, path: `${route}?v=${hash}`, type, content }
}
