import type { App } from '../../app.ts'
import { fromHex } from '../../hex.ts'
import type { Hex } from '../../ids.ts'
import type { ProvenUser } from '../../users/find.ts'
import { namesOf } from '../../users/names.ts'
import { MAX_NAMED, type AccountSlices, type KnownAddresses, type KnownToken } from '../account/slices.ts'
import type { Described } from './describe.ts'

/** What a page calls the tokens and addresses of requests. Addresses in any case. */
export type Names = {
  native: KnownAddresses['native']
  token(address: string): KnownToken | null
  /** name of a user of this installation; null for any other address */
  user(address: string): string | null
  /** whether the user has dealt with the address; null: unknown */
  isDealtWith(address: string): boolean | null
}

const NOTHING: KnownAddresses = { native: null, tokens: [], dealtWith: null }

/**
 * Finds names for the addresses in requests on one network. If the network does not respond, tokens have no symbol and
 * decimals, and the request can still be read.
 */
export async function readNames(
  app: App,
  slices: AccountSlices,
  user: ProvenUser,
  chainId: number,
  described: readonly Described[],
): Promise<Names> {
  const moves = described.flatMap((one) => one.moves)
  const lower = (addresses: (string | null)[]): Hex[] =>
    [...new Set(addresses.filter((one) => one !== null).map((one) => one.toLowerCase() as Hex))].slice(0, MAX_NAMED)
  const tokens = lower(moves.map(({ token }) => token))
  const others = lower([
    ...moves.map(({ to }) => to),
    ...described.flatMap(({ calls, contract }) => [contract, ...calls.map(({ to }) => to)]),
  ])
  const [known, users] = await Promise.all([
    slices.readKnown(user, chainId, { tokens, others }).catch((error: unknown) => {
      app.telemetry.log.warn('account_unreadable', { chainId }, error)
      return NOTHING
    }),
    namesOf(app, others.map(fromHex)),
  ])
  const byAddress = new Map(known.tokens.map((one) => [one.token, one]))
  const dealtWith = known.dealtWith === null ? null : new Set(known.dealtWith)
  const keyOf = (address: string) => address.toLowerCase() as Hex
  return {
    native: known.native,
    token: (address) => byAddress.get(keyOf(address)) ?? null,
    user: (address) => users.get(keyOf(address)) ?? null,
    isDealtWith: (address) => (others.includes(keyOf(address)) ? (dealtWith?.has(keyOf(address)) ?? null) : null),
  }
}
