import { cleanText } from '../../abi/text.ts'
import type { App } from '../../app.ts'
import { fromHex } from '../../hex.ts'
import type { Hex } from '../../ids.ts'
import type { ProvenUser } from '../../users/find.ts'
import { namesOf } from '../../users/names.ts'
import {
  MAX_NAMED,
  type AccountSlices,
  type KnownAddresses,
  type KnownToken,
  type Simulated,
} from '../account/slices.ts'
import type { Described } from './describe.ts'

/** Names of tokens and addresses for a page. Addresses can have any letter case. */
export type Names = {
  native: KnownAddresses['native']
  token(address: string): KnownToken | null
  /** name of a user of this installation, as the user chose it; null for any other address */
  user(address: string): string | null
  /** whether the user has used the address before; null if unknown */
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
  simulated: Simulated | null = null,
): Promise<Names> {
  const moves = described.flatMap((one) => one.moves)
  const lower = (addresses: (string | null)[]): Hex[] =>
    [...new Set(addresses.filter((one) => one !== null).map((one) => one.toLowerCase() as Hex))].slice(0, MAX_NAMED)
  const tokens = lower([...moves, ...(simulated?.changes ?? [])].map(({ token }) => token))
  const others = lower([
    ...moves.map(({ to }) => to),
    ...described.flatMap(({ steps, contract }) => [contract, ...steps.map(({ unknown }) => unknown?.to ?? null)]),
  ])
  const [known, users] = await Promise.all([
    slices.readKnown(user, chainId, { tokens, others }).catch((error: unknown) => {
      app.telemetry.log.warn('account_unreadable', { chainId }, error)
      return NOTHING
    }),
    namesOf(app, others.map(fromHex)),
  ])
  return namesFrom(known, users, others)
}

/** Prepares names for a page. Names that users and tokens chose are shortened to one word without quotation marks. */
export function namesFrom(known: KnownAddresses, users: ReadonlyMap<Hex, string>, others: readonly Hex[]): Names {
  const byAddress = new Map(
    known.tokens.map((one) => [one.token, one.isListed ? one : { ...one, symbol: ownWord(one.symbol) }]),
  )
  const dealtWith = known.dealtWith === null ? null : new Set(known.dealtWith)
  const keyOf = (address: string) => address.toLowerCase() as Hex
  return {
    native: known.native,
    token: (address) => byAddress.get(keyOf(address)) ?? null,
    // A name without visible characters counts as no name.
    user: (address) => ownWord(users.get(keyOf(address)) ?? '') || null,
    isDealtWith: (address) => (others.includes(keyOf(address)) ? (dealtWith?.has(keyOf(address)) ?? null) : null),
  }
}

/** Maximum characters of a chosen name. */
const MAX_WORD = 20
/** Quotation marks, brackets and similar characters. With one, a name could end its quotation and continue as text of the page. */
const MARKS = /["'`´\p{Pi}\p{Pf}\p{Ps}\p{Pe}\u02B9-\u02BD\u02DD\u02EE\u05F3\u05F4\u2032-\u2037\uFF02\uFF07]/gu

function ownWord(text: string): string {
  const characters = Array.from(cleanText(text.replaceAll(MARKS, '')))
  if (characters.length <= MAX_WORD) return characters.join('')
  return `${characters
    .slice(0, MAX_WORD - 1)
    .join('')
    .trimEnd()}…`
}
