import { keccak256, parseTransaction, recoverTransactionAddress, type TransactionSerialized } from 'viem'
import type { Hex } from '../../src/ids.ts'
import type { Anvil } from '../kit/chain.ts'

/** Signed bytes that somebody gave to the node. */
export type Offered = {
  raw: Hex
  hash: Hex
  /** lower-case */
  from: Hex
  nonce: number
  to: Hex
  data: Hex
  /** wei */
  value: bigint
  /** wei per gas */
  maxFee: bigint
  tip: bigint
  /** milliseconds since 1970, when it was offered first */
  at: number
  /** the chain took it, whatever its sender was told */
  isAccepted: boolean
}

export type Pool = {
  /** Every raw transaction ever offered, by hash: the node's own record. */
  offered: Map<Hex, Offered>
  read(raw: Hex): Promise<Offered>
  /** what geth would say against it, or null; anvil is asked only then */
  refusal(offered: Offered): string | null
  took(offered: Offered): void
  /** a block was mined: its transactions, and what they stand for, are no longer waiting */
  mined(transactions: { from: Hex; nonce: Hex }[]): void
  /** learns from anvil what is still in its pool; dear while there is much in it */
  sync(): Promise<void>
  /**
   * Looks for what anvil holds back although the chain is at its nonce, and never mines: it looks a nonce up and puts the
   * transaction into its pool later, a block in between goes unseen. It does not drop such a one alone: all are sent anew.
   * @returns how many were held back
   */
  unstick(): Promise<number>
  size(): number
}

/** geth keeps 16 of an account for sure (--txpool.accountslots) */
const MAX_PER_ACCOUNT = 16
export const ACCOUNT_FULL = 'account limit exceeded'

/**
 * The transaction pool as geth would run it, on top of anvil's, which is laxer.
 * Source: go-ethereum core/txpool/errors.go and legacypool/list.go
 */
export function poolOver(anvil: Anvil): Pool {
  const offered = new Map<Hex, Offered>()
  let pending = new Map<Hex, Map<number, Offered>>()
  let queued: Offered[] = []

  const put = (one: Offered) => {
    const mine = pending.get(one.from) ?? new Map<number, Offered>()
    pending.set(one.from, mine.set(one.nonce, one))
  }

  return {
    offered,
    async read(raw) {
      const hash = keccak256(raw)
      const known = offered.get(hash)
      if (known !== undefined) return known
      const tx = parseTransaction(raw)
      const from = (await recoverTransactionAddress({
        serializedTransaction: raw as TransactionSerialized,
      })) as Hex
      const one: Offered = {
        raw,
        hash,
        from: from.toLowerCase() as Hex,
        nonce: tx.nonce ?? 0,
        to: (tx.to ?? '0x').toLowerCase() as Hex,
        data: (tx.data ?? '0x') as Hex,
        value: tx.value ?? 0n,
        maxFee: tx.maxFeePerGas ?? tx.gasPrice ?? 0n,
        tip: tx.maxPriorityFeePerGas ?? tx.gasPrice ?? 0n,
        at: Date.now(),
        isAccepted: false,
      }
      offered.set(hash, offered.get(hash) ?? one)
      return offered.get(hash)!
    },
    refusal({ hash, from, nonce, maxFee, tip }) {
      const mine = pending.get(from)
      const before = mine?.get(nonce)
      if (before?.hash === hash) return 'already known'
      if (before !== undefined) {
        const outbids = maxFee * 10n >= before.maxFee * 11n && tip * 10n >= before.tip * 11n
        return outbids ? null : 'replacement transaction underpriced'
      }
      return (mine?.size ?? 0) >= MAX_PER_ACCOUNT ? ACCOUNT_FULL : null
    },
    took(one) {
      one.isAccepted = true
      put(one)
    },
    mined(transactions) {
      for (const { from, nonce } of transactions) {
        const mine = pending.get(from.toLowerCase() as Hex)
        if (mine === undefined) continue
        for (const waiting of mine.keys()) if (waiting <= Number(nonce)) mine.delete(waiting)
      }
    },
    async sync() {
      const content =
        await anvil.rpc<Record<'pending' | 'queued', Record<string, Record<string, { hash: Hex }>>>>('txpool_content')
      const held = [content.pending, content.queued].flatMap((part) =>
        Object.values(part).flatMap((byNonce) => Object.values(byNonce)),
      )
      queued = Object.values(content.queued).flatMap((byNonce) => {
        const [lowest] = Object.entries(byNonce).toSorted(([a], [b]) => Number(a) - Number(b))
        return offered.get(lowest?.[1].hash ?? '0x') ?? []
      })
      pending = new Map()
      for (const { hash } of held) {
        const one = offered.get(hash)
        if (one !== undefined) put(one)
      }
    },
    async unstick() {
      const counts = await Promise.all(
        queued.map(({ from }) => anvil.rpc<Hex>('eth_getTransactionCount', from, 'latest')),
      )
      const heldBack = queued.filter(({ nonce }, index) => nonce === Number(counts[index]))
      if (heldBack.length === 0) return 0
      const all = [...pending.values()].flatMap((mine) => [...mine.values()]).toSorted((a, b) => a.nonce - b.nonce)
      await anvil.rpc('anvil_dropAllTransactions')
      await anvil.ask(
        all.map(({ raw }, id) => ({ jsonrpc: '2.0', id, method: 'eth_sendRawTransaction', params: [raw] })),
      )
      return heldBack.length
    },
    size: () => [...pending.values()].reduce((sum, mine) => sum + mine.size, 0),
  }
}
