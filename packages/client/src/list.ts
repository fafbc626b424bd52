import type { CallOptions } from './request.ts'

/** A page of a list. `next` is the cursor of the next page; null on the last page. */
export type Page<T, Facts = object> = { items: T[]; next: string | null } & Facts

/** A list. `for await` reads all entries, page by page; `page` reads one page. */
export type List<T, Facts = object> = AsyncIterable<T> & {
  page(options?: CallOptions & { cursor?: string | null }): Promise<Page<T, Facts>>
}

type ReadPage<T> = (cursor: string | null | undefined, options: CallOptions) => Promise<{ body: T[]; headers: Headers }>

/** Creates a list. @param facts  reads the facts about a page from its headers */
export function openList<T, Facts = object>(read: ReadPage<T>, facts?: (headers: Headers) => Facts): List<T, Facts> {
  async function page({ cursor, signal }: CallOptions & { cursor?: string | null } = {}): Promise<Page<T, Facts>> {
    const { body, headers } = await read(cursor, { signal })
    return { items: body, next: headers.get('x-next-cursor'), ...(facts?.(headers) as Facts) }
  }
  return {
    page,
    async *[Symbol.asyncIterator]() {
      let cursor: string | null = null
      do {
        const { items, next }: Page<T, Facts> = await page({ cursor })
        yield* items
        cursor = next
      } while (cursor !== null)
    },
  }
}
