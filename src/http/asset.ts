import { createHash } from 'node:crypto'

/** A file of the pages: asked for by its content’s hash, so that a copy is good forever. */
export type StaticAsset = { route: string; path: string; type: string; content: string | Buffer }

export function asset(route: string, type: string, content: string | Buffer): StaticAsset {
  const hash = createHash('sha256').update(content).digest('base64url').slice(0, 12)
  return { route, path: `${route}?v=${hash}`, type, content }
}
