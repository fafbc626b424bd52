import { createHash } from 'node:crypto'
import type { Static } from 'typebox'
import { readAddress } from '../abi/address.ts'
import { readDecimal, type Decimal } from '../abi/units.ts'
import { AppError } from '../errors.ts'
import { parseUserId, type Hex } from '../ids.ts'
import type { TransferRequest } from './wire.ts'

export type TransferBody = Static<typeof TransferRequest>

/** The asset to move. `token` is lower-case. */
export type Asset =
  | { tokenType: 'NATIVE'; amount: Decimal }
  | { tokenType: 'ERC20'; token: Hex; amount: Decimal }
  | { tokenType: 'ERC721'; token: Hex; tokenId: bigint }
  | { tokenType: 'ERC1155'; token: Hex; tokenId: bigint; amount: Decimal }

/** The recipient as the request names it. */
export type Addressee =
  | { by: 'address'; address: Hex }
  | { by: 'userId'; provider: string; subject: string }
  | { by: 'name'; provider: string; username: string }

export type TransferOrder = { asset: Asset; to: Addressee; requestHash: Buffer }

const WORDS = ['tokenType', 'tokenAddress', 'amount', 'tokenId', 'toAddress', 'toUserId', 'toUserProviderType', 'toUserUsername'] as const // prettier-ignore
const MAX = 2n ** 256n - 1n

/**
 * Validates everything of a transfer that needs no look-up or request.
 * @throws invalid_request, invalid_address, invalid_user_id, invalid_recipient, invalid_amount
 */
export function readOrder(body: TransferBody): TransferOrder {
  // Form fields that were not filled in are sent as an empty text.
  const given = Object.fromEntries(
    WORDS.flatMap((word) => (body[word] === undefined || body[word] === '' ? [] : [[word, body[word]]])),
  ) as Partial<Omit<TransferBody, 'dryRun' | 'reference'>>
  const asset = readAsset(body.tokenType, given)
  const to = readAddressee(given)
  if (to.by === 'address') refuseLost(asset, to.address)
  // The hash is independent of the order of the fields.
  const requestHash = createHash('sha256')
    .update(JSON.stringify([...WORDS.map((word) => given[word] ?? null), body.reference ?? null]))
    .digest()
  return { asset, to, requestHash }
}

type TransferFields = Partial<Omit<TransferBody, 'dryRun' | 'reference'>>

function readAsset(tokenType: TransferBody['tokenType'], { tokenAddress, amount, tokenId }: TransferFields): Asset {
  if (tokenType === 'NATIVE') {
    refuseGiven('/tokenAddress', tokenAddress, 'The native currency has no contract.')
    refuseGiven('/tokenId', tokenId, 'The native currency has no token ids.')
    return { tokenType, amount: readAmount(amount) }
  }
  const token = readPlace('/tokenAddress', need('/tokenAddress', tokenAddress))
  if (tokenType === 'ERC20') {
    refuseGiven('/tokenId', tokenId, 'Tokens of this type have no token ids.')
    return { tokenType, token, amount: readAmount(amount) }
  }
  const id = BigInt(need('/tokenId', tokenId))
  if (id > MAX) throw refuse('/tokenId', 'out_of_range', 'A token id must be below 2^256.')
  if (tokenType === 'ERC1155') return { tokenType, token, tokenId: id, amount: readAmount(amount) }
  const { digits, places } = readAmount(amount ?? '1')
  if (digits !== 1n || places > 0)
    throw invalidAmount('not_one', 'A token of this type is indivisible: omit the amount.')
  return { tokenType, token, tokenId: id }
}

function readAmount(text: string | undefined): Decimal {
  const amount = readDecimal(need('/amount', text))
  if (amount.digits === 0n) throw invalidAmount('nothing', 'The amount must be greater than zero.')
  return amount
}

export const invalidAmount = (code: string, detail: string): AppError =>
  new AppError('invalid_amount', detail, { errors: [{ pointer: '/amount', code, detail }] })

function readAddressee({ toAddress, toUserId, toUserProviderType, toUserUsername }: TransferFields): Addressee {
  const isNamed = toUserProviderType !== undefined || toUserUsername !== undefined
  const ways = [toAddress !== undefined, toUserId !== undefined, isNamed].filter(Boolean).length
  if (ways !== 1)
    throw refuse('', 'recipient', 'Give one recipient: toAddress, toUserId, or toUserProviderType and toUserUsername.')
  if (toAddress !== undefined) return { by: 'address', address: readPlace('/toAddress', toAddress) }
  if (toUserId === undefined)
    return {
      by: 'name',
      provider: need('/toUserProviderType', toUserProviderType),
      username: need('/toUserUsername', toUserUsername),
    }
  const identity = parseUserId(toUserId)
  if (identity !== null) return { by: 'userId', ...identity }
  const detail = 'A user id has the form `<PROVIDER>-<provider_user_id>`. Nothing was sent. Correct the user id.'
  throw new AppError('invalid_user_id', detail, { errors: [{ pointer: '/toUserId', code: 'invalid', detail }] })
}

/** Rejects addresses at which the asset would be lost. */
function refuseLost(asset: Asset, address: Hex): void {
  const isToken = 'token' in asset && asset.token === address
  if (!isToken && !/^0x0{40}$/.test(address)) return
  const detail = isToken
    ? 'The recipient is the token contract itself. Nothing was sent. Choose another recipient.'
    : 'The recipient is the zero address. Nothing was sent. Choose another recipient.'
  throw new AppError('invalid_recipient', detail, {
    errors: [{ pointer: '/toAddress', code: isToken ? 'token' : 'zero', detail }],
  })
}

function readPlace(pointer: string, text: string): Hex {
  try {
    return readAddress(text).toLowerCase() as Hex
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    const { message: detail } = error
    throw new AppError('invalid_address', detail, { errors: [{ pointer, code: 'invalid_address', detail }] })
  }
}

function need(pointer: string, text: string | undefined): string {
  if (text !== undefined) return text
  throw refuse(pointer, 'missing', 'This field is required.')
}

function refuseGiven(pointer: string, text: string | undefined, detail: string): void {
  if (text !== undefined) throw refuse(pointer, 'not_wanted', detail)
}

const refuse = (pointer: string, code: string, detail: string): AppError =>
  new AppError('invalid_request', `${pointer === '' ? '' : `${pointer}: `}${detail}`, {
    errors: [{ pointer, code, detail }],
  })
