import { wordDigits } from '../ids.ts'

/** A call with the effect of a signed message. `value` in wei. */
export type EquivalentCall = { to: Buffer; value: bigint; data: Buffer }

/** Permit2, which has this address on every network. Source: Uniswap/permit2 */
export const PERMIT2 = Buffer.from('000000000022d473030f116ddee9f6b43ac78ba3', 'hex')

const SELECTORS = {
  'transfer(address,uint256)': 'a9059cbb',
  'approve(address,uint256)': '095ea7b3',
  'approve(address,address,uint160,uint48)': '87517c45',
  'setApprovalForAll(address,bool)': 'a22cb465',
  'approveDelegation(address,uint256)': 'c04a8a10',
  'allow(address,bool)': '110496e5',
} as const

/** Encodes a call. Each argument takes one word. */
export function callOf(
  to: Buffer,
  signature: keyof typeof SELECTORS,
  args: readonly (Buffer | bigint)[],
): EquivalentCall {
  // prettier-ignore
  const words = args.map((arg) => (typeof arg === 'bigint' ? wordDigits(arg) : arg.toString('hex').padStart(64, '0')))
  return { to, value: 0n, data: Buffer.from(SELECTORS[signature] + words.join(''), 'hex') }
}
