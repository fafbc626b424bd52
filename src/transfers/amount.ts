import { readQuantity } from '../chain/rpc/answers.ts'
import type { Chain } from '../chain/network.ts'
import { readAt } from '../chain/reads.ts'
import { scaleDecimal } from '../abi/units.ts'
import { AppError } from '../errors.ts'
import type { Hex } from '../ids.ts'
import { invalidAmount, type Asset } from './order.ts'

const MAX = 2n ** 256n - 1n
/** `decimals()` */
const DECIMALS: Hex = '0x313ce567'
const DECIMALS_GAS = 500_000
/** 10^78 is above 2^256: a token with more decimals cannot have one whole unit */
const MAX_DECIMALS = 77n

/**
 * Returns the amount of a transfer in the smallest unit.
 * @throws not_a_token, decimals_unknown, amount_precision, invalid_amount, chain_unavailable, chain_timeout
 */
export async function readValueOf(chain: Chain, asset: Asset): Promise<bigint> {
  if (asset.tokenType === 'ERC721') return 1n
  const decimals = await decimalsOf(chain, asset)
  const value = scaleDecimal(asset.amount, decimals)
  if (value === null) {
    const detail =
      decimals === 0
        ? 'Only whole units can be sent. Nothing was sent. Use an amount without decimal places.'
        : `The amount has more than ${decimals} decimal places. Nothing was sent. Shorten the amount.`
    throw new AppError('amount_precision', detail, { errors: [{ pointer: '/amount', code: 'too_fine', detail }] })
  }
  if (value > MAX) throw invalidAmount('out_of_range', 'The amount must be below 2^256 of the smallest unit.')
  return value
}

function decimalsOf(chain: Chain, asset: Exclude<Asset, { tokenType: 'ERC721' }>): number | Promise<number> {
  if (asset.tokenType === 'NATIVE') return chain.decimals
  return asset.tokenType === 'ERC1155' ? 0 : askDecimals(chain, asset.token)
}

/** Asks the token itself, at the newest block: the stored decimals fall back to 0, which must not be used for money. */
function askDecimals(chain: Chain, token: Hex): Promise<number> {
  return readAt(chain, 'latest', async (reads) => {
    const result = await reads.call({ to: token, data: DECIMALS, gas: DECIMALS_GAS })
    const word = 'reverted' in result || result.data.length < 66 ? null : result.data.slice(0, 66)
    const decimals = word === null ? null : readQuantity(word, 'decimals of a token')
    if (decimals !== null && decimals <= MAX_DECIMALS) return Number(decimals)
    if (!(await reads.hasCode(token))) throw notToken()
    const detail =
      'The token does not report its decimals. Nothing was sent. Use `/contracts/method/write` with an amount in the smallest unit.'
    throw new AppError('decimals_unknown', detail, {
      errors: [{ pointer: '/tokenAddress', code: 'decimals_unknown', detail }],
    })
  })
}

/** Returns the error for a token address without code. */
export const notToken = (cause?: unknown): AppError =>
  new AppError(
    'not_a_token',
    'This address has no code on the network. Nothing was sent. Check the address and the network.',
    {
      errors: [{ pointer: '/tokenAddress', code: 'no_code', detail: 'The address has no code.' }],
      ...(cause === undefined ? {} : { cause }),
    },
  )
