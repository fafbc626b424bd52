/** Returns a webhook's URL for readers who may not see its query, which often has a token. */
export function withoutQuery(url: string): string {
  const at = url.indexOf('?')
  return at === -1 ? url : `${url.slice(0, at)}?…`
}
