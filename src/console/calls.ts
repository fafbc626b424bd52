import { parseAbi, signatureOf } from '../abi/parse.ts'
import { decodeResult } from '../abi/results.ts'
import { formatUnits } from '../abi/units.ts'
import type { Hex } from '../ids.ts'

/**
 * Decodes calldata by the ABI of its request, as text: the signature, and a line per argument.
 * @returns null if the request had no ABI, or the calldata does not match it
 */
export function decodedCall(abi: string, data: Hex): { signature: string; args: string[] } | null {
  if (abi === '' || data.length < 10) return null
  try {
    const { function: fn } = parseAbi(abi)
    const { outputs } = decodeResult({ ...fn, outputs: fn.inputs }, `0x${data.slice(10)}`)
    return {
      signature: signatureOf(fn),
      args: outputs.map(({ name, type, value }) => `${name === '' ? type : `${type} ${name}`}: ${plain(value)}`),
    }
  } catch {
    // Another version of the program parsed this ABI.
    return null
  }
}

/** Writes a decoded value as JSON, with whole numbers as digits. */
const plain = (value: unknown): string =>
  JSON.stringify(value, (_key, one: unknown) =>
    typeof one === 'object' && one !== null && 'hex' in one && typeof one.hex === 'string' && 'type' in one
      ? String(one.hex.startsWith('-') ? -BigInt(one.hex.slice(1)) : BigInt(one.hex))
      : one,
  )

/** Formats wei per gas as gwei, with all digits. */
export const gwei = (wei: bigint): string => formatUnits(wei, 9)
