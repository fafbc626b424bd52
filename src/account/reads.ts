/**
 * account: data for the account page, from other slices.
 * Owns: nothing but the mapping, from balances, history, signatures, transactions and transfers to what
 *   `oauth/account/slices.ts` asks for.
 * Does not own: the pages (`oauth/account/`), or any data.
 */

import { checksumAddress } from '../digits.ts'
import type { App } from '../app.ts'
import { listBalances } from '../balances/list.ts'
import { listHeldNfts } from '../balances/nfts.ts'
import type { Chain } from '../chain/network.ts'
import { feesOf } from '../history/native-page.ts'
import { readHistory } from '../history/read.ts'
import type { Hex } from '../ids.ts'
import type { AccountSlices, ShownSignature } from '../oauth/account/slices.ts'
import { visible } from '../messages/text.ts'
import { listSignaturesOfAccount } from '../signatures/list.ts'
import { listOfAccount } from '../transactions/read/list-own.ts'
import { listSignatures, type SignatureOfAccount } from '../transactions/read/signatures.ts'
import { readActivity, readReceipt, shownToken } from './activity.ts'
import { readKnown } from './known.ts'
import { callerOf, sentOf } from './sent.ts'
import { simulateCalls } from './simulate.ts'
import { readNativeEntries, readNativeTransfers } from './native-activity.ts'

/** Maximum number of tokens, and of collectibles, of one network on the account page. */
const MAX_HELD = 50

/**
 * Opens the data of other slices that the account page shows. It uses the functions of the API, as the user and without
 * an application.
 */
export function accountReads(app: App): Omit<AccountSlices, 'sending'> {
  const chainAt = (chainId: number): Chain => app.chains.get(chainId)!
  return {
    readBalances: async (owner, chainId) => {
      const { entries } = await listBalances(app, callerOf(owner, chainId), { userId: owner.userId, limit: MAX_HELD })
      return Object.values(entries).map(({ balance, decimals, symbol, name, tokenAddress, tokenType, spam }) => ({
        value: BigInt(balance),
        decimals: Number(decimals),
        symbol,
        name,
        token: tokenAddress as Hex | null,
        isSpam: spam !== undefined,
        isCollection: tokenType === 'ERC721',
      }))
    },
    readCollectibles: async (owner, chainId) => {
      const query = { userId: owner.userId, limit: '200', includeSpam: 'true' }
      const { entries } = await listHeldNfts(app, callerOf(owner, chainId), query)
      return entries.slice(0, MAX_HELD).map(({ tokenAddress, tokenId, balance, spam, ...one }) => ({
        ...one,
        token: tokenAddress.toLowerCase() as Hex,
        tokenId: BigInt(tokenId),
        count: BigInt(balance),
        isSpam: spam !== undefined,
      }))
    },
    readTransfers: async (owner, chainId, { limit, cursor, direction, includesSpam = false }) => {
      const { entries, nextCursor } = await readHistory(app, callerOf(owner, chainId), owner.userId, {
        limit: String(limit),
        direction,
        includeSpam: String(includesSpam),
        ...(cursor === undefined ? {} : { cursor }),
      })
      return {
        nextCursor,
        entries: entries.map(shownToken),
      }
    },
    readNativeTransfers: (owner, chainId, page) =>
      readNativeTransfers(app, callerOf(owner, chainId), chainAt(chainId), page),
    readNativeEntries: (owner, chainId, page) =>
      readNativeEntries(app, callerOf(owner, chainId), chainAt(chainId), page),
    readKnown: (owner, chainId, of) => readKnown(app, owner, app.chains.get(chainId), of),
    simulate: (owner, chainId, calls) => simulateCalls(app.chains.get(chainId), owner, calls),
    readMessages: async ({ accountId }, chainId, page) => {
      const { entries, nextCursor } = await listSignaturesOfAccount(app, { accountId, chainId }, page)
      return {
        nextCursor,
        entries: entries.map(({ id, clientId, kind, content, hash, signature, createdAt }) => ({
          ...{ id, clientId, kind, content, hash, signature, createdAt },
        })),
      }
    },
    readActivity: (owner, chainId, page) => readActivity(app, callerOf(owner, chainId), chainAt(chainId), page),
    readReceipt: async (owner, chainId, place) => {
      const chain = app.chains.get(chainId)
      return chain === undefined ? null : readReceipt(app, callerOf(owner, chainId), chain, place)
    },
    readSignatures: async (owner, page) => {
      const { entries, nextCursor } = await listSignatures(app, owner, page)
      return { nextCursor, entries: entries.map((one) => shownOf(app.chains.get(one.chainId), one)) }
    },
    readSent: async ({ accountId }, chainId, page) => {
      const { entries, nextCursor } = await listOfAccount(app, { accountId, chainId }, page)
      // Fees of the history include the parts for a first layer and for blobs.
      const mined = entries.flatMap(({ blockNumber, hash }) => (blockNumber === null ? [] : [{ blockNumber, hash }]))
      const fees = await feesOf(app.db, { accountId, chainId }, mined)
      return {
        nextCursor,
        entries: entries.map((one) => sentOf(chainAt(chainId), { ...one, fee: fees.get(one.hash) ?? one.fee })),
      }
    },
  }
}

function shownOf(chain: Chain | undefined, one: SignatureOfAccount): ShownSignature {
  const { seq, signedAt, chainId, kind, calls, delegate, message, nonce, hash, proof } = one
  // The hash of anything without a nonce, and of an authorization, is of the signed data, not of a transaction.
  const isTransaction = nonce !== null && kind !== 'authorization'
  return {
    record: seq,
    signedAt,
    chainId,
    kind,
    nonce,
    hash,
    proof: JSON.stringify(proof),
    calls: calls.map(({ to, value, called, selector }) => ({
      to: checksumAddress(to),
      value: chain === undefined ? null : { value, decimals: chain.decimals, symbol: chain.symbol },
      called: called ?? selector,
    })),
    delegate: delegate === null ? null : checksumAddress(delegate),
    message:
      message === null
        ? null
        : { class: message.class, text: message.kind === 'text' ? shortened(message.content) : null },
    explorerUrl: isTransaction ? (chain?.explorer.tx(hash) ?? null) : null,
  }
}

/** Characters of a signed text on the page. */
const MAX_SHOWN = 80

/** Returns the start of a text on one line, with invisible characters as their code points. */
function shortened(text: string): string {
  const start = Array.from(text).slice(0, MAX_SHOWN).join('')
  const line = visible(start.replaceAll(/\s+/g, ' '))
  return start.length < text.length ? `${line}…` : line
}
