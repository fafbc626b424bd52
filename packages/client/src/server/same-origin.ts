import { headerOf, type Incoming } from './cookies.ts'

/** Header that only scripts of the application's own origin can send. Its value does not matter. */
export const OWN_HEADER = 'x-chatelaine'

/** Returns whether a page of the application's own origin made a request (Fetch Metadata; in older browsers by `Origin`). */
export function isSameOrigin(request: Incoming, publicOrigin: string): boolean {
  const site = headerOf(request, 'sec-fetch-site')
  return site === null ? headerOf(request, 'origin') === publicOrigin : site === 'same-origin'
}

/** Returns whether a user may have opened this as a page: no frame, image, script or preview. */
export function isOpened(request: Incoming): boolean {
  const dest = headerOf(request, 'sec-fetch-dest')
  return (dest === null || dest === 'document') && headerOf(request, 'sec-purpose') === null
}

/** Returns the address of a page of the application; its first page if `path` leads elsewhere. */
export function pageOf(path: string | null, publicOrigin: string): URL {
  const first = new URL(publicOrigin)
  // `https:shop` and `//host` are addresses too. A path such as `/.//host` is one only when it is cut out of its address.
  if (path === null || !/^\/(?![/\\])/.test(path) || !URL.canParse(path, first)) return first
  const url = new URL(path, first)
  return url.origin === first.origin ? url : first
}
