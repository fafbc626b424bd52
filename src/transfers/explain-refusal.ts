import { checksumAddress } from '../digits.ts'
import { formatUnits } from '../abi/units.ts'
import type { App } from '../app.ts'
import { ethCall } from '../chain/rpc/call.ts'
import type { Chain } from '../chain/network.ts'
import { AppError } from '../errors.ts'
import { wordDigits, type Hex } from '../ids.ts'
import { readTokenFacts } from '../tokens/read.ts'
import type { Intent } from '../transactions/intent.ts'
import { notToken } from './amount.ts'
import type { Asset } from './order.ts'

export type TokenMove = { asset: Asset; from: Hex; value: bigint }

/**
 * Runs `work`, which sends or simulates a transfer, and explains why a token rejects it. Only a rejected transfer costs further
 * requests.
 * @throws insufficient_tokens, not_token_owner, not_a_token, and the errors of `work`
 */
export async function explaining<T>(app: App, chain: Chain, move: TokenMove, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof AppError) || !('token' in move.asset)) throw error
    if (error.code === 'no_contract') throw notToken(error)
    if (error.code !== 'execution_reverted' && error.code !== 'transfer_refused') throw error
    // If the node fails now, the token's own error remains.
    throw (await findShortage(app, chain, move, error).catch(() => null)) ?? error
  }
}

/**
 * Checks that an ERC-20 does not return false, which some do in place of a revert. Many return nothing, which means
 * success.
 * @throws transfer_refused
 */
export async function refuseFalse({ rpc }: Chain, { asset, from }: TokenMove, { to, data }: Intent): Promise<void> {
  if (asset.tokenType !== 'ERC20') return
  const result = await ethCall(rpc, { to, data, from, at: 'latest' })
  // The simulation handles reverts: it also takes pending writes into account.
  if ('reverted' in result || result.data === '0x') return
  if (result.data.length >= 66 && BigInt(result.data.slice(0, 66)) === 1n) return
  throw new AppError(
    'transfer_refused',
    'The token contract returned `false` from `transfer`. Nothing was sent. Check the rules of the token contract.',
  )
}

const word = (value: bigint | Hex): string => wordDigits(BigInt(value))

async function findShortage(
  app: App,
  chain: Chain,
  { asset, from, value }: TokenMove,
  cause: AppError,
): Promise<AppError | null> {
  if (asset.tokenType === 'NATIVE') return null
  const { token, tokenType } = asset
  const callToken = async (data: Hex): Promise<bigint | null> => {
    const result = await ethCall(chain.rpc, { to: token, data, at: 'latest' })
    return 'reverted' in result || result.data.length < 66 ? null : BigInt(result.data.slice(0, 66))
  }
  if (tokenType === 'ERC721') {
    const owner = await callToken(`0x6352211e${word(asset.tokenId)}`)
    if (owner === BigInt(from)) return null
    const detail =
      owner === null || owner === 0n
        ? `The token ${asset.tokenId} does not exist. Nothing was sent. Check the token id.`
        : `The token ${asset.tokenId} belongs to another account. Nothing was sent. Check the token id.`
    return new AppError('not_token_owner', detail, {
      errors: [{ pointer: '/tokenId', code: 'not_yours', detail }],
      cause,
    })
  }
  const held =
    tokenType === 'ERC20'
      ? await callToken(`0x70a08231${word(from)}`)
      : await callToken(`0x00fdd58e${word(from)}${word(asset.tokenId)}`)
  if (held === null || held >= value) return null
  const detail =
    tokenType === 'ERC20'
      ? await inWords(app, chain, { token, held, value })
      : `The account holds ${held} of the token ${asset.tokenId}, and the transfer needs ${value}. Nothing was sent. Reduce the amount.`
  return new AppError('insufficient_tokens', detail, {
    errors: [{ pointer: '/amount', code: 'too_much', detail }],
    funds: { address: checksumAddress(from), needed: String(value), available: String(held) },
    cause,
  })
}

async function inWords(
  app: App,
  chain: Chain,
  { token, held, value }: { token: Hex; held: bigint; value: bigint },
): Promise<string> {
  const { symbol, decimals } = await readTokenFacts(app, chain, token)
  const amount = (of: bigint): string => `${formatUnits(of, decimals)}${symbol === '' ? '' : ` ${symbol}`}`
  return `The account holds ${amount(held)}, and the transfer needs ${amount(value)}. Nothing was sent. Reduce the amount.`
}
