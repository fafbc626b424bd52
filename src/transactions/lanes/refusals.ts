import { sql } from 'kysely'
import { cleanText } from '../../abi/text.ts'
import type { App } from '../../app.ts'
import { noteFloor } from '../../chain/fee-floor.ts'
import type { Chain } from '../../chain/network.ts'
import { namedFees, type NamedFees, type SendRefusal } from '../../chain/rpc/errors.ts'
import type { Hex } from '../../ids.ts'
import { fromHex, toHex } from '../../hex.ts'
import { fromWord } from '../../store/bytes.ts'
import { pokeKeeper } from '../recovery/poke.ts'
import {
  countRefusal,
  noteRejected,
  noteTroubles,
  raiseAtOnce,
  readTrouble,
  type Trouble,
} from '../recovery/trouble.ts'

/**
 * Consecutive refusals after which a write counts as rejected. With the pauses between them, this takes 15 s for
 * unknown errors, and 2 minutes for errors after which the node may still accept the bytes.
 */
const MAX_REFUSALS: Partial<Record<SendRefusal, number>> = { rejected: 1, unknown: 5, held_back: 8 }

type NewestBytes = {
  id: string
  sender: Uint8Array
  nonce: number
  max_fee: Uint8Array
  max_priority_fee: Uint8Array | null
}

/**
 * Records that a node refused the newest bytes of a write. They no longer count as sent, and are sent again at growing
 * intervals. Records nothing if a replacement has been signed since.
 * @param outcome  a response of a node, never the absence of one
 */
export async function noteRefusal(
  app: App,
  chain: Chain,
  hash: Hex,
  outcome: SendRefusal,
  error: Error,
): Promise<void> {
  const newest = await takeBack(app, chain, hash)
  if (newest === undefined) return
  const place = { chainId: chain.chainId, from: toHex(newest.sender), nonce: newest.nonce }
  const refusals = await countRefusal(app.db, place)
  if (outcome === 'underpriced') await noteUnderpriced(app, chain, { ...place, newest }, namedFees(error))
  else if (refusals >= (MAX_REFUSALS[outcome] ?? Infinity)) {
    await noteRejected(app, { ...place, id: newest.id }, quoted(error))
    // Another sponsor's transaction may include the operations of this one.
    pokeKeeper(app, chain)
  }
}

/**
 * Marks the bytes as not sent.
 * @returns undefined if these are not the newest bytes of a pending write
 */
async function takeBack({ db }: App, { chainId }: Chain, hash: Hex): Promise<NewestBytes | undefined> {
  const { rows } = await sql<NewestBytes>`
    update attempts a set broadcast_at = null from transactions t
    where a.chain_id = ${chainId}::bigint and a.hash = ${fromHex(hash)}::bytea
      and t.id = a.transaction_id and t.chain_id = a.chain_id and t.hash = a.hash and t.state = 'SUBMITTED'
    returning t.id, t.sender, t.nonce, a.max_fee, a.max_priority_fee`.execute(db)
  return rows[0]
}

/**
 * Records that a fee is too low. If the pool named a minimum within the caps, this and all later transactions offer it
 * at once. Otherwise, or if the last refusal was for the fee as well, the fee rises at the usual intervals.
 */
async function noteUnderpriced(
  app: App,
  chain: Chain,
  { newest, ...place }: { chainId: number; from: Hex; nonce: number; newest: NewestBytes },
  named: NamedFees,
): Promise<void> {
  const price = fromWord(newest.max_fee)
  const tip = newest.max_priority_fee === null ? price : fromWord(newest.max_priority_fee)
  const missing = missingOf(named, { price, tip, base: chain.head.current()?.baseFee ?? 0n })
  if (missing !== null) noteFloor(chain, named)
  const trouble = tooLow(missing, { price, cap: chain.feeCapWei })
  const before = await readTrouble(app.db, place)
  await noteTroubles(app.db, place.chainId, [{ ...place, trouble }])
  const isOffered = missing !== null && trouble.code !== 'fee_cap_reached' && (named.tip ?? 0n) <= (chain.tipCapWei ?? chain.feeCapWei) // prettier-ignore
  // Bump immediately only once: a node that asks for more each time could drive the fee to the cap in seconds.
  if (!isOffered || before?.code === 'fee_too_low_for_market') return
  await raiseAtOnce(app.db, place)
  pokeKeeper(app, chain)
}

/** Name of a fee that is below a pool's minimum, and the lowest total price that meets the minimum, wei per gas. */
type Missing = { what: string; least: bigint }

function missingOf(named: NamedFees, offered: { price: bigint; tip: bigint; base: bigint }): Missing | null {
  if (named.tip !== undefined && offered.tip < named.tip)
    return { what: `a tip of at least ${named.tip} wei per gas`, least: named.tip + offered.base }
  for (const least of [named.price, named.baseFee])
    if (least !== undefined && offered.price < least) return { what: `at least ${least} wei per gas`, least }
  return null
}

function tooLow(missing: Missing | null, { price, cap }: { price: bigint; cap: bigint }): Trouble {
  if (missing !== null && missing.least > cap)
    return {
      code: 'fee_cap_reached',
      detail: `Nodes require ${missing.what}, and the operator allows ${cap} in total.`,
    }
  const wanted = missing === null ? 'more' : missing.what
  return {
    code: 'fee_too_low_for_market',
    detail: `Nodes require ${wanted}, and the transaction offers ${price} wei per gas in total. A fee bump is in progress.`,
  }
}

/** characters of a node's response that are included in errors */
const MAX_QUOTED = 200

/** Returns a node's message without URLs and without anything that may be an API key. */
const quoted = ({ message }: Error): string =>
  cleanText(
    message.replaceAll(/\S*:\/\/\S*/g, '…').replaceAll(/(?<![0-9a-zA-Z])(?!0x)[0-9a-zA-Z_-]{24,}/g, '…'),
    MAX_QUOTED,
  )
