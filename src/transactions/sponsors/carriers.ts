import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { readBytes } from '../../chain/rpc/answers.ts'
import { mapChainError } from '../../chain/rpc/rpc.ts'
import type { Chain } from '../../chain/network.ts'
import { AppError } from '../../errors.ts'
import { isSponsorData } from '../../gas/dispatch.ts'
import type { Hex } from '../../ids.ts'
import { sponsorsOf, type Sponsor } from '../../sponsors/sponsors.ts'
import { byteaArray } from '../../store/bytea-array.ts'
import { fromHex, toHex } from '../../hex.ts'
import { balanceFor } from '../lanes/balances.ts'
import { contractsOf } from './delegation.ts'
import { oncePer } from '../lanes/group-commit.ts'
import { isAgo } from '../recovery/stop-lane.ts'

/** seconds after which another sponsor takes over from one that cannot get its transaction mined */
export const STUCK_SECONDS = 30

/** milliseconds for which the list of a network's usable sponsors is current */
const BELIEVED_MS = 5_000

/**
 * Returns the sponsors that can send operations on a network. They have permission for its space, and no code, because
 * nodes accept only one pending transaction of a delegated account. Excludes sponsors whose transactions nodes reject,
 * unless that excludes all.
 * @throws sponsor_empty, chain_unavailable, chain_timeout, database_unavailable
 */
export async function carriersOf(app: App, chain: Chain): Promise<Sponsor[]> {
  const known = found(app, chain)
  const now = app.clock.ticks()
  if (known.asked === null || now - known.at > BELIEVED_MS) {
    const asked = findCarriers(app, chain)
    Object.assign(known, { asked, at: now })
    asked.catch(() => {
      if (known.asked === asked) known.asked = null
    })
  }
  const carriers = await known.asked!
  if (carriers.length === 0) {
    known.asked = null
    throw noCarrier(app, chain)
  }
  return carriers
}

const found = oncePer('sponsors that carry operations', () => ({ asked: null as Promise<Sponsor[]> | null, at: 0 }))

async function findCarriers(app: App, chain: Chain): Promise<Sponsor[]> {
  const sponsors = await sponsorsOf(app.db, chain.chainId)
  const able = await Promise.all(sponsors.map((sponsor) => canCarry(app, chain, sponsor)))
  return passable(
    app,
    chain,
    sponsors.filter((_, index) => able[index]),
  )
}

/**
 * Returns the sponsors without a rejected transaction, because nothing behind one is mined; all sponsors if each has
 * one.
 */
async function passable({ db }: App, { chainId }: Chain, carriers: Sponsor[]): Promise<Sponsor[]> {
  if (carriers.length < 2) return carriers
  const rows = await db
    .selectFrom('waits as w')
    .innerJoin('transactions as t', (on) =>
      on.onRef('t.chain_id', '=', 'w.chain_id').onRef('t.sender', '=', 'w.sender').onRef('t.nonce', '=', 'w.nonce'),
    )
    .select('w.sender')
    .where('w.chain_id', '=', chainId)
    .where((eb) => eb('w.sender', '=', eb.fn.any(byteaArray(carriers.map(({ address }) => address)))))
    .where('w.trouble', '=', 'rejected_by_nodes')
    .where(isAgo(sql.ref('w.since'), STUCK_SECONDS))
    .where('t.state', '=', 'SUBMITTED')
    .execute()
  const rejected = new Set(rows.map(({ sender }) => toHex(sender)))
  const others = carriers.filter(({ address }) => !rejected.has(address))
  return others.length === 0 ? carriers : others
}

async function canCarry({ telemetry }: App, chain: Chain, sponsor: Sponsor): Promise<boolean> {
  const { rpc, gasSpace, chainId } = chain
  if (gasSpace === undefined || gasSpace === null) return false
  const data = toHex(isSponsorData(fromHex(gasSpace), fromHex(sponsor.address)))
  try {
    const [code, allowed] = await Promise.all([
      rpc.call('eth_getCode', [sponsor.address, 'latest']),
      rpc.call('eth_call', [{ to: contractsOf(chain).dispatcher, data }, 'latest']),
    ])
    const hasCode = readBytes(code, 'code of an address') !== '0x'
    const isAllowed = /[1-9a-f]/.test(readBytes(allowed, 'right of a sponsor').slice(2))
    if (hasCode || !isAllowed)
      telemetry.log.warn('sponsor_unusable', { chainId, sponsor: sponsor.name, hasCode, isAllowed })
    return !hasCode && isAllowed
  } catch (error) {
    throw mapChainError(error)
  }
}

/**
 * Returns whether a sponsor's balance covers an amount in wei.
 * @throws chain_unavailable, chain_timeout
 */
export async function canPay(chain: Chain, { address }: Sponsor, wei: bigint): Promise<boolean> {
  try {
    return (await balanceFor(chain, address, wei)) >= wei
  } catch (error) {
    throw mapChainError(error)
  }
}

/**
 * Returns whether the balance of any sponsor covers an amount in wei.
 * @throws chain_unavailable, chain_timeout
 */
export async function canAnyPay(chain: Chain, carriers: Sponsor[], wei: bigint): Promise<boolean> {
  for (const one of carriers) if (await canPay(chain, one, wei)) return true
  return false
}

/**
 * Returns the sponsors in the order in which they are tried for an account. The order is the same in every process, so
 * the nonces of one sponsor ensure that the account's delegation is mined before its later operations.
 */
export function inTurn(carriers: Sponsor[], account: Hex): Sponsor[] {
  const first = createHash('sha256').update(account).digest().readUInt32BE(0) % Math.max(1, carriers.length)
  return [...carriers.slice(first), ...carriers.slice(0, first)]
}

/** Returns the error for a network without a sponsor that can pay, and logs it. */
export function noCarrier({ telemetry }: App, { chainId }: Chain): AppError {
  telemetry.log.warn('sponsor_empty', { chainId })
  return new AppError(
    'sponsor_empty',
    'No sponsor of this network can pay for gas at the moment. Nothing was sent. An operator must check the sponsors.',
    { retryAfter: 60 },
  )
}
