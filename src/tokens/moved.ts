import type { LogForm } from '../abi/transfers.ts'
import type { TokenStandards } from './ask.ts'
import { TOKEN_TYPE_NUMBERS, type TokenType } from './record.ts'

/** `token_type` in the table of transfers: the form of the log. */
export const FORM_NUMBERS = { ...TOKEN_TYPE_NUMBERS, WRAPPED: 900 } as const satisfies Record<LogForm, number>

export const FORMS = Object.keys(FORM_NUMBERS) as LogForm[]

/** The form that a number of the table stands for; null for native currency. */
export const formOf = (number: number): LogForm | null => FORMS.find((form) => FORM_NUMBERS[form] === number) ?? null

/** What moved in a transfer of a token. `tokenId` is null for an ERC-20; `value` is 1 for an ERC-721. */
export type Moved = { tokenType: TokenType; tokenId: bigint | null; value: bigint }

/**
 * The type of what moved. The contract decides: of a collection every number is an id, of a contract that is only fungible every number is an
 * amount, indexed or not. The form of the log decides if the contract is both, or says nothing.
 * @returns null for a deposit into a contract that wraps nothing
 */
export function typeOfForm(form: LogForm, { isFungible, isCollection, isWrapper }: TokenStandards): TokenType | null {
  if (form === 'WRAPPED') return isWrapper ? 'ERC20' : null
  if (form === 'ERC1155' || isFungible === isCollection) return form
  return isFungible ? 'ERC20' : 'ERC721'
}

/**
 * What a transfer adds to what `balanceOf` counts: the same, but of a contract that is fungible its pieces are amounts already.
 */
export function countedOf(transfer: Parameters<typeof movedOf>[0], standards: TokenStandards): Moved | null {
  const moved = movedOf(transfer, standards)
  return moved?.tokenType === 'ERC721' && standards.isFungible ? null : moved
}

/**
 * What moved by the log of a form with these numbers.
 * @param value  of the form ERC-721 the count of ids from `tokenId` on
 */
export function movedOf(
  { form, tokenId, value }: { form: LogForm; tokenId: bigint | null; value: bigint },
  standards: TokenStandards,
): Moved | null {
  const tokenType = typeOfForm(form, standards)
  if (tokenType === null) return null
  if (form === 'ERC20' && tokenType === 'ERC721') return { tokenType, tokenId: value, value: 1n }
  // A range has ids, whatever the contract is.
  if (form === 'ERC721' && value !== 1n) return { tokenType: form, tokenId, value }
  return form === 'ERC721' && tokenType === 'ERC20'
    ? { tokenType, tokenId: null, value: tokenId! }
    : { tokenType, tokenId, value }
}
