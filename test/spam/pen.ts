import type { Hex } from '../../src/ids.ts'
import { randomOf } from '../random.ts'
import { NETWORKS, type CaseTransfer, type CaseToken, type SpamCase } from './story.ts'

/** What a pattern is written with: chances that are the same in every run. */
export type Pen = {
  /** 0 up to, not including */
  random: (below: number) => number
  address: () => Hex
  /** shares so many digits at the front and at the end with another, and not one more */
  alike: (of: Hex, front: number, back: number) => Hex
  known: (symbol: string, network?: keyof typeof NETWORKS) => CaseToken
  coin: (symbol: string, name: string, decimals?: number) => CaseToken
  collection: (symbol: string, name: string, type?: 'ERC721' | 'ERC1155') => CaseToken
}

/**
 * Words of their own for each: those the rules were first tuned by, those they were then judged by, from which they were tuned once more, and those they
 * are judged by now.
 */
export type Volume = 'tune' | 'seen' | 'judge'

/** A case as a pattern writes it: what is left out is nobody, nothing, and Ethereum. */
export type Draft = Pick<SpamCase, 'pattern' | 'why'> &
  Partial<Omit<SpamCase, 'tokens'>> & { judged: CaseTransfer; tokens?: CaseToken[] }

export const moved = (
  token: CaseToken,
  direction: CaseTransfer['direction'],
  { other, value, by = 'others' }: { other: Hex; value: bigint | string; by?: CaseTransfer['by'] },
): CaseTransfer => ({ token: token.address, direction, other, value: String(value), by })

export function openPen(seed: number): Pen {
  const random = randomOf(seed)
  const digits = (count: number) => Array.from({ length: count }, () => random(16).toString(16)).join('')
  const address = (): Hex => `0x${(1 + random(15)).toString(16)}${digits(39)}`
  return {
    random,
    address,
    alike: (of, front, back) => {
      const other = address()
      const middle = Array.from(other.slice(2 + front, 42 - back))
      const unlike = (digit: string) => ((parseInt(digit, 16) + 1) % 16).toString(16)
      middle[0] = unlike(of[2 + front]!)
      middle[middle.length - 1] = unlike(of[41 - back]!)
      return `0x${of.slice(2, 2 + front)}${middle.join('')}${of.slice(42 - back)}`
    },
    known: (symbol, network = 'ethereum') => NETWORKS[network].known.find((one) => one.symbol === symbol)!,
    coin: (symbol, name, decimals = 18) => ({ ...{ address: address(), type: 'ERC20' as const }, symbol, name, decimals }), // prettier-ignore
    collection: (symbol, name, type = 'ERC721') => ({ ...{ address: address(), type }, symbol, name, decimals: 0 }),
  }
}
