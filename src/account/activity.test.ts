import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { ShownTransfer } from '../oauth/account/slices.ts'
import { mergeLists } from './activity.ts'

type Listed = { at: number; isShown: boolean }

/** A list that is read page by page from an array; a cursor is the index of the next entry. */
const listOf = (list: number, all: Listed[]) => ({
  read: async ({ limit, cursor }: { limit: number; cursor?: string }) => {
    const start = Number(cursor ?? 0)
    const page = all.slice(start, start + limit)
    return {
      entries: page.map(({ at, isShown }, index) => ({
        at: new Date(at),
        sent: null,
        transfers: [{ other: `${list} ${start + index}`, tokenId: isShown ? 'shown' : null } as ShownTransfer],
      })),
      cursors: page.map((_, index) => String(start + index + 1)),
      nextCursor: start + limit < all.length ? String(start + limit) : null,
    }
  },
  isShown: async (entries: ShownTransfer[]) => entries.map(({ tokenId }) => tokenId === 'shown'),
})

const Lists = fc.array(
  fc
    .array(fc.record({ at: fc.nat({ max: 50 }), isShown: fc.nat({ max: 6 }).map((one) => one === 0) }), {
      maxLength: 40,
      size: 'max',
    })
    .map((all) => all.toSorted((one, other) => other.at - one.at)),
  { minLength: 1, maxLength: 3 },
)

test('merged lists have every shown entry once, newest first, at any page size', async () => {
  await fc.assert(
    fc.asyncProperty(Lists, fc.integer({ min: 1, max: 5 }), async (lists, limit) => {
      const seen: { name: string; at: number }[] = []
      let places = lists.map(() => '')
      for (let pages = 0; !places.every((place) => place === '.'); pages++) {
        assert.ok(pages < 200, 'the pages end')
        const page = await mergeLists(lists.map((all, list) => ({ ...listOf(list, all), from: places[list]! })), limit) // prettier-ignore
        assert.ok(page.entries.length <= limit)
        seen.push(...page.entries.map(({ at, transfers }) => ({ name: transfers[0]!.other, at: at.getTime() })))
        places = page.places
      }
      const all = lists.flatMap((some, list) => some.flatMap(({ isShown }, index) => (isShown ? [`${list} ${index}`] : []))) // prettier-ignore
      assert.deepEqual(seen.map(({ name }) => name).toSorted(), all.toSorted())
      for (const [index, { at }] of seen.entries()) if (index > 0) assert.ok(at <= seen[index - 1]!.at)
    }),
  )
})
