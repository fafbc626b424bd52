import type { LogForm } from '../abi/transfers.ts'
import type { TokenStandards } from './ask.ts'
import { TOKEN_TYPE_NUMBERS, type TokenType } from './record.ts'

/** Numbers of log forms in `transfers.token_type`. */
export const FORM_NUMBERS = { ...TOKEN_TYPE_NUMBERS, WRAPPED: 900 } as const satisfies Record<LogForm, number>

export const FORMS = Object.keys(FORM_NUMBERS) as LogForm[]

/** Returns the log form of a number; null for native currency. */
export const formOf = (number: number): LogForm | null => FORMS.find((form) => FORM_NUMBERS[form] === number) ?? null

/** The asset and amount of a token transfer. `tokenId` is null for ERC-20; `value` is 1 for ERC-721. */
export type Moved = { tokenType: TokenType; tokenId: bigint | null; value: bigint }

/**
 * Returns the token type of a transfer. The contract decides: a collection has ids, and a contract that is only
 * fungible has amounts, whether its logs are indexed or not. If the contract is both or neither, the form of the log
 * decides.
 * @returns null for a deposit into a contract that is not a wrapper
 */
export function typeOfForm(form: LogForm, { isFungible, isCollection, isWrapper }: TokenStandards): TokenType | null {
  if (form === 'WRAPPED') return isWrapper ? 'ERC20' : null
  if (form === 'ERC1155' || isFungible === isCollection) return form
  return isFungible ? 'ERC20' : 'ERC721'
}

/**
 * Returns how a transfer counts in `balanceOf`: like `movedOf`, except null for pieces of a contract that is also
 * fungible, because its amounts already include them.
 */
export function countedOf(transfer: Parameters<typeof movedOf>[0], standards: TokenStandards): Moved | null {
  const moved = movedOf(transfer, standards)
  return moved?.tokenType === 'ERC721' && standards.isFungible ? null : moved
}

/**
 * Returns the asset and amount that a log transferred.
 * @param value  for the form ERC-721: number of ids, starting at `tokenId`
 */
export function movedOf(
  { form, tokenId, value }: { form: LogForm; tokenId: bigint | null; value: bigint },
  standards: TokenStandards,
): Moved | null {
  const tokenType = typeOfForm(form, standards)
  if (tokenType === null) return null
  if (form === 'ERC20' && tokenType === 'ERC721') return { tokenType, tokenId: value, value: 1n }
  // A range of several ids has ids, whatever the contract is.
  if (form === 'ERC721' && value !== 1n) return { tokenType: form, tokenId, value }
  return form === 'ERC721' && tokenType === 'ERC20'
    ? { tokenType, tokenId: null, value: tokenId! }
    : { tokenType, tokenId, value }
}
