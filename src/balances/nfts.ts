import type { Static } from 'typebox'
import { bigNumber } from '../abi/bignumber.ts'
import { decodeText } from '../abi/text.ts'
import type { App } from '../app.ts'
import { readAt, type Reads } from '../chain/reads.ts'
import type { HistoryParameters } from '../history/query.ts'
import { readHistory } from '../history/read.ts'
import type { Entry } from '../history/wire.ts'
import type { Reader } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import { wordDigits, type Hex } from '../ids.ts'
import type { Nft } from './wire.ts'

/** A page of the NFTs of an account. */
export type NftsPage<Entry = Static<typeof Nft>> = {
  entries: Entry[]
  /** null on the last page */
  nextCursor: string | null
  blockNumber: number
  /** blocks between which the history knows all arrivals; null if unknown */
  indexedFrom: number | null
  indexedTo: number | null
}

/** An NFT that the account holds, without what its contract says of it. */
type HeldNft = Omit<Static<typeof Nft>, 'tokenUri'>

export type NftsParameters = Pick<HistoryParameters, 'limit' | 'cursor' | 'token' | 'includeSpam'>

/** gas of a call of `ownerOf`, `balanceOf` or `tokenURI`; it bounds what a hostile contract costs the node */
const CALL_GAS = 500_000
/** Maximum length of a URI, in bytes. A longer one is read by the application itself. */
const MAX_URI = 4_096

/**
 * Lists NFTs (ERC-721 and ERC-1155) that the user holds, those that arrived last first. The history tells what arrived,
 * and the contracts confirm at one block what is still there. A page looks at `limit` arrivals, so it may list fewer
 * NFTs; an NFT that arrived several times can be on several pages.
 * @throws forbidden_user | invalid_user_id | invalid_request | invalid_cursor
 */
export const listNfts = (app: App, reader: Reader, query: NftsQuery): Promise<NftsPage> =>
  readNfts(app, reader, query, async (reads, held) => {
    const key = { tokenType: held.tokenType, token: held.tokenAddress as Hex, id: BigInt(held.tokenId) }
    return { ...held, tokenUri: await askUri(reads, key) }
  })

/** Lists the same without URIs, which cost a call each. */
export const listHeldNfts = (app: App, reader: Reader, query: NftsQuery): Promise<NftsPage<HeldNft>> =>
  readNfts(app, reader, query, async (_, held) => held)

type NftsQuery = { userId: string } & NftsParameters

async function readNfts<T>(
  app: App,
  reader: Reader,
  { userId, ...parameters }: NftsQuery,
  describe: (reads: Reads, held: HeldNft) => Promise<T>,
): Promise<NftsPage<T>> {
  const chain = chainOf(app, reader)
  const query = { ...parameters, type: 'ERC721,ERC1155', direction: 'in' }
  const { entries, nextCursor, indexedFrom, indexedTo } = await readHistory(app, reader, userId, query)
  const arrived = [...new Map(entries.map((entry) => [keyOf(entry), entry])).values()]
  return readAt(chain, 'latest', async (reads) => {
    const held = (await Promise.all(arrived.map((entry) => askHeld(reads, entry)))).filter((one) => one !== null)
    return {
      entries: await Promise.all(held.map((one) => describe(reads, one))),
      ...{ nextCursor, indexedFrom, indexedTo },
      blockNumber: reads.block.number,
    }
  })
}

const keyOf = ({ tokenType, tokenId, amount }: Entry): string => `${tokenType} ${amount.tokenAddress} ${tokenId}`

/** Returns an NFT; null if the account no longer holds it, or if its contract does not answer. */
async function askHeld(reads: Reads, entry: Entry): Promise<HeldNft | null> {
  const { amount, tokenType, spam } = entry
  const [token, id] = [amount.tokenAddress!, BigInt(entry.tokenId!)]
  const balance = await askCount(reads, { tokenType, token: token as Hex, id, owner: entry.to.address as Hex })
  if (balance === 0n) return null
  return {
    tokenType: tokenType as 'ERC721' | 'ERC1155',
    tokenAddress: token,
    tokenId: id.toString(),
    balance: balance.toString(),
    balanceBn: bigNumber(balance),
    symbol: amount.symbol,
    name: amount.name,
    network: amount.network.toLowerCase(),
    chainId: amount.chainId,
    ...(spam === undefined ? {} : { spam }),
  }
}

type NftKey = { tokenType: string; token: Hex; id: bigint }

const lower = (address: Hex): Hex => address.toLowerCase() as Hex
const word = (value: bigint | Hex): string => wordDigits(BigInt(value))

/**
 * Asks for the count, by `ownerOf(uint256)` or `balanceOf(address,uint256)`. A contract that does not answer counts 0.
 */
async function askCount(reads: Reads, { tokenType, token, id, owner }: NftKey & { owner: Hex }): Promise<bigint> {
  const isSingle = tokenType === 'ERC721'
  const data: Hex = isSingle ? `0x6352211e${word(id)}` : `0x00fdd58e${word(owner)}${word(id)}`
  const result = await reads.call({ to: lower(token), data, gas: CALL_GAS })
  if ('reverted' in result || result.data.length < 66) return 0n
  const answer = BigInt(result.data.slice(0, 66))
  if (!isSingle) return answer
  return answer === BigInt(owner) ? 1n : 0n
}

/** Asks for the URI of the metadata, by `tokenURI(uint256)` or `uri(uint256)` with its id filled in (ERC-1155). */
async function askUri(reads: Reads, { tokenType, token, id }: NftKey): Promise<string | null> {
  const selector = tokenType === 'ERC721' ? 'c87b56dd' : '0e89341c'
  const result = await reads.call({ to: lower(token), data: `0x${selector}${word(id)}`, gas: CALL_GAS })
  const uri = 'reverted' in result ? null : decodeText(result.data, MAX_URI)
  return uri === null || uri === '' ? null : uri.replaceAll('{id}', word(id))
}
