import type { FastifyInstance, FastifyReply } from 'fastify'
import { checksumAddress, isAddress, isWord } from '../digits.ts'
import { FALLBACK_FINALITY } from '../chain/block-at.ts'
import { type PageParts, sendPage } from '../http/page.ts'
import { quantityOf, type Hex } from '../ids.ts'
import * as pages from './explorer-pages.ts'
import type {
  ExplorerBlock,
  ExplorerReceipt,
  ExplorerTransaction,
  WithHashes,
  WithTransactions,
} from './explorer-pages.ts'
import { rpc } from './rpc.ts'

export type ExplorerOptions = { rpcUrl: string; networkName: string; symbol: string }

const BLOCKS_A_PAGE = 25
// Bounds of the search for an address page: a busy chain has thousands of transactions per block.
const SCAN = { blocks: 200, atOnce: 20, transactions: 5_000, found: 25 }

/**
 * Registers GET /explorer, /explorer/block/:id, /explorer/tx/:hash and /explorer/address/:address: read-only pages of
 * the development chain, so that every `explorerUrl` works. Missing things get a 404 page; an unavailable node gets a
 * 502 page.
 */
export async function explorer(
  server: FastifyInstance,
  { rpcUrl, networkName, symbol }: ExplorerOptions,
): Promise<void> {
  const callNode = <Result>(method: string, ...params: unknown[]) => rpc<Result>(rpcUrl, method, ...params)
  const coin = { networkName, symbol }
  const hidden = { schema: { hide: true } }

  server.get<{ Querystring: { before?: string } }>('/explorer', hidden, ({ query }, reply) =>
    show(reply, coin, async () => {
      const head = Number(await callNode<Hex>('eth_blockNumber'))
      const newest = /^\d{1,12}$/.test(query.before ?? '') ? Math.min(head, Number(query.before) - 1) : head
      if (newest < 0) return null
      return pages.blocks({ blocks: await blocksDown(newest, BLOCKS_A_PAGE, false), head, ...coin })
    }),
  )

  server.get<{ Querystring: { q?: string } }>('/explorer/search', hidden, ({ query }, reply) => {
    const text = String(query.q ?? '').trim()
    if (isAddress(text)) return reply.redirect(`/explorer/address/${text}`)
    if (/^\d{1,12}$/.test(text)) return reply.redirect(`/explorer/block/${text}`)
    return show(reply, coin, async () => {
      if (!isWord(text)) return null
      const block = await callNode<ExplorerBlock | null>('eth_getBlockByHash', text, false)
      return { redirect: block === null ? `/explorer/tx/${text}` : `/explorer/block/${text}` }
    })
  })

  server.get<{ Params: { id: string } }>('/explorer/block/:id', hidden, ({ params: { id } }, reply) =>
    show(reply, coin, async () => {
      const block = await readBlock(id)
      if (block === null) return null
      return pages.block({ block, isFinal: Number(block.number) <= (await readFinalized()), ...coin })
    }),
  )

  server.get<{ Params: { hash: string } }>('/explorer/tx/:hash', hidden, ({ params: { hash } }, reply) =>
    show(reply, coin, async () => {
      if (!isWord(hash)) return null
      const [transaction, receipt] = await Promise.all([
        callNode<ExplorerTransaction | null>('eth_getTransactionByHash', hash),
        callNode<ExplorerReceipt | null>('eth_getTransactionReceipt', hash),
      ])
      if (transaction === null) return null
      const mined = transaction.blockNumber
      const block = mined === null ? null : await callNode<ExplorerBlock | null>('eth_getBlockByNumber', mined, false)
      return pages.transaction({ transaction, receipt, block, ...coin })
    }),
  )

  server.get<{ Params: { address: string } }>('/explorer/address/:address', hidden, ({ params: { address } }, reply) =>
    show(reply, coin, async () => {
      if (!isAddress(address)) return null
      const [balance, code, nonce, head] = await Promise.all([
        callNode<Hex>('eth_getBalance', address, 'latest'),
        callNode<Hex>('eth_getCode', address, 'latest'),
        callNode<Hex>('eth_getTransactionCount', address, 'latest'),
        callNode<Hex>('eth_blockNumber'),
      ])
      const found = await transactionsOf(address, Number(head))
      return pages.address({ address: checksumAddress(address.toLowerCase()), balance, code, nonce, ...found, ...coin })
    }),
  )

  /**
   * Returns the newest final block as the follower does: the node's `finalized` block, or 64 blocks below its newest if
   * it has none.
   */
  async function readFinalized(): Promise<number> {
    const named = await callNode<ExplorerBlock | null>('eth_getBlockByNumber', 'finalized', false).catch(() => null)
    return named === null ? Number(await callNode<Hex>('eth_blockNumber')) - FALLBACK_FINALITY : Number(named.number)
  }

  function readBlock(id: string): Promise<WithTransactions | null> | null {
    if (isWord(id)) return callNode('eth_getBlockByHash', id, true)
    if (/^\d{1,12}$/.test(id)) return callNode('eth_getBlockByNumber', quantityOf(Number(id)), true)
    return id === 'latest' || id === 'finalized' ? callNode('eth_getBlockByNumber', id, true) : null
  }

  /** Reads blocks from `newest` downwards, except those that a reorganisation has removed meanwhile. */
  async function blocksDown(newest: number, count: number, full: false): Promise<WithHashes[]>
  async function blocksDown(newest: number, count: number, full: true): Promise<WithTransactions[]>
  async function blocksDown(newest: number, count: number, full: boolean): Promise<ExplorerBlock[]> {
    const numbers = Array.from({ length: Math.min(count, newest + 1) }, (_, i) => newest - i)
    const blocks = await Promise.all(
      numbers.map((number) => callNode<ExplorerBlock | null>('eth_getBlockByNumber', quantityOf(number), full)),
    )
    return blocks.filter((block) => block !== null)
  }

  /** Finds the newest transactions from or to an address, within the bounds of SCAN. */
  async function transactionsOf(
    address: string,
    head: number,
  ): Promise<{ transactions: ExplorerTransaction[]; scannedTo: number }> {
    const wanted = address.toLowerCase()
    const transactions: ExplorerTransaction[] = []
    const oldest = Math.max(0, head - SCAN.blocks + 1)
    let next = head
    for (
      let seen = 0;
      next >= oldest && transactions.length < SCAN.found && seen < SCAN.transactions;
      next -= SCAN.atOnce
    ) {
      const blocks = await blocksDown(next, Math.min(SCAN.atOnce, next - oldest + 1), true)
      const all = blocks.flatMap((block) => block.transactions.toReversed())
      seen += all.length
      transactions.push(...all.filter(({ from, to }) => from.toLowerCase() === wanted || to?.toLowerCase() === wanted))
    }
    return { transactions: transactions.slice(0, SCAN.found), scannedTo: Math.max(oldest, next + 1) }
  }
}

/** Responds with a page or a redirect; for null, with the 404 page. */
async function show(
  reply: FastifyReply,
  { networkName }: { networkName: string },
  look: () => Promise<PageParts | { redirect: string } | null>,
): Promise<FastifyReply> {
  try {
    const found = await look()
    if (found !== null && 'redirect' in found) return reply.redirect(found.redirect)
    return found === null ? sendPage(reply, 404, pages.nothingHere(networkName)) : sendPage(reply, 200, found)
  } catch (error) {
    reply.log.warn(
      { name: error instanceof Error ? error.name : typeof error },
      'explorer: the node gave no usable answer',
    )
    return sendPage(reply, 502, pages.noAnswer(networkName))
  }
}
