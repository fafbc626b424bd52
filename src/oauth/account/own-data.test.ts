import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ProvenUser } from '../../users/find.ts'
import type { NativeRecord, ShownTransfer, SentTransaction } from './slices.ts'
import { ownDataText } from './own-data.ts'

type Slices = Parameters<typeof ownDataText>[0]

/** Lists of any length, a page at a time. */
function listing<T>(count: number, make: (index: number) => T) {
  return async (
    _owner: unknown,
    _chainId: number,
    { limit, cursor }: { limit: number; cursor?: string | undefined },
  ) => {
    const from = Number(cursor ?? 0)
    const entries = Array.from({ length: Math.min(limit, count - from) }, (_, index) => make(from + index))
    const next = from + entries.length
    return { entries, nextCursor: next < count ? String(next) : null }
  }
}

const amount = { value: 2n ** 200n, decimals: 18, symbol: 'ETH' }

test('what somebody takes along is whole, however much it is, and is JSON', async () => {
  for (const count of [0, 1, 25, 26, 50, 51, 140]) {
    const transfer = (index: number) => ({ explorerUrl: `/tx/${index}`, amount }) as ShownTransfer
    const slices = {
      readSent: listing(count, (index) => ({ id: `tx_${index}`, value: amount, fee: null }) as SentTransaction),
      readMessages: listing(count, (index) => ({ id: `sig_${index}` })),
      readApprovals: listing(count, (index) => ({ id: `apr_${index}`, accountId: 'hidden' })),
      readTransfers: listing(count, transfer),
      readNativeTransfers: listing(count, transfer),
      readNativeEntries: async (...asked: Parameters<ReturnType<typeof listing>>) => ({
        ...(await listing(count, (index) => ({ kind: 'FEE', hash: `0x${index}`, amount }) as NativeRecord)(...asked)),
        coverage: { from: 7, internalFrom: null },
      }),
    } as unknown as Slices
    const networks = [1, 2].map((chainId) => ({ chainId, network: `network ${chainId}` }))
    let text = ''
    for await (const piece of ownDataText(slices, {} as ProvenUser, { user: 'Nell' }, networks)) text += piece
    const { user, networks: told } = JSON.parse(text)
    assert.equal(user, 'Nell')
    assert.deepEqual(told.map(({ chainId }: { chainId: number }) => chainId), [1, 2]) // prettier-ignore
    for (const { transactions, messages, approvals, transfers, payments, native, nativeCoverage } of told) {
      const ids = (prefix: string) => Array.from({ length: count }, (_, index) => ({ id: `${prefix}_${index}` }))
      assert.deepEqual([messages, approvals], [ids('sig'), ids('apr')])
      assert.deepEqual(nativeCoverage, { from: 7, internalFrom: null })
      assert.equal(native.length, count)
      for (const [index, one] of native.entries())
        assert.deepEqual(one, { kind: 'FEE', hash: `0x${index}`, amount: { value: String(2n ** 200n), decimals: 18, symbol: 'ETH' } }) // prettier-ignore
      assert.deepEqual(transactions.map(({ id }: { id: string }) => id), Array.from({ length: count }, (_, index) => `tx_${index}`)) // prettier-ignore
      for (const list of [transfers, payments]) {
        assert.equal(list.length, count)
        for (const [index, one] of list.entries()) {
          assert.equal(one.explorerUrl, `/tx/${index}`)
          assert.deepEqual(one.amount, { value: String(2n ** 200n), decimals: 18, symbol: 'ETH' })
        }
      }
    }
  }
})

test('a page that has nothing in the middle of a list, or at its end, leaves it JSON', async () => {
  const pages = [[1, 2], [], [3], []]
  const paged = async (
    _owner: unknown,
    _chainId: number,
    { cursor }: { limit: number; cursor?: string | undefined },
  ) => {
    const at = Number(cursor ?? 0)
    const entries = pages[at]!.map((index) => ({ explorerUrl: `/tx/${index}`, amount }) as ShownTransfer)
    return { entries, nextCursor: at + 1 < pages.length ? String(at + 1) : null }
  }
  const none = async () => ({ entries: [], nextCursor: null, coverage: { from: null, internalFrom: null } })
  const slices = { readSent: none, readMessages: none, readApprovals: none, readTransfers: none, readNativeTransfers: paged, readNativeEntries: none } as unknown as Slices // prettier-ignore
  let text = ''
  for await (const piece of ownDataText(slices, {} as ProvenUser, { user: 'Nell' }, [{ chainId: 1, network: 'network 1' }])) text += piece // prettier-ignore
  const { networks } = JSON.parse(text) as { networks: { payments: { explorerUrl: string }[] }[] }
  assert.deepEqual(networks[0]!.payments.map(({ explorerUrl }) => explorerUrl), ['/tx/1', '/tx/2', '/tx/3']) // prettier-ignore
})

test('what somebody takes along is of both directions, of every application, and with what is hidden as spam', async () => {
  const asked: Record<string, unknown> = {}
  const none =
    (name: string) =>
    async (_owner: unknown, chainId: number, { limit, ...rest }: { limit: number }) => {
      asked[name] = { chainId, isBounded: limit > 0 && limit <= 100, ...rest }
      return { entries: [], nextCursor: null, coverage: { from: null, internalFrom: null } }
    }
  const names = [
    'readSent',
    'readMessages',
    'readApprovals',
    'readTransfers',
    'readNativeTransfers',
    'readNativeEntries',
  ]
  const slices = Object.fromEntries(names.map((name) => [name, none(name)])) as unknown as Slices
  for await (const _ of ownDataText(slices, {} as ProvenUser, { user: 'Nell' }, [{ chainId: 5, network: 'five' }])); // prettier-ignore
  const first = { chainId: 5, isBounded: true, cursor: undefined }
  assert.deepEqual(asked, {
    readSent: { ...first, clientId: null },
    readMessages: first,
    readApprovals: first,
    readTransfers: { ...first, direction: 'all', includesSpam: true },
    readNativeTransfers: { ...first, direction: 'all' },
    readNativeEntries: first,
  })
})
