import { AppError } from '../../errors.ts'
import type { Intent } from '../intent.ts'
import { MAX_CALLDATA_BYTES } from '../write-wire.ts'

const MAX = 2n ** 256n - 1n

/**
 * Reads the `value` of a write, wei.
 * @throws invalid_value
 */
export function readValue(text: string, { isPayable }: { isPayable: boolean }): bigint {
  if (!/^\d{1,100}$/.test(text)) throw invalidValue('not_wei', 'The value must be wei in decimal digits.')
  const value = BigInt(text)
  if (value > MAX) throw invalidValue('out_of_range', 'The value must be below 2^256 wei.')
  if (value > 0n && !isPayable)
    throw invalidValue('not_payable', 'The function is marked nonpayable, so the value must be omitted.')
  return value
}

/**
 * Rejects calldata that no node would accept.
 * @param pointer  JSON pointer to the field that makes it too long
 * @throws invalid_data
 */
export function refuseLong(calls: readonly Pick<Intent, 'data'>[], pointer: string): void {
  const bytes = calls.reduce((sum, { data }) => sum + (data.length - 2) / 2, 0)
  if (bytes <= MAX_CALLDATA_BYTES) return
  const detail = `The calldata has ${bytes} bytes, and a write may have at most ${MAX_CALLDATA_BYTES}. Nothing was sent. Shorten the arguments.`
  throw new AppError('invalid_data', detail, { errors: [{ pointer, code: 'too_long', detail }] })
}

const invalidValue = (code: string, detail: string): AppError =>
  new AppError('invalid_value', detail, { errors: [{ pointer: '/value', code, detail }] })

/**
 * Rejects functions that change nothing.
 * @throws abi_is_view
 */
export function refuseView({ stateMutability }: NonNullable<Intent['fn']>): void {
  if (stateMutability !== 'view' && stateMutability !== 'pure') return
  throw new AppError(
    'abi_is_view',
    `A ${stateMutability} function changes nothing. Nothing was sent. Use a read instead.`,
    {
      errors: [{ pointer: '/abi', code: 'is_view', detail: `The function is marked ${stateMutability}.` }],
    },
  )
}
